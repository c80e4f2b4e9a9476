"""Tables for other programs: CSV with raw numbers, Markdown for documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gptcalc.errors import printable
from gptcalc.report.table import Table, cells, joined

#: what makes a spreadsheet compute a cell
FORMULA = ("=", "+", "-", "@", "\t", "\r")
#: what Markdown or HTML would take for markup
MARKUP = str.maketrans({mark: f"\\{mark}" for mark in "\\`*_[]|#"} | {"<": "&lt;", ">": "&gt;", "&": "&amp;"})


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
        return _harmless(printable(joined(value, "x"), 500))
    if isinstance(value, str):
        return _harmless(printable(value, 500))
    return "" if value is None else value


def _harmless(text: str) -> str:
    """A cell that a spreadsheet would take for a formula is marked as text, as OWASP advises against CSV injection."""
    return f"'{text}" if text[:1] in FORMULA else text


def markdown(parts: Sequence[Table | str]) -> str:
    """Pipe tables, each under its title; text as paragraphs."""
    return "\n\n".join(_text(part) if isinstance(part, str) else _table(part) for part in parts) + "\n"


def _text(part: str) -> str:
    return "  \n".join(_escaped(printable(line, 10_000)) for line in part.split("\n"))


def _table(table: Table) -> str:
    columns = cells(table)
    titles = ["≈" if column.role == "short" else _escaped(column.title) for column in columns]
    rules = ["---:" if column.right else "---" for column in columns]
    rows = [[_escaped(column.texts[row]) for column in columns] for row in range(len(table.rows))]
    lines = ["| " + " | ".join(row) + " |" for row in (titles, rules, *rows)]
    return "\n".join([f"**{_text(table.title)}**\n", *lines] if table.title else lines)


def _escaped(text: str) -> str:
    return text.translate(MARKUP)
