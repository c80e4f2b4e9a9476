"""Which points of a grid are wanted: conditions on their figures, an order with the first so many, a Pareto front."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from gptcalc import units
from gptcalc.analysis.sweep.bulk import Array
from gptcalc.analysis.sweep.space import Piece
from gptcalc.errors import InputError, did_you_mean, printable

COMPARISON = re.compile(r"\s*([A-Za-z_][\w.]*)\s*(<=|>=|==|!=|=|<|>)\s*(\S+)\s*")
EXPONENT = re.compile(r"\d+(\.\d+)?[eE]\+?\d{1,2}")


class Test(NamedTuple):
    key: str
    word: str
    limit: Fraction


class Where(NamedTuple):
    """One of several alternatives, each tests that must all hold: a < 1 and b > 2 or c = 3."""

    alternatives: tuple[tuple[Test, ...], ...] = ()

    @property
    def keys(self) -> set[str]:
        return {test.key for tests in self.alternatives for test in tests}

    def and_also(self, test: Test) -> Where:
        """With a test that must hold in any case."""
        return Where(tuple((*tests, test) for tests in self.alternatives or ((),)))

    def holds(self, piece: Piece) -> Array:
        if not self.alternatives:
            return np.ones(piece.number, dtype=bool)
        values = {key: piece.values(key) for key in self.keys}
        found = np.zeros(piece.number, dtype=bool)
        for tests in self.alternatives:
            own = np.ones(piece.number, dtype=bool)
            for test in tests:
                own &= values[test.key].compare(test.word, test.limit)
            found |= own
        return found


def parsed(text: str, known: Collection[str]) -> Where:
    """'memory < 24GiB and total < 8e9'. InputError where a word is none of these."""
    alternatives = []
    for part in re.split(r"\bor\b", text):
        tests = []
        for word in re.split(r"\band\b", part):
            match = COMPARISON.fullmatch(word)
            if match is None:
                raise InputError(
                    f"--where: {printable(word.strip())!r} is no comparison",
                    "write 'memory < 24GiB and total < 8e9'",
                    "usage",
                )
            key, sign, number = match.groups()
            check(key, known, "--where")
            tests.append(Test(key, "==" if sign == "=" else sign, limit(number)))
        alternatives.append(tuple(tests))
    return Where(tuple(alternatives))


def limit(text: str) -> Fraction:
    """A number: 8e9, 8B (10⁹), 24GiB, 32K."""
    if EXPONENT.fullmatch(text):
        return Fraction(text)
    for read in (units.count, units.parameters, units.size):
        try:
            return Fraction(read(text))
        except InputError:
            continue
    raise InputError(f"--where: {printable(text)!r} is no number", "write 8e9, 8B, 32K or 24GiB", "usage")


def check(key: str, known: Collection[str], option: str) -> None:
    if key not in known:
        hint = did_you_mean(key, known) or "there are " + ", ".join(known)
        raise InputError(f"{option}: no column {printable(key)!r} of whole numbers", hint, "usage")


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
