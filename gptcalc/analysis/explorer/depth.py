"""How a model grows with its number of layers: in what steps, and how often each kind of layer then stands."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from gptcalc.analysis.explorer.sizes import DEEPER
from gptcalc.architecture import Block
from gptcalc.errors import InputError

#: the kinds of layers in order, each with how many there are
Groups: TypeAlias = Sequence[tuple[Block, int]]
#: patterns of layers are no longer
LONGEST = 8


def blocks(groups: Groups) -> Iterator[tuple[str, int]]:
    """The same by their names."""
    return ((block.name, times) for block, times in groups)


def deeper(start: Groups, wanted: Sequence[tuple[str, int]], grown: Callable[[int], Groups]) -> int:
    """The fewest layers by which a model can grow again and again as its first probe does; 0 where that is not found.

    start, wanted: its kinds of layers and the probe's; grown: what they are with so many layers more.
    """
    for more in range(1, LONGEST + 1):
        if DEEPER[0] % more:
            continue
        try:
            others = [grown(k * more) for k in (1, 2, 3)]
        except InputError:
            continue
        then = [b[1] + (w[1] - b[1]) * more // DEEPER[0] for b, w in zip(start, wanted, strict=True)]
        right = [
            [b[1] + k * (g - b[1]) for b, g in zip(start, then, strict=True)] == [n for _, n in own]
            for k, own in zip((1, 2, 3), others, strict=True)
        ]
        if all(right):
            return more
    return 0


def through(places: list[int], values: list[int]) -> tuple[int, int, int] | None:
    """A line through three points: a constant and a slope over a common denominator."""
    (a, b, c), (fa, fb, fc) = places, values
    if (fb - fa) * (c - b) != (fc - fb) * (b - a):
        return None
    below, slope = b - a, fb - fa
    common = [n for n in range(below, 0, -1) if below % n == 0 and slope % n == 0 and (fa * below - slope * a) % n == 0]
    return (fa * below - slope * a) // common[0], slope // common[0], below // common[0]
