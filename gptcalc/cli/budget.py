"""The options that say how much memory there is."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from typing import Annotated, Any, TypeAlias

from msgspec import Struct

from gptcalc import units
from gptcalc.conventions import DEVICE_SHARE
from gptcalc.errors import InputError, printable
from gptcalc.options import Option

_SHARE = r"([0-9]{1,9}(?:\.[0-9]{1,9})?|\.[0-9]{1,9})(%?)"


def share(option: str) -> Callable[[Any], Fraction]:
    """A parser of shares: 0.9, 90%."""

    def parse(value: Any) -> Fraction:
        if isinstance(value, Fraction):
            return value
        match = re.fullmatch(_SHARE, value)
        found = Fraction(match[1]) / (100 if match[2] else 1) if match else Fraction(0)
        if not 0 < found <= 1:
            problem = f"{option}: {printable(value)!r} is not a share above 0 and up to 1"
            raise InputError(problem, "write 0.9 or 90%", "usage")
        return found

    return parse


Budget: TypeAlias = Annotated[
    int | None, Option("Memory of each device: 24GiB (2^30 bytes each), 80GB (10^9).", "SIZE", is_size=True)
]
DeviceName: TypeAlias = Annotated[
    str | None, Option("A device by name (gptcalc devices), or several: rtx-4090, 4xa100-80gb.", "NAME")
]
Devices: TypeAlias = Annotated[
    int | None,
    Option(
        "How many devices; tensor parallel unless --tp, --pp, --ep or --dp say otherwise, data parallel with --zero "
        "and in train."
    ),
]
Utilization: TypeAlias = Annotated[
    Fraction | None,
    Option(
        "Usable share of a device. Default: 1 with --budget, 0.9 with --device.",
        "SHARE",
        ("--gpu-memory-utilization",),
        read=share("--utilization"),
    ),
]


class Capacity(Struct, frozen=True):
    """One device's memory, and what share of it may be used."""

    bytes: int
    share: Fraction
    title: str
    devices: int | None = None  # as 4xa100-80gb says


def capacity(budget: int | None, device: str | None, utilization: Fraction | None) -> Capacity:
    """What --budget or --device give."""
    if (budget is None) == (device is None):
        problem = "both --budget and --device" if budget is not None else "neither --budget nor --device"
        raise InputError(problem, "give --budget 24GiB or --device rtx-4090", "usage")
    if budget is not None:
        return Capacity(budget, utilization or Fraction(1), units.short_bytes(budget))
    from gptcalc.sources import devices

    found = devices.asked(device or "")
    return Capacity(found.model.visible, utilization or Fraction(str(DEVICE_SHARE)), found.model.title, found.number)


def asked_devices(devices: int | None, found: Capacity) -> int | None:
    """How many devices --devices or the count in --device say; InputError where they differ."""
    return counted(devices, found.devices)


def counted(devices: int | None, named: int | None) -> int | None:
    """How many devices there are, as --devices says and as --device names them; InputError where they differ."""
    if devices is not None and named not in (None, devices):
        problem = f"--devices {devices}: --device names {named}"
        raise InputError(problem, "leave one of them out", "usage")
    return named if devices is None else devices


#: bytes that may be used of each device, and how many there are
Usable: TypeAlias = tuple[int, int]


def room(
    budget: int | None, device: str | None, utilization: Fraction | None, devices: int | None = None
) -> Usable | None:
    """Usable bytes of a device, and how many there are, where a budget or a device is given."""
    if budget is None and device is None:
        if devices is not None:
            raise InputError(
                f"--devices {devices}: of which memory?", "give --budget 24GiB or --device rtx-4090", "usage"
            )
        return None
    found = capacity(budget, device, utilization)
    from gptcalc.analysis.memory.fit import usable

    return usable(found.bytes, found.share), asked_devices(devices, found) or 1
