"""gptcalc memory"""

from __future__ import annotations

from gptcalc.cli.answer import Answer, show
from gptcalc.cli.options import Model, Set, context_warnings
from gptcalc.conventions import InferenceRun, TrainingRun


def command(
    model: Model,
    how: InferenceRun | TrainingRun,
    settings: Set = [],  # noqa: B006
) -> Answer:
    """What a device must hold, in inference or in --training."""
    from gptcalc.sources import load

    loaded = load(model, settings)
    warnings = (*loaded.notes, *context_warnings(loaded.architecture, how))
    if isinstance(how, TrainingRun):
        from gptcalc.analysis.memory.training import trained

        step = trained(loaded.architecture, how)
        return Answer(step, show("memory", step), warnings)
    from gptcalc.analysis.memory.inference import held_by

    found = held_by(loaded.architecture, how)
    return Answer(found, show("memory", found), warnings)
