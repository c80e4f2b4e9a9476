"""gptcalc presets"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated

from gptcalc import units
from gptcalc.cli.answer import Answer, show
from gptcalc.cli.budget import DeviceName, Devices, Usable, Utilization, room
from gptcalc.cli.options import Columns, Sort
from gptcalc.conventions import CompareRun
from gptcalc.errors import InputError, did_you_mean, printable
from gptcalc.options import Option

if TYPE_CHECKING:
    from gptcalc.report.figures import Facts

DEFAULT = ("model", "released", "total", "active", "n_layers", "d", "c", "features")
#: with --fits
FITTING = (
    "model", "total", "active", "c", "weights_bytes", "kv_bytes", "needed_bytes", "headroom_bytes", "max_context",
)  # fmt: skip


def command(
    how: CompareRun,
    pattern: Annotated[
        str | None, Option("Part of a name, or a pattern such as 'qwen*'.", "PATTERN", positional=True)
    ] = None,
    family: Annotated[str | None, Option("Of this family.", "NAME")] = None,
    feature: Annotated[
        list[str],
        Option("With this feature, such as moe, mla or window; repeatable.", "NAME"),
    ] = [],  # noqa: B006
    size: Annotated[str | None, Option("Parameters in all: 7B..9B, ..1.5B, 70B.. or 8B.", "RANGE")] = None,
    year: Annotated[str | None, Option("Released then: 2024 or 2023..2025.", "YEAR")] = None,
    fits: Annotated[
        int | None,
        Option(
            "What fits a device of this memory, such as 24GiB, and is made for --context (default: its own).",
            "SIZE",
            is_size=True,
        ),
    ] = None,
    device: DeviceName = None,
    devices: Devices = None,
    utilization: Utilization = None,
    columns: Columns = None,
    sort: Sort = None,
    check: Annotated[str | None, Option("Hold a folder of preset files to the schema.", "FOLDER")] = None,
    schema: Annotated[bool, Option("A JSON Schema of preset files, for editors.")] = False,
) -> Answer:
    """What is there; with --fits or --device, what fits."""
    if schema:
        return _schema()
    if check is not None:
        return _checked(check)
    from gptcalc.report import figures

    usable = room(fits, device, utilization, devices)
    keys = figures.chosen(columns, DEFAULT if usable is None else FITTING)
    found = [facts for facts in _presets(pattern, how, usable) if _matches(facts, family, feature, size, year)]
    if not found and (family is not None or feature):
        _refuse_unknown(family, feature)
    if usable is not None:
        found = [
            facts
            for facts in found
            if facts.architecture.c >= (how.context or 0) and figures.row(facts, ["fits"])["fits"]
        ]
    rows = figures.ordered([figures.row(facts, keys) for facts in found], sort)
    return Answer(rows, show("rows", rows, keys))


def _schema() -> Answer:
    """What editors complete preset files by."""
    from gptcalc.document.schema import schema
    from gptcalc.report.data import json

    made = schema()
    return Answer(made, show("document", made), text=json(made))


def _presets(pattern: str | None, how: CompareRun, usable: Usable | None = None) -> Iterator[Facts]:
    from fnmatch import fnmatchcase

    from gptcalc.report.figures import Facts
    from gptcalc.sources import load
    from gptcalc.sources.preset import names

    wanted = (pattern or "").lower()
    glob = any(sign in wanted for sign in "*?[")
    for name in names():
        if fnmatchcase(name, wanted) if glob else wanted in name:
            model = load(name)
            yield Facts(model.architecture, model.written, how, *(usable or ()))


def _matches(facts: Facts, family: str | None, feature: Iterable[str], size: str | None, year: str | None) -> bool:
    from gptcalc.report import features

    if family is not None and family.lower() != str(facts.document.get("family", "")).lower():
        return False
    if year is not None and not _released(str(facts.document.get("released", "")), year):
        return False
    if feature and not set(feature) <= set(features.of(facts.architecture)):
        return False
    if size is not None:
        low, high = units.span(size)
        return low <= facts.params.total and (high is None or facts.params.total <= high)
    return True


def _refuse_unknown(family: str | None, feature: Iterable[str]) -> None:
    """Nothing was found: perhaps because no preset at all has such a family or feature."""
    from gptcalc.report import features

    every = list(_presets(None, CompareRun()))
    families = {str(facts.document.get("family", "")).lower() for facts in every}
    words = {word for facts in every for word in features.of(facts.architecture)}
    for option, given, known in (
        ("--family", [family.lower()] if family is not None else [], families),
        ("--feature", feature, words),
    ):
        for word in given:
            if word not in known:
                hint = did_you_mean(word, known) or "one of " + ", ".join(sorted(known - {""}))
                raise InputError(f"{option} {printable(word)!r}: no preset has it", hint, "usage")


def _released(when: str, year: str) -> bool:
    first, dots, last = year.partition("..")
    if not all(end.isdecimal() or not end for end in (first, last)) or not year.strip("."):
        raise InputError(f"--year {printable(year)!r} is not a year", "write 2024 or 2023..2025", "usage")
    then = when[:4]
    return then.isdecimal() and (first or "0") <= then <= ((last or "9999") if dots else first)


def _checked(folder: str) -> Answer:
    """Every preset file of a folder against the schema; exit 1 where one fails."""
    import os

    from gptcalc.sources import load, preset

    if not os.path.isdir(folder):
        raise InputError(f"--check {printable(folder, 200)}: no such folder", kind="file")
    listed = preset.names(folder)
    if not listed:
        raise InputError(f"--check {printable(folder, 200)}: no {preset.SUFFIX} file there", kind="file")
    rows = []
    for name in listed:
        path = os.path.join(folder, name + preset.SUFFIX)
        try:
            problem = _problem(name, load(path).document)
        except InputError as error:
            problem = error.message.removeprefix(f"{path}: ") + (f"; {error.hint}" if error.hint else "")
        rows.append({"preset": name, "ok": problem is None, "problem": problem})
    return Answer(rows, show("checked", rows, folder), status=0 if all(row["ok"] for row in rows) else 1)


def _problem(name: str, document: dict[str, object]) -> str | None:
    if document.get("name") != name:
        return f"name is {printable(str(document.get('name')))}, the file's is {name}"
    return None if document.get("source") else "source is missing: where the numbers come from"
