"""How checks of several things are shown, one row each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from gptcalc.report.table import Column, Table, View


class Figure(Struct, frozen=True):
    name: str
    expected: Any
    found: Any
    ok: bool


class Checked(Struct, frozen=True):
    """The keys of `gptcalc check --json`."""

    model: str
    ok: bool  # whether all are as expected
    checks: tuple[Figure, ...]


def checked(model: str, rows: Sequence[Mapping[str, Any]]) -> Checked:
    return Checked(model, all(row["ok"] for row in rows), tuple(Figure(**row) for row in rows))


#: above this only what is wrong is shown
MANY = 20


def view(rows: Sequence[Mapping[str, Any]], what: str) -> View:
    """Every row under its keys (or, of many, those that are wrong), and how many are right."""
    shown = [row for row in rows if not row["ok"]] if len(rows) > MANY else rows
    keys = list(rows[0]) if rows else []
    columns = [Column(key, key, "number" if key in ("expected", "found") else "text") for key in keys]
    table = Table(columns, [[row[key] for key in keys] for row in shown])
    right = sum(bool(row["ok"]) for row in rows)
    summary = f"{what}: {right} of {len(rows)} right"
    return View([table, summary] if shown else [summary], table)
