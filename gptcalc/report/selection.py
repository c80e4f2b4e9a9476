"""Which models, and which rows in which order: presets by name, family, feature, size and year; rows by conditions."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any

from msgspec import Struct

from gptcalc import units
from gptcalc.conventions import CompareRun
from gptcalc.errors import InputError, did_you_mean, printable
from gptcalc.report.figures import FIGURES, Facts, ordered, row
from gptcalc.report.index import Index
from gptcalc.sources.preset import names


class Selection(Struct, frozen=True):
    """Which presets are meant. pattern: part of a name, or with * and ? all of it. size: 7B..9B; year: 2023..2025."""

    pattern: str | None = None
    family: str | None = None
    feature: tuple[str, ...] = ()
    size: str | None = None
    year: str | None = None

    def presets(
        self, how: CompareRun, usable: Sequence[int] | None = None, left: list[str] | None = None
    ) -> list[Facts]:
        """Those that are as asked for, by name. `usable`: bytes of a device, and how many there are; `left` is told
        which of one's own are no models. InputError where no preset at all has such a family or feature."""
        found = [facts for facts in _named(self.pattern, how, usable, left) if self.fits(facts)]
        if not found and (self.family is not None or self.feature):
            self.refuse_unknown()
        return found

    def fits(self, facts: Facts) -> bool:
        if self.family is not None and self.family.lower() != _said(facts, "family").lower():
            return False
        if self.year is not None and not _released(_said(facts, "released"), self.year):
            return False
        if self.feature and not set(self.feature) <= set(_said(facts, "features").split()):
            return False
        if self.size is not None:
            low, high = units.span(self.size)
            total = row(facts, ["total"])["total"]
            return low <= total and (high is None or total <= high)
        return True

    def refuse_unknown(self) -> None:
        """Nothing was found: perhaps because no preset at all has such a family or feature."""
        every = list(_named(None, CompareRun(), left=[]))
        families = {_said(facts, "family").lower() for facts in every}
        words = {word for facts in every for word in _said(facts, "features").split()}
        for option, given, known in (
            ("--family", [self.family.lower()] if self.family is not None else [], families),
            ("--feature", self.feature, words),
        ):
            for word in given:
                if word not in known:
                    hint = did_you_mean(word, known) or "one of " + ", ".join(sorted(known - {""}))
                    raise InputError(f"{option} {printable(word)!r}: no preset has it", hint, "usage")


def _named(
    pattern: str | None, how: CompareRun, usable: Sequence[int] | None = None, left: list[str] | None = None
) -> Iterator[Facts]:
    wanted = (pattern or "").lower()
    glob = any(sign in wanted for sign in "*?[")
    meant = (name for name in names() if (fnmatchcase(name, wanted) if glob else wanted in name))
    return Index().each(meant, how, usable or (), left)


def _said(facts: Facts, key: str) -> str:
    """A word of a preset's, or none."""
    value = row(facts, [key])[key]
    return "" if value is None else str(value)


def _released(when: str, year: str) -> bool:
    first, dots, last = year.partition("..")
    if not all(end.isdecimal() or not end for end in (first, last)) or not year.strip("."):
        raise InputError(f"--year {printable(year)!r} is not a year", "write 2024 or 2023..2025", "usage")
    then = when[:4]
    return then.isdecimal() and (first or "0") <= then <= ((last or "9999") if dots else first)


# --- rows -------------------------------------------------------------------------------------------------------------


def kept(found: Iterable[Facts], where: Iterable[str]) -> list[Facts]:
    """The models that fulfil all conditions."""
    conditions = [Condition.read(text) for text in where]
    return [facts for facts in found if all(condition.holds(facts) for condition in conditions)]


def rows(found: Iterable[Facts], keys: Sequence[str], sort: str | None = None) -> list[dict[str, Any]]:
    """Rows of these columns, sorted by any column, shown or not."""
    by = sort.removeprefix("-") if sort is not None else None
    if by is not None and by not in FIGURES:
        raise _no_column("--sort", by)
    hidden = [by] if by is not None and by not in keys else []
    made = ordered([row(facts, [*keys, *hidden]) for facts in found], sort)
    return [{key: one[key] for key in keys} for one in made] if hidden else made


SIGNS: dict[str, Callable[[Any, Any], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "!=": operator.ne,
    "=": operator.eq,
    ">": operator.gt,
    "<": operator.lt,
}


class Condition(Struct, frozen=True):
    """A column, a sign, and what it is held against: total>=7B, attention=GQA, kv_bytes<1GiB."""

    key: str
    sign: str
    value: Any

    @classmethod
    def read(cls, text: str) -> Condition:
        """InputError where the text is no condition."""
        match = re.fullmatch(r"\s*(\w+)\s*(>=|<=|!=|=|>|<)\s*(.*\S)\s*", text)
        if match is None:
            raise InputError(
                f"--where {printable(text)!r} is no condition", "such as total>=7B or attention=GQA", "usage"
            )
        key, sign, word = match.groups()
        if key not in FIGURES:
            raise _no_column("--where", key)
        is_text = FIGURES[key].kind == "text"
        if is_text and sign not in ("=", "!="):
            raise InputError(f"--where {printable(text)}: {key} is a word", f"write {key}={printable(word)}", "usage")
        try:
            return cls(key, sign, word.lower() if is_text else _amount(key, word))
        except InputError as error:
            raise error.within(f"--where {printable(text)}") from None

    def holds(self, facts: Facts) -> bool:
        """A figure that a model doesn't have fulfils nothing; of a word any of its parts may be meant."""
        value = row(facts, [self.key])[self.key]
        if value is None:
            return False
        if FIGURES[self.key].kind != "text":
            return SIGNS[self.sign](value, self.value)
        written = str(value).lower()
        word = {"yes": "true", "no": "false"}.get(self.value, self.value) if isinstance(value, bool) else self.value
        same = word == written or word in re.split(r"[/ ]", written)
        return same == (self.sign == "=")


def _amount(key: str, word: str) -> int | float:
    """A number as its column counts: parameters 7B, memory 24GiB, tokens 8K, FLOPs 2e12."""
    kind = FIGURES[key].kind
    if kind == "count":
        return units.parameters(word)
    if kind == "bytes":
        return units.size(word)
    if kind == "number":
        return units.count(word)
    try:
        return float(word)
    except ValueError:
        raise InputError(f"{printable(word)!r} is not a number", "such as 2e12", "usage") from None


def _no_column(option: str, key: str) -> InputError:
    hint = did_you_mean(key, FIGURES) or "gptcalc columns lists them"
    return InputError(f"{option}: no column {printable(key)!r}", hint, "usage")
