"""llama.cpp's compute buffer: what a pass holds beside weights and cache, placed as ggml's allocator places it.

The scheduler places the worst pass once, before anything runs: a micro-batch over a full cache (llama-context.cpp,
sched_reserve). A value takes the smallest freed block that holds it, else the end (ggml-alloc.c), so gaps count. The
equations' values are placed in their order, with what ggml does otherwise than they say:

- The embedding is looked up on the host. Its result and a mask for each kind of cache (16 bits a cell with flash
  attention, else 32) are copied in first, without flash attention the cells of all values too, which are then cached
  turned (ggml-backend.cpp, input_cpy). With several passes in flight there are `COPIES` of them, and none is freed.
- A sum is new. Pointwise lines overwrite an operand that dies and is as large (ggml_op_can_inplace), but for what is
  seen as heads for the first time, a view; a gate times what is up is new (ggml_swiglu_split).
- Each chosen expert has rows of its own until they are added up (llama-graph.cpp, build_moe_ffn).
- Queries of latents and of the rotary key are put side by side.
- Scores that are held whole have their heads' outputs put in order behind them (build_attn_mha). Flash attention reads
  keys and values in 16 bits: a copy, where the cache has others (ggml-cuda/fattn.cu, get_alloc_size).
- What has to be multiplied with matrices on the host is done on the device, for 32 tokens and more: one at a time is
  copied in (ggml_backend_sched_split_graph).
- Recurrent mixers are other operations than the equations' lines (ggml_recurrent.py).
- Logits come last, for as many tokens as may be asked for.

llama.cpp's own scheduler (v0.5.0, October 2026) says the same, for 69 models on a device without data: 0.1 % off in the
median, 8 % at most (Falcon-H1), 16 % with a pass full of logits. By the lines of recurrent mixers up to 43 % would be
missing, as may be of those whose operations aren't known (RWKV-6, lightning attention).
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from copy import copy
from functools import lru_cache
from itertools import count, pairwise
from math import prod
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from gptcalc.analysis.memory.arena import NOWHERE, Arena, Block
from gptcalc.analysis.memory.ggml_recurrent import ONTO_STREAM, Operation, operations
from gptcalc.analysis.memory.live import Value, elements, lives
from gptcalc.analysis.memory.sharding import Layout, share
from gptcalc.architecture import by_prefix, sublayers
from gptcalc.dtypes import FP16, FP32
from gptcalc.equations import Chosen, Layer, Line, Pairs
from gptcalc.equations.language import ENTERS, LEAVES, of_pairs

#: how often the same layers are placed: from then on nothing changes
TIMES = 2
#: passes that are in flight over several devices (ggml-backend.cpp, GGML_SCHED_MAX_COPIES)
COPIES = 4
#: bytes of a number of a cell
PLACE = 8

#: tokens from which on the device multiplies with matrices that are on the host (GGML_OP_OFFLOAD_MIN_BATCH)
OFFLOADED = 32

#: what was measured exceeds what is placed here by at most so many percent of it; with recurrent mixers whose
#: operations are not known
MARGIN, MARGIN_UNKNOWN = 16, 50

#: what the first of several sublayers side by side adds
ASIDE_OF_STREAM = "Δ"

ALONE = Layout()


class Work(Struct, frozen=True):
    """The worst pass: its tokens, rows of logits, cells of a whole cache and of windows, and how scores are made."""

    tokens: int
    sequences: int
    rows: int
    full: int
    windows: int
    flash: bool
    converted: bool = False  # whether flash attention copies keys and values


ONE_TOKEN = Work(1, 0, 0, 0, 0, True)


class Extent(Struct, frozen=True):
    """Numbers of a value: for each token, for each pair of a token and a cell, in 16 bits for each cell, for each
    sequence."""

    token: int = 0
    pair: int = 0
    half: int = 0
    window: bool = False  # whether the cells are a window's
    sequence: int = 0

    def bytes(self, work: Work) -> int:
        cells = work.windows if self.window else work.full
        numbers = work.tokens * (self.token + (0 if work.flash else cells * self.pair))
        size = FP32.block_bytes * (numbers + work.sequences * self.sequence)
        return size + (FP16.block_bytes * cells * self.half if work.converted else 0)


#: a part of what flash attention does at once
Attends: TypeAlias = Literal["", "scores", "result"]


class Step(Struct, frozen=True):
    """One operation on numbered blocks. before: what is made first, and freed once the result is there."""

    result: int | None
    extent: Extent = Extent()
    frees: tuple[int, ...] = ()
    over: tuple[int, ...] = ()  # blocks that the result may take
    before: Extent | None = None
    attends: Attends = ""


class Part:
    """A layer as operations on blocks."""

    def __init__(self, layer: Layer, d: int, onto: bool, within: Set[str] = frozenset()) -> None:
        """d: width of the stream; onto: what is made is added to the stream, else the stream to it; within: matrices
        that are one with the queries', whose results are seen as parts of one value."""
        found = lives(layer)
        self.lines, self.made = found.lines, found.made
        self.read = [[] if line.kind == "read" else values for line, values in zip(self.lines, found.read, strict=True)]
        self.cached = sum(_numbers(line) for line in self.lines)
        self.root: dict[Value, Value] = {}
        self.came: dict[str, int] = {}  # what earlier stages made, and its block
        self.left: dict[str, int] = {}  # what is there behind it
        self._blocks: dict[Value, int] = {}
        self._numbers = count()
        self.seen_in = _seen_in(self.lines, within) if within else {}
        self._roots()
        self.onto = onto
        self.seen: set[Value] = set()  # of which a view goes on
        self.known = True  # whether the operations of all recurrent mixers are
        self.mixers = self._mixers(layer, d)
        self.steps = self._steps()

    def _mixers(self, layer: Layer, d: int) -> list[tuple[range, list[Operation]]]:
        """The lines of recurrent mixers, with the operations that stand for them."""
        found = []
        for prefix, mixer in by_prefix(layer.block).items():
            own = [at for at, line in enumerate(self.lines) if line.part == prefix]
            if not any(self.lines[at].stored in ("state", "convolution") for at in own):
                continue
            known = operations(mixer, d)
            if known is None:
                self.known = False
                continue
            first = next(at for at in own if self.lines[at].statement.left.name != ENTERS)
            last = next(at for at in own if at > first and self.lines[at].statement.left.name == LEAVES)
            found.append((range(first, last + 1), known))
        return found

    def _roots(self) -> None:
        """Values that lie in the same block, and until when that is needed."""
        last: dict[Value, int] = {}
        for at, (line, value, operands) in enumerate(zip(self.lines, self.made, self.read, strict=True)):
            if at in self.seen_in and value is not None:
                whole = self.made[self.seen_in[at]]
                assert whole is not None
                self.root[value] = whole
                self.left[value.reference.name] = self._block(whole)
                continue
            for operand in operands:
                self.root.setdefault(operand, operand)
                last[self.root[operand]] = at
                if operand.made < 0:
                    self.came[operand.reference.name] = self.left[operand.reference.name] = self._block(operand)
            if value is None:
                continue
            same = [operand for operand in operands if _in_place(line, operand)]
            self.root[value] = self.root[same[0]] if same else value
            last[self.root[value]] = max(at, last.get(self.root[value], at))
            self.left[value.reference.name] = self._block(self.root[value])
        self.ends: list[list[Value]] = [[] for _ in self.lines]
        for value, at in last.items():
            self.ends[at].append(value)

    def _block(self, value: Value) -> int:
        if value not in self._blocks:
            self._blocks[value] = next(self._numbers)
        return self._blocks[value]

    def _steps(self) -> list[Step]:
        found = []
        pairs = [line.is_of_pairs(line.statement.left) for line in self.lines]
        joined, wholes = _joined(self.lines, pairs), set(self.seen_in.values())
        for at, (line, value, operands) in enumerate(zip(self.lines, self.made, self.read, strict=True)):
            if self.mixers and any(at in inside for inside, _ in self.mixers):
                found += [
                    step for inside, known in self.mixers if at == inside[0] for step in self._mixed(inside, known)
                ]
                continue
            if at in joined:
                found.append(self._side_by_side(at, joined[at]))
            frees, attends = tuple(map(self._block, self.ends[at])), _attends(line, pairs[at])
            if value is None or self.root[value] is not value:
                found.append(Step(None, frees=frees, attends=attends))
                continue
            extent = self._extent(value)
            if at in wholes:
                parts = [part for other, whole in self.seen_in.items() if whole == at and (part := self.made[other])]
                extent = replace(extent, token=extent.token + sum(self._extent(part).token for part in parts))
            if attends == "result":
                extent = replace(extent, half=self.cached, window=_is_windowed(line.condition))
            over: tuple[int, ...] = ()
            if line.kind == "pointwise" and not _is_gate(line, operands):
                ordered = operands[::-1] if line.is_stream and not self.onto else operands
                whole = [v for v in ordered if v not in self.seen and not _is_reshaped(v)]
                over = tuple(n for v in whole if (n := self._block(self.root[v])) in frees)
            found.append(Step(self._block(value), extent, frees, over, _before(line, extent, attends), attends))
        return found

    def _mixed(self, inside: range, known: Sequence[Operation]) -> list[Step]:
        """The operations of a recurrent mixer."""
        output = self.made[inside[-1]]
        assert output is not None
        if known[-1].seen:
            self.seen.add(output)
        numbers = {operation.made: next(self._numbers) for operation in known[:-1]}
        numbers[known[-1].made] = self._block(output)
        last = {name: at for at, operation in enumerate(known) for name in operation.reads}
        entered = [self._block(v) for at in inside for v in self.ends[at] if v.made < inside[0]]
        found = []
        for at, operation in enumerate(known):
            frees = [numbers[name] for name in operation.reads if last[name] == at and name in numbers]
            frees += entered if last[ENTERS] == at else []
            over = (numbers[operation.over],) if operation.over else ()
            extent = Extent(operation.token, sequence=operation.sequence)
            found.append(Step(numbers[operation.made], extent, tuple(frees), over))
        return found

    def _side_by_side(self, first: int, second: int) -> Step:
        """What the scores of both kinds of keys are made of, in one value that lasts as long as they do."""
        queries = [v for at in (first, second) for v in self.read[at] if not v.line.is_of_pairs(v.reference)]
        frees = tuple(map(self._block, (*self.ends[first], *self.ends[second])))
        joined = Value(self.lines[first], self.lines[first].statement.left, first, second)
        self.ends[first], self.ends[second] = [], [joined]
        return Step(self._block(joined), Extent(sum(self._extent(query).token for query in queries)), frees)

    def _extent(self, value: Value) -> Extent:
        line, reference = value.line, value.reference
        counted = elements(line, reference, frozenset(), ALONE)
        if counted is None:
            return Extent(pair=share(line, reference, ALONE).each, window=_is_windowed(line.condition))
        return Extent(counted[1] if counted[0] == 0 else 0)

    def run(self, arena: Arena, there: dict[str, Block], later: Set[str], work: Work) -> dict[str, Block]:
        """Place the stage's values, given where earlier ones are; what later stages need stays."""
        blocks = {number: there.get(name, NOWHERE) for name, number in self.came.items()}
        kept = {number for name, number in self.left.items() if name in later}
        waiting: list[int] = []  # for flash attention's result
        for step in self.steps:
            frees = [number for number in step.frees if number not in kept]
            if work.flash and step.attends == "scores":
                waiting += frees
                frees = []
            elif work.flash and step.attends == "result":
                frees, waiting = frees + waiting, []
                step = replace(step, before=None)
            _place(arena, step, frees, blocks, work)
        passed = {name: block for name, block in there.items() if name not in self.came}
        left = {name: blocks.get(number, NOWHERE) for name, number in self.left.items() if name in later}
        return passed | left


