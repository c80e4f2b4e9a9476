"""Rules of taste: which values of free keys are tried at all. Each is the user's to change, and said with the answer.

Widths are multiples of what kernels work in; heads are as wide as the model's own unless they are free, too; a hidden
layer is a few times as wide as the stream, and a model neither a needle nor a pancake. These are habits, no theorems.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from gptcalc.analysis.sweep.bulk import Array
from gptcalc.analysis.sweep.figures import is_mix
from gptcalc.analysis.sweep.piece import Axis, Piece
from gptcalc.architecture import Architecture, Attention, sublayers
from gptcalc.errors import InputError, printable

#: sizes that are multiples of something; all other keys go up by one
WIDTHS = ("d", "d_ff", "v")
#: without a range a key goes from the least that there is to so many times the model's own
TIMES = 4
MULTIPLE = 128
#: in a GGUF mix, whose largest blocks have so many numbers: in other rows types give way to larger ones
MULTIPLE_OF_MIX = 256
#: heads that are free are so wide, or as wide as the model's own
D_HEAD = (64, 128)
#: a key over another one, and between what; the model's own ratio is among what is tried
RATIOS: dict[tuple[str, str], tuple[Fraction, Fraction]] = {
    ("d_ff", "d"): (Fraction(2), Fraction(4)),
    ("d", "n_layers"): (Fraction(64), Fraction(256)),
}


class Taste(NamedTuple):
    """What the user says of the rules; None: as it is by default. A ratio's limits None: none."""

    multiple: int | None = None
    d_head: tuple[int, ...] = ()
    ratios: Mapping[tuple[str, str], tuple[Fraction, Fraction] | None] = {}


class Ratio(NamedTuple):
    """low ≤ above/below ≤ high."""

    above: str
    below: str
    low: Fraction
    high: Fraction

    def __str__(self) -> str:
        return f"{self.above}/{self.below} from {_short(self.low)} to {_short(self.high)}"

    def holds(self, number: Callable[[str], Array]) -> Array:
        """At each of some points. Sizes are far below 2³¹."""
        above, below = number(self.above), number(self.below)
        low = above * self.low.denominator >= below * self.low.numerator
        return np.asarray(low & (above * self.high.denominator <= below * self.high.numerator), dtype=bool)

    def possible(self, above: tuple[int, int], below: tuple[int, int]) -> bool:
        """Whether it may hold anywhere between these ends."""
        return above[1] >= self.low * below[0] and above[0] <= self.high * below[1]


