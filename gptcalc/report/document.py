"""A document's keys as a table: `show` in Markdown and CSV."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gptcalc.report.table import Column, Table, View


def view(document: Mapping[str, Any]) -> View:
    """One row a key, those of sections dotted."""
    table = Table((Column("key", "key"), Column("value", "value")), list(flat(document)))
    return View([table], table)


def flat(document: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted keys and their single values; lists stay whole."""
    for key, value in document.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
