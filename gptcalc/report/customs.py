"""The figures that people quote as a model's parameters, each with what it counts (`--conventions`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gptcalc.analysis.customs import CUSTOMS, customs
from gptcalc.answers import Outcome
from gptcalc.architecture import Architecture
from gptcalc.report.table import Column, Table, View


class Quoted(Outcome, frozen=True):
    """The keys of `gptcalc params --conventions --json`."""

    model: str
    figures: dict[str, int]  # by the keys of gptcalc.analysis.customs


def quoted(architecture: Architecture) -> Quoted:
    return Quoted(architecture.name, customs(architecture))


def table(models: Sequence[tuple[Column, Mapping[str, int]]]) -> Table:
    """A column a model."""
    columns = (Column("custom", "figure"), *(column for column, _ in models), Column("counts", "counts"))
    rows = [(name, *(figures[key] for _, figures in models), counts) for key, (name, counts) in CUSTOMS.items()]
    return Table(columns, rows, title="parameters, by the ways that people count them")


def view(found: Quoted) -> View:
    made = table([(Column(found.model, found.model, "count"), found.figures)])
    return View([made], made)
