"""Conditions on columns, as --where takes them: 'total >= 7B', 'memory < 24GiB and total < 8e9 or attention = GQA'."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import Any

from msgspec import Struct

from gptcalc import units
from gptcalc.errors import InputError, did_you_mean, printable

COMPARISON = r"\s*([A-Za-z_][\w.]*)\s*(<=|>=|==|!=|=|<|>)\s*(.*\S)\s*"
EXPONENT = r"[0-9]{1,30}(\.[0-9]{1,30})?[eE]\+?[0-9]{1,2}"

SIGNS: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
DATE = r"[0-9]{4}(-[0-9]{2}){0,2}"
#: how a number is written of what a column holds; of anything else as parameters are
READ: dict[str, Callable[[str], int]] = {"bytes": units.size, "number": units.count, "flops": units.flops}


class Test(Struct, frozen=True):
    """A column, a sign, and the number or the word that it is held against."""

    key: str
    sign: str
    limit: Fraction | str
    is_date: bool = False

    def holds(self, value: Any) -> bool:
        """A figure that a thing doesn't have fulfils nothing; of a word any of its parts may be meant."""
        if value is None:
            return False
        if isinstance(self.limit, Fraction):
            return bool(SIGNS[self.sign](value, self.limit))
        if self.is_date:  # as far as it is said: 2025-04 is in 2025, and not behind it
            return bool(SIGNS[self.sign](str(value)[: len(self.limit)], self.limit))
        return (self.limit in words(value)) == (self.sign == "==")


def words(value: Any) -> set[str]:
    """What a word may be held against, in small letters: all of it, or any of its parts."""
    written = str(value).lower()
    if isinstance(value, bool):
        return {written, "yes" if value else "no"}
    return {written, *re.split(r"[/ ]", written)}


class Where(Struct, frozen=True):
    """Several alternatives, each tests that must all hold: a < 1 and b > 2 or c = 3. Without any all is wanted."""

    alternatives: tuple[tuple[Test, ...], ...] = ()

    @property
    def keys(self) -> set[str]:
        return {test.key for tests in self.alternatives for test in tests}

    def and_also(self, *others: tuple[Test, ...]) -> Where:
        """With one of these alternatives, too."""
        return Where(tuple((*tests, *more) for tests in self.alternatives or ((),) for more in others))

    def holds(self, value: Callable[[str], Any]) -> bool:
        """For one thing, whose columns `value` tells."""
        if not self.alternatives:
            return True
        return any(all(test.holds(value(test.key)) for test in tests) for tests in self.alternatives)


def parsed(texts: Iterable[str], kinds: Mapping[str, str], listed: str = "") -> Where:
    """What all of these say. kinds: what each column holds (report.table.Kind); listed: where columns are told.

    InputError where a text is no condition, or its column is none.
    """
    found = Where()
    for text in texts:
        parts = [re.split(r"\sand\s", part) for part in re.split(r"\sor\s", text)]
        found = found.and_also(*(tuple(_test(word, kinds, listed) for word in words) for words in parts))
    return found


def _test(text: str, kinds: Mapping[str, str], listed: str) -> Test:
    match = re.fullmatch(COMPARISON, text)
    if match is None:
        hint = "such as 'total >= 7B and kv_bytes < 1GiB'"
        raise InputError(f"--where {printable(text.strip())!r} is no condition", hint, "usage")
    key, sign, word = match.groups()
    sign = "==" if sign == "=" else sign
    check(key, kinds, "--where", listed)
    if kinds[key] == "date":
        if not re.fullmatch(DATE, word):
            raise InputError(
                f"--where {printable(text)}: {printable(word)!r} is no date", "write 2024 or 2024-07", "usage"
            )
        return Test(key, sign, word, is_date=True)
    if kinds[key] != "text":
        return Test(key, sign, number(word, kinds[key]))
    if sign not in ("==", "!="):
        raise InputError(f"--where {printable(text)}: {key} is a word", f"write {key}={printable(word)}", "usage")
    return Test(key, sign, word.lower())


def number(text: str, kind: str) -> Fraction:
    """A number as its column counts: parameters 7B, memory 24GiB, tokens 8K, FLOPs 20GFLOP; any of them 2e12."""
    if re.fullmatch(EXPONENT, text):
        return Fraction(text)
    try:
        return Fraction(READ.get(kind, units.parameters)(text))
    except InputError as error:
        raise error.within("--where") from None


def check(key: str, known: Iterable[str], option: str, listed: str = "") -> None:
    """InputError where there is no such column."""
    known = list(known)
    if key not in known:
        hint = did_you_mean(key, known) or listed or "there are " + ", ".join(known)
        raise InputError(f"{option}: no column {printable(key)!r}", hint, "usage")
