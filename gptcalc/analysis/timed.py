"""How fast a model can be: a roofline (Williams, Waterman and Patterson 2009) from what its equations compute and move.

A stage takes as long as the slowest of computing, reading memory and talking to peers, all of which run at once; stages
follow each other. With the whole of a device's peak rate and bandwidth this is a bound: nothing is faster. `mfu` and
`mbu` say what share of each is reached. Rates are those of sums in fp32: GeForce cards do twice as much in fp16.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Literal, NamedTuple

from msgspec import Struct

from gptcalc.analysis.memory.inference import Inference
from gptcalc.analysis.memory.room import largest, most
from gptcalc.analysis.traffic import Costs, Traffic
from gptcalc.answers import Outcome
from gptcalc.conventions import InferenceRun, TimeRun

if TYPE_CHECKING:
    from gptcalc.architecture import Architecture
    from gptcalc.sources.devices import DeviceModel

Term = Literal["compute", "weights", "cache", "interconnect"]

#: where a device has no rate for a type, the one that it computes in instead
WIDER = {
    "mxfp4": ("fp8", "bf16", "fp16"),
    "nvfp4": ("fp8", "bf16", "fp16"),
    "fp8": ("bf16", "fp16"),
    "int8": ("fp16", "bf16"),
    "bf16": ("fp16",),
    "fp16": ("bf16",),
}

FORMULA = "E·(1 − (1 − k/E)^B)"


class StageTime(Struct, frozen=True):
    """The layers of one kind in one pass: what they compute and move on a device, and the seconds of each."""

    name: str
    layers: int
    flops: int
    weights_bytes: int
    cache_bytes: int
    sent_bytes: int
    compute_s: float | None
    weights_s: float
    cache_s: float
    interconnect_s: float | None
    seconds: float
    bound: Term


class PassTime(Struct, frozen=True):
    """One pass."""

    seconds: float
    bound: Term
    flops: int  # of one device of each pipeline stage, all stages together
    bytes: int
    stages: tuple[StageTime, ...]


class ExpertsRead(Struct, frozen=True):
    """The experts of a layer that one decode step reads, expected."""

    name: str
    n_experts: int
    top_k: int
    tokens: int
    distinct: float
    formula: str = FORMULA


class Bounds(Struct, frozen=True):
    prefill: Term
    decode: Term | None


class Intensity(Struct, frozen=True):
    """FLOPs for each byte of memory that is read or written."""

    prefill: float
    decode: float | None


class Timed(Outcome, frozen=True, kw_only=True):
    """The keys of `gptcalc time --json`. What is of a decode step is null where a model has none."""

    model: str
    device: str
    devices: int
    parallel: dict[str, int]
    batch: int
    context: int
    dtype: str
    kv_dtype: str
    mfu: float
    mbu: float
    ideal: bool  # all of the peak rate and the bandwidth: a bound
    prefill_s: float
    per_token_s: float | None
    tokens_per_s: float | None
    bound: Bounds
    intensity: Intensity
    balance: dict[str, float]  # of the device: FLOPs for each byte, by type
    crossover_batch: int | None  # from which on a decode step is bound by compute; null: never
    cache_batch: int | None  # from which on the cache takes as long as the weights; null: never
    most_tokens_per_s: float | None  # with a batch without end, were there memory for it
    saturated_batch: int | None  # from which on a step gives nine tenths of that: the device is saturated
    max_batch: int | None  # what the devices' memory holds; null: any
    needed: int  # bytes that a device must hold
    memory: int  # that it has
    fits: bool
    experts: tuple[ExpertsRead, ...]
    prefill: PassTime
    decode: PassTime | None
    notes: tuple[str, ...]


def peak(device: DeviceModel, kind: str) -> int | None:
    """FLOPs a second with operands of a type, or of the one that a device computes in instead; None: not known."""
    return next((device.peak[name] for name in (kind, *WIDER.get(kind, ())) if name in device.peak), None)


class Rates(NamedTuple):
    """A device as it is used."""

    device: DeviceModel
    mfu: float
    mbu: float

    def compute(self, flops: dict[str, float]) -> float | None:
        """Seconds; None where the device's rate for a type is not known."""
        seconds = 0.0
        for kind, n in flops.items():
            rate = peak(self.device, kind)
            if rate is None:
                return None
            seconds += n / (rate * self.mfu)
        return seconds

    def read(self, size: float) -> float:
        return size / (self.device.bandwidth * self.mbu)

    def talk(self, sent: int) -> float | None:
        """Seconds of as much sent as received; None where the links' rate is not known."""
        if not sent:
            return 0.0
        return None if self.device.link is None else sent / (self.device.link / 2)

    def stage(self, costs: Costs) -> StageTime:
        weights, cache = self.read(costs.weights), self.read(costs.cache)
        compute, talk = self.compute(costs.flops), self.talk(costs.sent)
        terms: dict[Term, float] = {"compute": compute or 0.0, "interconnect": talk or 0.0}
        terms["weights" if weights >= cache else "cache"] = weights + cache
        bound = max(terms, key=lambda term: terms[term])
        flops = round(sum(costs.flops.values()))
        return StageTime(costs.stage, costs.layers, flops, round(costs.weights), costs.cache, costs.sent, compute,
                         weights, cache, talk, terms[bound], bound)  # fmt: skip


