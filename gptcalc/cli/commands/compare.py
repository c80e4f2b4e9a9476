"""gptcalc compare"""

from __future__ import annotations

from typing import Annotated

import typer

from gptcalc.cli.answer import Answer, show
from gptcalc.cli.budget import Budget, DeviceName, Utilization, room
from gptcalc.cli.options import Columns, Models, Set, Sort, context_warnings
from gptcalc.conventions import CompareRun
from gptcalc.errors import InputError

DEFAULT = ("model", "total", "active", "n_layers", "d", "attention", "context", "kv_bytes", "decode_flops")
#: with a budget
FITTING = (
    "model", "total", "context", "weights_bytes", "kv_bytes", "needed_bytes", "fits", "headroom_bytes", "max_context",
)  # fmt: skip


def command(
    how: CompareRun,
    models: Models = [],  # noqa: B006
    every: Annotated[bool, typer.Option("--all", help="Every preset.")] = False,
    columns: Columns = None,
    sort: Sort = None,
    settings: Set = [],  # noqa: B006
    budget: Budget = None,
    device: DeviceName = None,
    utilization: Utilization = None,
) -> Answer:
    """One row a model; with a budget, whether it fits."""
    from gptcalc.report import figures
    from gptcalc.sources import load
    from gptcalc.sources.preset import names

    if not models and not every:
        raise InputError("compare: no MODEL", "name two or more, or --all", "usage")
    usable = room(budget, device, utilization)
    keys = figures.chosen(columns, DEFAULT if usable is None else FITTING)
    rows, warnings = [], []
    for reference in [*models, *(names() if every else ())]:
        loaded = load(reference, settings)
        warnings += [*loaded.notes, *context_warnings(loaded.architecture, how)]
        rows.append(figures.row(figures.Facts(loaded.architecture, loaded.written, how, usable), keys))
    rows = figures.ordered(rows, sort)
    return Answer(rows, show("rows", rows, keys), tuple(warnings))
