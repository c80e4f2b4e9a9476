"""Which points of a grid are wanted: conditions on their figures, an order with the first so many, a Pareto front."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from gptcalc.analysis.sweep.bulk import Array
from gptcalc.analysis.sweep.piece import Piece
from gptcalc.where import Where, check


def held(where: Where, piece: Piece) -> Array:
    """At which points a condition holds; all of its columns are numbers."""
    if not where.alternatives:
        return np.ones(piece.number, dtype=bool)
    values = {key: piece.values(key) for key in where.keys}
    found = np.zeros(piece.number, dtype=bool)
    for tests in where.alternatives:
        own = np.ones(piece.number, dtype=bool)
        for test in tests:
            own &= values[test.key].compare(test.sign, Fraction(test.limit))
        found |= own
    return found


class Order(NamedTuple):
    """Columns to go by; the largest first where `down`."""

    key: str
    down: bool

    @classmethod
    def of(cls, word: str, known: Collection[str], option: str) -> Order:
        key = word.strip().removeprefix("-")
        check(key, known, option)
        return cls(key, word.strip().startswith("-"))


def first(piece: Piece, order: Order, number: int) -> Array:
    """The places of the first so many of a piece, in no order."""
    values = piece.values(order.key).narrow()
    ranked = np.argsort(-values if order.down else values, kind="stable")
    return np.asarray(ranked[:number])


def front(columns: Sequence[Array]) -> Array:
    """The places of the points that no other is better than in all columns, the least being the best."""
    places = (
        np.lexsort(tuple(reversed([np.asarray(c) for c in columns])))
        if _sortable(columns)
        else np.arange(len(columns[0]))
    )
    rows = [column[places] for column in columns]
    kept = np.ones(len(places), dtype=bool)
    for at in range(len(places)):
        if not kept[at]:
            continue
        no_better = np.ones(len(places), dtype=bool)
        worse = np.zeros(len(places), dtype=bool)
        for row in rows:
            no_better &= np.asarray(row >= row[at], dtype=bool)
            worse |= np.asarray(row > row[at], dtype=bool)
        kept &= ~(no_better & worse)
    return np.asarray(places[kept])


def _sortable(columns: Sequence[Array]) -> bool:
    return all(column.dtype == np.int64 for column in columns)


def fronted(piece: Piece, orders: Sequence[Order]) -> Array:
    """The places of a piece's Pareto front."""
    return front([_upwards(piece.values(o.key).narrow(), o) for o in orders])


def _upwards(values: Array, order: Order) -> Array:
    return -values if order.down else values


def best(rows: list[dict[str, Any]], orders: Sequence[Order]) -> list[dict[str, Any]]:
    """The Pareto front of rows of several pieces, in the order in which they came."""
    if not rows:
        return rows
    columns = [_upwards(np.array([row[o.key] for row in rows], dtype=object), o) for o in orders]
    return [rows[place] for place in sorted(front(columns).tolist())]


def ordered(rows: list[dict[str, Any]], order: Order | None) -> list[dict[str, Any]]:
    return rows if order is None else sorted(rows, key=lambda row: row[order.key], reverse=order.down)
