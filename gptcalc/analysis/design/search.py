"""The best points of a grid, exactly, without looking at all of them: branch and bound.

Figures are polynomials whose terms only grow with the sizes, or only fall; so between the ends of a box of points each
figure has bounds. A box in which no point can be wanted is left out, and so is one whose best can't reach what has been
found; the most promising is looked at first, and halved until it is small enough to evaluate every point of it in bulk.
Keys that decide what divides have no polynomial: each combination of those is a box to begin with.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import cached_property
from itertools import count, product
from math import prod
from typing import Any, NamedTuple

import numpy as np

from gptcalc.analysis.design.pace import Demand, Pace
from gptcalc.analysis.design.taste import Ratio, Tried
from gptcalc.analysis.sweep.bulk import Array
from gptcalc.analysis.sweep.collected import NotPolynomial
from gptcalc.analysis.sweep.piece import PIECE, Piece
from gptcalc.analysis.sweep.space import Combination, NoModel, Space, TooManyFree
from gptcalc.analysis.sweep.wanted import Order, first, held
from gptcalc.equations import polynomial as poly
from gptcalc.errors import InputError
from gptcalc.where import Test, Where

#: combinations of keys that are bound: each costs some milliseconds
MOST = 200_000


class Box:
    """The points of a combination between two places on each of its axes; the last axis is the batch's."""

    def __init__(
        self, combination: Combination, starts: tuple[int, ...], stops: tuple[int, ...], pace: Pace | None = None
    ) -> None:
        self.combination = combination
        self.pace = pace
        self.starts = starts
        self.stops = stops

    def __len__(self) -> int:
        return prod(stop - start for start, stop in zip(self.starts, self.stops, strict=True))

    @cached_property
    def ranges(self) -> dict[str, tuple[int, int]]:
        """The least and the most of every symbol."""
        found = {}
        for symbol, (place, column) in self.combination.tables.items():
            part = column[self.starts[place] : self.stops[place]]
            found[symbol] = int(part.min()), int(part.max())
        return found

    def between(self, key: str) -> tuple[int, int] | None:
        """Bounds of a key or a figure; None: it is not one of the combination's."""
        if key in self.combination.figures:
            bounds = [poly.between(terms, self.ranges) for terms in self.combination.figures[key]]
            return max(low for low, _ in bounds), max(high for _, high in bounds)
        if key in self.combination.same:
            return self.combination.same[key], self.combination.same[key]
        for place, axis in enumerate(self.combination.space.free):
            if axis.key == key:
                numbers = [int(value) for value in axis.values[self.starts[place] : self.stops[place]]]
                return min(numbers), max(numbers)
        return None

    def halves(self) -> Iterator[Box]:
        """Cut across the longest side."""
        sides = [stop - start for start, stop in zip(self.starts, self.stops, strict=True)]
        place = sides.index(max(sides))
        middle = self.starts[place] + sides[place] // 2
        yield Box(self.combination, self.starts, (*self.stops[:place], middle, *self.stops[place + 1 :]), self.pace)
        yield Box(self.combination, (*self.starts[:place], middle, *self.starts[place + 1 :]), self.stops, self.pace)

    def piece(self) -> Piece:
        """All of its points."""
        sides = [np.arange(start, stop) for start, stop in zip(self.starts, self.stops, strict=True)]
        return self.combination.at([side.ravel() for side in np.meshgrid(*sides, indexing="ij")])


class Row(NamedTuple):
    """A point that is wanted. Of equal ones the first in the grid is better."""

    score: int
    place: tuple[Any, ...]
    values: dict[str, Any]


