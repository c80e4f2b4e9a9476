"""Activations with sizes left open: the moments of a pass as sums of products of sizes.

The program's own walk over a stage (`analysis.memory.live`) is run on integers that remember what they are made of.
Where it compares two of them, it goes by the values that the model has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Set
from typing import TypeAlias

from gptcalc.analysis.memory.live import Counted, elements, moments
from gptcalc.analysis.memory.sharding import Layout
from gptcalc.equations import Chosen, Index, Line, Reference, Stage
from gptcalc.equations.roles import LOOKED_BACK

#: a product of sizes, by their numbers in the table of sizes, and how often it is added
Part: TypeAlias = tuple[tuple[int, ...], int]
#: a moment's elements by token, by token of the past, by wanted position, whatever the length, by token of the source
Parts: TypeAlias = tuple[tuple[Part, ...], ...]


class Open(int):
    """An integer that remembers of which products it is the sum."""

    parts: Counter[tuple[int, ...]]

    @classmethod
    def of(cls, value: int, parts: Counter[tuple[int, ...]]) -> Open:
        made = cls(value)
        made.parts = parts
        return made

    def __add__(self, other: int) -> Open:
        return Open.of(int(self) + int(other), _joined(self, other, 1))

    __radd__ = __add__

    def __sub__(self, other: int) -> Open:
        return Open.of(int(self) - int(other), _joined(self, other, -1))


def _joined(a: Open, b: int, sign: int) -> Counter[tuple[int, ...]]:
    found = Counter(a.parts)
    for sizes, n in parts_of(b).items():
        found[sizes] += sign * n
    return found


def parts_of(number: int) -> Counter[tuple[int, ...]]:
    if isinstance(number, Open):
        return number.parts
    assert number == 0, number
    return Counter()


def opened(stage: Stage, place: Callable[[int, str], int], size: Callable[[Index], int]) -> tuple[Parts, ...] | None:
    """The moments of a stage that none exceeds whatever the sizes; None where a size is no product.

    size: the place of an index's size in the table of sizes; place: that of a number that stands for itself.
    """

    def sized(line: Line, reference: Reference, over_past: Set[str], parallel: Layout) -> Counted:
        found = elements(line, reference, over_past, parallel)
        if found is None:
            return None
        slot, n = found
        indices = [i for i in line.indices(reference) if i.role != "new" and i.role not in LOOKED_BACK]
        chosen = line.condition
        sizes, number = [], 1
        for index in indices:
            if isinstance(chosen, Chosen) and index.role == "experts":
                sizes.append(place(chosen.active, chosen.active_symbol))
                number *= chosen.active
            else:
                sizes.append(size(index))
                number *= index.size
        if number != n:
            raise NoProduct
        parts = Counter({tuple(sorted(sizes)): 1})
        return slot, Open.of(n, parts)

    try:
        return widest([tuple(_spelled(each) for each in moment.counts) for moment in moments(stage, sized=sized)])
    except NoProduct:
        return None


class NoProduct(Exception):
    """A size that is rounded."""


def _spelled(number: int) -> tuple[Part, ...]:
    return tuple(sorted((sizes, n) for sizes, n in parts_of(number).items() if n))


def widest(found: Iterable[Parts]) -> tuple[Parts, ...]:
    """Without those that another has all parts of."""
    kept: list[Parts] = []
    for one in dict.fromkeys(found):
        if any(_within(one, other) for other in kept):
            continue
        kept = [other for other in kept if not _within(other, one)] + [one]
    return tuple(kept)


def _within(one: Parts, other: Parts) -> bool:
    """Whether no sizes make the one more than the other."""
    for mine, theirs in zip(one, other, strict=True):
        more = dict(theirs)
        if any(n < 0 for n in more.values()) or any(n > more.get(sizes, 0) for sizes, n in mine):
            return False
    return True
