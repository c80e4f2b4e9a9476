"""How the answer of `time` is shown."""

from __future__ import annotations

from gptcalc import units
from gptcalc.analysis.timed import PassTime, Timed
from gptcalc.report.table import Column, Table, View

FIGURES = (Column("figure", ""), Column("value", "", "figure"), Column("remark", ""))
STAGES = (
    Column("pass", "pass"),
    Column("stage", "layers"),
    Column("layers", "×", "number"),
    Column("flops", "FLOPs", "figure"),
    Column("weights", "weights", "figure"),
    Column("cache", "cache", "figure"),
    Column("compute", "compute", "figure"),
    Column("memory", "memory", "figure"),
    Column("interconnect", "interconnect", "figure"),
    Column("bound", "bound by", needed=True),
)


def view(found: Timed, device: str) -> View:
    """The times, each pass stage by stage, the experts that are read, what is left out."""
    main = Table(FIGURES, figures(found), title=title(found, device), heading=False)
    passes = [("prefill", found.prefill), *([("decode", found.decode)] if found.decode is not None else [])]
    talks = any(stage.sent_bytes for _, one in passes for stage in one.stages)
    rows = [row for name, one in passes for row in stages(name, one)]
    columns = [n for n, column in enumerate(STAGES) if talks or column.key != "interconnect"]
    table = Table([STAGES[n] for n in columns], [[row[n] for n in columns] for row in rows])
    return View([main, table, "\n".join([*experts(found), basis(found), *found.notes])], main)


def title(found: Timed, device: str) -> str:
    split = ", ".join(f"{key} {n}" for key, n in found.parallel.items() if n > 1)
    where = f"{found.devices} × {device} ({split})" if found.devices > 1 else device
    what = f"{found.dtype} weights, {found.kv_dtype} cache"
    return f"{found.model} on {where}: {what}, {units.sequences(found.batch)} of {units.grouped(found.context)} tokens"


def figures(found: Timed) -> list[tuple[str, str, str]]:
    """Times, rates and where the batch stops to help."""
    rows = [("time to the first token", units.duration(found.prefill_s), f"bound by {found.bound.prefill}")]
    if found.per_token_s is not None and found.tokens_per_s is not None:
        rows.append(("time of a further token", units.duration(found.per_token_s), f"bound by {found.bound.decode}"))
        rows.append(("tokens a second", rate(found.tokens_per_s), f"batch {units.grouped(found.batch)}"))
        most = found.most_tokens_per_s or 0.0
        rows.append(("with a batch without end", rate(most), "were there memory for it"))
        rows.append(("batch that saturates", batch(found.saturated_batch, "none"), "nine tenths of that"))
        rows.append(("batch from which compute binds", batch(found.crossover_batch, "never"), ""))
        rows.append(("batch from which the cache outweighs", batch(found.cache_batch, "never"), ""))
    held = f"{units.short_bytes(found.needed)} of {units.short_bytes(found.memory)} at this batch"
    fits = "" if found.fits else "; does not fit"
    rows.append(("largest batch that fits", batch(found.max_batch, "any"), held + fits))
    return rows


def batch(number: int | None, none: str) -> str:
    return none if number is None else units.grouped(number)


def rate(number: float) -> str:
    return f"{number:,.1f}" if number < 1000 else f"{number:,.0f}"


def stages(name: str, one: PassTime) -> list[tuple[object, ...]]:
    """A pass, stage by stage: what a device computes and moves, and how long each takes."""
    return [
        (name, s.name, s.layers, units.short_si(s.flops, "FLOP"), units.short_bytes(s.weights_bytes),
         units.short_bytes(s.cache_bytes), seconds(s.compute_s), seconds(s.weights_s + s.cache_s),
         seconds(s.interconnect_s), s.bound)
        for s in one.stages
    ]  # fmt: skip


def seconds(value: float | None) -> str:
    return "not known" if value is None else "–" if value == 0 else units.duration(value)


def experts(found: Timed) -> list[str]:
    return [
        f"experts read in a step of {e.name}: {e.formula} = {e.n_experts}·(1 − (1 − {e.top_k}/{e.n_experts})"
        f"^{e.tokens}) = {e.distinct:.1f} of {e.n_experts} expected, all being equally likely"
        for e in found.experts
    ]


def basis(found: Timed) -> str:
    if found.ideal:
        return (
            "a bound: all of the device's peak rate, summing in fp32, and of its bandwidth (--mfu, --mbu); each stage "
            "is as slow as the slowest of compute, memory and interconnect"
        )
    return (
        f"{found.mfu:.0%} of the peak rate (--mfu) and {found.mbu:.0%} of the bandwidth (--mbu), each stage as slow as "
        "the slowest of compute, memory and interconnect"
    )
