"""gptcalc memory"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gptcalc.cli.answer import Answer, plotted, show
from gptcalc.cli.budget import DeviceName, Devices, asked_devices, capacity
from gptcalc.cli.options import Draft, Model, Plot, Set, context_warnings, drafted, loaded_to_run
from gptcalc.conventions import InferenceRun, TrainingRun

if TYPE_CHECKING:
    from gptcalc.analysis.memory.result import Memory

RESULT = "gptcalc.analysis.memory.result:Memory"


def command(
    model: Model,
    how: InferenceRun | TrainingRun,
    device: DeviceName = None,
    devices: Devices = None,
    draft: Draft = None,
    settings: Set = [],  # noqa: B006
    plot: Plot = False,
) -> Answer:
    """What each device must hold: weights, cache, activations; with --training what a step needs.

    gptcalc memory llama-3-8b --dtype q4_k_m --context 8K
    gptcalc memory llama-3-70b --engine vllm --device 4xh100-sxm
    gptcalc memory llama-3-8b --training --zero 3 --dp 8 --recompute full
    """
    from gptcalc.analysis.memory.sharding import over

    room = None if device is None else capacity(None, device, None)
    number = devices if room is None else asked_devices(devices, room)
    loaded = loaded_to_run(model, settings, how.dtype)
    proposer, notes = drafted(draft, how, how.dtype)
    warnings = (*loaded.notes, *notes, *context_warnings(loaded.architecture, how))
    if isinstance(how, TrainingRun):
        from gptcalc.analysis.memory.training import trained

        step = trained(loaded.architecture, over(loaded.architecture, number, how))
        return _drawn(step, warnings) if plot else Answer(step, show("memory", step), warnings)
    from gptcalc.analysis.memory.account import held_by

    served = over(loaded.architecture, number, how)
    if room is not None:
        from gptcalc.analysis.memory.settled import settled

        served = settled(loaded.architecture, served, room.bytes, room.title)
    found = held_by(loaded.architecture, served, proposer)
    return _drawn(found, warnings) if plot else Answer(found, show("memory", found), warnings)


def _drawn(found: Memory, warnings: tuple[str, ...]) -> Answer:
    """What the fullest device holds."""
    from gptcalc.analysis.memory.result import PARTS
    from gptcalc.report.memory import NAMES, title
    from gptcalc.report.plot import Bars

    held = {NAMES.get(part, part): getattr(found.per_device, part) for part in PARTS}
    return plotted(found, Bars(title(found), "bytes", {found.model: held}), warnings)
