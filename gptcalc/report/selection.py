"""Which models, and which rows in which order: presets by name, family, feature, size and year; rows by conditions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any

from msgspec import Struct

from gptcalc import units
from gptcalc.conventions import CompareRun
from gptcalc.errors import InputError, did_you_mean, is_count, printable
from gptcalc.report.figures import FIGURES, OF_BUDGET, Facts, ordered, row
from gptcalc.report.index import Index
from gptcalc.sources.preset import names
from gptcalc.where import Where, check, parsed, words

LISTED = "gptcalc columns lists them"
YEARS = "write 2024 or 2023..2025; of a month --where released=2024-05"
#: columns whose words are no closed list, so that the nearest one would mislead
FREE = ("model", "layers")


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
        which of one's own are no models, and of a word that no name has. InputError where no preset at all has such a
        family or feature."""
        found = [facts for facts in _named(self.pattern, how, usable, left) if self.fits(facts)]
        if not found and (self.family is not None or self.feature):
            self.refuse_unknown()
        if not found and left is not None and self.pattern is not None and not list(_meant(self.pattern)):
            near = did_you_mean(self.pattern.lower(), names())
            left.append("; ".join(filter(None, (f"no preset's name has {printable(self.pattern)!r} in it", near))))
        return found

    def fits(self, facts: Facts) -> bool:
        if self.family is not None and self.family.lower() != _said(facts, "family").lower():
            return False
        if self.year is not None and not _released(_said(facts, "released"), self.year):
            return False
        if self.feature and not {word.lower() for word in self.feature} <= set(_said(facts, "features").split()):
            return False
        if self.size is not None:
            low, high = _sizes(self.size)
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
            ("--feature", [word.lower() for word in self.feature], words),
        ):
            for word in given:
                if word not in known:
                    hint = did_you_mean(word, known) or "one of " + ", ".join(sorted(known - {""}))
                    raise InputError(f"{option} {printable(word)!r}: no preset has it", hint, "usage")


def _named(
    pattern: str | None, how: CompareRun, usable: Sequence[int] | None = None, left: list[str] | None = None
) -> Iterator[Facts]:
    return Index().each(_meant(pattern), how, usable or (), left)


def _meant(pattern: str | None) -> Iterator[str]:
    """The presets whose name has a word in it, or is as a pattern says."""
    wanted = (pattern or "").lower()
    glob = any(sign in wanted for sign in "*?[")
    return (name for name in names() if (fnmatchcase(name, wanted) if glob else wanted in name))


def _said(facts: Facts, key: str) -> str:
    """A word of a preset's, or none."""
    value = row(facts, [key])[key]
    return "" if value is None else str(value)


def _sizes(size: str) -> tuple[int, int | None]:
    try:
        return units.span(size)
    except InputError as error:
        raise error.within("--size") from None


def _released(when: str, year: str) -> bool:
    first, dots, last = year.partition("..")
    if not all(is_count(end, 4) or not end for end in (first, last)) or not year.strip("."):
        raise InputError(f"--year {printable(year)!r} is not a year", YEARS, "usage")
    then = when[:4]
    return then.isdecimal() and (first or "0") <= then <= ((last or "9999") if dots else first)


# --- rows -------------------------------------------------------------------------------------------------------------


def kept(found: Iterable[Facts], where: Iterable[str]) -> list[Facts]:
    """The models that fulfil all conditions."""
    listed = list(found)
    wanted = parsed(where, {key: figure.kind for key, figure in FIGURES.items()}, LISTED)
    left = [facts for facts in listed if wanted.holds(lambda key: row(facts, [key])[key])]  # noqa: B023
    if listed and not left:
        refuse_unsaid(listed, wanted)
    return left


def refuse_unsaid(listed: Sequence[Facts], wanted: Where) -> None:
    """Nothing fulfils the conditions: perhaps because no model at all has such a word, or no budget was given."""
    for test in (test for tests in wanted.alternatives for test in tests):
        if test.key in OF_BUDGET and listed[0].budget is None:
            problem = f"--where {test.key}: without a budget nothing fits or doesn't"
            raise InputError(problem, "add --device rtx-4090", "usage")
        word = str(test.limit)
        is_word = isinstance(test.limit, str) and not test.is_date and not is_count(word)
        if not is_word or test.sign != "==" or word in _words(listed, test.key):
            continue
        known = _words(_named(None, CompareRun(), left=[]), test.key)
        if word not in known:
            plain = sorted(known_word for known_word in known if not {" ", "/"} & {*known_word})
            hint = None if test.key in FREE else did_you_mean(word, plain) or "one of " + ", ".join(plain)
            raise InputError(f"--where {test.key}={printable(word)}: no preset has it", hint, "usage")


def _words(found: Iterable[Facts], key: str) -> set[str]:
    """What the models have in a column, word by word."""
    values = (row(facts, [key])[key] for facts in found)
    return {word for value in values if value is not None for word in words(value)}


def rows(found: Iterable[Facts], keys: Sequence[str], sort: str | None = None) -> list[dict[str, Any]]:
    """Rows of these columns, sorted by any column, shown or not."""
    by = sort.removeprefix("-") if sort is not None else None
    if by is not None:
        check(by, FIGURES, "--sort", LISTED)
    hidden = [by] if by is not None and by not in keys else []
    made = ordered([row(facts, [*keys, *hidden]) for facts in found], sort)
    return [{key: one[key] for key in keys} for one in made] if hidden else made
