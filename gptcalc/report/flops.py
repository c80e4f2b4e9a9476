"""How FLOPs are shown."""

from __future__ import annotations

from gptcalc import units
from gptcalc.analysis.flops import Flops
from gptcalc.report.table import Column, Table, View

FIGURES = (Column("figure", ""), Column("flops", "FLOPs", "flops"))
COMPONENTS = (
    Column("component", "component"),
    Column("flops", "FLOPs", "flops"),
    Column("share", "share", "share"),
)


def view(found: Flops) -> View:
    """Figures, components, and what is counted."""
    rows = [(name, n, n) for name, n in found.by_component.items() if n]
    components = Table(COMPONENTS, rows, whole=found.total)
    return View([figures(found), components, f"counted: {found.convention}"], components)


def figures(found: Flops) -> Table:
    rows = [
        ("in all", found.total),
        ("products with weights", found.weights),
        ("attention", found.attention),
        *([("recurrent states", found.states)] if found.states else []),
        ("multiply-adds", found.macs),
    ]
    if found.approx_6nd is not None:
        rows.append(("6·N·D, the usual estimate", found.approx_6nd))
    if found.approx_2n is not None:
        rows.append(("2·N·tokens, the usual estimate", found.approx_2n))
    return Table(FIGURES, rows, title=f"{found.model}: {scope(found)}", heading=False)


def scope(found: Flops) -> str:
    """What was run, in words."""
    tokens, batch = units.grouped(found.context), units.grouped(found.batch)
    what = {
        "prefill": f"FLOPs of a prefill of {tokens} tokens",
        "decode": f"FLOPs of decoding token {tokens}",
        "train": f"FLOPs of a training step on {tokens} tokens",
    }
    return what[found.phase] + (f", batch {batch}" if found.batch != 1 else "")
