"""What hangs on the length of the context alone, as polynomials: how many pairs occur, how many tokens are kept.

Below a window's length pairs grow with the square, beyond it linearly; so there are pieces. They are found by looking:
a piece goes as far as the polynomial through its first points gives what the program counts. Where counts go by whole
chunks, lengths are taken in steps of these.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import lcm
from typing import TypeAlias

from gptcalc.errors import InputError

#: no context is longer
LONGEST = 1 << 24
#: more pieces are no formula
MOST = 16

#: from which length on, a common denominator, and the coefficients above it, those of higher powers behind
Piece: TypeAlias = tuple[int, int, tuple[int, ...]]
Pieces: TypeAlias = tuple[Piece, ...]


def pieces(count: Callable[[int], int], step: int = 1) -> Pieces:
    """A whole function of the length, at multiples of `step`. InputError where it is none of few quadratic pieces."""
    found: list[Piece] = []
    start = 1
    while start * step <= LONGEST:
        if len(found) == MOST:
            raise InputError("a count is no polynomial of the context, not even in pieces", kind="unsupported")
        terms = _through([(n * step, count(n * step)) for n in range(start, start + 3)])
        below = lcm(*(term.denominator for term in terms))
        found.append((start * step, below, tuple(int(term * below) for term in terms)))
        last = start + 2
        reach = 1
        while (last + reach) * step <= LONGEST * 2 and _at(found[-1], (last + reach) * step) == count(
            (last + reach) * step
        ):
            last, reach = last + reach, reach * 2
        while reach > 1:  # the piece ends within the last stride
            reach //= 2
            if _at(found[-1], (last + reach) * step) == count((last + reach) * step):
                last += reach
        start = last + 1
    return tuple(found)


def value(found: Pieces, length: int) -> int:
    """What the pieces say at one length."""
    return _at([piece for piece in found if piece[0] <= length][-1], length)


def _at(piece: Piece, length: int) -> int:
    _, below, above = piece
    total = 0
    for n in reversed(above):
        total = total * length + n
    return total // below


def _through(points: list[tuple[int, int]]) -> list[Fraction]:
    """The coefficients of the quadratic polynomial through three points (Newton's divided differences)."""
    (a, fa), (b, fb), (c, fc) = points
    first, second = Fraction(fb - fa, b - a), Fraction(fc - fb, c - b)
    square = (second - first) / (c - a)
    terms = [fa - first * a + square * a * b, first - square * (a + b), square]
    while len(terms) > 1 and not terms[-1]:
        terms.pop()
    return terms