def run(traffic: Traffic, rates: Rates, batch: int) -> PassTime:
    """One pass over all pipeline stages, one after the other."""
    stages = [rates.stage(costs) for number in range(traffic.parallel.pp) for costs in traffic.costs(number, batch)]
    by_term: dict[Term, float] = {}
    for stage in stages:
        by_term[stage.bound] = by_term.get(stage.bound, 0.0) + stage.seconds
    return PassTime(
        seconds=sum(stage.seconds for stage in stages),
        bound=max(by_term, key=lambda term: by_term[term]),
        flops=sum(stage.flops for stage in stages),
        bytes=sum(stage.weights_bytes + stage.cache_bytes for stage in stages),
        stages=tuple(stages),
    )


def step_seconds(architecture: Architecture, device: DeviceModel, how: TimeRun) -> float:
    """Seconds of a decode step alone, of a model that has one."""
    return run(Traffic(architecture, how, "decode"), Rates(device, float(how.mfu), float(how.mbu)), how.batch).seconds


def timed(architecture: Architecture, device: DeviceModel, how: TimeRun) -> Timed:
    """How long a prompt and a further token take on a device of this kind, or on several."""
    rates = Rates(device, float(how.mfu), float(how.mbu))
    context = how.length(architecture)
    traffic = Traffic(architecture, how, "prefill")
    first = run(traffic, rates, how.batch)
    step, further = None, None
    if not architecture.sees_all:
        further = Traffic(architecture, how, "decode")
        step = run(further, rates, how.batch)
    held = Inference(architecture, how.to(InferenceRun))
    needed = held.needed(how.batch, context)
    reached = () if further is None else further.reached(how.batch)
    return Timed(
        model=architecture.name,
        device=device.name,
        devices=traffic.parallel.devices,
        parallel=traffic.parallel.shown(),
        batch=how.batch,
        context=context,
        dtype=traffic.weights.dtype,
        kv_dtype=how.kv_dtype,
        mfu=rates.mfu,
        mbu=rates.mbu,
        ideal=rates.mfu == rates.mbu == 1,
        prefill_s=first.seconds,
        per_token_s=None if step is None else step.seconds,
        tokens_per_s=None if step is None else how.batch / step.seconds,
        bound=Bounds(first.bound, None if step is None else step.bound),
        intensity=Intensity(_intensity(first), None if step is None else _intensity(step)),
        balance={kind: rate / device.bandwidth for kind, rate in device.peak.items()},
        crossover_batch=None if further is None else crossover(further, rates),
        cache_batch=None if further is None else overtaken(further),
        most_tokens_per_s=None if further is None else most_of(further, rates),
        saturated_batch=None if further is None else saturated(further, rates),
        max_batch=most(lambda batch: held.needed(batch, context) if batch else 0, device.visible),
        needed=needed,
        memory=device.visible,
        fits=needed <= device.visible,
        experts=tuple(ExpertsRead(r.stage, r.n_experts, r.top_k, r.tokens, r.distinct) for r in reached),
        prefill=first,
        decode=step,
        notes=notes(traffic, rates, first if step is None else step),
    )


def _intensity(found: PassTime) -> float:
    return found.flops / found.bytes if found.bytes else 0.0


#: a batch without end
ENDLESS = 2**40


def crossover(traffic: Traffic, rates: Rates) -> int | None:
    """The smallest batch whose decode step is bound by compute as a whole; None where the cache's share is never less,
    or a rate is not known."""

    def reads_longer(batch: int) -> bool:
        costs = [c for number in range(traffic.parallel.pp) for c in traffic.costs(number, batch)]
        seconds = [rates.compute(c.flops) for c in costs]
        return sum(s or 0.0 for s in seconds) < sum(rates.read(c.weights + c.cache) for c in costs)

    if reads_longer(ENDLESS):
        return None
    found = largest(reads_longer)
    return None if found is None else found + 1


def overtaken(traffic: Traffic) -> int | None:
    """The smallest batch whose decode step reads as much of the cache as of the weights; None where none does."""

    def is_less(batch: int) -> bool:
        costs = [c for number in range(traffic.parallel.pp) for c in traffic.costs(number, batch)]
        return sum(c.cache for c in costs) < sum(c.weights for c in costs)

    if is_less(ENDLESS):
        return None
    found = largest(is_less)
    return None if found is None else found + 1


def most_of(traffic: Traffic, rates: Rates) -> float:
    """Tokens a second that no batch exceeds: the weights' share of a token is then nothing."""
    return ENDLESS / run(traffic, rates, ENDLESS).seconds


#: of the tokens a second that no batch exceeds; more sequences at once hardly add to it
SATURATED = Fraction(9, 10)


def saturated(traffic: Traffic, rates: Rates) -> int | None:
    """The smallest batch of which a step gives nine tenths of what no batch exceeds: the concurrency that a device is
    saturated with."""
    enough = float(SATURATED) * most_of(traffic, rates)
    found = largest(lambda batch: batch == 0 or batch / run(traffic, rates, batch).seconds < enough)
    return None if found is None else found + 1


def notes(traffic: Traffic, rates: Rates, found: PassTime) -> tuple[str, ...]:
    """What is left out, and why."""
    said = left_out(traffic, rates.device)
    if any(stage.interconnect_s is None for stage in found.stages):
        said.append(f"the interconnect is left out: the rate of {rates.device.title}'s links is not known")
    if traffic.parallel.pp > 1:
        said.append(f"one batch at a time: {traffic.parallel.pp} in flight would fill the pipeline")
    return tuple(said)


def left_out(traffic: Traffic, device: DeviceModel) -> list[str]:
    """Says of which types the device's rate is not known: stages that multiply in them are bound by memory alone."""
    kinds = {
        kind
        for number in range(traffic.parallel.pp)
        for costs in traffic.costs(number, 1)
        for kind in costs.flops
        if peak(device, kind) is None
    }
    named = " or ".join(sorted(kinds))
    return [f"compute is left out: no {named} rate of {device.title} is known"] if kinds else []
