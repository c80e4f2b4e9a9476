"""gptcalc explain"""

from __future__ import annotations

from gptcalc.cli.answer import Answer, show
from gptcalc.cli.options import Model, Set, context_warnings
from gptcalc.conventions import ExplainRun


def command(
    model: Model,
    how: ExplainRun,
    settings: Set = [],  # noqa: B006
) -> Answer:
    """The sums, with indices and ranges: every equation of the forward pass, and what it costs."""
    from gptcalc.equations import equations, workload
    from gptcalc.report.explain import explanation
    from gptcalc.sources import load

    loaded = load(model, settings)
    warnings = (*loaded.notes, *context_warnings(loaded.architecture, how))
    work = workload(loaded.architecture, how)
    lines = equations(loaded.architecture, how.form, how.kept, how.chunks)
    found = explanation(loaded.architecture.name, lines, work)
    return Answer(found, show("explain", found), warnings)
