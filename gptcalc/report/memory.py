"""How the memory of devices is shown."""

from __future__ import annotations

from collections.abc import Iterable

from gptcalc import units
from gptcalc.analysis.memory.result import PARTS, Memory
from gptcalc.report.table import Column, Table, View

PIECES = (
    Column("part", "a device holds"),
    Column("bytes", "bytes", "bytes"),
    Column("share", "share", "share"),
    Column("basis", ""),
)
SUMS = (Column("part", "all devices hold"), Column("bytes", "bytes", "bytes"), Column("share", "share", "share"))
#: as CSV has it: every byte in one row, named as in the JSON
RAW = (Column("part", ""), Column("piece", ""), Column("bytes", ""), Column("basis", ""))
COPIES = (Column("name", "more than once"), Column("part", "part"), Column("bytes", "bytes", "bytes"))

NAMES = {"kv": "cache", "optimizer": "optimiser"}


def view(found: Memory) -> View:
    """The fullest device part by part, what all devices hold, what is held more than once, what is an estimate."""
    rows: list[tuple[str, int, int, str]] = []
    for part in PARTS:
        size = getattr(found.per_device, part)
        if size:
            rows.append((NAMES.get(part, part), size, size, basis(found, part)))
            rows += [(f"  {name}", n, n, "") for name, n in pieces(found, part)]
    rows.append(("in all", found.per_device.total, found.per_device.total, ""))
    main = Table(PIECES, rows, title=title(found), whole=found.per_device.total)
    parts: list[Table | str] = [main]
    if found.devices > 1:
        sums = [(NAMES.get(p, p), n, n) for p in PARTS if (n := getattr(found.sums, p))]
        parts.append(Table(SUMS, [*sums, ("in all", found.total, found.total)], whole=found.total))
    if found.replicated:
        copies = [(r.name, NAMES.get(r.part, r.part), r.bytes) for r in found.replicated]
        parts.append(Table(COPIES, copies))
    lines = grounds(found.exact, found.estimated)
    lines = [*on_host(found.host), *lines]
    parts.append("\n".join([*lines, *found.notes]))
    return View(parts, Table(RAW, raw(found)))


def on_host(size: int) -> list[str]:
    return [f"in the host's memory: {units.grouped(size)} bytes ({units.short_bytes(size)})"] if size else []


def basis(found: Memory, part: str) -> str:
    """Whether a part is exact arithmetic or an estimate."""
    exact, estimated = ({line.partition(":")[0] for line in lines} for lines in (found.exact, found.estimated))
    return "exact" if part in exact else "estimate" if part in estimated else ""


def grounds(exact: Iterable[str], estimated: Iterable[str]) -> list[str]:
    """What the parts are made of, under the names that the table has for them."""
    said = [("exact", line) for line in exact] + [("estimate", line) for line in estimated]
    split = [(word, *line.partition(":")) for word, line in said]
    return [f"{word}: {NAMES.get(part, part)}{colon}{rest}" for word, part, colon, rest in split]


def raw(found: Memory) -> list[tuple[str, str, int, str]]:
    """Parts, those in pieces piece by piece, so that the rows add up to the device's total."""
    rows = []
    for part in PARTS:
        size, finer = getattr(found.per_device, part), pieces(found, part)
        if sum(n for _, n in finer) > size:  # moments that don't last: not all at once
            finer = []
        rest = size - sum(n for _, n in finer)
        rows += [(part, name, n, basis(found, part)) for name, n in [*finer, *([("", rest)] if rest else [])]]
    return rows


def pieces(found: Memory, part: str) -> list[tuple[str, int]]:
    """The finer parts of one part, where there is more than one."""
    own = [(key.removeprefix(f"{part}."), n) for key, n in found.pieces.items() if key.startswith(f"{part}.") and n]
    return own if len(own) > 1 or part == "activations" else []


def title(found: Memory) -> str:
    """What is run, and on what."""
    sequences = units.sequences(found.batch)
    length = f"{sequences} of {units.grouped(found.context)} tokens"
    if found.phase == "train":
        text = f"{found.model}: training in {found.dtype}, {length}"
    else:
        published = " as published" if found.published else ""
        cache = f"{found.kv_dtype} cache of " if found.sums.kv else ""
        text = f"{found.model}: {found.dtype} weights{published}, {cache}{length}"
        if found.phase == "decode":
            text += ", decoding"
        elif found.passes is not None:
            text += f", prefilled {found.passes}"
        if found.draft is not None:
            text += f", with {found.draft} beside it"
        if found.engine not in (None, "ideal"):
            text += f", as {found.engine} sets it aside"
    if found.devices > 1:
        split = ", ".join(f"{key} {n}" for key, n in found.parallel.items() if n > 1)
        text += f"; the fullest of {found.devices} devices ({split})"
    return text
