"""How the cache is shown."""

from __future__ import annotations

from gptcalc import units
from gptcalc.analysis.memory.cache import KVCache
from gptcalc.report.table import Column, Table, View

FIGURES = (Column("figure", ""), Column("bytes", "bytes", "bytes"))
GROUPS = (
    Column("name", "layers"), Column("layers", "×", "number"), Column("kind", "kept"),
    Column("cached_tokens", "tokens", "number"), Column("elements_per_token", "elements/token", "number"),
    Column("bytes", "bytes", "bytes"), Column("share", "share", "share"),
)  # fmt: skip


def view(found: KVCache) -> View:
    """Figures, the groups of layers, the formula."""
    if not found.groups:
        return View([figures(found), "no cache: every token is seen at once, so none comes later"], figures(found))
    groups = Table(
        GROUPS,
        [(g.name, g.layers, g.kind, g.cached_tokens, g.elements_per_token, g.bytes, g.bytes) for g in found.groups],
        whole=found.bytes,
    )
    return View([figures(found), groups, f"bytes = {found.formula}"], groups)


def figures(found: KVCache) -> Table:
    sequences = units.sequences(found.batch)
    title = f"{found.model}: {found.kv_dtype} cache of {sequences} of {units.grouped(found.context)} tokens"
    if found.source is not None:
        title += f" and {units.grouped(found.source)} of the source"
    if found.engine != "ideal":
        title += f", as {found.engine} sets it aside"
    rows = [("in all", found.bytes), ("a further token of one sequence adds", found.bytes_per_token)]
    if found.state_bytes:
        rows.append(("constant, in the sum above", found.state_bytes))
    if found.full_bytes != found.bytes:
        rows.append(("if every layer kept the whole length", found.full_bytes))
    return Table(FIGURES, rows, title=title, heading=False)
