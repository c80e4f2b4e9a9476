"""Flat rows, one a model, as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gptcalc import units
from gptcalc.conventions import DiffRun
from gptcalc.report.figures import FIGURES, OF_RUN, columns
from gptcalc.report.table import Table, View

#: figures that are the same at any length
OF_NO_LENGTH = ("weights_bytes", "kv_bytes_per_token")


def view(rows: Sequence[Mapping[str, Any]], keys: Sequence[str], how: DiffRun | None = None) -> View:
    """`how`: which length the figures are of, said below them where any hangs on it."""
    table = Table(columns(keys), [[row[key] for key in keys] for row in rows], turns=True)
    told = [FIGURES[key].title for key in keys if key in OF_RUN and key not in (*OF_NO_LENGTH, "context")]
    below = [f"{', '.join(told)} {_length(how, len(rows))}"] if how is not None and told else []
    return View([table, *below] if rows else ["none"], table)


def _length(how: DiffRun, number: int) -> str:
    """At which length, and of how many sequences."""
    batch = f", batch {units.grouped(how.batch)}" if how.batch > 1 else ""
    if how.context is not None:
        return f"at a context of {units.grouped(how.context)} tokens{batch}"
    if number == 1:
        return f"at the model's own context{batch}"
    return f"at each model's own context{batch}; --context N has all at one"
