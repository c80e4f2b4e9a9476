"""gptcalc check"""

from __future__ import annotations

import os
from typing import Annotated, Any

from gptcalc.architecture import Architecture
from gptcalc.cli.answer import Answer, show
from gptcalc.cli.options import Model, Set, context_warnings
from gptcalc.conventions import CacheRun, FlopsRun, InferenceRun, LockRun
from gptcalc.errors import InputError, did_you_mean, file_name, printable
from gptcalc.options import Option

RESULT = "gptcalc.report.checked:Checked"

#: whose keys --expect knows
ANALYSES = ("params", "kv", "memory", "flops")


def command(
    model: Model,
    how: LockRun,
    one_pass: FlopsRun,
    expect: Annotated[
        list[str],
        Option(
            "A key of params' JSON, or of another command's behind its name: total=…, kv.bytes=…, flops.total=…, "
            "memory.per_device.weights=…; or a file that --write made, with the settings that it was made with.",
            "KEY=VALUE",
        ),
    ] = [],  # noqa: B006
    write: Annotated[str | None, Option("Write all costs to a lock file for --expect.", "FILE")] = None,
    settings: Set = [],  # noqa: B006
) -> Answer:
    """Exit status 1 where a figure differs from what is expected; for CI.

    gptcalc check gpt2 --expect total=124439808 --expect kv.bytes_per_token=36864
    gptcalc check gpt2 --write costs.lock  # all costs, to be held to later:
    gptcalc check gpt2 --expect costs.lock
    """
    from gptcalc.sources import load

    if not expect and write is None:
        raise InputError("check: no --expect", "such as --expect total=8030261248, or --write costs.lock", "usage")
    loaded = load(model, settings)
    warnings = (*loaded.notes, *context_warnings(loaded.architecture, how))
    if not expect and write is not None:
        _write(write, loaded.architecture, how)
        done = {"model": loaded.architecture.name, "written": write}
        return Answer(done, show("checked", [], write), warnings, text=f"written: {file_name(write)}\n")
    if how != LockRun() and any("=" not in setting for setting in expect):
        warnings = (*warnings, "warning: a lock file has settings of its own; those of the command line are not used")
    analyses = _Analyses(loaded.architecture, how, one_pass)
    rows = []
    for setting in expect:
        rows += [_row(setting, analyses)] if "=" in setting else _locked(setting, loaded.architecture)
    if write is not None:  # behind the questions: one that is wrong leaves nothing written
        _write(write, loaded.architecture, how)
    from gptcalc.report.checked import checked

    name = loaded.architecture.name
    found = checked(name, rows)
    return Answer(found, show("checked", rows, name), warnings, 0 if found.ok else 1)


def _write(path: str, architecture: Architecture, how: LockRun) -> None:
    from gptcalc.analysis.lock import costs
    from gptcalc.cli.answer import write_file
    from gptcalc.sources.preset import dump

    write_file(path, dump({"model": architecture.name, **costs(architecture, how)}), "--write")


def _locked(path: str, architecture: Architecture) -> list[dict[str, Any]]:
    """Every figure of a lock file, and every one that it lacks."""
    if not os.path.exists(path):
        problem = f"--expect {file_name(path)!r} is neither KEY=VALUE nor a file that --write made"
        raise InputError(problem, "write --expect total=8030261248", "usage")
    from gptcalc.analysis.lock import costs, differences, settings_of
    from gptcalc.sources import preset

    document = preset.read(path)
    try:
        settings = settings_of(document)
        return list(differences(document, costs(architecture, settings)))
    except InputError as error:
        raise error.within(file_name(path)) from None


class _Analyses:
    """The JSON of each analysis, made when a key of it is asked for."""

    def __init__(self, architecture: Architecture, how: LockRun, one_pass: FlopsRun) -> None:
        self.architecture = architecture
        self.how = how
        self.one_pass = one_pass
        self.found: dict[str, Any] = {}

    def value(self, key: str) -> Any:
        from gptcalc.report.data import pick

        analysis, _, rest = key.partition(".")
        if analysis not in ANALYSES or not rest:
            analysis, rest = "params", key
        if analysis not in self.found:
            self.found[analysis] = self._made(analysis)
        try:
            return pick(self.found[analysis], rest)
        except InputError as error:
            hint = did_you_mean(key, ANALYSES)
            raise InputError(f"--expect {printable(key)}: {error.message}", error.hint or hint, "usage") from None

    def _made(self, analysis: str) -> Any:
        if analysis == "kv":
            from gptcalc.analysis.memory.cache import cached

            return cached(self.architecture, self.how.to(CacheRun))
        if analysis == "memory":
            from gptcalc.analysis.memory.account import held_by

            return held_by(self.architecture, self.how.to(InferenceRun))
        if analysis == "flops":
            from gptcalc.analysis.flops import counted

            return counted(self.architecture, self.one_pass)
        from gptcalc.analysis.params import params

        return params(self.architecture)


def _row(setting: str, analyses: _Analyses) -> dict[str, Any]:
    from gptcalc.sources.text import scalar

    key, equals, value = setting.partition("=")
    if not equals or not key.strip():
        raise InputError(
            f"--expect {printable(setting)!r} is not KEY=VALUE", "write --expect total=8030261248", "usage"
        )
    expected = scalar(value.strip().replace(",", ""))
    found = analyses.value(key.strip())
    if isinstance(expected, str) and isinstance(found, int | float):
        problem = f"--expect {printable(key)}: {printable(expected)!r} is no number"
        raise InputError(problem, "figures are held to their last digit, without a unit", "usage")
    if isinstance(found, (dict, list, tuple)):
        raise InputError(
            f"--expect {printable(key)}: not a single value", f"such as {key}.{next(iter(found), 0)}", "usage"
        )
    return {"name": key.strip(), "expected": expected, "found": found, "ok": _equal(expected, found)}


def _equal(expected: Any, found: Any) -> bool:
    """Exactly equal; true is not 1."""
    return isinstance(expected, bool) == isinstance(found, bool) and bool(expected == found)
