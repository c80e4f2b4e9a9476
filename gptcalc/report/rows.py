"""Flat rows, one a model, as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gptcalc.report.figures import columns
from gptcalc.report.table import Table, View


def view(rows: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> View:
    table = Table(columns(keys), [[row[key] for key in keys] for row in rows], turns=True)
    return View([table] if rows else ["none"], table)
