"""A line's text taken apart as far as counting needs: which symbols with which indices, and what a sum is over.

`grammar` reads the whole of it, as a tree; this is enough for an analysis, and takes a tenth of the time.
"""

from __future__ import annotations

from functools import lru_cache

from msgspec import Struct


class Reference(Struct, frozen=True):
    """A symbol with its indices, as it stands in a line."""

    name: str
    indices: tuple[str, ...]


class Statement(Struct, frozen=True):
    """A line's text, taken apart: left side, everything referred to, and the factors of its sum."""

    left: Reference
    references: tuple[Reference, ...]
    factors: tuple[Reference, ...]
    summed: tuple[str, ...]
    adds: bool = False  # += adds to what the left side was


@lru_cache(maxsize=4096)
def parse(text: str) -> Statement:
    """Take a line apart. The same text always means the same, so this is done once for all models."""
    left_text, _, right_text = text.partition("=")
    references = _references(text)
    left = references[0] if "[" in left_text else Reference("", ())
    adds = left_text.endswith("+")
    _, sum_, behind = right_text.partition("Σ_")
    if not sum_:
        return Statement(left, references, _references(right_text) if adds else (), (), adds)
    if behind.startswith("{"):
        summed, _, behind = behind[1:].partition("}")
    else:
        summed, behind = behind[0], behind[1:]
    factors = _references(_before_sum(behind))
    return Statement(left, references, factors, _letters(summed.partition("|")[0]), adds)


def _references(text: str) -> tuple[Reference, ...]:
    """Every NAME[indices], from left to right."""
    found = []
    end = 0
    while (start := text.find("[", end)) >= 0:
        first = start
        while first > end and _in_a_name(text[first - 1]):
            first -= 1
        end = text.index("]", start)
        found.append(Reference(text[first:start].lstrip("0123456789_"), _letters(text[start + 1 : end])))
    return tuple(found)


def _in_a_name(character: str) -> bool:
    return character.isalnum() or character in "_′\u0302"


def _before_sum(text: str) -> str:
    """Up to the first + or − outside of brackets: what Σ reaches over."""
    depth = 0
    for at, character in enumerate(text):
        depth += (character in "([{") - (character in ")]}")
        if depth == 0 and character in "+−," and at:
            return text[:at]
    return text


#: sizes of one letter, which no index has
SIZES = frozenset("cdv")


def _letters(text: str) -> tuple[str, ...]:
    """The indices: small letters that stand alone. What stands beside one in brackets (t − kernel + κ, ϊ − d) says how
    far it is moved."""
    around = zip(f" {text}", text, f"{text} "[1:], strict=False)
    return tuple(
        at
        for before, at, after in around
        if at.islower() and at not in SIZES and not (_in_a_name(before) or _in_a_name(after))
    )
