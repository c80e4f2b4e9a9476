"""How the cache is shown."""

from __future__ import annotations

from fractions import Fraction

from gptcalc import units
from gptcalc.analysis.memory.cache import KVCache
from gptcalc.analysis.memory.room import Room
from gptcalc.report.table import Column, Table, View

FIGURES = (Column("figure", ""), Column("bytes", "bytes", "bytes"))
GROUPS = (
    Column("name", "layers"),
    Column("layers", "×", "number"),
    Column("kind", "kept"),
    Column("cached_tokens", "tokens", "number"),
    Column("elements_per_token", "elements/token", "number"),
    Column("bytes", "bytes", "bytes"),
    Column("share", "share", "share"),
)


def view(found: KVCache) -> View:
    """Figures, the groups of layers, the formula."""
    if not found.groups:
        return View([figures(found), "no cache: every token is seen at once, so none comes later"], figures(found))
    groups = Table(
        GROUPS,
        [(g.name, g.layers, g.kind, g.cached_tokens, g.elements_per_token, g.bytes, g.bytes) for g in found.groups],
        whole=found.bytes,
    )
    parts: list[Table | str] = [figures(found), groups, f"bytes = {found.formula}", *found.notes]
    return View([*parts, held(found.room, found.context)] if found.room is not None else parts, groups)


ROOM = (Column("figure", ""), Column("n", "", "text"))


def held(room: Room, context: int) -> Table:
    """What so much memory holds, as vLLM's log has it."""
    rows = [
        (f"tokens, as requests of {units.grouped(context)}", units.grouped(room.tokens)),
        (f"requests of {units.grouped(context)} tokens at once", f"{room.concurrency:.2f}"),
        ("longest single request", units.grouped(room.longest) if room.longest is not None else "any"),
    ]
    if room.blocks is not None:
        rows.append((f"blocks of {room.block_tokens} tokens", units.grouped(room.blocks)))
    return Table(ROOM, rows, title=f"{units.short_bytes(room.bytes)} of cache hold", heading=False)


def figures(found: KVCache) -> Table:
    sequences = units.sequences(found.batch)
    title = f"{found.model}: {found.kv_dtype} cache of {sequences} of {units.grouped(found.context)} tokens"
    if found.source is not None:
        title += f" and {units.grouped(found.source)} of the source"
    if found.tp > 1:
        title += f" on each of {found.tp} devices"
    if found.engine != "ideal":
        title += f", as {found.engine} sets it aside"
    rows: list[tuple[str, int | Fraction]] = [
        ("in all", found.bytes),
        ("a further token of one sequence adds", found.next_token_bytes),
    ]
    if found.next_token_bytes != found.bytes_per_token:
        rows.append(("a token while no window is full", found.bytes_per_token))
    if found.state_bytes:
        rows.append(("constant, in the sum above", found.state_bytes))
    if found.full_bytes != found.bytes:
        rows.append(("if every layer kept the whole length", found.full_bytes))
    return Table(FIGURES, rows, title=title, heading=False)
