"""Tables for other programs: CSV with raw numbers, Markdown for documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gptcalc.report.table import Table, cells


def csv(table: Table) -> str:
    """Keys as the header, raw numbers in the cells, no units. A share repeats another column and is left out."""
    import csv as format_
    import io

    out = io.StringIO()
    writer = format_.writer(out, lineterminator="\n")
    kept = [position for position, column in enumerate(table.columns) if column.kind != "share"]
    writer.writerow(table.columns[position].key for position in kept)
    writer.writerows([_raw(row[position]) for position in kept] for row in table.rows)
    return out.getvalue()


def _raw(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return "x".join(map(str, value))
    return "" if value is None else value


def markdown(parts: Sequence[Table | str]) -> str:
    """Pipe tables, each under its title; text as paragraphs."""
    return "\n\n".join(part.replace("\n", "  \n") if isinstance(part, str) else _table(part) for part in parts) + "\n"


def _table(table: Table) -> str:
    columns = cells(table)
    titles = ["≈" if column.role == "short" else column.title for column in columns]
    rules = ["---:" if column.right else "---" for column in columns]
    rows = [[_escaped(column.texts[row]) for column in columns] for row in range(len(table.rows))]
    lines = ["| " + " | ".join(row) + " |" for row in (titles, rules, *rows)]
    return "\n".join([f"**{table.title}**\n", *lines] if table.title else lines)


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")
