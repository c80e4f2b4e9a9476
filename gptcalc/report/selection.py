"""Presets by name, family, feature, size and year."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from msgspec import Struct

from gptcalc import units
from gptcalc.conventions import CompareRun
from gptcalc.errors import InputError, did_you_mean, printable
from gptcalc.report import features
from gptcalc.report.figures import Facts
from gptcalc.sources import load
from gptcalc.sources.preset import names


class Selection(Struct, frozen=True):
    """Which presets are meant. pattern: part of a name, or with * and ? all of it. size: 7B..9B; year: 2023..2025."""

    pattern: str | None = None
    family: str | None = None
    feature: tuple[str, ...] = ()
    size: str | None = None
    year: str | None = None

    def presets(self, how: CompareRun, usable: Sequence[int] | None = None) -> list[Facts]:
        """Those that are as asked for, by name. `usable`: bytes of a device, and how many there are. InputError where
        no preset at all has such a family or feature."""
        found = [facts for facts in _named(self.pattern, how, usable) if self.fits(facts)]
        if not found and (self.family is not None or self.feature):
            self.refuse_unknown()
        return found

    def fits(self, facts: Facts) -> bool:
        if self.family is not None and self.family.lower() != str(facts.document.get("family", "")).lower():
            return False
        if self.year is not None and not _released(str(facts.document.get("released", "")), self.year):
            return False
        if self.feature and not set(self.feature) <= set(features.of(facts.architecture)):
            return False
        if self.size is not None:
            low, high = units.span(self.size)
            return low <= facts.params.total and (high is None or facts.params.total <= high)
        return True

    def refuse_unknown(self) -> None:
        """Nothing was found: perhaps because no preset at all has such a family or feature."""
        every = list(_named(None, CompareRun()))
        families = {str(facts.document.get("family", "")).lower() for facts in every}
        words = {word for facts in every for word in features.of(facts.architecture)}
        for option, given, known in (
            ("--family", [self.family.lower()] if self.family is not None else [], families),
            ("--feature", self.feature, words),
        ):
            for word in given:
                if word not in known:
                    hint = did_you_mean(word, known) or "one of " + ", ".join(sorted(known - {""}))
                    raise InputError(f"{option} {printable(word)!r}: no preset has it", hint, "usage")


def _named(pattern: str | None, how: CompareRun, usable: Sequence[int] | None = None) -> Iterator[Facts]:
    wanted = (pattern or "").lower()
    glob = any(sign in wanted for sign in "*?[")
    for name in names():
        if fnmatchcase(name, wanted) if glob else wanted in name:
            model = load(name)
            yield Facts(model.architecture, model.written, how, *(usable or ()))


def _released(when: str, year: str) -> bool:
    first, dots, last = year.partition("..")
    if not all(end.isdecimal() or not end for end in (first, last)) or not year.strip("."):
        raise InputError(f"--year {printable(year)!r} is not a year", "write 2024 or 2023..2025", "usage")
    then = when[:4]
    return then.isdecimal() and (first or "0") <= then <= ((last or "9999") if dots else first)
