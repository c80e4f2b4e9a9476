"""How the ledger behind a figure is shown (`--why`)."""

from __future__ import annotations

from gptcalc import units
from gptcalc.analysis.why import Ledger
from gptcalc.report.table import Column, Table, View

ROWS = (
    Column("group", "stage"),
    Column("equation", "equation"),
    Column("of", "of"),
    Column("ranges", "ranges"),
    Column("times", "×", "number"),
    Column("amount", "amount", "number"),
    Column("share", "share", "share"),
)


def view(ledger: Ledger) -> View:
    """The lines, their sum, the convention, and what confirms the figure."""
    rows = [(r.group, r.equation, r.of, r.ranges, r.times, r.amount, r.amount) for r in ledger.rows]
    table = Table(ROWS, rows, title=f"{ledger.key} = {units.grouped(ledger.value)}", whole=ledger.value)
    return View([table, f"convention: {ledger.convention}", f"confirmed by: {ledger.confirmed_by}"], table)
