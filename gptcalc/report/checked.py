"""How checks of several things are shown, one row each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gptcalc.report.table import Column, Table, View


def view(rows: Sequence[Mapping[str, Any]], what: str) -> View:
    """Every row under its keys, and how many are right."""
    keys = list(rows[0]) if rows else []
    columns = [Column(key, key, "number" if key in ("expected", "found") else "text") for key in keys]
    table = Table(columns, [[row[key] for key in keys] for row in rows])
    right = sum(bool(row["ok"]) for row in rows)
    return View([table, f"{what}: {right} of {len(rows)} right"], table)
