"""Does it fit? The largest batch and context that do, found by integer search over the true function."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

from msgspec import Struct

from gptcalc.analysis.gguf import MIXES
from gptcalc.analysis.memory import Inference
from gptcalc.analysis.memory_result import Device
from gptcalc.analysis.sharding import Layout, layout
from gptcalc.architecture import Architecture
from gptcalc.dtypes import FORMATS
from gptcalc.errors import InputError

#: beyond this nothing grows any more: the answer is "any"
UNBOUNDED = 2**48


class Fit(Struct, frozen=True, kw_only=True):
    """The keys of `gptcalc fit --json`. `budget` is what may be used of each device."""

    model: str
    fits: bool
    budget: int
    needed: int  # by the fullest device
    headroom: int  # negative where it doesn't fit
    max_batch: int | None  # at this context; null: any
    max_context: int | None  # at this batch; null: any. Not capped at the model's own context
    limited_by: str  # what takes most of what one sequence more would need, or what is too large already
    widest_dtype: str | None  # of the weight formats that fit, the one with most bytes
    batch: int
    context: int
    dtype: str
    kv_dtype: str
    engine: str
    devices: int
    parallel: dict[str, int]
    capacity: int  # of one device
    utilization: float
    per_device: Device  # the fullest
    would_fit: dict[str, Any]  # where it doesn't: single changes that would do
    exact: tuple[str, ...]
    estimated: tuple[str, ...]
    notes: tuple[str, ...]


def largest(fits: Callable[[int], bool], low: int = 0) -> int | None:
    """The largest n for which a condition holds that, once false, stays false; `low` is known to hold. None: any."""
    high = max(low, 1)
    while fits(high):
        low, high = high, 2 * high
        if high > UNBOUNDED:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        if fits(middle):
            low = middle
        else:
            high = middle
    return low


def fit(
    architecture: Architecture,
    *,
    capacity: int,
    utilization: Fraction = Fraction(1),
    batch: int = 1,
    context: int | None = None,
    parallel: Layout | None = None,
    advice: bool = True,
    **how: Any,
) -> Fit:
    """Whether a model fits devices of this capacity, and what is the most that does. `how`: as for Inference.

    Without `advice` the other formats and layouts are not tried.
    """
    if not 0 < utilization <= 1:
        raise InputError(f"--utilization {float(utilization):g}: must be above 0, at most 1", kind="usage")
    budget = int(capacity * utilization)
    length = context or architecture.c
    run = Inference(architecture, parallel=parallel, **how)
    stage, device = run.fullest(batch, length)
    fits = device.total <= budget
    max_batch = largest(lambda n: run.needed(n, length) <= budget)
    max_context = largest(lambda n: run.needed(batch, n) <= budget)
    return Fit(
        model=architecture.name,
        fits=fits,
        budget=budget,
        needed=device.total,
        headroom=budget - device.total,
        max_batch=max_batch,
        max_context=max_context,
        limited_by=limited_by(run, batch, length, budget),
        widest_dtype=widest_dtype(run, batch, length, budget) if advice else None,
        batch=batch,
        context=length,
        dtype=run.dtype,
        kv_dtype=run.kv_dtype,
        engine=run.engine,
        devices=run.parallel.devices,
        parallel=run.parallel.shown(),
        capacity=capacity,
        utilization=float(utilization),
        per_device=device,
        would_fit={} if fits or not advice else dict(_changes(run, how, batch, length, budget, max_batch, max_context)),
        exact=run.exact(),
        estimated=run.estimated(stage, batch, length),
        notes=run.notes(),
    )


def limited_by(run: Inference, batch: int, context: int, budget: int) -> str:
    """weights or overhead where these alone exceed the budget, else the larger of kv and activations."""
    device = run.fullest(batch, context)[1]
    if device.weights > budget:
        return "weights"
    if device.weights + device.overhead > budget:
        return "overhead"
    return "kv" if device.kv >= device.activations else "activations"


def formats(run: Inference) -> list[str]:
    """The weight formats to choose among: GGUF's for llama.cpp and where one of them was asked for, else the others."""
    return list(MIXES if run.engine == "llama.cpp" or run.dtype in MIXES else FORMATS)


def widest_dtype(run: Inference, batch: int, context: int, budget: int) -> str | None:
    """The format with most bytes that still fits with all else as it is. Of equal ones the first."""
    fullest: list[tuple[int, str]] = []
    for name in formats(run):
        try:
            needed = run.in_format(name).needed(batch, context)
        except InputError:  # its blocks can't be split so
            continue
        if needed <= budget:
            fullest.append((needed, name))
    return max(fullest, key=lambda found: found[0])[1] if fullest else None


def _changes(
    run: Inference, how: dict[str, Any], batch: int, context: int, budget: int,
    max_batch: int | None, max_context: int | None,
) -> Iterator[tuple[str, Any]]:  # fmt: skip
    """Single changes after which it would fit."""
    if max_context:
        yield "context", max_context
    if max_batch:
        yield "batch", max_batch
    narrower = widest_dtype(run, batch, context, budget)
    if narrower is not None:
        yield "dtype", narrower
    for kv_dtype in ("fp8", "q8_0", "q4_0"):
        if (kv_dtype == "fp8") != (run.engine == "llama.cpp") and kv_dtype != run.kv_dtype:
            other = Inference(run.architecture, parallel=run.parallel, **{**how, "kv_dtype": kv_dtype})
            if other.needed(batch, context) <= budget:
                yield "kv_dtype", kv_dtype
                break
    tp = _enough_devices(run, how, batch, context, budget)
    if tp is not None:
        yield "tp", tp


MAX_TP = 1024


def _enough_devices(run: Inference, how: dict[str, Any], batch: int, context: int, budget: int) -> int | None:
    """The smallest tensor parallelism, by doubling, that fits."""
    tp = run.parallel.tp * 2
    while tp <= MAX_TP:
        try:
            more = layout(run.architecture, tp=tp, pp=run.parallel.pp, ep=run.parallel.ep, dp=run.parallel.dp)
            if Inference(run.architecture, parallel=more, **how).needed(batch, context) <= budget:
                return tp
        except InputError:
            return None
        tp *= 2
    return None
