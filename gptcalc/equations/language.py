"""The index-sum language: one line of mathematics as data.

    q[t,h,a] = Σ_i n[t,i]·W_Q[i,h,a] + b_Q[h,a]

A line names its indices; a scope says over what each runs; marks say which symbols are weights. That already holds
the shape of every weight, the number of parameters, the FLOPs, the cache and the line to show. There are four kinds:

    sum        counted: 2 FLOPs for every term of the sum (one multiply, one add)
    pointwise  shown, its weights counted, no FLOPs (norms, softmax, rotations, activations, gates, look-ups)
    store      what it writes is kept in the cache
    read       what an earlier sublayer stored, used again

and one more concept, the condition: where not all combinations of two indices occur (s ≤ t, e among the top_k), it
replaces the product of their ranges by a joint count.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod
from typing import Literal, NamedTuple

Phase = Literal["prefill", "decode", "train"]
Pairing = Literal["causal", "full"]
Logits = Literal["all", "last"]
Shard = Literal["tp", "kv", "ep", "vocab"]  # kv: split like tp, but never finer than one KV head


@dataclass(frozen=True, slots=True)
class Workload:
    """One sequence of `context` tokens. prefill and train run all of them from nothing, decode the last one."""

    context: int
    phase: Phase = "prefill"
    pairs: Pairing = "causal"
    logits: Logits = "all"

    @property
    def new_tokens(self) -> int:
        """T, the range of t."""
        return 1 if self.phase == "decode" else self.context


class Index(NamedTuple):
    """What an index letter runs over: its size, the same as a symbol, and along which devices it is split."""

    symbol: str
    size: int
    shard: Shard | None = None
    every: int = 0  # an index over entries that each stand for so many tokens of the context


class Weight(NamedTuple):
    """The mark of a learned tensor: its key (the name it is known by everywhere) and the component it belongs to."""

    key: str
    component: str


@dataclass(frozen=True, slots=True)
class Pairs:
    """The condition on (t, s): a token sees itself and what came before it, in its window or chunk, or its choice.

    What is chosen are top_k keys, or top_k blocks of keys, of which one is always the token's own block so far.
    """

    window: int | None = None
    chunk: int | None = None
    top_k: int | None = None
    block: int | None = None
    indices = ("t", "s")

    def __str__(self) -> str:
        if self.window is not None:
            return f"t − {self.window} < s ≤ t"
        if self.chunk is not None:
            return f"s ≤ t, ⌊s/{self.chunk}⌋ = ⌊t/{self.chunk}⌋"
        if self.block is not None:
            return f"s ≤ t, ⌊s/{self.block}⌋ ∈ top_{self.top_k}(t)"
        if self.top_k is not None:
            return f"s ≤ t, s ∈ top_{self.top_k}(t)"
        return "s ≤ t"

    def kept(self, context: int) -> int:
        """How many of `context` tokens the newest one can still need: what the cache holds."""
        return min(context, self.window or self.chunk or context)

    def count(self, work: Workload) -> int:
        """How many pairs (t, s) occur."""
        s = work.context
        if work.pairs == "full":
            return work.new_tokens * s
        if work.phase == "decode":
            if self.chunk is not None:
                return (s - 1) % self.chunk + 1
            if self.block is not None:
                return min(s, self.earlier + (s - 1) % self.block + 1)
            return min(s, self.window or self.top_k or s)
        if self.chunk is not None:
            whole, rest = divmod(s, self.chunk)
            return whole * triangle(self.chunk) + triangle(rest)
        if self.block is not None:
            limit = min(s, self.earlier + self.block)  # up to here all is seen
            whole, rest = divmod(s - limit, self.block)
            return triangle(limit) + (s - limit) * self.earlier + whole * triangle(self.block) + triangle(rest)
        limit = min(s, self.window or self.top_k or s)
        return triangle(limit) + (s - limit) * limit

    @property
    def earlier(self) -> int:
        """Keys in the chosen blocks before a token's own, once there are as many."""
        return ((self.top_k or 1) - 1) * (self.block or 1)


def triangle(n: int) -> int:
    """1 + 2 + … + n."""
    return n * (n + 1) // 2


@dataclass(frozen=True, slots=True)
class Entries:
    """The condition on (t, χ): a token sees the entries of `every` tokens that are complete with it, or its choice."""

    every: int
    top_k: int | None = None
    indices = ("t", "χ")

    def __str__(self) -> str:
        chosen = "" if self.top_k is None else f", χ ∈ top_{self.top_k}(t)"
        return f"χ < ⌊(t + 1)/{self.every}⌋{chosen}"

    def kept(self, context: int) -> int:
        """How many entries there are."""
        return context // self.every

    def count(self, work: Workload) -> int:
        """How many pairs (t, χ) occur."""
        entries = self.kept(work.context)
        if work.pairs == "full":
            return work.new_tokens * entries
        most = entries if self.top_k is None else min(entries, self.top_k)
        if work.phase == "decode":
            return most
        # every tokens see 1 entry, every further ones 2, …; from the one that completes the last on all see `most`
        return self.every * triangle(max(most - 1, 0)) + most * (work.context - most * self.every + 1)


