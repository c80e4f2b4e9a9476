"""Does it fit? The largest batch and context that do, found by integer search over the true function."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from gptcalc.analysis.memory.cache import not_kept
from gptcalc.analysis.memory.inference import Inference, which
from gptcalc.analysis.memory.mixes import MIXES
from gptcalc.analysis.memory.offload import blocks
from gptcalc.analysis.memory.result import Device
from gptcalc.analysis.memory.room import largest, most
from gptcalc.analysis.memory.settled import settled
from gptcalc.answers import Outcome
from gptcalc.architecture import Architecture
from gptcalc.conventions import FitRun, Share, possible
from gptcalc.dtypes import FORMATS, GPTQ
from gptcalc.errors import InputError

if TYPE_CHECKING:
    from gptcalc.analysis.memory.training import Training


class Fit(Outcome, frozen=True, kw_only=True):
    """The keys of `gptcalc fit --json`. `budget` is what may be used of each device."""

    model: str
    fits: bool
    budget: int
    needed: int  # by the fullest device
    headroom: int  # negative where it doesn't fit
    max_batch: int | None  # at this context; null: any
    max_context: int | None  # at this batch; null: any. Not capped at the model's own context, but at a learned table's
    made_for: int  # the model's own context
    limited_by: str  # what takes most of what one sequence more would need, or what is too large already
    widest_dtype: str | None = None  # of the weight formats that fit, the one with most bytes
    batch: int
    context: int
    dtype: str
    kv_dtype: str | None = None  # inference only
    engine: str | None = None  # inference only
    passes: str | None = None  # how a prompt is run; inference only
    published: bool = False  # whether the weights are as the model is published
    draft: str | None = None  # a model beside it that proposes tokens
    condition: str | None = None  # what the answer hangs on, where it is close
    devices: int
    parallel: dict[str, int]
    capacity: int  # of one device
    utilization: float
    per_device: Device  # the fullest
    host: int = 0  # bytes kept in the host's memory
    would_fit: dict[str, Any] = field(default_factory=dict)  # where it doesn't: single changes that would do
    exact: tuple[str, ...]
    estimated: tuple[str, ...] = ()
    notes: tuple[str, ...]


def fitted(
    architecture: Architecture, capacity: int, how: FitRun, device_name: str = "", draft: Architecture | None = None
) -> Fit:
    """Whether a model fits devices of this capacity, and what is the most that does. vLLM's rules ask for a name.

    draft: a model beside it that proposes tokens.
    """
    found, asked = judged(architecture, capacity, how, device_name, draft)
    return advised(found, asked) if how.advice else found


def judged(
    architecture: Architecture, capacity: int, how: FitRun, device_name: str = "", draft: Architecture | None = None
) -> tuple[Fit, Asked]:
    """The verdict without advice, and what `advised` needs to give it."""
    how = settled(architecture, how, capacity, device_name)
    run = Inference(architecture, how, draft)
    asked = Asked(run, usable(capacity, how.utilization), how.batch, how.length(architecture))
    every, run = run, run.starting(asked.budget)
    asked = replace(asked, run=run)
    fuller = run.fuller(asked.batch, asked.context)
    stage, device = fuller.fullest(asked.batch, asked.context)
    found = replace(
        answer(asked, device, capacity, how.utilization),
        kv_dtype=run.how.kv_dtype,
        engine=how.engine,
        estimated=fuller.estimated(stage, asked.batch, asked.context),
        passes=run.passes(),
        published=run.is_published,
        draft=run.drafted_by,
        condition=condition(run, every, asked, device),
    )
    return found, asked


def advised(found: Fit, asked: Asked) -> Fit:
    """With what takes longer: the widest weights that fit, and what would do."""
    run = asked.run
    if not isinstance(run, Inference):
        return found
    widest = widest_dtype(asked)
    changes = {} if found.fits else dict(_changes(asked, run, found, widest))
    return replace(found, widest_dtype=widest, would_fit=changes)


def condition(run: Inference, every: Inference, asked: Asked, device: Device) -> str | None:
    """What a yes hangs on that is within an estimate's margin, and what a no could be turned by.

    run: that is judged; every: with all of vLLM's generations.
    """
    left = asked.budget - device.total
    if 0 <= left < (margin := run.margin(device)):
        return f"if what is estimated is met to {left:,} bytes; it may be missed by {margin:,}"
    if left >= 0:
        return f"if it is {which(run.versions())}" if run is not every else None
    fitting = [one for one in every.versions() if one.total(asked.batch, asked.context) <= asked.budget]
    return f"unless it is {which(fitting)}" if fitting else None


class Asked(Struct, frozen=True):
    """A run, what may be used of a device, and the work."""

    run: Inference | Training
    budget: int
    batch: int
    context: int

    def fits(
        self, run: Inference | Training | None = None, batch: int | None = None, context: int | None = None
    ) -> bool:
        """Whether it fits, with one thing changed."""
        return (run or self.run).needed(batch or self.batch, context or self.context) <= self.budget


def usable(capacity: int, utilization: Share) -> int:
    if capacity < 1:
        raise InputError("--budget: no memory at all", "write 24GiB or 80GB", "usage")
    if not 0 < utilization <= 1:
        raise InputError(f"--utilization {float(utilization):g}: must be above 0, at most 1", kind="usage")
    return int(capacity * (Fraction(str(utilization)) if isinstance(utilization, float) else utilization))


def answer(asked: Asked, device: Device, capacity: int, utilization: Share) -> Fit:
    run = asked.run
    return Fit(
        model=run.architecture.name,
        fits=device.total <= asked.budget,
        budget=asked.budget,
        needed=device.total,
        headroom=asked.budget - device.total,
        max_batch=most(lambda n: run.needed(n, asked.context), asked.budget),
        max_context=possible(most(lambda n: run.needed(asked.batch, n), asked.budget), run.architecture),
        made_for=run.architecture.c,
        limited_by=limited_by(device, asked.budget),
        batch=asked.batch,
        context=asked.context,
        dtype=run.dtype,
        devices=run.parallel.devices,
        parallel=run.parallel.shown(),
        capacity=capacity,
        utilization=float(utilization),
        per_device=device,
        host=_on_host(asked),
        exact=run.exact(),
        notes=run.notes(),
    )


def _on_host(asked: Asked) -> int:
    if not isinstance(asked.run, Inference) or not asked.run.host:
        return 0
    from gptcalc.analysis.memory.account import on_host

    return on_host(asked.run, asked.batch, asked.context)


#: parts that no batch or context changes
FIXED = ("weights", "gradients", "optimizer", "overhead")


def limited_by(device: Device, budget: int) -> str:
    """The largest of the fixed parts where these alone exceed the budget, else the larger of cache and activations."""
    fixed = {part: getattr(device, part) for part in FIXED}
    growing = {part: getattr(device, part) for part in ("kv", "activations")}
    parts = fixed if sum(fixed.values()) > budget else growing
    return max(parts, key=lambda part: parts[part])


def formats(run: Inference) -> list[str]:
    """The weight formats to choose among: GGUF's for llama.cpp and where one of them was asked for, else the others;
    for an engine those that it reads. GPTQ's in other than 4 bits are rare and none of them."""
    if run.how.engine == "llama.cpp" or run.dtype in MIXES:
        return list(MIXES)
    ideal = run.how.engine == "ideal"
    return [name for name, form in FORMATS.items() if name not in GPTQ and (ideal or not form.alone)]


