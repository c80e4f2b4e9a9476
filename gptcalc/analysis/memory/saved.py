"""Activations of training: what the backward pass needs again, read off the equations' marks (`equations.SAVED`).

For a GPT block with dropout the fold gives the published closed form s·b·h·(34 + 5·a·s/h) bytes (Korthikanti et al.
2022, arXiv:2205.05198): 4 of the norms, 11 + 5·a·s/h of attention, 19 of the MLP. Tensor parallelism leaves
10 + 24/t + 5·a·s/(h·t), sequence parallelism divides the 10 too; selective recomputation leaves 34, full 2.

The rules beside the marks:
- Every layer keeps the x that enters it; so does the output, for the last norm.
- Scores are s × s however much of them the mask allows, as unfused kernels allocate them. Fused attention
  (FlashAttention, arXiv:2205.14135) keeps one log-sum-exp a row instead.
- Routing is balanced: with E experts a token's top_k are spread evenly over all devices that share them. What an expert
  reads is a copy, gathered from its tokens.
- Where devices don't divide a tensor's elements, the fullest one counts (rounded up).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from msgspec.structs import replace

from gptcalc.analysis.memory.lora import LoRA, is_adapted
from gptcalc.analysis.memory.sharding import Layout, share
from gptcalc.analysis.operators import kept_results
from gptcalc.conventions import Kernel, Recompute
from gptcalc.dtypes import BF16, FP32
from gptcalc.equations import Chosen, Equations, Line, Reference, Stage
from gptcalc.equations.language import STREAM
from gptcalc.equations.roles import LOOKED_BACK, STACKED, Role

#: what a sequence looks back on of its own
OWN_PAST = LOOKED_BACK - {"source"}


class Work(NamedTuple):
    """One micro-batch, and how it is computed."""

    sequences: int
    context: int
    width: int = BF16.block_bytes  # bytes of one activation
    attention: Kernel = "flash"
    parallel: Layout = Layout()
    sequence_parallel: bool = False
    source: int = 0  # tokens that an encoder reads
    fused: bool = True  # whether kernels keep no more than the equations' marks say
    joint_qkv: bool = False  # whether queries, keys and values come out of one matrix

    @property
    def of_encoder(self) -> Work:
        """The encoder's part: its tokens are the source's."""
        return self._replace(context=self.source)

    def times(self, roles: set[Role]) -> int:
        """How many there are of what is indexed by these roles, over all sequences."""
        n = self.sequences
        if "new" in roles or "past" in roles or "entries" in roles:
            n *= self.context
        if "new" in roles and not roles.isdisjoint(OWN_PAST):
            n *= self.context
        return n * self.source if "source" in roles else n


class Kept(NamedTuple):
    """Bytes that one device keeps of one stage of the equations for one micro-batch."""

    entering: int = 0  # x, as it comes in
    core: int = 0  # attention's scores, their softmax and dropout; with flash attention the log-sum-exp
    dispatched: int = 0  # copies of tokens for the experts they go to
    rest: int = 0
    results: int = 0  # of those operators whose results are kept where the others' are made again; in none of the above

    @property
    def total(self) -> int:
        return self.entering + self.core + self.dispatched + self.rest

    def after(self, recompute: Recompute) -> Kept:
        """What is kept from the forward to the backward pass."""
        if recompute == "full":
            return Kept(entering=self.entering)
        if recompute == "operators":
            return Kept(entering=self.entering, rest=self.results)
        return self._replace(core=0) if recompute == "selective" else self

    def again(self, recompute: Recompute) -> int:
        """What is made again while this layer's backward pass runs."""
        return self.total - self.after(recompute).total


def kept(stage: Stage, work: Work, adapted: LoRA | None = None) -> Kept:
    """A layer's share; the x that it leaves behind is entered where it is read: in the next layer, or the output.

    An encoder's output leaves no x: what it makes is read beside the decoder's.
    """
    saved = [(line, saved_bytes(line, work)) for line in stage.lines if line.saved]
    leaving = next((size for line, size in reversed(saved) if line.is_stream), 0)
    core = sum(size for line, size in saved if _is_core(line))
    rest = sum(size for line, size in saved) - core - leaving
    if not work.fused:
        rest += sum(aside_bytes(line, work) for line in stage.lines)
        rest += sum(unturned_bytes(stage, work)) if work.joint_qkv else 0
    if adapted is not None:
        rest += sum(narrow_bytes(stage, work, adapted))
    dispatched = sum(copied_bytes(stage, work))
    return Kept(leaving, core, dispatched, rest, sum(result_bytes(line, work) for line in kept_results(stage)))


def embedding_kept(model: Equations, work: Work) -> Kept:
    """The embedding's share: what it leaves behind is the first layer's."""
    return kept(model.embedding, work)._replace(entering=0)


