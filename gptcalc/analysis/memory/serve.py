"""What an engine has left for the cache, and how many requests that holds, as its log prints them at the start."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from gptcalc.analysis.memory.engines import blocks
from gptcalc.analysis.memory.fit import usable
from gptcalc.analysis.memory.inference import Inference, which
from gptcalc.analysis.memory.result import Device
from gptcalc.analysis.memory.room import Room, largest, room
from gptcalc.analysis.memory.settled import settled
from gptcalc.answers import Outcome
from gptcalc.architecture import Architecture
from gptcalc.conventions import FitRun, possible


class Served(Outcome, frozen=True, kw_only=True):
    """The keys of `gptcalc serve --json`; bytes are one device's, the fullest."""

    model: str
    starts: bool  # whether one request of the context has room
    context: int
    dtype: str
    kv_dtype: str
    engine: str
    devices: int
    parallel: dict[str, int]
    capacity: int
    utilization: float
    budget: int
    available: int  # for the cache; negative where weights and start alone don't fit
    tokens: int
    concurrency: float  # requests of the context at once
    requests: int  # whole ones that fit at once, as in fit
    max_context: int | None  # of a single request; null: any
    made_for: int  # the model's own context
    block_bytes: int | None = None
    block_tokens: int | None = None
    blocks: int | None = None
    request_bytes: int
    beside: Device  # what is held beside the cache
    passes: str | None = None
    published: bool = False
    condition: str | None = None
    draft: str | None = None  # a model that proposes tokens
    estimated: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def served(
    architecture: Architecture, capacity: int, how: FitRun, device_name: str = "", draft: Architecture | None = None
) -> Served:
    """What a server has left. A draft model takes weights of its own, and cache for every request."""
    how = settled(architecture, how, capacity, device_name)
    budget, context = usable(capacity, how.utilization), how.length(architecture)
    run = Inference(architecture, how, draft)
    starting = run.starting(budget)
    condition = None if starting is run else f"if it is {which(starting.versions())}"
    tried = [(least(one, budget, context), one) for one in starting.versions()]
    (found, beside, stage), run = min(tried, key=lambda each: each[0][0].concurrency)
    found = shortest(found, (each[0] for each, _ in tried))
    return Served(
        model=architecture.name,
        starts=found.requests > 0,
        context=context,
        dtype=run.dtype,
        kv_dtype=run.how.kv_dtype,
        engine=how.engine,
        devices=run.parallel.devices,
        parallel=run.parallel.shown(),
        capacity=capacity,
        utilization=float(how.utilization),
        budget=budget,
        available=budget - beside.total,
        tokens=found.tokens,
        concurrency=found.concurrency,
        requests=found.requests,
        max_context=possible(found.longest, architecture),
        made_for=architecture.c,
        block_bytes=found.block_bytes,
        block_tokens=found.block_tokens,
        blocks=found.blocks,
        request_bytes=found.request_bytes,
        beside=beside,
        passes=run.passes(),
        published=run.is_published,
        condition=condition,
        draft=run.drafted_by,
        estimated=run.estimated(stage, 1, context),
        notes=run.notes(),
    )


def hold(run: Inference, stage: int, budget: int, context: int) -> tuple[Room, Device]:
    """What the rest of a device's budget holds, and what is beside it while as many requests run as fit."""

    def kept(sequences: int, length: int) -> int:
        return sum(part.total for part in run.held(stage, sequences, length))

    def fits(sequences: int, length: int) -> bool:
        return run.device(stage, sequences, length).total <= budget

    requests = largest(lambda n: fits(n, context)) or 0
    one = run.device(stage, max(requests, 1), context)
    beside = Device.holding(weights=one.weights, activations=one.activations, overhead=one.overhead)
    cut = None if run.draft is not None else blocks(run.how.engine, run.stages[stage].pools, run.paging.slots)
    found = room(max(budget - beside.total, 0), lambda length: kept(1, length), context, cut)
    return replace(found, requests=requests, longest=largest(lambda n: fits(1, n))), beside


def least(run: Inference, budget: int, context: int) -> tuple[Room, Device, int]:
    """The room of the pipeline stage that holds fewest requests. Data parallel ranks hold as many each."""
    rooms = [(*hold(run, number, budget, context), number) for number in range(run.parallel.pp)]
    found, beside, number = min(rooms, key=lambda each: each[0].concurrency)
    return shortest(found, (each[0] for each in rooms)), beside, number


def shortest(found: Room, rooms: Iterable[Room]) -> Room:
    """With what all of these rooms hold of requests, and of a single one."""
    each = list(rooms)
    limits = [one.longest for one in each if one.longest is not None]
    return replace(found, requests=min(one.requests for one in each), longest=min(limits, default=None))
