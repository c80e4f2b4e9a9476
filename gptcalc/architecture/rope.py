"""Rotary positions, how they are stretched, and queries that grow with the position."""

import math
from typing import Annotated, Literal, TypeAlias

from gptcalc.architecture.base import AtMost, Fraction, Kept, Positive, Size, Strict
from gptcalc.errors import InputError

#: the length that a model was first trained for
Trained: TypeAlias = Annotated[Size, Kept()]


class Linear(Strict, tag_field="kind", tag="linear", frozen=True, kw_only=True):
    """RoPE scaling by position interpolation: every frequency divided by `factor`."""

    factor: Positive  # how much longer sequences become


class Dynamic(Strict, tag_field="kind", tag="dynamic", frozen=True, kw_only=True):
    """NTK-aware scaling whose base grows with the length once it exceeds `original`."""

    factor: Positive  # how much longer sequences become
    original: Trained  # the length that the model was trained for


class NTK(Strict, tag_field="kind", tag="ntk", frozen=True, kw_only=True):
    """NTK-aware scaling with a fixed factor: theta · factor^(r / (r − 2)) for r rotated channels."""

    factor: Positive  # how much longer sequences become


class Yarn(Strict, tag_field="kind", tag="yarn", frozen=True, kw_only=True):
    """YaRN (arXiv:2309.00071): high frequencies kept, low ones interpolated, a ramp between, scores rescaled."""

    factor: Positive  # how much longer sequences become
    original: Trained  # the length that the model was trained for
    beta_fast: Positive = 32.0  # turns within `original` above which a frequency is kept
    beta_slow: Positive = 1.0  # turns within `original` below which a frequency is interpolated
    attention_factor: float | None = None  # factor of queries and keys; default by mscale
    mscale: float | None = None  # how strongly scores are sharpened with the factor
    mscale_all_dim: float | None = None  # the same for all channels, taken out of queries and keys
    truncate: bool = True  # the ramp's ends are whole channels

    def sharpening(self, mscale: float) -> float:
        """1 + 0.1 · mscale · ln(factor): how much larger scores become, by way of queries and keys each."""
        return 0.1 * mscale * math.log(self.factor) + 1.0 if self.factor > 1 else 1.0


class Llama3(Strict, tag_field="kind", tag="llama3", frozen=True, kw_only=True):
    """Llama 3.1's scaling: wavelengths above original/low divided, below original/high kept, smooth between."""

    factor: Positive  # how much longer sequences become
    original: Trained  # the length that the model was trained for
    low: float = 1.0  # wavelengths above original / low are divided by factor
    high: float = 4.0  # wavelengths below original / high are kept


class LongRope(Strict, tag_field="kind", tag="longrope", frozen=True, kw_only=True):
    """LongRoPE (arXiv:2402.13753): one divisor a frequency, one list up to `original` tokens, another beyond."""

    short: tuple[float, ...]  # divisors of the frequencies up to `original` tokens
    long: tuple[float, ...]  # divisors beyond
    original: Trained  # the length that the model was trained for
    factor: float | None = None  # how much longer sequences become, which scales the scores
    attention_factor: float | None = None  # factor of queries and keys; default by factor


class Proportional(Strict, tag_field="kind", tag="proportional", frozen=True, kw_only=True):
    """Partial rotation whose frequencies are spaced over the whole head; the rest turn by zero (Gemma 4)."""

    factor: Positive = 1.0  # divisor of all frequencies


Scaling: TypeAlias = Linear | Dynamic | NTK | Yarn | Llama3 | LongRope | Proportional


class Rope(Strict, frozen=True, kw_only=True):
    """Rotary positions: `fraction` of the head's channels turn, paired by halves or with their neighbour.

    backward: they turn the other way (nanochat), so that a score depends on s − t as it would on t − s.
    axes: with 2 the first half of them turn by the position in the prompt, where all that comes later has its last one,
    the others by the position behind the prompt, whose own tokens are at 0 (GLM's 2D positions, arXiv:2103.10360).
    """

    theta: Positive = 10000.0  # the base of the frequencies
    fraction: Fraction = 1.0  # of the head's channels, which turn
    channels: Annotated[Size, Kept()] | None = None  # rotated channels; default ⌊fraction · d_head⌋
    pairing: Literal["half", "adjacent"] = "half"  # a channel turns with that of the other half, or with its neighbour
    scaling: Scaling | None = None
    backward: bool = False
    axes: Literal[1, 2] = 1  # positions that turn: of the whole text, or of the prompt and of what comes behind it


def rotated(rope: Rope, d_head: int) -> int:
    """How many of a head's channels turn."""
    return rope.channels if rope.channels is not None else int(rope.fraction * d_head)


def pairs(rope: Rope, channels: int) -> int:
    """How many frequencies these turned channels have: one a pair, the same for both axes."""
    return channels // (2 * rope.axes)


def is_partial(rope: Rope, d_head: int) -> bool:
    """Whether some of a head's channels don't turn."""
    return rotated(rope, d_head) < d_head


class Temperature(Strict, frozen=True, kw_only=True):
    """Queries that grow with the position: by 1 + scale · ln(1 + ⌊(position + shift) / floor⌋) (Llama 4 without
    positions, Ministral 3), by a power: (1 + (position + shift) / floor)^scale (Beam), or beyond `floor` alone:
    1 + scale · ln(max(1, (position + shift) / floor)) (Inkling)."""

    floor: Annotated[Positive, AtMost(3.0)]  # positions of one step
    scale: float  # how much queries grow
    shift: Literal[0, 1] = 1  # added to the position
    form: Literal["log", "power", "beyond"] = "log"  # how they grow


def check_rotation(place: str, rope: Rope, width: int, *, whole_prompt: bool = False) -> None:
    """What a rotation of so wide a head must be; a second axis is there where prompts see themselves whole."""
    channels = rotated(rope, width)
    if rope.axes == 2:
        if not whole_prompt:
            raise InputError(f"{place}.rope.axes: 2 are the prompt's and that behind it, which need whole_prompt")
        if channels % 4:
            raise InputError(f"{place}.rope.axes: {channels} rotated channels are not halves of pairs")
        if rope.scaling is not None:
            raise InputError(f"{place}.rope.axes: 2 are not defined together with a scaling")
    if channels % 2 or not 0 < channels <= width:
        raise InputError(f"{place}.rope: {channels} rotated channels of {width}; must be even, from 2 to {width}")
    if isinstance(rope.scaling, Proportional) and width % 2:
        raise InputError(f"{place}.rope.scaling: proportional pairs all channels, {width} are odd")
    if isinstance(rope.scaling, (NTK, Dynamic)) and channels == 2:
        raise InputError(f"{place}.rope.scaling: {channels} rotated channels are too few for r / (r − 2)")
    if isinstance(rope.scaling, Yarn) and rope.theta == 1:
        raise InputError(f"{place}.rope.theta: 1 gives all channels one frequency, of which yarn makes no ramp")
    if isinstance(rope.scaling, LongRope):
        if rope.scaling.original == 1 and rope.scaling.attention_factor is None:
            raise InputError(f"{place}.rope.scaling.original: scores grow with 1 / ln(original); 1 needs a factor")
        for key, factors in (("short", rope.scaling.short), ("long", rope.scaling.long)):
            if not all(factor > 0 for factor in factors):
                raise InputError(f"{place}.rope.scaling.{key}: every divisor of a frequency must be above 0")
            if len(factors) != channels // 2:
                raise InputError(f"{place}.rope.scaling.{key}: {len(factors)} factors for {channels // 2} frequencies")
