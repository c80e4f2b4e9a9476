"""How devices are shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gptcalc import units
from gptcalc.report.table import Column, Table, View

if TYPE_CHECKING:
    from gptcalc.sources.devices import DeviceModel

COLUMNS = (
    Column("name", "device"),
    Column("title", "what it is"),
    Column("memory", "memory", "bytes"),
    Column("bandwidth", "a second", "figure"),
    Column("bf16", "bf16", "figure"),
    Column("fp8", "fp8", "figure"),
    Column("unverified", "not verified"),
)


def view(found: Sequence[DeviceModel]) -> View:
    table = Table(COLUMNS, [_row(model) for model in found])
    said = (
        "rates are dense, as the makers give them; of memory, verdicts use what programs see of it (visible in --json, "
        "which has all rates, and the sources)"
    )
    return View([table, said], table)


def _row(model: DeviceModel) -> tuple[object, ...]:
    rates = [units.short_si(rate, "FLOP/s") if (rate := model.peak.get(kind)) else "–" for kind in ("bf16", "fp8")]
    bandwidth = units.short_si(model.bandwidth, "B")
    return model.name, model.title, model.memory, bandwidth, *rates, model.unverified or ""
