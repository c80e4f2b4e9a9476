"""gptcalc fit"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gptcalc.cli.answer import Answer, show
from gptcalc.cli.budget import Budget, DeviceName, Devices, Utilization, asked_devices, capacity
from gptcalc.cli.options import Draft, Model, Set, context_warnings, drafted, loaded_to_run
from gptcalc.conventions import FitRun, InferenceRun, TrainingFitRun, TrainingRun

if TYPE_CHECKING:
    from gptcalc.analysis.memory.fit import Fit

RESULT = "gptcalc.analysis.memory.fit:Fit"


def command(
    model: Model,
    how: InferenceRun | TrainingRun,
    budget: Budget = None,
    device: DeviceName = None,
    devices: Devices = None,
    utilization: Utilization = None,
    draft: Draft = None,
    settings: Set = [],  # noqa: B006
) -> Answer:
    """Does it fit a device or a budget? The largest batch and context that do. Exit status 0 yes, 1 no.

    gptcalc fit llama-3-8b --device rtx-4090 --dtype q4_k_m --context 8K
    gptcalc fit llama-3-70b --budget 24GiB --dtype int4 --quiet  # for scripts: the exit status alone
    gptcalc fit llama-3-70b --budget 24GiB --engine llama.cpp --dtype q4_k_m  # how many layers would
    gptcalc fit llama-3-8b --training --devices 8 --budget 80GB --zero 3
    """
    from gptcalc.analysis.memory.sharding import over

    room = capacity(budget, device, utilization)
    loaded = loaded_to_run(model, settings, how.dtype)
    proposer, notes = drafted(draft, how, how.dtype)
    architecture = loaded.architecture
    warnings = (*loaded.notes, *notes, *context_warnings(architecture, how))
    if isinstance(how, TrainingRun):
        from gptcalc.analysis.memory.fit_training import fitted_training

        step = over(architecture, asked_devices(devices, room), how).to(TrainingFitRun, utilization=room.share)
        found = fitted_training(architecture, room.bytes, step)
        return Answer(found, show("fit", found, room.title), warnings, 0 if found.fits else 1)
    from functools import cache

    from gptcalc.analysis.memory.fit import advised, judged

    served = over(architecture, asked_devices(devices, room), how).to(FitRun, utilization=room.share)
    verdict, asked = judged(architecture, room.bytes, served, room.title, proposer)

    @cache
    def whole() -> Fit:
        return advised(verdict, asked)

    return Answer(whole, lambda: show("fit", whole(), room.title)(), warnings, 0 if verdict.fits else 1)
