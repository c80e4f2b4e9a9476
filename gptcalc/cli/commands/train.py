"""gptcalc train"""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Any

from gptcalc.cli.answer import Answer, show
from gptcalc.cli.budget import DeviceName, Devices, Utilization, counted, share
from gptcalc.cli.options import Model, Set, amount, context_warnings
from gptcalc.conventions import DEVICE_SHARE, CorpusRun, PretrainRun
from gptcalc.errors import InputError, printable
from gptcalc.options import Option

RESULT = "gptcalc.analysis.pretraining:Pretraining"


def corpus(value: Any) -> int:
    """A number of tokens: 2T, 300B."""
    from gptcalc import units

    try:
        found = units.parameters(value)
    except InputError:
        found = 0
    if found < 1:
        raise InputError(f"--tokens: {printable(value)!r} is not a number of tokens", "write 2T or 300B", "usage")
    return found


def command(
    model: Model,
    how: CorpusRun,
    tokens: Annotated[int | None, Option("Tokens to train on: 300B, 2T (10^12).", "TOKENS", read=corpus)] = None,
    device: DeviceName = None,
    devices: Devices = None,
    mfu: Annotated[
        Fraction | None,
        Option(
            "Share of the peak rate that the model's FLOPs reach. Default: all there can be.",
            "SHARE",
            read=share("--mfu"),
        ),
    ] = None,
    tokens_per_second: Annotated[
        Fraction | None,
        Option("Measured, of all devices together; says the MFU.", "RATE", read=amount("--tokens-per-second")),
    ] = None,
    price: Annotated[
        Fraction | None, Option("Of a device for an hour, in any currency.", "PRICE", read=amount("--price"))
    ] = None,
    utilization: Utilization = None,
    settings: Set = [],  # noqa: B006
) -> Answer:
    """What a training run takes: FLOPs, device hours, days, money, and whether a step fits.

    gptcalc train llama-3-8b --device 64xh100-sxm --tokens 15T --mfu 40%
    gptcalc train gpt2 --device 8xa100-40gb --tokens 300B --tokens-per-second 1.1e6 --price 2
    """
    from gptcalc.analysis.pretraining import pretrained
    from gptcalc.sources import load
    from gptcalc.sources.devices import asked

    if device is None:
        raise InputError("no --device", "give --device h100-sxm; gptcalc devices lists them", "usage")
    named = asked(device)
    loaded = load(model, settings)
    run = how.to(
        PretrainRun,
        devices=counted(devices, named.number),
        tokens=tokens,
        mfu=mfu,
        tokens_per_second=tokens_per_second,
        price=price,
        utilization=utilization or DEVICE_SHARE,
    )
    found = pretrained(loaded.architecture, named.model, run)
    warnings = (*loaded.notes, *context_warnings(loaded.architecture, how))
    if how.context is None:  # long sequences take more FLOPs a token
        warnings = (*warnings, f"sequences of {found.context:,} tokens, the model's c; --context says others")
    return Answer(found, show("pretraining", found, named.model.title), warnings)
