"""Sizes as terms in a model's keys: 64 channels of a head are d/n_heads.

A model is built again with other values of its keys, all in proportions of their own. By how much a size has grown
then says how it hangs on the keys, and yet another such model says whether that is so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import product
from math import prod
from typing import TypeAlias

from msgspec import Struct

from gptcalc.equations import polynomial as poly


class Key(Struct, frozen=True):
    """A key that a reader may move: its name, its path in the document, and its value there."""

    name: str
    path: str
    base: int


DEPTH = "n_layers"
#: by what keys are multiplied in two probes: heads stay divisible by KV heads, d by heads, and widths even
FACTORS: tuple[Mapping[str, int], ...] = (
    {"d": 30, "n_heads": 6, "n_kv_heads": 2, "n_experts": 7},
    {"d": 132, "n_heads": 12, "n_kv_heads": 4, "n_experts": 5},
)
#: layers that probes have more: every pattern of up to eight layers is then repeated whole
DEEPER = (840, 1680)
POWERS = (0, 1, -1, 2)

#: a coefficient's numerator and denominator, and the powers of keys: (1, 1, (("d", 1), ("n_heads", -1)))
Powers: TypeAlias = tuple[tuple[str, int], ...]
Term: TypeAlias = tuple[int, int, Powers]
Terms: TypeAlias = tuple[Term, ...]
#: one number in the model and in both probes
Thrice: TypeAlias = tuple[int, int, int]


class Space:
    """The keys of one model that may move, and the probes."""

    def __init__(self, keys: Sequence[Key]) -> None:
        self.keys = {key.name: key for key in keys}
        self.base = {key.name: key.base for key in keys}
        self.probes = [{key.name: probed(key, number) for key in keys} for number in range(2)]
        self.growths = growths(tuple(Fraction(self.probes[0][name], n) for name, n in self.base.items()))

    def term(self, values: Thrice) -> Terms | None:
        """A number as one term in the keys; None where it is none."""
        base, first, second = values
        if base == first == second:
            return ((base, 1, ()),) if base else ()
        powers = self.growths.get(Fraction(first, base)) if base else None
        if powers is None:
            return None
        own = tuple((name, power) for name, power in zip(self.base, powers, strict=True) if power)
        factor = base / worth(own, self.base)
        found: Terms = ((factor.numerator, factor.denominator, own),)
        return found if evaluated(found, self.probes[1]) == second else None

    def spelled(self, text: str, symbols: Mapping[str, Terms], values: Thrice) -> Terms | None:
        """A size as it is written (d_nope+d_rope), its symbols being terms themselves; None where that isn't so."""
        total: dict[Powers, Fraction] = {}
        for monomial, n in poly.parse(text):
            number, powers = Fraction(n), dict[str, int]()
            for symbol, power in monomial:
                if len(symbols.get(symbol, ())) != 1:
                    return None
                above, below, own = symbols[symbol][0]
                number *= Fraction(above, below) ** power
                for name, exponent in own:
                    powers[name] = powers.get(name, 0) + exponent * power
            place = tuple(sorted((name, exponent) for name, exponent in powers.items() if exponent))
            total[place] = total.get(place, Fraction(0)) + number
        found = tuple((number.numerator, number.denominator, place) for place, number in total.items())
        wanted = zip((self.base, *self.probes), values, strict=True)
        return found if all(evaluated(found, own) == size for own, size in wanted) else None


def probed(key: Key, number: int) -> int:
    return key.base + DEEPER[number] if key.name == DEPTH else key.base * FACTORS[number][key.name]


@lru_cache(maxsize=64)
def growths(ratios: tuple[Fraction, ...]) -> dict[Fraction, tuple[int, ...]]:
    """By how much a product of powers grows where its factors grow by these ratios."""
    found: dict[Fraction, tuple[int, ...]] = {}
    for powers in sorted(product(POWERS, repeat=len(ratios)), key=lambda own: sum(map(abs, own))):
        growth = prod((ratio**power for ratio, power in zip(ratios, powers, strict=True)), start=Fraction(1))
        found.setdefault(growth, powers)
    return found


def worth(powers: Powers, values: Mapping[str, int]) -> Fraction:
    return prod((Fraction(values[name]) ** power for name, power in powers), start=Fraction(1))


def evaluated(terms: Terms, values: Mapping[str, int]) -> Fraction:
    """What terms are worth at some values of the keys."""
    return sum((Fraction(above, below) * worth(own, values) for above, below, own in terms), start=Fraction(0))
