"""gptcalc compare"""

from __future__ import annotations

from typing import Annotated

from gptcalc.architecture import Architecture
from gptcalc.cli.answer import Answer, plotted, show
from gptcalc.cli.budget import Budget, DeviceName, Devices, Utilization, room
from gptcalc.cli.options import Columns, Models, Plot, Set, Sort, Where, context_warnings
from gptcalc.conventions import CompareRun
from gptcalc.errors import InputError, NoPosition
from gptcalc.options import Option

#: with a budget
FITTING = (
    "model", "total", "context", "weights_bytes", "kv_bytes", "needed_bytes", "fits", "headroom_bytes", "max_context",
)  # fmt: skip


def command(
    how: CompareRun,
    models: Models = [],  # noqa: B006
    every: Annotated[bool, Option("Every preset.", name="--all")] = False,
    columns: Columns = None,
    sort: Sort = None,
    where: Where = [],  # noqa: B006
    settings: Set = [],  # noqa: B006
    budget: Budget = None,
    device: DeviceName = None,
    devices: Devices = None,
    utilization: Utilization = None,
    plot: Plot = False,
) -> Answer:
    """Models side by side, one row each; with a budget, whether they fit.

    gptcalc compare gpt2 llama-3-8b qwen3-8b --context 1K
    gptcalc compare llama-3-8b gemma-2-9b --device rtx-4090 --dtype q4_k_m
    gptcalc compare --all --where 'total<4B' --sort kv_bytes_per_token --columns model,total,kv_bytes_per_token
    """
    from gptcalc.report import figures
    from gptcalc.report.index import Index
    from gptcalc.report.selection import kept, rows
    from gptcalc.sources import SWITCHES, load_all
    from gptcalc.sources.preset import names

    if not models and not every:
        raise InputError("compare: no MODEL", "name two or more, or --all", "usage")
    usable = room(budget, device, utilization, devices)
    keys = figures.chosen(columns, figures.DEFAULT if usable is None else FITTING)
    found: list[figures.Facts] = []
    warnings: list[str] = []
    told: dict[str, tuple[str, ...]] = {}
    listed = every and not settings and how.context is None and not SWITCHES.get()
    for loaded in load_all([*models, *(names() if every and not listed else ())], settings):
        about = _about_context(loaded.architecture, how, len(models) == 1 and not every)
        told[loaded.architecture.name] = (*loaded.notes, *about)
        found.append(figures.Facts(loaded.architecture, loaded.written, how, *(usable or ())))
    if listed:
        found += Index().each(names(), how, usable or (), warnings)
    found = kept(found, where)
    left = [figures.row(facts, ["model"])["model"] for facts in found] if told else []
    warnings += [warning for name in left for warning in told.get(name, ())]
    shown = rows(found, keys, sort)
    if plot:
        from gptcalc.report.plot import Bars

        parameters = {facts.architecture.name: facts.params.components for facts in found}
        return plotted(shown, Bars("parameters by component", "count", parameters), tuple(warnings))
    return Answer(shown, show("rows", shown, keys, how), tuple(warnings), is_list=True)


def _about_context(architecture: Architecture, how: CompareRun, alone: bool) -> tuple[str, ...]:
    """A model that can't have the context has – for what asks for it; where it is the only one, that is an error."""
    try:
        return context_warnings(architecture, how)
    except NoPosition as error:
        if alone:
            raise
        return (f"warning: {error.message}",)
