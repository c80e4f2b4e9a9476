"""Polynomials in named symbols with integer coefficients; exponents may be negative (d_head = d·n_heads⁻¹)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from fractions import Fraction

Monomial = tuple[tuple[str, int], ...]  # sorted (symbol, exponent) pairs
Polynomial = dict[Monomial, int]
N = TypeVar("N", int, float)

SUPERSCRIPT = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


@lru_cache(maxsize=4096)
def parse(text: str) -> tuple[tuple[Monomial, int | Fraction], ...]:
    """An index's range, such as 4·d, d/n_heads or d_nope+d_rope, as the terms of a polynomial. Half of n_heads has a
    coefficient that is no integer; with other ranges, in a product, it becomes one."""
    terms: dict[Monomial, int | Fraction] = {}
    for part in text.split("+"):
        coefficient: int | Fraction = 1
        powers = dict[str, int]()
        for ratio in part.split("·"):
            top, *below = ratio.split("/")
            for word, exponent in ((top, 1), *((w, -1) for w in below)):
                if word.isdigit():
                    coefficient = coefficient * int(word) if exponent > 0 else _shared(coefficient, int(word))
                else:
                    powers[word] = powers.get(word, 0) + exponent
        monomial = tuple(sorted((s, e) for s, e in powers.items() if e))
        terms[monomial] = terms.get(monomial, 0) + coefficient
    return tuple(terms.items())


def _shared(n: int | Fraction, by: int) -> int | Fraction:
    from fractions import Fraction

    return n // by if isinstance(n, int) and n % by == 0 else Fraction(n, by)


def product(texts: Iterable[str]) -> Polynomial:
    """The product of several ranges."""
    result: Polynomial = {(): 1}
    for text in texts:
        result = multiplied(result, parse(text))
    return {monomial: int(n) if n == int(n) else n for monomial, n in result.items()}


def added(*parts: Polynomial) -> Polynomial:
    """The sum of several polynomials, without terms that cancel."""
    total: Polynomial = {}
    for part in parts:
        add(total, part)
    return {monomial: n for monomial, n in total.items() if n}


def scaled(terms: Polynomial, factor: int) -> Polynomial:
    """A polynomial times a number."""
    return {monomial: factor * n for monomial, n in terms.items()}


def between(terms: Mapping[Monomial, N], ranges: Mapping[str, tuple[int, int]]) -> tuple[N, N]:
    """Bounds of a polynomial's values where each symbol stays in its range, of numbers that are not negative: a term
    with a positive coefficient is least with the least sizes, one with a negative one is most with them."""
    low: Any = 0
    high: Any = 0
    for monomial, n in terms.items():
        least: Any = n
        most: Any = n
        for symbol, exponent in monomial:
            least *= ranges[symbol][0] ** exponent
            most *= ranges[symbol][1] ** exponent
        low += min(least, most)
        high += max(least, most)
    return low, high


def multiplied(terms: dict[Monomial, N], factor: Iterable[tuple[Monomial, int | Fraction]]) -> dict[Monomial, N]:
    """A polynomial times another's terms."""
    grown: dict[Monomial, Any] = {}
    factor = tuple(factor)
    for left, n in terms.items():
        for right, m in factor:
            monomial = _times(left, right)
            grown[monomial] = grown.get(monomial, 0) + n * m
    return grown


@lru_cache(maxsize=65536)
def _times(left: Monomial, right: Monomial) -> Monomial:
    powers = dict(left)
    for symbol, exponent in right:
        powers[symbol] = powers.get(symbol, 0) + exponent
    return tuple(sorted((s, e) for s, e in powers.items() if e))


def add(target: Polynomial, terms: Polynomial) -> None:
    """target += terms."""
    for monomial, n in terms.items():
        target[monomial] = target.get(monomial, 0) + n


def show(terms: Polynomial, rank: Mapping[str, int]) -> str:
    """The polynomial as a person writes it, higher powers first: 12·d² + 13·d. `rank`: the place of each symbol."""
    ranked = [(tuple(sorted(monomial, key=lambda p: rank[p[0]])), n) for monomial, n in terms.items() if n]
    ranked.sort(key=lambda term: (-_degree(term[0]), [rank[symbol] for symbol, _ in term[0]]))
    return " + ".join(_term(monomial, n) for monomial, n in ranked) or "0"


def _degree(monomial: Monomial) -> int:
    return sum(exponent for _, exponent in monomial)


def _term(monomial: Monomial, n: int) -> str:
    above = [_power(symbol, e) for symbol, e in monomial if e > 0]
    below = [_power(symbol, -e) for symbol, e in monomial if e < 0]
    if n != 1 or not above:
        above.insert(0, str(n))
    return "/".join(["·".join(above), *below])


def _power(symbol: str, exponent: int) -> str:
    return symbol if exponent == 1 else symbol + str(exponent).translate(SUPERSCRIPT)