class Heads(NamedTuple):
    """The width of heads, d/n_heads, is one of these."""

    widths: tuple[int, ...]

    def __str__(self) -> str:
        return f"d/n_heads = {' or '.join(map(str, self.widths))}"

    def holds(self, number: Callable[[str], Array]) -> Array:
        d, n_heads = number("d"), number("n_heads")
        return np.asarray((d % n_heads == 0) & np.isin(d // n_heads, self.widths), dtype=bool)


Rule = Ratio | Heads


class Tried(NamedTuple):
    """Over what is searched: the values of each key, the rules between them, and all of it in words."""

    axes: tuple[Axis, ...]
    rules: tuple[Rule, ...]
    own: dict[str, int]  # the numbers of keys that are not searched
    said: tuple[str, ...]

    def holds(self, piece: Piece) -> Array:
        """Where all rules hold."""
        found = np.ones(piece.number, dtype=bool)
        for rule in self.rules:
            found &= rule.holds(lambda key: self._numbers(piece, key))
        return found

    def _numbers(self, piece: Piece, key: str) -> Array:
        known = key in piece.keys or key in piece.same
        return piece.values(key).low if known else np.full(piece.number, self.own[key])


def tried(
    document: Mapping[str, Any],
    architecture: Architecture,
    free: Mapping[str, Sequence[int] | None],
    taste: Taste,
    dtype: str = "bf16",
) -> Tried:
    """The values of every free key, and the rules that there are about them. InputError where a key has no range."""
    axes: dict[str, Sequence[int]] = {}
    said: list[str] = []
    multiple = taste.multiple or (MULTIPLE_OF_MIX if is_mix(dtype) else MULTIPLE)
    for key, values in free.items():
        if values is None:
            axes[key] = _values(document, key, multiple)
            step = f" in steps of {multiple}" if _is_width(key) else ""
            said.append(f"{key} from {axes[key][0]:,} to {axes[key][-1]:,}{step}")
        else:
            axes[key] = sorted(values)
            said.append(f"{key} {_range(axes[key])}")
    rules: list[Rule] = []
    heads = _heads(document, architecture, axes, taste)
    if heads is not None:
        rules.append(heads)
        if "n_heads" not in axes:
            axes["n_heads"] = sorted({d // w for d in axes["d"] for w in heads.widths if d % w == 0})
            said.append(f"n_heads follows d: {heads}")
        else:
            said.append(str(heads))
    asked = {key for (above, below), limits in taste.ratios.items() if limits is not None for key in (above, below)}
    own = {key: n for key in ("d", "d_ff", "n_layers", "n_heads", *asked) if type(n := document.get(key)) is int}
    _check_ratios(taste, axes.keys(), own)
    rules += [ratio for ratio in _ratios(taste, own) if {ratio.above, ratio.below} & axes.keys()
              and all(key in axes or key in own for key in (ratio.above, ratio.below))]  # fmt: skip
    said += [str(rule) for rule in rules if isinstance(rule, Ratio)]
    return Tried(tuple(Axis(key, tuple(values)) for key, values in axes.items()), tuple(rules), own, tuple(said))


def _is_width(key: str) -> bool:
    return key.rpartition(".")[2] in WIDTHS


def _values(document: Mapping[str, Any], key: str, multiple: int) -> Sequence[int]:
    """From the least to so many times the model's own."""
    own: Any = document
    for word in key.split("."):
        own = own.get(word) if isinstance(own, Mapping) else None
    if not isinstance(own, int) or isinstance(own, bool):
        problem = f"--free {printable(key)}: the model's own file says no number for it"
        raise InputError(problem, f"give a range: {printable(key)}=1K..8K:256", "usage")
    step = multiple if _is_width(key) else 1
    found = range(step, TIMES * own + 1, step)
    if not found:
        raise InputError(f"--free {printable(key)}: no multiple of {step} up to {TIMES * own}", "give a range", "usage")
    return found


def _heads(
    document: Mapping[str, Any], architecture: Architecture, axes: Mapping[str, Sequence[int]], taste: Taste
) -> Heads | None:
    """How wide heads may be, where width and number of the heads make the stream."""
    own = {
        mixer.d_head
        for block in architecture.blocks()
        for mixer in sublayers(block)
        if isinstance(mixer, Attention) and mixer.n_heads * mixer.d_head == architecture.d
    }
    if not own or "d_head" in document or "d_head" in axes or not {"d", "n_heads"} & axes.keys():
        return None
    by_default = tuple(own) if "n_heads" not in axes else (*D_HEAD, *own)
    return Heads(tuple(sorted(set(taste.d_head or by_default))))


def _ratios(taste: Taste, own: Mapping[str, int]) -> list[Ratio]:
    found = []
    for (above, below), limits in ({**RATIOS, **taste.ratios}).items():
        if limits is None:
            continue
        if (above, below) not in taste.ratios and above in own and below in own:
            ratio = Fraction(own[above], own[below])
            limits = min(limits[0], ratio), max(limits[1], ratio)
        found.append(Ratio(above, below, *limits))
    return found


def _check_ratios(taste: Taste, free: Collection[str], own: Collection[str]) -> None:
    """InputError where a ratio that is asked for would say nothing: a number is not known, or none is free."""
    for (above, below), limits in taste.ratios.items():
        unknown = next((key for key in (above, below) if key not in free and key not in own), None)
        if limits is None or (unknown is None and (above in free or below in free)):
            continue
        what = "neither is free" if unknown is None else f"the model's own file says no number for {printable(unknown)}"
        mend = printable(unknown or above)
        raise InputError(f"--ratio {printable(above)}/{printable(below)}: {what}", f"add {mend} to --free", "usage")


def _range(values: Sequence[int]) -> str:
    steps = {b - a for a, b in pairwise(values)}
    if len(values) <= 4 or len(steps) > 1:
        return ", ".join(f"{value:,}" for value in values[:12]) + (", …" if len(values) > 12 else "")
    return f"from {values[0]:,} to {values[-1]:,} in steps of {steps.pop():,}"


def _short(value: Fraction) -> str:
    return f"{float(value):g}"