@lru_cache(maxsize=128)
def laid_out(layer: Layer, d: int, onto: bool, within: frozenset[str], waits: bool) -> Part:
    """The same part for all ways to split a model that are tried."""
    return Part(_waiting(layer) if waits else layer, d, onto, within)


def _waiting(layer: Layer) -> Layer:
    """The layer with the projection of heads' outputs where it is added, behind what stands beside the attention."""
    lines = list(layer.lines)
    for at, (line, following) in enumerate(pairwise(layer.lines)):
        outs = any(weight.use == "out" for weight in line.weights.values())
        if outs and following.statement.left.name == ASIDE_OF_STREAM:
            end = next(n for n in range(at, len(lines)) if lines[n].is_stream)
            lines[at:end] = [*lines[at + 2 : end], line, following]
            return replace(layer, lines=tuple(lines))
    return layer


def _place(arena: Arena, step: Step, frees: list[int], blocks: dict[int, Block], work: Work) -> None:
    """One operation: its result's block is found, then what nobody needs any more is freed."""
    if step.result is not None:
        size = step.extent.bytes(work)
        over = next((n for n in step.over if n in frees and blocks[n][1] == size), None)
        if over is not None:
            blocks[step.result] = blocks.pop(over)
            frees.remove(over)
        elif step.before is not None:
            before = arena.take(step.before.bytes(work))
            for number in [n for n in frees if n != step.result]:
                arena.give(blocks.pop(number))
                frees.remove(number)
            blocks[step.result] = arena.take(size)
            arena.give(before)
        else:
            blocks[step.result] = arena.take(size)
    for number in frees:
        arena.give(blocks.pop(number))


