"""Rotary positions, how they are stretched, and queries that grow with the position."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta

from gptcalc.architecture.base import Positive, Size, Strict


class Linear(Strict, tag_field="kind", tag="linear", frozen=True, kw_only=True):
    """RoPE scaling by position interpolation: every frequency divided by `factor`."""

    factor: Positive


class Dynamic(Strict, tag_field="kind", tag="dynamic", frozen=True, kw_only=True):
    """NTK-aware scaling whose base grows with the length once it exceeds `original`."""

    factor: Positive
    original: Size


class NTK(Strict, tag_field="kind", tag="ntk", frozen=True, kw_only=True):
    """NTK-aware scaling with a fixed factor: theta · factor^(r / (r − 2)) for r rotated channels."""

    factor: Positive


class Yarn(Strict, tag_field="kind", tag="yarn", frozen=True, kw_only=True):
    """YaRN (arXiv:2309.00071): high frequencies kept, low ones interpolated, a ramp between, scores rescaled."""

    factor: Positive
    original: Size
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    attention_factor: float | None = None
    mscale: float | None = None
    mscale_all_dim: float | None = None
    truncate: bool = True


class Llama3(Strict, tag_field="kind", tag="llama3", frozen=True, kw_only=True):
    """Llama 3.1's scaling: wavelengths above original/low divided, below original/high kept, smooth between."""

    factor: Positive
    original: Size
    low: float = 1.0
    high: float = 4.0


class LongRope(Strict, tag_field="kind", tag="longrope", frozen=True, kw_only=True):
    """LongRoPE (arXiv:2402.13753): one divisor a frequency, one list up to `original` tokens, another beyond."""

    short: tuple[float, ...]
    long: tuple[float, ...]
    original: Size
    factor: float | None = None
    attention_factor: float | None = None


class Proportional(Strict, tag_field="kind", tag="proportional", frozen=True, kw_only=True):
    """Partial rotation whose frequencies are spaced over the whole head; the rest turn by zero (Gemma 4)."""

    factor: Positive = 1.0


Scaling: TypeAlias = Linear | Dynamic | NTK | Yarn | Llama3 | LongRope | Proportional


class Rope(Strict, frozen=True, kw_only=True):
    """Rotary positions: `fraction` of the head's channels turn, paired by halves or with their neighbour."""

    theta: Positive = 10000.0
    fraction: Annotated[float, Meta(gt=0, le=1)] = 1.0
    channels: Size | None = None  # rotated channels; default ⌊fraction · d_head⌋
    pairing: Literal["half", "adjacent"] = "half"
    scaling: Scaling | None = None


def rotated(rope: Rope, d_head: int) -> int:
    """How many of a head's channels turn."""
    return rope.channels if rope.channels is not None else int(rope.fraction * d_head)


class Temperature(Strict, frozen=True, kw_only=True):
    """Queries that grow with the position: by 1 + scale · ln(1 + ⌊(position + shift) / floor⌋) (Llama 4 without
    positions, Ministral 3), by a power: (1 + (position + shift) / floor)^scale (Beam), or beyond `floor` alone:
    1 + scale · ln(max(1, (position + shift) / floor)) (Inkling)."""

    floor: Positive
    scale: float
    shift: Literal[0, 1] = 1
    form: Literal["log", "power", "beyond"] = "log"
