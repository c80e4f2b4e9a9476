"""How the answer of `serve` is shown: as an engine's log has it."""

from __future__ import annotations

from gptcalc import units
from gptcalc.analysis.memory.result import PARTS
from gptcalc.analysis.memory.serve import Served
from gptcalc.report.fit import MOST, longest
from gptcalc.report.memory import NAMES, grounds
from gptcalc.report.table import Column, Table, View

PIECES = (Column("part", "a device has"), Column("bytes", "bytes", "bytes"), Column("share", "may be used", "share"))


def view(found: Served, where: str) -> View:
    """The verdict, where the memory goes, what the rest holds."""
    held = [(part, n, n) for part in PARTS if (n := getattr(found.beside, part))]
    sizes = [(NAMES.get(part, part), *rest) for part, *rest in held]
    left = max(found.available, 0)
    main = Table(PIECES, [*sizes, ("left for the cache", left, left)], whole=max(found.budget, 1))
    lines = [*grounds((), found.estimated), *found.notes]
    table = Table(MOST, most(found), heading=False)
    raw = Table(PIECES, [*held, ("available", found.available, found.available)])
    return View([headline(found, where), main, table, "\n".join(lines)], raw)


def headline(found: Served, where: str) -> str:
    devices = f"{found.devices} × {where}" if found.devices > 1 else where
    condition = f", {found.condition}" if found.condition is not None else ""
    verdict = "starts" if found.starts else "does not start"
    published = " as published" if found.published else ""
    draft = f" with {found.draft} beside it" if found.draft is not None else ""
    passes = f", prefilled {found.passes}" if found.passes is not None else ""
    return (
        f"{found.model} in {found.dtype}{published}{draft} {verdict}{condition}: {found.engine} on {devices}, of which "
        f"{found.utilization:.0%} may be used, {found.kv_dtype} cache{passes}"
    )


def most(found: Served) -> list[tuple[str, str]]:
    """What an engine's log prints."""
    length = units.grouped(found.context)
    rows = [
        ("tokens of cache", units.grouped(found.tokens)),
        (f"requests of {length} tokens at once", at_once(found)),
        ("longest single request", longest(found.max_context, found.made_for)),
    ]
    if found.blocks is not None and found.block_bytes is not None:
        size = units.short_bytes(found.block_bytes)
        rows.insert(0, (f"blocks of {found.block_tokens} tokens, {size}", units.grouped(found.blocks)))
    return rows


def at_once(found: Served) -> str:
    """As vLLM's log has it, with the share of a last one; of other engines whole ones."""
    return f"{found.concurrency:.2f}" if found.engine == "vllm" else units.grouped(found.requests)
