"""What an engine has left for the cache, and how many requests that holds, as its log prints them at the start."""

from __future__ import annotations

from msgspec import Struct

from gptcalc.analysis.memory.engines import blocks
from gptcalc.analysis.memory.fit import usable
from gptcalc.analysis.memory.inference import Inference, which
from gptcalc.analysis.memory.result import Device
from gptcalc.analysis.memory.room import Room, room
from gptcalc.analysis.memory.vllm import settled
from gptcalc.analysis.params import NAMES, borrowed
from gptcalc.architecture import Architecture
from gptcalc.conventions import FitRun, possible
from gptcalc.equations import equations
from gptcalc.errors import InputError


class Served(Struct, frozen=True, kw_only=True):
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
    requests: int
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
    if draft is not None:
        check_pair(architecture, draft)
    how = settled(how, capacity, device_name)
    budget, context = usable(capacity, how.utilization), how.length(architecture)
    run = Inference(architecture, how)
    proposer = None if draft is None else Inference(draft, how)
    starting = run.starting(budget)
    condition = None if starting is run else f"if it is {which(starting.versions())}"
    tried = [(least(one, proposer and proposer.like(one), budget, context), one) for one in starting.versions()]
    found, run = min(tried, key=lambda each: each[0].concurrency)
    proposer = proposer and proposer.like(run)
    stage = run.fullest(1, context)[0]
    beside = left_beside(run, proposer, stage, context)
    return Served(
        model=architecture.name,
        starts=found.requests > 0,
        context=context,
        dtype=run.dtype,
        kv_dtype=how.kv_dtype,
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
        published=how.dtype is None,
        condition=condition,
        draft=None if draft is None else draft.name,
        estimated=run.estimated(stage, 1, context),
        notes=(*run.notes(), *(() if draft is None else shared(architecture, draft))),
    )


def check_pair(architecture: Architecture, draft: Architecture) -> None:
    """InputError where a draft reads hidden states or tables of another model than this one."""
    target = draft.target
    if target is None:
        return
    if target.d != architecture.d:
        problem = (
            f"{draft.name} reads hidden states of {target.d:,} channels, {architecture.name} has {architecture.d:,}"
        )
        raise InputError(f"--draft: {problem}", "it was made for another model")
    if (draft.embedding.borrowed or draft.head.borrowed) and draft.v != architecture.v:
        problem = f"{draft.name} reads tables of {draft.v:,} rows, those of {architecture.name} have {architecture.v:,}"
        raise InputError(f"--draft: {problem}", "it was made for another model")


def shared(architecture: Architecture, draft: Architecture) -> tuple[str, ...]:
    """What is said of tables that a draft reads and the model has."""
    tables = [NAMES.get(part, part) for part in borrowed(equations(draft))]
    return (f"{draft.name} reads the {' and '.join(tables)} of {architecture.name}, counted once",) if tables else ()


def left_beside(run: Inference, draft: Inference | None, stage: int, context: int) -> Device:
    """A device without the cache; of a draft model its weights alone, as it runs in the same buffers."""
    one = run.device(stage, 1, context)
    weights = one.weights + (0 if draft is None else draft.stages[min(stage, len(draft.stages) - 1)].weights)
    return Device.holding(weights=weights, activations=one.activations, overhead=one.overhead)


def least(run: Inference, draft: Inference | None, budget: int, context: int) -> Room:
    """The room of the pipeline stage that holds fewest requests. Data parallel ranks hold as many each."""
    rooms = []
    for number in range(run.parallel.pp):
        beside = left_beside(run, draft, number, context)

        def needed(length: int, number: int = number) -> int:
            own = sum(part.bytes for part in run.held(number, 1, length))
            return own + (0 if draft is None else sum(part.bytes for part in draft.held(0, 1, length)))

        cut = None if draft is not None else blocks(run.how.engine, run.stages[number].pools)
        rooms.append(room(max(budget - beside.total, 0), needed, context, cut))
    return min(rooms, key=lambda found: found.concurrency)
