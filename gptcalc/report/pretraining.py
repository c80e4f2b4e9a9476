"""How the answer of `train` is shown."""

from __future__ import annotations

from gptcalc import units
from gptcalc.analysis.pretraining import CHINCHILLA, Pretraining
from gptcalc.report.table import Column, Table, View

FIGURES = (Column("figure", ""), Column("value", "", "figure"), Column("remark", ""))
FLOPS = (Column("figure", ""), Column("flops", "FLOPs", "flops"))

BASES = {"bound": "at most, with all of the peak rate", "mfu": "at the MFU that is given", "measured": "as measured"}


def view(found: Pretraining, device: str) -> View:
    """How long and for how much, the FLOPs, the memory."""
    main = Table(FIGURES, figures(found), title=title(found, device), heading=False)
    parts: list[Table | str] = [main]
    if found.recomputed and found.flops is not None:
        rows = [("of the model", found.flops), ("6·N·D, the usual estimate", found.approx_6nd)]
        rows += [(f"with recomputation {kind}", n) for kind, n in found.recomputed.items() if kind != "none"]
        parts.append(Table(FLOPS, rows, heading=False))
    return View([*parts, "\n".join([*memory(found), *found.notes])], main)


def title(found: Pretraining, device: str) -> str:
    split = ", ".join(f"{key} {n}" for key, n in found.parallel.items() if n > 1)
    where = f"{found.devices} × {device} ({split})" if found.devices > 1 else device
    tokens = "" if found.tokens is None else f" on {units.short_count(found.tokens)} tokens"
    return f"{found.model}: training{tokens} in {found.dtype}, sequences of {units.grouped(found.context)}, on {where}"


def figures(found: Pretraining) -> list[tuple[str, str, str]]:
    """Time and money, and what the tokens are to the model."""
    rows = []
    if found.days is not None and found.device_hours is not None:
        kind = "at least, with all of the peak rate" if found.basis == "bound" else BASES[found.basis]
        rows.append(("days", f"{found.days:,.1f}", kind))
        rows.append(("device hours", f"{found.device_hours:,.0f}", ""))
    if found.cost is not None:
        rows.append(("cost", f"{found.cost:,.0f}", f"at {found.price:g} an hour of a device"))
    rows.append(("tokens a second", f"{found.tokens_per_second:,.0f}", "" if rows else BASES[found.basis]))
    if found.mfu is not None and found.hfu is not None:
        again = "" if found.recompute == "none" else f"HFU {found.hfu:.1%}, recomputation {found.recompute} included"
        rows.append(("MFU", f"{found.mfu:.1%}", again))
    if found.tokens_per_parameter is not None:
        rows.append(("tokens a parameter", f"{found.tokens_per_parameter:,.1f}", ""))
    rows.append((f"{CHINCHILLA} a parameter, as Chinchilla", units.short_count(found.chinchilla_tokens), "tokens"))
    return rows


def memory(found: Pretraining) -> list[str]:
    """Whether a step fits, and what would do."""
    fit = found.memory
    verdict = "fits" if fit.fits else "does not fit"
    room = f"{units.short_bytes(fit.needed)} of {units.short_bytes(fit.budget)} ({fit.utilization:.0%} of its memory)"
    lines = [f"a step of {units.grouped(found.step_tokens)} tokens {verdict}: a device needs {room}"]
    if not fit.fits and fit.would_fit:
        changes = ", ".join(f"--{key.replace('_', '-')} {value}" for key, value in fit.would_fit.items())
        lines.append(f"what would do, one at a time: {changes}")
    return [*lines, *(f"estimate: {line}" for line in fit.estimated)]