@dataclass(frozen=True, slots=True)
class Completed:
    """The condition on χ alone: the entries that the new tokens complete."""

    every: int
    indices = ("χ",)

    def __str__(self) -> str:
        return f"entries of {self.every} tokens completed now"

    def count(self, work: Workload) -> int:
        return work.context // self.every - (work.context - work.new_tokens) // self.every


@dataclass(frozen=True, slots=True)
class Chosen:
    """The condition on (t, e): of `total` experts a token uses `active`, and so touches that share of their weights."""

    active: int
    total: int
    active_symbol: str = "top_k"
    name: str = "E"
    indices = ("t", "e")

    def __str__(self) -> str:
        return f"e ∈ {self.name}(t), |{self.name}| = {self.active}"

    def count(self, work: Workload) -> int:
        return work.new_tokens * self.active


@dataclass(frozen=True, slots=True)
class Wanted:
    """The condition on t where logits are wanted: of all new tokens, or of the last."""

    indices = ("t",)

    def __str__(self) -> str:
        return ""

    def count(self, work: Workload) -> int:
        return work.new_tokens if work.logits == "all" else 1


Condition = Pairs | Entries | Completed | Chosen | Wanted


class Reference(NamedTuple):
    """A symbol with its indices, as it stands in a line."""

    name: str
    indices: tuple[str, ...]


class Statement(NamedTuple):
    """A line's text, taken apart: left side, everything referred to, and the factors of its sum."""

    left: Reference
    references: tuple[Reference, ...]
    factors: tuple[Reference, ...]
    summed: tuple[str, ...]


#: letters that run over what lies in the past: tokens, entries that stand for several
PAST = ("s", "χ")

REFERENCE = re.compile(r"([^\W\d_][\w′̂]*)\[([^\]]*)\]")
SUM = re.compile(r"Σ_(?:\{([^}]*)\}|(\w))")


@lru_cache(maxsize=4096)
def parse(text: str) -> Statement:
    """Take a line apart. The same text always means the same, so this is done once for all models."""
    left_text, _, right_text = text.partition("=")
    references = tuple(Reference(m[1], _letters(m[2])) for m in REFERENCE.finditer(text))
    left = references[0] if REFERENCE.search(left_text) else Reference("", ())
    found = SUM.search(right_text)
    if found is None:
        return Statement(left, references, (), ())
    product = right_text[found.end() :].split(" + ")[0]
    factors = tuple(Reference(m[1], _letters(m[2])) for m in REFERENCE.finditer(product))
    return Statement(left, references, factors, _letters(found[1] or found[2]))


def _letters(text: str) -> tuple[str, ...]:
    return tuple(letter for letter in text.split(",") if letter)


@dataclass(frozen=True, slots=True)
class Tensor:
    """A learned tensor as a line defines it."""

    weight: Weight
    line: Line
    reference: Reference

    @property
    def indices(self) -> list[Index]:
        """What the tensor's indices run over, as it is written."""
        return [self.line.scope[letter] for letter in self.reference.indices]

    @property
    def params(self) -> int:
        return prod([index.size for index in self.indices])

    @property
    def active(self) -> int:
        """What one token's forward pass touches: of the experts the chosen ones, of anything else all."""
        chosen = self.line.condition
        if isinstance(chosen, Chosen) and "e" in self.reference.indices:
            return self.params * chosen.active // chosen.total
        return self.params

    @property
    def shape(self) -> tuple[int, ...]:
        """A matrix's shape as inputs × outputs, a bias's as outputs (experts in front); any other as it is indexed."""
        letters, scope, statement = self.reference.indices, self.line.scope, self.line.statement
        if self.line.kind != "sum":
            return tuple(scope[letter].size for letter in letters) or (1,)
        experts = tuple(scope[letter].size for letter in letters if letter == "e")
        rest = [letter for letter in letters if letter != "e"]
        outputs = prod(scope[letter].size for letter in rest if letter not in statement.summed)
        if self.reference not in statement.factors:
            return (*experts, outputs)
        return (*experts, prod(scope[letter].size for letter in rest if letter in statement.summed), outputs)


#: What the mark `saved` means. Kept is what a product, a norm, a softmax or an activation function needs again in the
#: backward pass: the inputs of products (2 bytes an element in 16-bit training), of norms and of activations (2), the
#: softmax's result (2), dropout's mask (1), logits in fp32 (4). What is linear (residual, rotation, a constant factor)
#: needs nothing; φ(g) of a gated layer is made again from g. Korthikanti et al. 2022 (arXiv:2205.05198, §4.1) count so.
SAVED = "kept for the backward pass: inputs of products, norms and activations, the softmax's result, masks, logits"


