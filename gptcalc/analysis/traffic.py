"""What a device computes and moves in one pass: FLOPs by type, weights and cache read, what is sent to its peers.

All of it is read off the lines. A weight is read once a pass in every layer that has it, of a table the rows that are
looked up, of experts those that the pass reaches; in a decode step the cache is read as far as attention sees it, and a
recurrent state is read and written; a prompt writes what it leaves in the cache. What can stay on the chip
(activations, the pairs of attention) is not counted, nor is what pipeline stages hand on.
"""

from __future__ import annotations

from functools import cached_property
from math import prod
from typing import NamedTuple

from gptcalc.analysis.memory.cache import Types, pools, turned, types
from gptcalc.analysis.memory.forms import published
from gptcalc.analysis.memory.pools import Pool
from gptcalc.analysis.memory.result import Tensors
from gptcalc.analysis.memory.sharding import Layout, blocks_between, layout, local, stage_ranges
from gptcalc.analysis.memory.training import ranks
from gptcalc.analysis.memory.weights import Weights
from gptcalc.architecture import Architecture
from gptcalc.conventions import Pass, SumsRun, TimeRun
from gptcalc.dtypes import BF16, GGML, SPELLINGS, weight_format
from gptcalc.equations import (
    Chosen,
    Entries,
    Equations,
    Index,
    Line,
    Pairs,
    Reference,
    Stage,
    Strides,
    Tensor,
    Workload,
    equations,
    workload,
)
from gptcalc.equations.roles import LOOKED_BACK
from gptcalc.errors import InputError

#: types that devices multiply in; numbers in other ones are made 16 bits wide first
MULTIPLIED = ("fp32", "bf16", "fp16", "fp8", "int8", "mxfp4", "nvfp4")


class Reached(NamedTuple):
    """The experts of each of some layers that a pass reaches: as many as are expected, were all equally likely."""

    stage: str
    n_experts: int
    top_k: int
    choices: int  # what a token chooses among: experts, and what has no weights
    tokens: int  # that choose

    @property
    def distinct(self) -> float:
        """E·(1 − (1 − k/E)^B): each of B tokens leaves an expert out with probability 1 − k/E."""
        return self.n_experts * (1 - (1 - self.top_k / self.choices) ** self.tokens)


class Costs(NamedTuple):
    """What a device does in all layers of one kind in one pass."""

    stage: str
    layers: int
    flops: dict[str, float]  # by the type that is multiplied in
    weights: float  # bytes read
    cache: int  # bytes read and written
    sent: int  # bytes to its peers, and as many from them


