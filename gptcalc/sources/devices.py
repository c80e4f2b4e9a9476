"""Devices by name, from gptcalc/devices.yaml: memory as the driver reports it, bandwidth, peak rates."""

from __future__ import annotations

import os
from fractions import Fraction
from typing import Any

from msgspec import Struct

from gptcalc import units
from gptcalc.errors import InputError, did_you_mean, printable
from gptcalc.sources import text


class DeviceModel(Struct, frozen=True):
    """One kind of device."""

    name: str
    title: str
    memory: int  # bytes
    bandwidth: int  # bytes a second
    peak: dict[str, int]  # FLOP/s by the type of the operands, dense
    source: str
    memory_source: str
    unverified: str | None = None


def path() -> str:
    return os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "devices.yaml")


def _read() -> dict[str, Any]:
    return text.mapping(text.parse_yaml(text.read(path())))


def names() -> list[str]:
    """Every device's name."""
    return list(_read())


def device(name: str) -> DeviceModel:
    """The device of this name; InputError where there is none."""
    known = _read()
    entry = known.get(name.lower())
    if entry is None:
        hint = did_you_mean(name.lower(), known) or "there are " + ", ".join(known)
        raise InputError(f"--device: no device {printable(name)!r}", hint, "usage")
    return DeviceModel(
        name=name.lower(),
        title=entry["title"],
        memory=units.size(entry["memory"]),
        bandwidth=units.size(entry["bandwidth"]),
        peak={kind: int(Fraction(str(rate)) * 10**12) for kind, rate in entry["peak"].items()},
        source=entry["source"],
        memory_source=entry["memory_source"],
        unverified=entry.get("unverified"),
    )
