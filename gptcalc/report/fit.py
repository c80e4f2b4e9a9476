"""How the answer of `fit` is shown."""

from __future__ import annotations

from gptcalc import units
from gptcalc.analysis.memory.fit import Fit
from gptcalc.analysis.memory.result import PARTS
from gptcalc.report.memory import NAMES, grounds, on_host
from gptcalc.report.table import Column, Table, View

PIECES = (
    Column("part", "needed of a device"),
    Column("bytes", "bytes", "bytes"),
    Column("share", "of the budget", "share"),
)
MOST = (Column("figure", ""), Column("most", "", "text"))


def view(found: Fit, where: str) -> View:
    """The answer, what is needed, the most that fits, and what would have to give."""
    held = [(part, n, n) for part in PARTS if (n := getattr(found.per_device, part))]
    sizes = [(NAMES.get(part, part), *rest) for part, *rest in held]
    main = Table(PIECES, [*sizes, ("in all", found.needed, found.needed)], whole=max(found.budget, 1))
    parts: list[Table | str] = [answer(found, where), main, Table(MOST, most(found), heading=False)]
    if not found.fits:
        parts.append(Table(MOST, changes(found), title="what would do, one at a time", heading=False))
    parts.append("\n".join([*on_host(found.host), *grounds(found.exact, found.estimated), *found.notes]))
    return View(parts, Table(PIECES, held))


def answer(found: Fit, where: str) -> str:
    devices = f"{found.devices} × {where}" if found.devices > 1 else where
    share = f", of which {found.utilization:.0%} may be used" if found.utilization < 1 else ""
    left = units.short_bytes(abs(found.headroom))
    verdict = "yes" if found.fits else "no"
    rest = f"{left} left" if found.fits else f"{left} too much"
    sequences = units.sequences(found.batch)
    published = " as published" if found.published else ""
    kind = f"in {found.dtype}{published}" if found.engine is not None else f"training in {found.dtype}"
    passes = f", prefilled {found.passes}" if found.passes is not None else ""
    condition = f", {found.condition}" if found.condition is not None else ""
    draft = f" and {found.draft} beside it" if found.draft is not None else ""
    return (
        f"{verdict}{condition}: {found.model} {kind}{draft} with "
        f"{sequences} of {units.grouped(found.context)} tokens{passes} "
        f"on {devices}{share}: {rest}"
    )


def most(found: Fit) -> list[tuple[str, str]]:
    """The largest batch and context, and the widest weights."""
    rows = [
        (f"largest batch at {units.grouped(found.context)} tokens", _count(found.max_batch)),
        (f"longest context at batch {units.grouped(found.batch)}", longest(found.max_context, found.made_for)),
    ]
    if found.widest_dtype is not None:
        rows.append(("widest weights", found.widest_dtype))
    rows.append(("limited by", NAMES.get(found.limited_by, found.limited_by)))
    return rows


def longest(n: int | None, made_for: int) -> str:
    """A longest context; what exceeds the length that the model is made for says so."""
    if n is None or n <= made_for:
        return _count(n)
    return f"{units.grouped(n)} (made for {units.grouped(made_for)})"


def _count(n: int | None) -> str:
    return "any" if n is None else "none" if n == 0 else units.grouped(n)


def changes(found: Fit) -> list[tuple[str, str]]:
    """What to give up, one at a time."""
    rows = [(f"--{key.replace('_', '-')}", str(value)) for key, value in found.would_fit.items()]
    return rows or [("nothing tried", "does")]
