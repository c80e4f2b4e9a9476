"""gptcalc serve"""

from __future__ import annotations

from gptcalc.cli.answer import Answer, show
from gptcalc.cli.budget import Budget, DeviceName, Devices, Utilization, asked_devices, capacity
from gptcalc.cli.options import Draft, Model, Set, context_warnings, drafted, loaded_to_run
from gptcalc.conventions import FitRun, InferenceRun

RESULT = "gptcalc.analysis.memory.serve:Served"


def command(
    model: Model,
    how: InferenceRun,
    budget: Budget = None,
    device: DeviceName = None,
    devices: Devices = None,
    utilization: Utilization = None,
    draft: Draft = None,
    settings: Set = [],  # noqa: B006
) -> Answer:
    """What a server has left for its cache: tokens, blocks, requests at once. Exit status 1: not even one.

    gptcalc serve llama-3-8b --device h100-sxm --engine vllm --context 8K
    gptcalc serve llama-3.1-70b --device 4xa100-80gb --draft llama-3.2-1b  # speculative decoding
    """
    from gptcalc.analysis.memory.serve import served
    from gptcalc.analysis.memory.sharding import over

    room = capacity(budget, device, utilization)
    loaded = loaded_to_run(model, settings, how.dtype)
    proposer, notes = drafted(draft, how, how.dtype)
    architecture = loaded.architecture
    warnings = (*loaded.notes, *notes, *context_warnings(architecture, how))
    run = over(architecture, asked_devices(devices, room), how)
    how_ = run.to(FitRun, utilization=room.share)
    found = served(architecture, room.bytes, how_, room.title, proposer)
    return Answer(found, show("serve", found, room.title), warnings, 0 if found.starts else 1)
