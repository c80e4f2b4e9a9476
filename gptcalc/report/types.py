"""The model types of config.json files that are known."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from gptcalc.report.table import Column, Table, View
from gptcalc.sources.huggingface.families import READERS
from gptcalc.sources.huggingface.unsupported import UNSUPPORTED

COLUMNS = (Column("type", "model_type"), Column("read", "read"), Column("why_not", "why not"))


class Read(Struct, frozen=True):
    type: str
    read: bool
    why_not: str | None = None  # of a type that is known and not read


def known() -> list[Read]:
    """Every type, by name."""
    read = [Read(name, True) for name in READERS]
    return sorted([*read, *(Read(name, False, why) for name, why in UNSUPPORTED.items())], key=lambda one: one.type)


def view(found: Sequence[Read]) -> View:
    rows = [(one.type, one.read, one.why_not or "") for one in found]
    table = Table(COLUMNS, rows)
    n = sum(one.read for one in found)
    return View([table, f"{n} of {len(found)} are read, alone or as the text model of a larger one"], table)
