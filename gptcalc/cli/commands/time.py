"""gptcalc time"""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, TypeAlias

from gptcalc.cli.answer import Answer, show
from gptcalc.cli.budget import DeviceName, Devices, share
from gptcalc.cli.options import Model, Set, context_warnings, loaded_to_run
from gptcalc.conventions import PacedRun, TimeRun
from gptcalc.errors import InputError
from gptcalc.options import Option

RESULT = "gptcalc.analysis.timed:Timed"

MFU: TypeAlias = Annotated[
    Fraction, Option("Share of the peak rate that is reached. Default: 1, a bound.", "SHARE", read=share("--mfu"))
]
MBU: TypeAlias = Annotated[
    Fraction,
    Option("Share of the memory's bandwidth that is reached. Default: 1, a bound.", "SHARE", read=share("--mbu")),
]


def command(
    model: Model,
    how: PacedRun,
    device: DeviceName = None,
    devices: Devices = None,
    mfu: MFU = Fraction(1),
    mbu: MBU = Fraction(1),
    settings: Set = [],  # noqa: B006
) -> Answer:
    """How fast it can be: time to the first token and for each further one, and what bounds them.

    gptcalc time llama-3-8b --device h100-sxm --context 8K
    gptcalc time llama-3-70b --device 4xh100-sxm --dtype fp8 --batch 32 --mfu 50% --mbu 70%
    """
    from gptcalc.analysis.memory.sharding import over
    from gptcalc.analysis.timed import timed
    from gptcalc.cli.budget import counted
    from gptcalc.sources.devices import asked

    if device is None:
        raise InputError("no --device", "give --device h100-sxm; gptcalc devices lists them", "usage")
    named = asked(device)
    loaded = loaded_to_run(model, settings, how.dtype)
    architecture = loaded.architecture
    run = over(architecture, counted(devices, named.number), how)
    found = timed(architecture, named.model, run.to(TimeRun, mfu=mfu, mbu=mbu))
    warnings = (*loaded.notes, *context_warnings(architecture, how))
    return Answer(found, show("timed", found, named.model.title), warnings)
