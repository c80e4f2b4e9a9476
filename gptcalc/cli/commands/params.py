"""gptcalc params"""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from gptcalc.cli.answer import Answer, show
from gptcalc.cli.options import Model, Set, Why


def command(
    model: Model,
    settings: Set = [],  # noqa: B006
    by: Annotated[
        Literal["component", "group", "tensor"] | None,
        typer.Option("--by", help="The rows of the table, and of CSV (there by tensor).", show_default=False),
    ] = None,
    why: Why = None,
) -> Answer:
    """Parameters: total, active, by component, by layer group, by tensor."""
    from gptcalc.sources import is_checkpoint, load

    if is_checkpoint(model):
        return _counted(model)
    loaded = load(model, settings)
    if why is not None:
        from gptcalc.analysis.why import why_params

        ledger = why_params(loaded.architecture, why)
        return Answer(ledger, show("why", ledger, loaded.document), loaded.notes)
    from gptcalc.analysis.params import params

    found = params(loaded.architecture)
    return Answer(found, show("params", found, by), loaded.notes)


def _counted(path: str) -> Answer:
    """What a checkpoint's header lists: without a config.json there is no architecture to compare it with."""
    from gptcalc.report.checkpoint import counted
    from gptcalc.sources.checkpoint import header

    found = header(path)
    counts = counted(path, found)
    return Answer(counts, show("checkpoint", counts), found.notes)