def _seen_in(lines: Sequence[Line], within: Set[str]) -> dict[int, int]:
    """Of the lines with matrices that are one with the queries', those that make the queries beside them."""
    first: dict[str, int] = {}
    found: dict[int, int] = {}
    for at, line in enumerate(lines):
        weights = line.weights.values()
        if any(weight.use == "queries" for weight in weights):
            first[line.part] = at
        elif line.part in first and any(weight.plain in within for weight in weights):
            found[at] = first[line.part]
    return found


def _attends(line: Line, is_of_pairs: bool) -> Attends:
    if line.kind in ("store", "read"):
        return ""
    if is_of_pairs:
        return "scores"
    return "result" if line.attends() else ""


def _before(line: Line, extent: Extent, attends: Attends) -> Extent | None:
    """What a line makes that the equations don't name: a row for each chosen expert, heads' outputs as they come."""
    chosen = line.condition
    if isinstance(chosen, Chosen) and any(line.scope[letter].role == "experts" for letter in line.statement.summed):
        return Extent(extent.token * chosen.active)
    return extent if attends == "result" else None


def _operands_alike(line: Line, operands: Sequence[Value]) -> list[Value]:
    """Operands with a number for every number of the result."""
    left = set(line.statement.left.indices)
    return [operand for operand in operands if left <= set(operand.reference.indices)]