def output_kept(model: Equations, work: Work) -> Kept:
    """The output's share: the x that enters it, and all that it makes."""
    first = model.output.lines[0]
    *_, x = (
        ref for ref in first.statement.references if ref.name in STREAM
    )  # the right side's, of the mean of streams
    rest = sum(saved_bytes(line, work) for line in model.output.lines if line.saved)
    if not work.fused:
        rest += sum(aside_bytes(line, work) for line in model.output.lines)
    return Kept(entering=work.width * elements(first, x, work), rest=rest)


def _is_core(line: Line) -> bool:
    """Whether a line is of attention's pairs of tokens."""
    return line.is_of_pairs(line.statement.left)


def saved_bytes(line: Line, work: Work) -> int:
    """Bytes that one device keeps of a line's left side."""
    left = line.statement.left
    if _is_core(line) and work.attention == "flash":
        rows = replace(left, indices=tuple(x for x in left.indices if line.scope[x].role not in LOOKED_BACK))
        return line.flash * elements(line, rows, work) if line.flash else 0
    width = work.width if line.saved == BF16.block_bytes else line.saved
    return width * elements(line, left, work)


def aside_bytes(line: Line, work: Work) -> int:
    """Bytes that kernels keep beside what is marked as saved, where they are not fused."""
    left, width = line.statement.left, work.width
    if work.attention == "eager" and line.attends():
        return width * sum(repeated(line, work))
    if line.flash:
        wide = work.attention == "eager" and width < FP32.block_bytes
        return wide * FP32.block_bytes * elements(line, left, work)
    aside = line.aside
    if aside is None:
        return 0
    upcast = (FP32.block_bytes - width) * aside.upcast
    whole = Reference("", (*left.indices, *aside.along))
    size = (upcast + width * aside.narrow + FP32.block_bytes * aside.wide) * elements(line, whole, work)
    row = Reference("", tuple(letter for letter in left.indices if letter not in aside.over))
    return size + (aside.row and aside.row * elements(line, row, work))


def result_bytes(line: Line, work: Work) -> int:
    """Bytes of a line's result; of the scores' what fused attention keeps instead."""
    return saved_bytes(line, work) if line.flash else work.width * elements(line, line.statement.left, work)


def unturned_bytes(stage: Stage, work: Work) -> Iterator[int]:
    """Queries and keys as one projection makes them beside the values, which keep all of its result: rotated or normed
    ones are kept besides."""
    made = Counter(line.statement.left.name for line in stage.lines)
    for line in stage.lines:
        looked_on = any(weight.use in ("queries", "keys") for weight in line.weights.values())
        if looked_on and line.saved and made[line.statement.left.name] > 1:
            yield work.width * elements(line, line.statement.left, work)


def repeated(line: Line, work: Work) -> Iterator[int]:
    """Elements of keys and values that are copied for every head that shares them, as scores kept whole want them."""
    heads = [letter for letter in line.ranges() if line.scope[letter].role == "heads"]
    for factor in line.statement.factors:
        if not line.is_of_pairs(factor) and "new" not in line.roles(factor):
            copies = Reference("", (*factor.indices, *(letter for letter in heads if letter not in factor.indices)))
            if copies.indices != factor.indices:
                yield elements(line, copies, work) - elements(line, factor, work)


def elements(line: Line, what: Reference, work: Work) -> int:
    """How many elements of a symbol, as this line indexes it, one device holds."""
    held = share(line, what, work.parallel)
    tokens = work.times(line.roles(what))
    for index in line.indices(what):
        if index.role == "entries":
            tokens //= index.every
    n = held.elements(tokens)
    return -(-n // work.parallel.tp) if work.sequence_parallel and not held.is_split else n


def copied_bytes(stage: Stage, work: Work) -> Iterator[int]:
    """For each input of experts: the copies of it that they read, where it isn't indexed by expert already."""
    seen = set()
    for line in stage.lines:
        if line.kind != "sum" or not isinstance(line.condition, Chosen):
            continue
        experts = tuple(letter for letter, index in line.ranges().items() if index.role == "experts")
        for factor in line.statement.factors:
            if factor.name in line.weights or "experts" in line.roles(factor) or (line.part, factor.name) in seen:
                continue
            seen.add((line.part, factor.name))
            yield work.width * elements(line, replace(factor, indices=(*factor.indices, *experts)), work)


def narrow_bytes(stage: Stage, work: Work, adapted: LoRA) -> Iterator[int]:
    """What adapters make between their two matrices: rank numbers a token, and for experts a token and expert."""
    for line in stage.lines:
        for factor in line.statement.factors:
            weight = line.weights.get(factor.name)
            if weight is not None and is_adapted(weight, adapted):
                copies = tuple(letter for letter in factor.indices if line.scope[letter].role in STACKED)
                left = line.statement.left.indices
                copies += tuple(letter for letter in left if line.scope[letter].role in ("new", "source"))
                yield work.width * adapted.rank * elements(line, Reference("", copies), work)
