"""gptcalc presets"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from gptcalc.cli.answer import Answer, show
from gptcalc.cli.budget import DeviceName, Devices, Utilization, room
from gptcalc.cli.options import Columns, Sort, Where
from gptcalc.conventions import CompareRun
from gptcalc.errors import InputError, file_name, printable
from gptcalc.options import Option

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
    where: Where = [],  # noqa: B006
    check: Annotated[str | None, Option("Hold a folder of preset files to the schema.", "FOLDER")] = None,
    add: Annotated[
        str | None, Option("Take a preset file (or what `show` makes of a model) among one's own, by its name.", "FILE")
    ] = None,
    schema: Annotated[bool, Option("A JSON Schema of preset files, for editors.")] = False,
) -> Answer:
    """The models that are known by name, chosen by name, feature, size or year, or by what fits a device.

    gptcalc presets qwen
    gptcalc presets --feature moe --size ..40B --year 2025
    gptcalc presets --device rtx-4090 --dtype q4_k_m --context 32K
    gptcalc presets --check ./my-presets
    """
    if schema:
        return _schema()
    if check is not None:
        return _checked(check)
    if add is not None:
        return _added(add)
    from gptcalc.report import figures
    from gptcalc.report.selection import Selection, kept, rows

    usable = room(fits, device, utilization, devices)
    keys = figures.chosen(columns, DEFAULT if usable is None else FITTING)
    left: list[str] = []
    found = Selection(pattern, family, tuple(feature), size, year).presets(how, usable, left)
    if usable is not None:
        found = [
            facts
            for facts in found
            if facts.architecture.c >= (how.context or 0) and figures.row(facts, ["fits"])["fits"]
        ]
    shown = rows(kept(found, where), keys, sort)
    return Answer(shown, show("rows", shown, keys, how), (*left, *_own(shown)), is_list=True)


def _schema() -> Answer:
    """What editors complete preset files by."""
    from gptcalc.document.schema import schema
    from gptcalc.report.data import json

    made = schema()
    return Answer(made, show("document", made), text=json(made))


def _checked(folder: str) -> Answer:
    """Every preset file of a folder against the schema; exit 1 where one fails."""
    import os

    from gptcalc.sources import load, preset
    from gptcalc.sources.paths import files_in

    if not os.path.isdir(folder):
        raise InputError(f"--check {file_name(folder)}: no such folder", kind="file")
    files_in(folder)  # one that can't be read is no empty one
    listed = preset.names(folder)
    if not listed:
        raise InputError(f"--check {file_name(folder)}: no {preset.SUFFIX} file there", kind="file")
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


# --- one's own --------------------------------------------------------------------------------------------------------


def _own(rows: Sequence[Mapping[str, object]]) -> tuple[str, ...]:
    """A note that tells one's own presets from those that come with the program."""
    from gptcalc.sources.preset import folder, names, own

    packed = set(names(folder()))
    mine = [str(row["model"]) for row in rows if row.get("model") not in packed and own(str(row.get("model")))]
    return (f"of your own: {', '.join(mine)}",) if mine else ()


def _added(file: str) -> Answer:
    """A preset of one's own, in the first folder for them. InputError where its name is taken."""
    import os

    from gptcalc.cli.answer import write_file
    from gptcalc.sources import load, preset

    loaded = load(file)
    name = str(loaded.document["name"])
    place = next(iter(preset.own_folders()), None)
    if place is None:
        problem = f"{preset.VARIABLE} is empty, so there is no folder for presets of your own"
        raise InputError(f"--add: {problem}", "set it to a folder, or unset it", "usage")
    if not preset.is_name(name):
        raise InputError(
            f"--add: {printable(name)!r} is no name of a preset", "letters, digits, dots and dashes", "value"
        )
    if name in preset.names(preset.folder()):
        raise InputError(f"--add: {name} comes with gptcalc", "give the file's name: another one", "value")
    os.makedirs(place, exist_ok=True)
    written = os.path.join(place, name + preset.SUFFIX)
    write_file(written, preset.dump(loaded.document), "--add")
    text = f"written: {file_name(written)}\n"
    return Answer({"model": name, "written": written}, show("document", {"written": written}), loaded.notes, text=text)
