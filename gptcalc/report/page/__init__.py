"""A page that shows models as a picture with their sums, and lets a reader switch and move them.

One file without a network: a template, a style, scripts and the data, which is what `analysis.explorer` writes out,
its lines drawn as MathML. The scripts evaluate and draw; no figure is theirs.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Any
from zlib import compressobj

import msgspec
from msgspec import Struct

from gptcalc.analysis.params import params
from gptcalc.architecture import Architecture
from gptcalc.report.page.data import Shown, data
from gptcalc.report.table import Column, Table, View

MARK = re.compile("<!--([A-Z]+)-->")
PARTS = ("numbers.js", "settings.js", "picture.js", "totals.js", "equations.js", "weights.js", "page.js")


#: what a page without names shows, from the first GPT to today's
FAMOUS = (
    "gpt2", "gpt2-xl", "llama-2-7b", "llama-3-8b", "llama-3.1-405b", "mistral-7b", "mixtral-8x7b", "gemma-3-27b",
    "qwen3-8b", "deepseek-v3", "gpt-oss-20b", "qwen3-next-80b-a3b",
)  # fmt: skip


class Listed(Struct, frozen=True):
    """A row of what a page shows."""

    model: str
    total: int  # parameters, as `gptcalc params` counts them


def view(rows: Sequence[Listed]) -> View:
    """The models that a page shows; the page itself is `document`."""
    columns = (Column("model", "model"), Column("total", "parameters", "count"))
    table = Table(columns, [[row.model, row.total] for row in rows])
    return View([table, "-o page.html writes the page"], table)


def document(
    models: Sequence[Shown],
    start: Sequence[Mapping[str, Any]] = (),
    steps: Callable[[Sequence[str]], Iterable[str]] = tuple,
) -> str:
    """The page of these models. `start`: how those look that are shown at first, each as the words of an address.
    `steps` hands out the models' names as work goes on."""
    here = files(__name__)
    text = {name: here.joinpath(name).read_text("utf-8") for name in (*PARTS, "page.css", "template.html")}
    begin = [{key: str(value) for key, value in words.items()} for words in start] or [
        {"m": models[0].architecture.name}
    ]
    names = " and ".join(model.architecture.name for model in models) if len(models) <= len(begin) else "Transformers"
    filled = {
        "TITLE": escape(f"{names}: where the numbers come from"),
        "PLAIN": without_script([model.architecture for model in models]),
        "STYLE": text["page.css"],
        "DATA": packed(msgspec.json.encode({**data(models, steps), "start": begin})),
        "SCRIPT": "\n".join(text[name] for name in PARTS),
    }
    return MARK.sub(lambda mark: filled[mark[1]], text["template.html"])


def without_script(shown: Sequence[Architecture]) -> str:
    """What a reader sees whose browser runs no scripts: the counts, and what prints the sums in a terminal."""
    rows = "".join(f"<li>{escape(one.name)}: {params(one).total:,} parameters</li>" for one in shown)
    why = "This page needs its script, which is in this file: it evaluates the sums. Without it, a terminal has them:"
    how = "<code>gptcalc explain MODEL</code> prints every equation, <code>gptcalc params MODEL</code> every count."
    return f"<p>{why} {how}</p><ul>{rows}</ul>"


def packed(raw: bytes) -> str:
    """Deflated (RFC 1951), which browsers undo themselves, in base64."""
    made = compressobj(9, wbits=-15)
    return b64encode(made.compress(raw) + made.flush()).decode()
