"""How the ledger behind a figure is shown (`--why`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gptcalc import units
from gptcalc.analysis.why import Ledger
from gptcalc.report.table import Column, Table, View

ROWS = (
    Column("group", "stage"), Column("equation", "equation"), Column("of", "of"), Column("ranges", "ranges"),
    Column("times", "×", "number"), Column("amount", "amount", "number"), Column("share", "share", "share"),
)  # fmt: skip


def view(ledger: Ledger, document: Mapping[str, Any]) -> View:
    """The lines, their sum, the convention, and what confirms the figure."""
    rows = [(r.group, r.equation, r.of, r.ranges, r.times, r.amount, r.amount) for r in ledger.rows]
    table = Table(ROWS, rows, title=f"{ledger.key} = {units.grouped(ledger.value)}", whole=ledger.value)
    return View([table, f"convention: {ledger.convention}", confirmation(ledger, document)], table)


def confirmation(ledger: Ledger, document: Mapping[str, Any]) -> str:
    """Where this figure was published, and whether it is the same."""
    published = document.get("published")
    if not isinstance(published, Mapping) or ledger.key not in published:
        return "confirmed by: no published figure; gptcalc validate holds it against the witness"
    value = published[ledger.key]
    source = f" ({published['source']})" if "source" in published else ""
    if value == ledger.value:
        return f"confirmed by: the published figure{source}"
    return f"differs from the published {units.grouped(value)}{source}"
