"""What a device must hold to train a model: weights, gradients, optimiser states, activations.

Weights and states are exact for the named rules (`optimizer`, `zero`, `lora`); activations are exact for what the
equations mark as saved (`activations`), and an estimate of a framework, whose kernels keep more or less.
"""

from __future__ import annotations

from collections import Counter
from copy import copy
from typing import NamedTuple

from gptcalc.analysis.memory import lora as low_rank
from gptcalc.analysis.memory import optimizer as optimizers
from gptcalc.analysis.memory.held import Share
from gptcalc.analysis.memory.live import width_of
from gptcalc.analysis.memory.result import PARTS, Device, Memory, Replicated, added
from gptcalc.analysis.memory.saved import Kept, Work, embedding_kept, kept, output_kept
from gptcalc.analysis.memory.sharding import Layout, blocks_between, layout, stage_ranges
from gptcalc.analysis.memory.weights import Weights
from gptcalc.analysis.memory.zero import Parameter, Plan, States, host_planned, largest_layer, states
from gptcalc.analysis.params import not_counted
from gptcalc.architecture import Architecture
from gptcalc.conventions import Engine, TrainingRun
from gptcalc.dtypes import BF16, FP32
from gptcalc.equations import Layer, equations
from gptcalc.errors import InputError
from gptcalc.options import keywords

#: the components that people don't think of where they say that layers are frozen
TABLES = ("embedding", "output")
#: whose kernels keep the activations, in words (saved tensors of a layer as measured)
KERNELS: dict[Engine, str] = {
    "ideal": "by fused kernels; transformers' own keep 1.4 to 1.8 times as much a layer (--engine transformers)",
    "transformers": "by transformers' own kernels, as measured to 7 % a layer of Llama's kin, to 16 % of others; norms "
    "in fp32 (OLMo 2, Cohere) keep up to a third more, Falcon's attention twice as much, GPT-2's a third less, a GELU "
    "of one kernel beside no gate (StarCoder) half",
}


class TrainingMemory(Memory, frozen=True, kw_only=True):
    """The keys of `gptcalc memory --training --json`."""

    optimizer: str
    gradients: str  # their type
    zero: int
    offload: str
    recompute: str
    attention: str  # flash, or eager: scores kept whole
    sequence_parallel: bool
    micro_batch: int  # sequences of one pass of one data parallel rank
    in_flight: int  # micro-batches whose activations the fullest device holds
    lora: str | None
    params: int  # of the whole model, adapters left out
    trainable: int
    host_planned: int  # DeepSpeed's estimate of the host's memory, were all devices in one node


class Held(NamedTuple):
    """What one device of a pipeline stage holds, and of what it is the sum."""

    device: Device
    states: States
    pieces: dict[str, int]
    in_flight: int


