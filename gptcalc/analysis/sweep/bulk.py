"""Polynomials with integer coefficients on arrays of points, exactly.

Below 2⁶³ an int64 holds a result. Up to about 2¹⁰⁹ two numbers decide it: the int64 that wraps around is right modulo
2⁶⁴, and a float64 beside it is right to far less than 2⁶³, so one integer is near it. Beyond that, Python's integers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import ceil, floor
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gptcalc.equations.polynomial import Monomial, Polynomial
from gptcalc.where import SIGNS

Array: TypeAlias = NDArray[Any]

WRAP = 1 << 64
#: an int64 holds less
NARROW = 1 << 63


class Exact:
    """Integers, one a point: `low` alone (int64, or Python's), or high·2⁶⁴ + low with a uint64 low."""

    __slots__ = ("high", "low")

    def __init__(self, low: Array, high: Array | None = None) -> None:
        self.low = low
        self.high = high

    def __len__(self) -> int:
        return len(self.low)

    def take(self, which: Array) -> Exact:
        return Exact(self.low[which], None if self.high is None else self.high[which])

    def ints(self) -> list[int]:
        """As Python's integers."""
        if self.high is None:
            return list(self.low.tolist())
        return [high * WRAP + low for high, low in zip(self.high.tolist(), self.low.tolist(), strict=True)]

    def narrow(self) -> Array:
        """One array that compares as the integers do: int64 where that holds them, else Python's."""
        return self.low if self.high is None else np.array(self.ints(), dtype=object)

    def compare(self, word: str, limit: Fraction) -> Array:
        """Where < <= > >= == or != hold against a number."""
        if word in ("==", "!=") and limit.denominator != 1:
            return np.full(len(self), word == "!=")
        bound = ceil(limit) if word in ("<", ">=") else floor(limit)
        if self.high is None:
            if self.low.dtype == np.int64 and not -NARROW <= bound < NARROW:
                return np.full(len(self), SIGNS[word](0, bound))
            return np.asarray(SIGNS[word](self.low, bound), dtype=bool)
        top, rest = divmod(bound, WRAP)
        if not -NARROW <= top < NARROW:
            return np.full(len(self), SIGNS[word](0, bound))
        equal, below = self.high == top, self.high < top
        low = np.uint64(rest)
        less, same = below | (equal & (self.low < low)), equal & (self.low == low)
        found = {"<": less, "<=": less | same, ">": ~(less | same), ">=": ~less, "==": same, "!=": ~same}[word]
        return np.asarray(found, dtype=bool)


def largest(found: Sequence[Exact]) -> Exact:
    """Of several numbers a point, the largest."""
    if len(found) == 1:
        return found[0]
    if all(each.high is None for each in found):
        return Exact(np.maximum.reduce([each.low for each in found]))
    return Exact(np.maximum.reduce([each.narrow() for each in found], dtype=object))


def most(terms: Polynomial, largest: Mapping[str, int]) -> int:
    """A number that no value of the polynomial exceeds in size, its symbols being at most so large and not negative."""
    total = 0
    for monomial, n in terms.items():
        term = abs(n)
        for symbol, power in monomial:
            term *= largest[symbol] ** power
        total += term
    return total


class Points:
    """Some points: an int64 array for each symbol, none negative. Products are remembered for all figures."""

    def __init__(self, values: Mapping[str, Array], largest: Mapping[str, int], number: int) -> None:
        self.values = values
        self.largest = largest
        self.number = number
        self._whole: dict[Monomial, Array] = {}
        self._near: dict[Monomial, Array] = {}

    def evaluate(self, terms: Polynomial) -> Exact:
        """A polynomial's value at every point."""
        bound = most(terms, self.largest)
        if bound < NARROW:
            # a larger coefficient's symbols are 0 at every point
            return Exact(self._sum({m: n for m, n in terms.items() if abs(n) < NARROW}, np.int64, self._whole))
        steps = len(terms) + max(sum(power for _, power in monomial) for monomial in terms) + 4
        if bound * steps < NARROW << 51:  # the float's error is below 2⁶², that of the coefficients in it
            return self._wide(terms)
        return Exact(self._sum(terms, object, {}))

    def estimate(self, terms: Mapping[Monomial, float]) -> Array:
        """A polynomial's value at every point in floating point; its coefficients may be broken."""
        return self._sum(terms, np.float64, self._near)

    def _wide(self, terms: Polynomial) -> Exact:
        near = self._sum(terms, np.float64, self._near)
        wrapped = {monomial: (n + NARROW) % WRAP - NARROW for monomial, n in terms.items()}
        with np.errstate(over="ignore"):
            low = self._sum(wrapped, np.int64, self._whole).view(np.uint64)
        high = np.rint((near - low.astype(np.float64)) / WRAP).astype(np.int64)
        return Exact(low, high)

    def _sum(self, terms: Mapping[Monomial, float], kind: Any, made: dict[Monomial, Array]) -> Array:
        total = np.zeros(self.number, dtype=kind)
        for monomial, n in terms.items():
            if monomial:
                total += (
                    self._product(monomial, kind, made) * kind(n)
                    if kind is not object
                    else (self._product(monomial, kind, made) * n)
                )
            else:
                total += n if kind is object else kind(n)
        return total

    def _product(self, monomial: Monomial, kind: Any, made: dict[Monomial, Array]) -> Array:
        found = made.get(monomial)
        if found is None:
            (symbol, power), rest = monomial[-1], monomial[:-1]
            before = (*rest, (symbol, power - 1)) if power > 1 else rest
            own = self.values[symbol].astype(kind)
            found = made[monomial] = own if not before else self._product(before, kind, made) * own
        return found
