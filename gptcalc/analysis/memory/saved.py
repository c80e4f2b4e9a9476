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

from collections.abc import Iterator
from math import prod
from typing import Literal, NamedTuple

from gptcalc.analysis.memory.lora import LoRA, is_adapted
from gptcalc.analysis.memory.sharding import Layout, local
from gptcalc.dtypes import BF16
from gptcalc.equations import PAST, Chosen, Line, Stage
from gptcalc.equations.language import Reference

Recompute = Literal["none", "selective", "full"]
Attention = Literal["flash", "eager"]


class Work(NamedTuple):
    """One micro-batch, and how it is computed."""

    sequences: int
    context: int
    width: int = BF16.block_bytes  # bytes of one activation
    attention: Attention = "flash"
    parallel: Layout = Layout()
    sequence_parallel: bool = False

    @property
    def tokens(self) -> int:
        return self.sequences * self.context


class Kept(NamedTuple):
    """Bytes that one device keeps of one stage of the equations for one micro-batch."""

    entering: int = 0  # x, as it comes in
    core: int = 0  # attention's scores, their softmax and dropout; with flash attention the log-sum-exp
    dispatched: int = 0  # copies of tokens for the experts they go to
    rest: int = 0

    @property
    def total(self) -> int:
        return sum(self)

    def after(self, recompute: Recompute) -> Kept:
        """What is kept from the forward to the backward pass."""
        if recompute == "full":
            return Kept(entering=self.entering)
        return self._replace(core=0) if recompute == "selective" else self

    def again(self, recompute: Recompute) -> int:
        """What is made again while this layer's backward pass runs."""
        return self.total - self.after(recompute).total


STREAM = ("x", "X")  # what goes from layer to layer: one residual stream, or several


def kept(stage: Stage, work: Work, adapted: LoRA | None = None) -> Kept:
    """A layer's, the embedding's or the output's share. x is entered where it is read: in the layers and the output."""
    saved = [(line, saved_bytes(line, work)) for line in stage.lines if line.saved]
    stream = [size for line, size in saved if line.statement.left.name in STREAM]
    core = sum(size for line, size in saved if _is_core(line))
    rest = sum(size for line, size in saved) - core
    if adapted is not None:
        rest += sum(narrow_bytes(stage, work, adapted))
    dispatched = sum(copied_bytes(stage, work))
    if stage.kind == "embedding":
        return Kept(rest=rest - stream[-1], dispatched=dispatched)
    if stage.kind == "output":
        first = stage.lines[0]
        (x,) = (ref for ref in first.statement.references if ref.name in STREAM)
        return Kept(entering=work.width * elements(first, x, work), rest=rest)
    return Kept(stream[-1], core, dispatched, rest - stream[-1])


def _is_core(line: Line) -> bool:
    """Whether a line is of attention's pairs of tokens."""
    return _is_of_pairs(line.statement.left)


def _is_of_pairs(what: Reference) -> bool:
    return "t" in what.indices and any(letter in PAST for letter in what.indices)


def saved_bytes(line: Line, work: Work) -> int:
    """Bytes that one device keeps of a line's left side."""
    left = line.statement.left
    if _is_core(line) and work.attention == "flash":
        rows = Reference(left.name, tuple(letter for letter in left.indices if letter not in PAST))
        return line.flash * elements(line, rows, work) if line.flash else 0
    width = work.width if line.saved == BF16.block_bytes else line.saved
    return width * elements(line, left, work)


def elements(line: Line, what: Reference, work: Work) -> int:
    """How many elements of a symbol, as this line indexes it, one device holds."""
    letters = [letter for letter in what.indices if letter not in ("t", *PAST)]
    indices = [(letter, line.scope[letter]) for letter in letters]
    sizes = local(indices, work.parallel)
    is_split = any(sizes[letter] < index.size for letter, index in indices)
    tokens = work.tokens * (work.context if _is_of_pairs(what) else 1)
    if "χ" in what.indices:
        tokens //= line.scope["χ"].every
    if isinstance(line.condition, Chosen) and "e" in letters:
        parallel = work.parallel
        tokens = -(-tokens * line.condition.active * parallel.expert_tp // parallel.tp)
        del sizes["e"]
        is_split = True
    n = tokens * prod(sizes.values())
    return -(-n // work.parallel.tp) if work.sequence_parallel and not is_split else n


def copied_bytes(stage: Stage, work: Work) -> Iterator[int]:
    """For each input of experts: the copies of it that they read, where it isn't indexed by expert already."""
    seen = set()
    for line in stage.lines:
        if line.kind != "sum" or not isinstance(line.condition, Chosen):
            continue
        prefix = next(iter(line.weights.values())).key.partition(".")[0]
        for factor in line.statement.factors:
            if factor.name in line.weights or "e" in factor.indices or (prefix, factor.name) in seen:
                continue
            seen.add((prefix, factor.name))
            yield work.width * elements(line, factor._replace(indices=(*factor.indices, "e")), work)


def narrow_bytes(stage: Stage, work: Work, adapted: LoRA) -> Iterator[int]:
    """What adapters make between their two matrices: rank numbers a token, and for experts a token and expert."""
    for line in stage.lines:
        for factor in line.statement.factors:
            weight = line.weights.get(factor.name)
            if weight is not None and is_adapted(weight.key, weight.component, adapted):
                letters = ("t", *(letter for letter in factor.indices if letter == "e"))
                yield work.width * adapted.rank * elements(line, Reference("", letters), work)
