"""Axes of a grid, and consecutive points of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from gptcalc.analysis.sweep.bulk import Array, Exact, Points, largest
from gptcalc.equations import polynomial as poly

#: points that are evaluated at once: their arrays stay in a core's cache
PIECE = 1 << 14

Settings = Mapping[str, Any]


class Axis(NamedTuple):
    """A key of the preset and the values that it takes, whole numbers or words."""

    key: str
    values: tuple[int | str, ...]


class Piece(NamedTuple):
    """Consecutive points: what is the same at all of them, and what is not."""

    number: int
    same: dict[str, Any]
    points: Points
    keys: dict[str, Array]
    figures: dict[str, tuple[poly.Polynomial, ...]]

    def values(self, key: str) -> Exact:
        if key in self.keys:
            return Exact(self.keys[key])
        if key in self.figures:
            return largest([self.points.evaluate(terms) for terms in self.figures[key]])
        return Exact(np.full(self.number, self.same[key]))

    def take(self, which: Array) -> Piece:
        points = Points({s: a[which] for s, a in self.points.values.items()}, self.points.largest, len(which))
        return Piece(len(which), self.same, points, {key: a[which] for key, a in self.keys.items()}, self.figures)

    def columns(self, keys: Sequence[str]) -> list[list[Any]]:
        """Each key's values as Python's."""
        return [[self.same[key]] * self.number if key in self.same else self.values(key).ints() for key in keys]