def packs_nothing(name: str) -> bool:
    """Whether all weights are in one type of single numbers."""
    return MIXES[name].block == 1 if name in MIXES else FORMATS[name].is_wide


def widest_dtype(asked: Asked) -> str | None:
    """The format with most bytes that still fits with all else as it is. Of those within a hundredth the first.

    Where a type fits that packs nothing it is that: these stand first, and what is packed takes less.
    """
    run = asked.run
    if not isinstance(run, Inference):
        return None
    sizes: dict[str, int] = {}
    for name in formats(run):
        with suppress(InputError):  # its blocks can't be split so
            sizes[name] = run.in_format(name).needed(asked.batch, asked.context)
            if sizes[name] <= asked.budget and packs_nothing(name):
                return name
    fitting = {name: size for name, size in sizes.items() if size <= asked.budget}
    most_bytes = max(fitting.values(), default=0)
    return next((name for name, size in fitting.items() if 100 * size >= 99 * most_bytes), None)


def _changes(asked: Asked, run: Inference, found: Fit, widest: str | None) -> Iterator[tuple[str, Any]]:
    """Single changes after which it would fit."""
    yield from less_work(found)
    if widest is not None:
        yield "dtype", widest
    yield from smaller_cache(asked, run)
    if run.how.engine == "llama.cpp":
        yield from less_on_the_device(asked, run)
        yield from more_devices(asked, lambda pp: run.changed(pp=pp), "pp")
        return
    yield from more_devices(asked, lambda tp: run.changed(tp=tp, dp=run.parallel.dp))


def smaller_cache(asked: Asked, run: Inference) -> Iterator[tuple[str, Any]]:
    """The first of the types in which the engine keeps caches that would do."""
    with suppress(InputError):  # heads are no whole blocks
        for kv_dtype in ("q8_0", "q4_0") if run.how.engine == "llama.cpp" else ("fp8",):
            if not_kept(run.how.engine, kv_dtype) is None and asked.fits(run.changed(kv_dtype=kv_dtype)):
                yield "kv_dtype", kv_dtype
                return


def less_on_the_device(asked: Asked, run: Inference) -> Iterator[tuple[str, Any]]:
    """The most layers, or the most experts, that llama.cpp can keep on one device."""
    layers = run.architecture.n_layers

    def fits(**changes: int) -> bool:
        return asked.fits(run.changed(**changes))

    with suppress(InputError):
        if any(share.experts for shares in run.shares for share in shares) and fits(n_cpu_moe=layers):
            yield "n_cpu_moe", layers - (largest(lambda n: n <= layers and fits(n_cpu_moe=layers - n)) or 0)
        if fits(ngl=0):
            yield "ngl", largest(lambda n: n <= blocks(run.weights) and fits(ngl=n)) or 0


def less_work(found: Fit) -> Iterator[tuple[str, Any]]:
    if found.max_context:
        yield "context", found.max_context
    if found.max_batch:
        yield "batch", found.max_batch


MAX_WAYS = 1024


def more_devices(
    asked: Asked, made: Callable[[int], Inference | Training], way: Literal["tp", "pp"] = "tp"
) -> Iterator[tuple[str, Any]]:
    """The smallest tensor parallelism, or number of pipeline stages, by doubling, that fits."""
    n = getattr(asked.run.parallel, way) * 2
    with suppress(InputError):
        while n <= MAX_WAYS:
            if asked.fits(made(n)):
                yield way, n
                break
            n *= 2
