"""Answers as a notebook shows them: the same tables as HTML."""

from __future__ import annotations

from html import escape
from importlib import import_module

from gptcalc import units
from gptcalc.analysis.memory.fit import Fit
from gptcalc.analysis.memory.serve import Served
from gptcalc.analysis.pretraining import Pretraining
from gptcalc.analysis.timed import Timed
from gptcalc.answers import Outcome
from gptcalc.errors import printable
from gptcalc.report.table import Table, View, cells
from gptcalc.sources.devices import device

#: the files whose tables show an answer
FILES = {
    "Params": "params",
    "KVCache": "kv",
    "Flops": "flops",
    "Memory": "memory",
    "Fit": "fit",
    "Served": "serve",
    "Diff": "diff",
    "Design": "design",
    "Explanation": "explained",
    "Trace": "trace",
    "Timed": "timed",
    "Pretraining": "pretraining",
}


def html(found: Outcome) -> str:
    """An answer's tables and texts. What is asked of a device's memory names it."""
    file = next(FILES[kind.__name__] for kind in type(found).__mro__ if kind.__name__ in FILES)
    view = import_module(f"gptcalc.report.{file}").view
    return drawn(view(found, *_device(found)))


def _device(found: Outcome) -> tuple[str, ...]:
    """What the answer is about besides the model, as its tables call it."""
    if isinstance(found, (Fit, Served)):
        return (units.short_bytes(found.capacity),)
    if isinstance(found, (Timed, Pretraining)):
        return (device(found.device).title,)
    return ()


def drawn(view: View) -> str:
    return "\n".join(_paragraph(part) if isinstance(part, str) else _table(part) for part in view.drawn())


def _paragraph(text: str) -> str:
    return f"<p>{'<br>'.join(_safe(line) for line in text.splitlines())}</p>"


def _table(table: Table) -> str:
    columns = cells(table)
    head = "".join(_cell("th", column.title, column.right) for column in columns)
    rows = [
        "".join(_cell("td", column.texts[number], column.right) for column in columns)
        for number in range(len(table.rows))
    ]
    caption = f"<caption>{_safe(table.title)}</caption>" if table.title else ""
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(tag: str, text: str, right: bool) -> str:
    style = "right" if right else "left"
    return f'<{tag} style="text-align: {style}">{_safe(text)}</{tag}>'


def _safe(text: str) -> str:
    """Names come from files: none is markup."""
    return escape(printable(text, 10_000))
