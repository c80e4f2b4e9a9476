"""gptcalc devices"""

from __future__ import annotations

from typing import Annotated

from gptcalc.cli.answer import Answer, show
from gptcalc.errors import InputError, printable
from gptcalc.options import Option

RESULT = "gptcalc.sources.devices:DeviceModel"


def command(
    pattern: Annotated[
        str | None, Option("Part of a name, such as rtx-50, mi3 or apple-m4.", "PATTERN", positional=True)
    ] = None,
) -> Answer:
    """Devices that --device knows: memory, bandwidth, peak rates, each with its source.

    gptcalc devices
    gptcalc devices h100
    """
    from msgspec import to_builtins

    from gptcalc.sources.devices import models

    word = (pattern or "").lower()
    found = [model for model in models() if word in model.name or word in (model.smi or "").lower()]
    if not found:
        raise InputError(f"devices: no device's name has {printable(word)!r} in it", "leave it out to see all", "usage")
    return Answer([to_builtins(model) for model in found], show("devices", found), is_list=True)