#: bytes a row that FlashAttention keeps for its backward pass: log-sum-exp in fp32 (arXiv:2307.08691, §3.1)
LOG_SUM_EXP = 4


@dataclass(frozen=True, slots=True)
class Line:
    """One equation of the forward pass."""

    text: str
    kind: Literal["sum", "pointwise", "store", "read"]
    component: str
    scope: dict[str, Index] = field(compare=False)
    weights: dict[str, Weight] = field(compare=False)
    condition: Condition | None = None
    saved: int = 0  # bytes an element that the backward pass keeps of the left side, in 16-bit training (SAVED)
    pool: str = ""  # store lines: the cache that is written
    kept: Pairs | Entries | None = None  # store lines: how much of the past stays; None: something of constant size
    flash: int = 0  # bytes a row (the left side without s) that fused attention keeps instead of the pairs

    @property
    def statement(self) -> Statement:
        return parse(self.text)

    def ranges(self) -> dict[str, Index]:
        """The index letters of the line, each with what it runs over. t and s are set by the workload."""
        letters = dict.fromkeys(letter for ref in self.statement.references for letter in ref.indices)
        return {letter: self.scope[letter] for letter in letters}

    def terms(self, work: Workload) -> int:
        """How many terms the sum has over all its results: the multiply-adds of one sequence."""
        if self.kind != "sum":
            return 0
        letters = {letter for ref in self.statement.factors for letter in ref.indices}
        return self.count(letters, work)

    def count(self, letters: set[str], work: Workload) -> int:
        """How many combinations of these indices occur."""
        condition = self.condition
        if condition is not None and letters.issuperset(condition.indices):
            rest, n = letters.difference(condition.indices), condition.count(work)
        else:
            rest, n = letters, 1
        for letter in rest:
            n *= self.size(letter, work)
        return n

    def size(self, letter: str, work: Workload) -> int:
        if letter == "t":
            return work.new_tokens
        if letter == "s":
            return work.context
        index = self.scope[letter]
        return work.context // index.every if index.every else index.size

    def flops(self, work: Workload) -> int:
        """2 × the multiply-adds."""
        return 2 * self.terms(work)

    def attends(self) -> bool:
        """Whether it multiplies over pairs of tokens, and no weights."""
        factors = self.statement.factors
        return "s" in self.ranges() and not any(ref.name in self.weights for ref in factors)

    def tensors(self) -> list[Tensor]:
        """The learned tensors on this line."""
        if not self.weights:
            return []
        marks = self.weights
        return [Tensor(marks[ref.name], self, ref) for ref in self.statement.references if ref.name in marks]

    def stored_elements(self) -> int:
        """Elements that one token adds to the cache on a store line."""
        if self.kind != "store":
            return 0
        return prod(self.scope[letter].size for letter in self.statement.left.indices if letter not in PAST)


class Lines:
    """Collects a sublayer's lines. One scope, one component and one prefix of keys serve all of them."""

    def __init__(self, prefix: str, component: str, scope: dict[str, Index]) -> None:
        self.prefix = prefix
        self.component = component
        self.scope = scope
        self.lines: list[Line] = []

    def sum(
        self, text: str, condition: Condition | None = None, saved: int = 0, component: str = "", **keys: str
    ) -> None:
        """A counted sum. Keywords mark weights: symbol = key after the prefix."""
        self._add("sum", text, condition, saved, component, keys)

    def pointwise(
        self, text: str, condition: Condition | None = None, saved: int = 0, component: str = "", flash: int = 0,
        **keys: str,
    ) -> None:  # fmt: skip
        """A line without FLOPs."""
        self._add("pointwise", text, condition, saved, component, keys, flash)

    def store(self, text: str, kept: Pairs | Entries | None, pool: str) -> None:
        """A line whose left side stays in the cache `pool`."""
        self.lines.append(Line(text, "store", self.component, self.scope, {}, pool=pool, kept=kept))

    def read(self, text: str) -> None:
        """A line that reads what another sublayer stored."""
        self.lines.append(Line(text, "read", self.component, self.scope, {}))

    def _add(
        self,
        kind: Literal["sum", "pointwise"],
        text: str,
        condition: Condition | None,
        saved: int,
        component: str,
        keys: dict[str, str],
        flash: int = 0,
    ) -> None:
        where = component or self.component
        marks = {name: Weight(f"{self.prefix}.{key}" if self.prefix else key, where) for name, key in keys.items()}
        self.lines.append(Line(text, kind, where, self.scope, marks, condition, saved, flash=flash))


def plus(bias: str, present: bool) -> str:
    """A bias at the end of a line, where there is one."""
    return f" + {bias}" if present else ""