class Traffic:
    """One pass of a model over devices, as a function of the batch."""

    def __init__(self, architecture: Architecture, how: TimeRun, phase: Pass) -> None:
        if architecture.target is not None or architecture.head.borrowed:
            raise InputError(
                f"time: {architecture.name} drafts for another model, and each waits for the other",
                "time the target",
                "unsupported",
            )
        sums = how.to(SumsRun, phase=phase, logits="last")
        self.architecture = architecture
        self.parallel: Layout = layout(architecture, how)
        self.work: Workload = workload(architecture, sums)
        self.model: Equations = equations(architecture, sums.form, sums.kept)
        dtype = how.dtype or published(architecture)
        self.weights = Weights(architecture, dtype, self.parallel, filed=how.dtype is None)
        self.kept: Types = types(how.kv_dtype, how.state_dtype)
        self.stored = {
            line.statement.left.name: line for stage in self.model.main for line in stage.lines if line.stored
        }

    def costs(self, number: int, batch: int) -> list[Costs]:
        """What a device of a pipeline stage does, stage by stage of the equations: one that has most sequences."""
        counts = self._counts(number)
        stages = [stage for stage in self.model.main if counts.get(stage.name) and stage.workload(self.work).new_tokens]
        sequences = self.parallel.sequences(batch)[0][0]
        return [self._costs(stage, counts[stage.name], number, batch, sequences) for stage in stages]

    def reached(self, batch: int) -> list[Reached]:
        """The experts that a pass reaches, for each kind of layer that has some."""
        found: dict[str, Reached] = {}
        for stage in self.model.main:
            for line in stage.lines:
                if not isinstance(line.condition, Chosen) or line.is_idle:
                    continue
                if any(tensor.each_expert for tensor in line.tensors()):
                    found.setdefault(stage.name, self._reached(stage, line.condition, batch))
        return list(found.values())

    def _counts(self, number: int) -> dict[str, int]:
        """How often each stage of the equations runs in a pipeline stage."""
        blocks = blocks_between(self.architecture, *stage_ranges(self.architecture.n_layers, self.parallel.pp)[number])
        counts = {stage.name: blocks[stage.block] for stage in self.model.layers if stage.block in blocks}
        if number == 0:
            counts |= {stage.name: stage.times for stage in (*self.model.encoder, self.model.embedding)}
        if number == self.parallel.pp - 1:
            counts[self.model.output.name] = 1
        return counts

    def _costs(self, stage: Stage, layers: int, number: int, batch: int, sequences: int) -> Costs:
        flops: dict[str, float] = {}
        for line in stage.lines:
            n = self._flops(stage, line) * layers * stage.runs_in_passes(line) * sequences
            if n:
                kind = self.multiplied_in(stage, line)
                flops[kind] = flops.get(kind, 0) + n
        read = self._read_weights(stage, layers, number, batch, sequences)
        cache = layers * self.cache_of_layer(stage, sequences)
        return Costs(stage.name, layers, flops, read, cache, self._sent(stage) * layers * stage.passes * sequences)

    # products

    def _flops(self, stage: Stage, line: Line) -> float:
        """A device's part of a line, of one sequence. Experts are taken to be chosen evenly."""
        whole = line.flops(stage.workload(self.work))
        if not whole or self.parallel.devices == 1:
            return whole
        own = [i for i in line.factors() if i.role != "new" and i.role not in LOOKED_BACK]
        mine = local(own, self.parallel)
        pairs = [(n, i) for n, i in zip(mine, own, strict=True) if i.role != "experts"]
        part = prod(n for n, _ in pairs) / prod(index.size for _, index in pairs)
        if len(pairs) < len(own) and isinstance(line.condition, Chosen):
            part *= self.parallel.expert_tp / self.parallel.tp
        return whole * part

    def multiplied_in(self, stage: Stage, line: Line) -> str:
        """The type in which a line's products are computed: of weights as they are stored, else as the cache is."""
        for tensor in line.tensors():
            if tensor.kind in ("matrix", "kernel"):
                return multiplied_in(self._rows(stage, tensor)[0].type)
        kind = self.kept.k.name if line.attends() else BF16.name
        return kind if kind in MULTIPLIED else BF16.name

    # weights

    @cached_property
    def _held(self) -> dict[tuple[int, str, str], list[Tensors]]:
        """What devices hold: by the pipeline stage, the stage of the equations and the tensor's key."""
        found: dict[tuple[int, str, str], list[Tensors]] = {}
        for number in range(self.parallel.pp):
            for share in self.weights.stage(number):
                found.setdefault((number, share.stage, share.tensor.weight.key), []).append(share.row)
        return found

    @cached_property
    def _by_key(self) -> dict[str, list[Tensors]]:
        found: dict[str, list[Tensors]] = {}
        for (_, _, key), rows in self._held.items():
            found.setdefault(key, rows)
        return found

    def _rows(self, stage: Stage, tensor: Tensor, number: int | None = None) -> list[Tensors]:
        """A tensor as it is stored: of a stage's layers on one pipeline stage, or on any; of shared ones the one."""
        key = tensor.weight.key
        numbers = range(self.parallel.pp) if number is None else (number,)
        return next(
            (rows for n in numbers if (rows := self._held.get((n, stage.name, key)))), self._by_key.get(key, [])
        )

    def _read_weights(self, stage: Stage, layers: int, number: int, batch: int, sequences: int) -> float:
        own = stage.workload(self.work)
        read: dict[str, float] = {}
        for line in stage.lines:
            if line.kind == "sum" and not line.terms(own):
                continue
            for tensor in line.tensors():
                rows = self._rows(stage, tensor, number)
                times = (layers if tensor.weight.shared else 1) * stage.runs_in_passes(line)  # read in each pass
                size = times * sum(row.total for row in rows) * self.part(stage, line, tensor, batch, sequences)
                read[tensor.weight.key] = max(read.get(tensor.weight.key, 0.0), size)
        return sum(read.values())

    def part(self, stage: Stage, line: Line, tensor: Tensor, batch: int, sequences: int) -> float:
        """What share of a tensor one pass reads."""
        if line.is_idle:
            return 0.0
        if tensor.kind == "table":
            index = tensor.indices[0]
            tokens, of_each = self.looked_up(stage, line, tensor, sequences)
            return min(1.0, tokens * prod(index.size for index in of_each) / index.size)
        if isinstance(line.condition, Chosen) and tensor.each_expert:
            reached = self._reached(stage, line.condition, batch)
            return reached.distinct / reached.n_experts
        return 1.0

    def looked_up(self, stage: Stage, line: Line, tensor: Tensor, sequences: int) -> tuple[int, list[Index]]:
        """How many tokens look up rows of a table, were no two the same, and what has a row of its own for each."""
        tokens = stage.workload(self.work).new_tokens * (1 if tensor.indices[0].role == "positions" else sequences)
        left = line.statement.left.indices
        of_each = [line.scope[letter] for letter in left if letter not in tensor.reference.indices]
        return tokens, [index for index in of_each if index.is_fixed]  # of several heads one each

    def _reached(self, stage: Stage, chosen: Chosen, batch: int) -> Reached:
        """Tokens of all ranks that share one copy of the experts choose among them."""
        copies = ranks(True, self.parallel)
        tokens = -(-batch // copies) * stage.workload(self.work).new_tokens
        return Reached(stage.name, chosen.total, chosen.active, chosen.choices or chosen.total, tokens)

    # the cache

    def cache_of_layer(self, stage: Stage, sequences: int) -> int:
        """Bytes of the cache of one layer that a pass reads and writes."""
        kept = sum(self._kept(pool) for pool in self._pools(stage, 1))
        return sequences * (self._read(stage) * stage.passes + kept)

    def _read(self, stage: Stage) -> int:
        """Bytes of one layer's cache that attention reads in a decode step, of one sequence. In a prompt none: what it
        looks back on it has just made."""
        if self.work.phase != "decode":
            return 0
        seen: dict[tuple[str, str], int] = {}
        for line in stage.lines:
            for reference in self._pooled(line):
                seen[line.part, reference.name] = self.work.context
            if not (line.kind == "sum" and line.attends()):
                continue
            for reference in line.statement.factors:
                if reference.name in self.stored and not line.is_of_pairs(reference):
                    place = (line.part, reference.name)
                    seen[place] = max(seen.get(place, 0), self._seen(line))
        return sum(
            seen[place] * self._entry(stage, line)
            for line in stage.lines
            if line.kind in ("store", "read") and (place := (line.part, line.statement.left.name)) in seen
        )

    def _pooled(self, line: Line) -> list[Reference]:
        """What is stored of every token and read whole, to make entries that are not stored."""
        left = line.roles(line.statement.left)
        if line.kind != "pointwise" or "entries" not in left or "past" in left:
            return []
        return [r for r in line.statement.references if r.name in self.stored and "past" in line.roles(r)]

    def _seen(self, line: Line) -> int:
        """Tokens or entries that a new token looks at."""
        if isinstance(line.condition, Strides):
            return line.condition.keys(self.work) // line.condition.groups
        if isinstance(line.condition, (Pairs, Entries)):
            return line.condition.count(self.work)
        return self.work.source

    def _entry(self, stage: Stage, line: Line) -> int:
        """Bytes of one token or entry of what a line stores or reads."""
        chosen = any(other.stored == "index keys" for other in stage.lines)
        elements = prod(local(line.stored_indices(), self.parallel))
        return self.kept.row_bytes(self.stored[line.statement.left.name], elements, chosen, turned(stage))

    def _pools(self, stage: Stage, layers: int) -> list[Pool]:
        return pools(self.model, self.kept, self.parallel, {stage.name: layers}, self.work.source)

    def _kept(self, pool: Pool) -> int:
        """Bytes of one sequence's cache that a pass writes, and of states that it reads first."""
        decodes = self.work.phase == "decode"
        if not pool.grows:
            passes = 2 if decodes and pool.kind != "cross" else 0 if decodes else 1
            return passes * pool.layers * pool.bytes
        tokens = 0 if decodes else pool.tokens(self.work.context)  # what a step writes is among what it reads
        return pool.layers * pool.bytes * tokens // pool.every

    # what goes to peers

    def _sent(self, stage: Stage) -> int:
        """Bytes of one layer that are added up over devices, of one sequence: once out and once in, as switches that
        add need; rings take twice that. Sublayers side by side are added up together."""
        if self.parallel.tp == self.parallel.ep == 1:
            return 0
        sizes: dict[str, int] = {}
        for line in stage.lines:
            letters = [line.scope[letter] for letter in line.statement.summed]
            if line.kind == "sum" and local(letters, self.parallel) != [index.size for index in letters]:
                sizes[line.part] = max(sizes.get(line.part, 0), self._result(stage, line))
        ends = sum(line.is_stream for line in stage.lines)
        return sum(sorted(sizes.values())[: max(ends, 1)])

    def _result(self, stage: Stage, line: Line) -> int:
        left = [i for i in line.indices(line.statement.left) if i.role not in ("new", *LOOKED_BACK)]
        return stage.workload(self.work).new_tokens * prod(local(left, self.parallel)) * BF16.block_bytes


def multiplied_in(stored: str) -> str:
    """The type in which weights that are stored so are multiplied. ggml makes activations int8 for its block formats;
    other formats of 4 bits are made wide, unless devices multiply in them."""
    if stored in GGML:
        return "int8"
    format = weight_format(stored)
    name = stored if format is None else format.packing.element.name
    name = SPELLINGS.get(name, name)
    return name if name in MULTIPLIED or format is None else format.wide.name