def _is_gate(line: Line, operands: Sequence[Value]) -> bool:
    """Whether two other values make a new one: a gate and what is up."""
    if len(operands) < 2:
        return False
    alike = _operands_alike(line, operands)
    return len(alike) > 1 and all(operand.reference.name != line.statement.left.name for operand in alike)


def _is_reshaped(value: Value) -> bool:
    """Whether a value is seen as heads for the first time: a view, which ggml doesn't overwrite."""
    line = value.line
    if line.kind != "sum":
        return False
    roles = [index.role for index in line.indices(value.reference)]
    return "heads" in roles and not of_pairs(roles)


def _in_place(line: Line, operand: Value) -> bool:
    """Whether a line's result lies where this operand does: what is added to, and what is only renamed or cut out."""
    if line.statement.adds:
        return operand.reference.name == line.statement.left.name
    if line.kind != "pointwise":
        return False
    _, _, right = line.text.partition(" = ")
    return right.startswith(f"{operand.reference.name}[") and right.find("]") == len(right) - 1


def _joined(lines: Sequence[Line], pairs: Sequence[bool]) -> dict[int, int]:
    """Of scores over two kinds of cached keys the first line, with the one that adds to it."""
    found: dict[int, int] = {}
    for at, line in enumerate(lines):
        if pairs[at] and line.statement.adds:
            found[max(n for n in range(at) if lines[n].statement.left == line.statement.left)] = at
    return found


