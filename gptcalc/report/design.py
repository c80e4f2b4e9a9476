"""How the answer of `design` is shown."""

from __future__ import annotations

from gptcalc import units
from gptcalc.analysis.design.run import Design
from gptcalc.report import sweep
from gptcalc.report.table import View


def view(found: Design) -> View:
    """The best designs, a row each, and over what was searched."""
    rows = found.designs
    shown = [{k: f"{v:,.1f}" if isinstance(v, float) else v for k, v in row.items()} for row in rows]
    table = sweep.view(shown, list(rows[0])) if rows else sweep.view((), ())
    of = f"of {units.grouped(found.points)} points: {'; '.join(found.tried)}"
    said = [of] if rows else [f"no design meets it, {of}"]
    if rows:
        said.append(f"confirmed by an analysis of each: {', '.join(found.confirmed)}")
    return View([title(found), *(table.parts if rows else ()), "\n".join([*said, *found.notes])], table.main)


def title(found: Design) -> str:
    """What was looked for."""
    goal = f"most {found.maximize}" if found.maximize is not None else f"least {found.minimize}"
    limits = [] if found.budget is None else [f"in {units.short_bytes(found.budget)}"]
    if found.tokens_per_second is not None:
        limits.append(f"{found.tokens_per_second:g} tokens a second on {found.device}")
    limits += [f"where {text}" for text in found.where]
    work = f"{units.sequences(found.batch)} of {units.grouped(found.context)} tokens in {found.dtype}"
    return f"like {found.like}, {goal}: {', '.join([*limits, work])}"