class Training:
    """The memory of training one model, one way, as a function of the micro-batch and the context."""

    def __init__(self, architecture: Architecture, how: TrainingRun) -> None:
        self.architecture = architecture
        self.how = how
        self.parallel = layout(architecture, how)
        self.plan = Plan(optimizers.named(how.optimizer), how.zero, how.offload, how.gradients).checked()
        self.adapted = None if how.lora is None else low_rank.parsed(how.lora, architecture.storage)
        how.check_modules(architecture)
        self.weights = Weights(architecture, how.dtype, self.parallel, modules=how.mtp)
        self.dtype = self.weights.dtype
        self.unsplit = Weights(architecture, how.dtype, Layout(), modules=how.mtp)
        self.model = equations(architecture)
        self._check()
        self.parameters = [self._parameters(self.weights, number) for number in range(self.parallel.pp)]
        self.states = [states(held, self.plan) for held in self.parameters]

    def _check(self) -> None:
        format = self.weights.format
        if self.adapted is not None:
            if format is None:
                raise InputError(f"--dtype {self.dtype}: GGUF types are not trained on", "use nf4 or int8", "usage")
            low_rank.check(self.unsplit.stage(0), self.adapted)
        elif format is None or not format.is_wide:
            raise InputError(
                f"--dtype {self.dtype}: weights are trained in bf16, fp16 or fp32",
                "with --lora they stay as they are, in nf4, int8 and others",
                "usage",
            )

    # weights and states

    def _parameters(self, weights: Weights, number: int) -> list[Parameter]:
        """A device's tensors and, where there are adapters, those in their place as what is trained."""
        shares = weights.stage(number)
        own = [self._parameter(share, weights.parallel) for share in shares]
        if self.adapted is None:
            return own
        for adapter in low_rank.adapters(shares, self.adapted):
            own += low_rank.parameters(adapter, self.adapted.rank, ranks(adapter.experts, weights.parallel))
        return own

    def _parameter(self, share: Share, parallel: Layout) -> Parameter:
        row = share.row
        trained, same = self.adapted is None, ranks(share.experts, parallel)
        return Parameter(row.name, share.tensor.layer, share.shape, row.count, row.bytes, trained, same)

    def trainable(self) -> int:
        """Parameters that are trained, in the whole model."""
        return sum(p.times * p.elements for p in self._parameters(self.unsplit, 0) if p.trained)

    def params(self) -> int:
        return sum(share.row.count * share.row.params for share in self.unsplit.stage(0))

    # activations

    def micro(self, batch: int | None) -> int:
        """Sequences of one pass: as given, else a data parallel rank's whole share of the batch."""
        return self.how.micro_batch or -(-(batch or 1) // self.parallel.dp)

    def check_batch(self, batch: int | None) -> None:
        least = (self.how.micro_batch or 0) * self.parallel.dp
        if batch is not None and batch < least:
            ways = f"{self.parallel.dp} data parallel ranks"
            problem = f"--micro-batch {self.how.micro_batch} on {ways} is more than --batch"
            raise InputError(f"{problem} {batch}", f"give --batch {least} or more", "usage")

    def in_flight(self, number: int, batch: int | None) -> int:
        """Micro-batches whose activations a pipeline stage holds. By 1F1B, stage 0 holds pp of them, the last one."""
        most = self.parallel.pp - number
        if batch is None:
            return most
        return min(most, -(-batch // (self.parallel.dp * self.micro(batch))))

    def work(self, batch: int | None, context: int) -> Work:
        width = width_of(self.dtype)
        source = self.how.source_length(self.architecture)
        split = self.how.sequence_parallel
        fused, joint = self.how.engine == "ideal", "qkv" in self.architecture.storage.fused
        return Work(self.micro(batch), context, width, self.how.attention, self.parallel, split, source, fused, joint)

    def activations(self, number: int, batch: int | None, context: int) -> dict[str, int]:
        """A pipeline stage's activations, by what they are."""
        work, flying = self.work(batch, context), self.in_flight(number, batch)
        start, stop = stage_ranges(self.architecture.n_layers, self.parallel.pp)[number]
        counts = blocks_between(self.architecture, start, stop)
        layers = Counter[Kept]()
        for stage in self.model.layers:
            if stage.block in counts:
                for one, times in stage.by_pass():
                    layers[kept(one, work, self.adapted)] += times * counts[stage.block]
        held = [(layer.after(self.how.recompute), times) for layer, times in layers.items()]
        parts = {
            "layers": flying * sum(times * (one.total - one.dispatched) for one, times in held),
            "copies for experts": flying * sum(times * one.dispatched for one, times in held),
            "made again": max(layer.again(self.how.recompute) for layer in layers),
        }
        if number == 0:
            parts["embedding"] = flying * embedding_kept(self.model, work).total
            if self.model.encoder:
                parts["encoder"] = flying * self._encoder_kept(work.of_encoder)
        if number == self.parallel.pp - 1:
            output = output_kept(self.model, work).total
            parts["output"] = flying * output
            if self.how.mtp and self.model.mtp is not None:
                module = kept(self.model.mtp, work, self.adapted)
                modules = module.after(self.how.recompute).total + output
                parts["multi-token-prediction modules"] = flying * self.model.mtp.times * modules
                parts["made again"] = max(parts["made again"], module.again(self.how.recompute))
        return parts

    def _encoder_kept(self, work: Work) -> int:
        """The activations of an encoder beside the decoder."""
        total = 0
        for stage in self.model.encoder:
            one = kept(stage, work, self.adapted)
            total += stage.times * (one.after(self.how.recompute) if isinstance(stage, Layer) else one).total
        return total

    # one device

    def held(self, number: int, batch: int | None, context: int) -> Held:
        """A device of one pipeline stage."""
        own = self.states[number]
        parts = self.activations(number, batch, context)
        device = Device.holding(
            weights=own.weights,
            gradients=own.gradients,
            optimizer=own.optimizer,
            activations=sum(parts.values()),
            overhead=self.how.overhead,
        )
        pieces = {f"activations.{name}": size for name, size in parts.items()}
        pieces |= {"optimizer.master weights": own.master, "optimizer.moments": own.moments}
        for part, whole, layer in (
            ("weights", own.weights, own.gathered_weights),
            ("gradients", own.gradients, own.gathered_gradients),
        ):
            pieces |= {f"{part}.own": whole - layer, f"{part}.largest layer": layer}
        if self.adapted is not None and self.plan.zero < 3:
            del pieces["weights.own"]
            pieces |= self._adapted_pieces(number)
        return Held(device, own, {name: size for name, size in pieces.items() if size}, self.in_flight(number, batch))

    def _adapted_pieces(self, number: int) -> dict[str, int]:
        """The weights of a stage whose own are frozen: tables and the output matrix, all else, and what is trained."""
        rows = [(share.tensor.weight.component in TABLES, share.row) for share in self.weights.stage(number)]
        sizes = {table: sum(row.count * row.bytes for at, row in rows if at == table) for table in (True, False)}
        trained = sum(p.times * p.bytes for p in self.parameters[number] if p.trained)
        return {
            "weights.frozen tables": sizes[True],
            "weights.frozen layers": sizes[False],
            "weights.adapters": trained,
        }

    def fullest(self, batch: int | None, context: int) -> Held:
        """The fullest device, of whichever pipeline stage."""
        stages = (self.held(number, batch, context) for number in range(self.parallel.pp))
        return max(stages, key=lambda held: held.device.total)

    def needed(self, batch: int | None, context: int) -> int:
        """Bytes of the fullest device."""
        return self.fullest(batch, context).device.total

    # all devices

    def sums(self, batch: int | None, context: int) -> Device:
        """The sum over all devices; every data parallel rank works on a micro-batch of its own."""
        each = self.parallel.tp * self.parallel.dp
        return added((self.held(number, batch, context).device, each) for number in range(self.parallel.pp))

    def whole(self, batch: int | None, context: int) -> Device:
        """One copy of weights and states, and one micro-batch of every data parallel rank, undivided."""
        undivided = copy(self)
        undivided.parallel = Layout()
        one = states(self._parameters(self.unsplit, 0), self.plan)
        parts = undivided.activations(0, self.micro(batch), context)
        return Device.holding(
            weights=one.weights,
            gradients=one.gradients,
            optimizer=one.optimizer,
            activations=self.parallel.dp * sum(parts.values()),
            overhead=self.how.overhead,
        )

    def replicated(self, sums: Device, batch: int | None, context: int) -> tuple[Replicated, ...]:
        """What the sum over devices counts beyond the whole."""
        if self.parallel.devices == 1:
            return ()
        whole = self.whole(batch, context)
        extra = {part: getattr(sums, part) - getattr(whole, part) for part in PARTS}
        names = {"activations": "activations in flight or on several devices", "overhead": "overhead"}
        return tuple(Replicated(names.get(part, f"copies of {part}"), n, part) for part, n in extra.items() if n)

    def memory(self, batch: int | None, context: int) -> TrainingMemory:
        fullest = self.fullest(batch, context)
        sums = self.sums(batch, context)
        host = self.parallel.tp * self.parallel.dp * sum(own.host for own in self.states)
        return TrainingMemory(
            model=self.architecture.name,
            devices=self.parallel.devices,
            per_device=fullest.device,
            total=sums.total,
            sums=sums,
            replicated=self.replicated(sums, batch, context),
            batch=batch or self.parallel.dp * self.micro(batch),
            context=context,
            dtype=self.dtype,
            phase="train",
            parallel=self.parallel.shown(),
            exact=self.exact(),
            estimated=self.estimated(),
            notes=self.notes(),
            host=host,
            pieces=fullest.pieces,
            optimizer=self.plan.optimizer.name,
            gradients=self.gradient_type(),
            zero=self.plan.zero,
            offload=self.plan.offload,
            recompute=self.how.recompute,
            attention=self.how.attention,
            sequence_parallel=self.how.sequence_parallel,
            micro_batch=self.micro(batch),
            in_flight=fullest.in_flight,
            lora=None if self.adapted is None else str(self.adapted),
            params=self.params(),
            trainable=self.trainable(),
            host_planned=self.host_planned(host),
        )

    def host_planned(self, host: int) -> int:
        if not host:
            return 0
        largest = largest_layer((p, p.elements) for p in self._parameters(self.unsplit, 0))
        return host_planned(host, self.params(), largest, self.parallel.devices, zero_init=self.plan.zero == 3)

    # what is said of it

    def gradient_type(self) -> str:
        width = (FP32 if self.adapted is not None or self.dtype == FP32.name else BF16).block_bytes
        wide = self.plan.optimizer.gradient_bytes(width, self.plan.gradients) == FP32.block_bytes
        return FP32.name if wide else self.dtype

    def exact(self) -> tuple[str, ...]:
        whole = self.plan.zero == 3  # what is gathered beside one's own part
        return (
            *(() if self.weights.assumed or whole else (f"weights: {self._weights_type()}",)),
            *(() if whole else (f"gradients: {self._gradients_type()}",)),
            f"optimizer: {self.plan.optimizer.name}, stage {self.plan.zero} of ZeRO over {self.parallel.dp} ranks",
        )

    def _weights_type(self) -> str:
        if self.adapted is None:
            return f"in {self.dtype}"
        return f"frozen, tables and the output matrix too, as {self.dtype} stores them; adapters in {FP32.name}"

    def _gradients_type(self) -> str:
        return f"in {self.gradient_type()}, of what is trained"

    def estimated(self) -> tuple[str, ...]:
        lora = "; with frozen weights an upper bound, since their products need no inputs again" if self.adapted else ""
        again = "" if self.how.recompute == "none" else f", recomputation {self.how.recompute}"
        what = f"what the equations mark as saved, {self.how.attention} attention{again}{lora}"
        assumed: tuple[str, ...] = () if self.weights.assumed is None else (f"weights: {self.weights.assumed}",)
        if self.plan.zero == 3:
            gathered = "one's own part, and the largest layer whole, as DeepSpeed plans it; FSDP gathers what it wraps"
            assumed = (
                f"weights: {self.weights.assumed or self._weights_type()}: {gathered}",
                f"gradients: {self._gradients_type()}: {gathered}",
            )
        found = [
            *assumed,
            f"activations: {what}, {KERNELS[self.how.engine]}; work space and fragmentation come on top",
            f"overhead: {'as given' if self.how.overhead else 'none assumed (--overhead)'}",
        ]
        if self.plan.offload != "none":
            found.append("host: DeepSpeed plans its buffers with host_planned, half as much again")
        return tuple(found)

    def notes(self) -> tuple[str, ...]:
        notes = [*not_counted(self.model)]
        if self.plan.zero and self.parallel.dp == 1:
            notes.append(f"--zero {self.plan.zero}: with one data parallel rank (--dp) nothing is divided")
        if self.adapted is not None and self.adapted.assumed:
            notes.append("--lora without targets: queries and values; PEFT itself has a default for some types only")
        if self.architecture.mtp is not None and not self.how.mtp:
            notes.append("multi-token-prediction modules are left out (--mtp)")
        return tuple(notes)


def ranks(experts: bool, parallel: Layout) -> int:
    """How many data parallel ranks would hold the same tensor: of experts, those that expert parallelism leaves."""
    if not experts:
        return parallel.dp
    return parallel.tp * parallel.dp // (parallel.ep * parallel.expert_tp)


def trained(architecture: Architecture, how: TrainingRun) -> TrainingMemory:
    """What the fullest of the devices holds during a training step, and all of them in sum."""
    how.check_phase(architecture, "train")
    run = Training(architecture, how)
    run.check_batch(how.batch)
    return run.memory(how.batch, how.length(architecture))


training = keywords(TrainingRun, trained)