class Graph:
    """The operations of a device's part of a pass."""

    def __init__(
        self,
        layers: Sequence[tuple[Layer, int]],
        d: int,
        v: int,
        copied: int = 0,
        streams: int = 1,
        within: frozenset[str] = frozenset(),
        waits: bool = False,
    ) -> None:
        """layers: those on the device, with how often each runs; d: width of the stream; v: of logits; within:
        matrices that are one with the queries'; waits: whether an attention's projection beside a feed-forward layer
        is multiplied last.

        streams: values as wide as the stream that an earlier device passes on; copied: bytes of the largest matrix that
        is copied in from the host.
        """
        self.d, self.v, self.streams, self.copied = d, v, streams, copied
        self._known: dict[tuple[Work, int], int] = {}
        onto = any(isinstance(mixer, ONTO_STREAM) for layer, _ in layers for mixer in sublayers(layer.block))
        self.parts = [
            part for layer, times in layers for part in [laid_out(layer, d, onto, within, waits)] * min(times, TIMES)
        ]
        self.by_sequence = any(step.extent.sequence for part in self.parts for step in part.steps)
        self.margin = MARGIN if all(part.known for part in self.parts) else MARGIN_UNKNOWN
        kept = [line for layer, _ in layers for line in layer.lines if isinstance(line.kept, Pairs)]
        self.caches = sorted({_is_windowed(line.kept) for line in kept})
        self.values = sum(
            max(
                (_numbers(line) for line in kept if line.stored == "values" and _is_windowed(line.kept) is windowed),
                default=0,
            )
            for windowed in self.caches
        )
        needed = [set(part.came) for part in self.parts]
        self.later = [set[str]().union(*needed[at + 1 :]) for at in range(len(needed))]

    def copying(self, copied: int) -> Graph:
        """The same with another largest matrix that is copied in."""
        other = copy(self)
        other.copied = copied
        return other

    def bytes(self, work: Work, copies: int = 1) -> int:
        """What is set aside for it. copies: of what is copied in."""
        stream = FP32.block_bytes * self.d * work.tokens
        mask = (FP16 if work.flash else FP32).block_bytes * work.tokens
        inputs = mask * sum(work.windows if windowed else work.full for windowed in self.caches)
        inputs += 0 if work.flash else PLACE * self.values * work.tokens
        below = inputs if copies == 1 else copies * (self.streams * stream + inputs)
        logits = FP32.block_bytes * self.v * work.rows
        copied = self.copied if work.tokens >= OFFLOADED else 0
        return max(below + self._placed(work, copies), stream + inputs + logits) + copied

    def _placed(self, work: Work, copies: int) -> int:
        """Where the highest value ends if what is copied in beside the stream, which lies below all else, is a byte."""
        tokens = 1
        if work.flash and not work.converted:
            if not self.by_sequence:  # everything is as large as there are tokens
                tokens, work = work.tokens, ONE_TOKEN
            else:
                work = replace(work, rows=0, full=0, windows=0)
        elif not self.by_sequence:
            work = replace(work, sequences=0)
        if (work, copies) not in self._known:
            arena = Arena()
            embedded = arena.take(FP32.block_bytes * self.d * work.tokens) if copies == 1 else NOWHERE
            arena.take(1)
            there = dict.fromkeys(self.parts[0].came if self.parts else (), embedded)
            for part, later in zip(self.parts, self.later, strict=True):
                there = part.run(arena, there, later, work)
            self._known[work, copies] = arena.peak - 1
        return tokens * self._known[work, copies]


def _is_windowed(kept: object) -> bool:
    return isinstance(kept, Pairs) and bool(kept.window or kept.chunk)


def _numbers(line: Line) -> int:
    """What a store line of attention keeps of a token in a layer."""
    if line.kind != "store" or not isinstance(line.kept, Pairs):
        return 0
    return prod(index.size for index in line.stored_indices())
