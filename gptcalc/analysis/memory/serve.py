"""What an engine has left for the cache, and how many requests that holds, as its log prints them at the start."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from msgspec.structs import replace

from gptcalc.analysis.memory.engines import blocks
from gptcalc.analysis.memory.fit import usable
from gptcalc.analysis.memory.inference import Inference, which
from gptcalc.analysis.memory.result import Device
from gptcalc.analysis.memory.room import Room, largest, room
from gptcalc.analysis.memory.vllm import settled
from gptcalc.analysis.params import NAMES, borrowed
from gptcalc.answers import Outcome
from gptcalc.architecture import Architecture
from gptcalc.conventions import FitRun, possible
from gptcalc.equations import equations
from gptcalc.errors import InputError


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
    if draft is not None:
        check_pair(architecture, draft)
    how = settled(how, capacity, device_name)
    budget, context = usable(capacity, how.utilization), how.length(architecture)
    run = Inference(architecture, how)
    proposer = None if draft is None else Inference(draft, how)
    starting = run.starting(budget)
    condition = None if starting is run else f"if it is {which(starting.versions())}"
    tried = [(least(one, proposer and proposer.like(one), budget, context), one) for one in starting.versions()]
    (found, beside, stage), run = min(tried, key=lambda each: each[0][0].concurrency)
    found = shortest(found, (each[0] for each, _ in tried))
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
        published=run.is_published,
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


class Pair(NamedTuple):
    """A model and the one that proposes tokens for it, on a device of one pipeline stage."""

    run: Inference
    draft: Inference | None
    stage: int

    def held(self, sequences: int, context: int) -> int:
        """Bytes of their caches."""
        own = sum(part.total for part in self.run.held(self.stage, sequences, context))
        return own + (0 if self.draft is None else sum(part.total for part in self.draft.held(0, sequences, context)))

    def beside(self, sequences: int, context: int) -> Device:
        """The device without them; of a draft model its weights alone, as it runs in the same buffers."""
        one = self.run.device(self.stage, sequences, context)
        draft = self.draft
        weights = one.weights + (0 if draft is None else draft.stages[min(self.stage, len(draft.stages) - 1)].weights)
        return Device.holding(weights=weights, activations=one.activations, overhead=one.overhead)

    def fits(self, budget: int, sequences: int, context: int) -> bool:
        return self.beside(sequences, context).total + self.held(sequences, context) <= budget

    def room(self, budget: int, context: int) -> tuple[Room, Device]:
        """What the rest of the budget holds, and what is beside it while as many requests run as fit, as in `fit`."""
        requests = largest(lambda n: self.fits(budget, n, context)) or 0
        beside = self.beside(max(requests, 1), context)
        cut = (
            None
            if self.draft is not None
            else blocks(self.run.how.engine, self.run.stages[self.stage].pools, self.run.slots)
        )
        found = room(max(budget - beside.total, 0), lambda length: self.held(1, length), context, cut)
        longest = largest(lambda n: self.fits(budget, 1, n))
        return replace(found, requests=requests, longest=longest), beside


def least(run: Inference, draft: Inference | None, budget: int, context: int) -> tuple[Room, Device, int]:
    """The room of the pipeline stage that holds fewest requests. Data parallel ranks hold as many each."""
    rooms = [(*Pair(run, draft, number).room(budget, context), number) for number in range(run.parallel.pp)]
    found, beside, number = min(rooms, key=lambda each: each[0].concurrency)
    return shortest(found, (each[0] for each in rooms)), beside, number


def shortest(found: Room, rooms: Iterable[Room]) -> Room:
    """With what all of these rooms hold of requests, and of a single one."""
    each = list(rooms)
    limits = [one.longest for one in each if one.longest is not None]
    return replace(found, requests=min(one.requests for one in each), longest=min(limits, default=None))