class Search(NamedTuple):
    """What is looked for in a grid of one context."""

    space: Space
    tried: Tried
    where: Where
    goal: Order
    top: int
    columns: tuple[str, ...]
    demand: Demand | None = None

    def best(self) -> list[dict[str, Any]]:
        """The best points, the best first."""
        found: list[Row] = []
        order = count()  # of equally good boxes the first
        heap = [(-self._bound(box), next(order), box) for box in self._combinations() if self._possible(box)]
        heapq.heapify(heap)
        while heap:
            bound, _, box = heapq.heappop(heap)
            if len(found) == self.top and -bound < found[-1].score:
                break
            if len(box) > PIECE:
                for half in box.halves():
                    if self._possible(half):
                        heapq.heappush(heap, (-self._bound(half), next(order), half))
            else:
                found = sorted([*found, *self._rows(box)], key=lambda row: (-row.score, row.place))[: self.top]
        return [row.values for row in found]

    def _combinations(self) -> Iterator[Box]:
        """A box for each combination of bound keys that is a model and keeps to the rules."""
        space = self.space
        if space.combinations > MOST:
            sizes = ", ".join(f"{len(axis.values)} of {axis.key}" for axis in space.bound)
            raise InputError(f"design: {space.combinations:,} combinations, {sizes}", "give narrower ranges", "usage")
        models = 0
        for values in product(*(axis.values for axis in space.bound)):
            settings = dict(zip((axis.key for axis in space.bound), values, strict=True))
            if not self._in_taste(settings):
                continue
            for combination, pace in self._models(space, settings):
                models += 1
                stops = (*(len(axis.values) for axis in combination.space.free), len(space.batches))
                yield Box(combination, (0,) * len(stops), stops, pace)
        if not models and space.refused:
            raise InputError(f"design: no combination is a model: {next(iter(space.refused))}")

    def _models(self, space: Space, settings: Mapping[str, Any]) -> Iterator[tuple[Combination, Pace | None]]:
        """The combination of these settings. Where no polynomial holds for all of its points, those for each value of
        one key less."""
        try:
            combination = Combination(space, dict(settings), space.contexts[0])
            yield combination, None if self.demand is None else Pace(combination.collected, self.demand)
        except NoModel as error:
            space.refuse(str(error), prod(len(axis.values) for axis in space.free) * len(space.batches))
        except (TooManyFree, NotPolynomial) as error:
            if not space.free:
                raise InputError(f"design: {error}", "give --free fewer keys", "unsupported") from None
            axis = min(space.free, key=lambda axis: len(axis.values))
            for value in axis.values:
                own = {**settings, axis.key: value}
                if self._in_taste(own):
                    yield from self._models(space.binding([axis]), own)

    def _in_taste(self, settings: Mapping[str, Any]) -> bool:
        """Whether the rules that speak of bound keys alone hold."""
        known = {**self.tried.own, **{axis.key: None for axis in self.space.free}, **settings}
        for rule in self.tried.rules:
            keys = (rule.above, rule.below) if isinstance(rule, Ratio) else ("d", "n_heads")
            if all(known[key] is not None for key in keys) and not rule.holds(lambda key: np.array([known[key]]))[0]:
                return False
        return True

    def _bound(self, box: Box) -> int:
        """What no point of a box exceeds; the larger the better."""
        low, high = box.between(self.goal.key) or (0, 0)
        return high if self.goal.down else -low

    def _possible(self, box: Box) -> bool:
        """Whether some point of a box may be wanted."""
        for rule in self.tried.rules:
            if isinstance(rule, Ratio) and not rule.possible(*(self._number(box, k) for k in (rule.above, rule.below))):
                return False
        if box.pace is not None and not box.pace.possible(box.ranges):
            return False
        return not self.where.alternatives or any(
            all(_may_hold(test, box.between(test.key)) for test in tests) for tests in self.where.alternatives
        )

    def _number(self, box: Box, key: str) -> tuple[int, int]:
        return box.between(key) or (self.tried.own[key], self.tried.own[key])

    def _rows(self, box: Box) -> Iterator[Row]:
        """The best wanted points of a small box."""
        piece = box.piece()
        wanted = held(self.where, piece) & self.tried.holds(piece)
        piece = piece.take((wanted if box.pace is None else self._fast(box.pace, piece, wanted)).nonzero()[0])
        if not piece.number:
            return
        piece = piece.take(np.sort(first(piece, self.goal, self.top)))
        goals, places = piece.values(self.goal.key).ints(), zip(*piece.columns(self._keys), strict=True)
        for goal, place, row in zip(goals, places, zip(*piece.columns(self.columns), strict=True), strict=True):
            yield Row(goal if self.goal.down else -goal, place, dict(zip(self.columns, row, strict=True)))

    def _fast(self, pace: Pace, piece: Piece, wanted: Array) -> Array:
        """Which of the wanted points are fast enough; the analysis decides where rounding doesn't."""
        fast, near = pace.holds(piece.points)
        for place in (wanted & near).nonzero()[0]:
            point = piece.take(np.array([place]))
            values = dict(zip((a.key for a in self.space.axes), (c[0] for c in point.columns(self._keys)), strict=True))
            found = pace.demand.measured(self.space.build(values), self.space.how)
            fast[place] = pace.demand.batch / found >= pace.demand.rate
        return np.asarray(wanted & fast, dtype=bool)

    @property
    def _keys(self) -> list[str]:
        return [axis.key for axis in self.space.axes]


def _may_hold(test: Test, bounds: tuple[int, int] | None) -> bool:
    if bounds is None:
        return True
    low, high, limit = Fraction(bounds[0]), Fraction(bounds[1]), Fraction(test.limit)
    return {
        "<": low < limit, "<=": low <= limit, ">": high > limit, ">=": high >= limit, "==": low <= limit <= high,
        "!=": not low == high == limit,
    }[test.sign]  # fmt: skip
