"""The index-sum language: one line of mathematics as data.

    q[t,h,a] = Σ_i n[t,i]·W_Q[i,h,a] + b_Q[h,a]

A line names its indices; a scope says over what each runs; marks say which symbols are weights. That already holds
the shape of every weight, the number of parameters, the FLOPs, the cache and the line to show. There are four kinds:

    sum        counted: 2 FLOPs for every term of the sum (one multiply, one add)
    pointwise  shown, its weights counted, no FLOPs (norms, softmax, rotations, activations, gates, look-ups)
    store      what it writes is kept in the cache, and is there for nothing else
    read       what an earlier sublayer stored, used again

and one more concept, the condition: where not all combinations of two indices occur (s ≤ t, e among the top_k), it
replaces the product of their ranges by a joint count.

What a thing means is said, not spelled: an index has a role (roles.Role), a store line says what it keeps and how much
of the past (roles.Stored, conditions.Keep), a mark may say what a weight is for (roles.Use). Analyses read these.

How mixers without a growing cache are written:

    a recurrent state: lines.keep("M"), behind the last line that makes it. It is read and written once a token, so
        its products have t and the state's indices: "o[t,h,w] = Σ_a q[t,h,a]·M[h,a,w]" is 2·T·h·a·w FLOPs, and so is an
        outer product added to it, "M[h,a,w] += k[t,h,a]·v[t,h,w]": a sum line that adds takes in every product. The
        lines from the first that has the state to the last are walked token by token. Its type is the states' (fp32).
        A chunked form is a second way to write the lines (chunked.py), as latent attention has two.
    a convolution's state: lines.store("R[κ,f] = the last tokens' f", "convolution", Constant()), κ with the role taps.
    cross-attention: σ with the role source; keys are made in the first pass alone, "k[σ,h,a] = Σ_i c[σ,i]·W_K[i,h,a]"
        under the condition Once(); lines.store("K[σ,h,a] = k[σ,h,a]", "keys", OfSource()) is there for every source
        token and doesn't grow; "z[t,σ,h] = Σ_a q[t,h,a]·K[σ,h,a]" needs no condition. An encoder's stages run over the
        source: Stage.runs "encoder", Workload.encoder.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import Struct

from gptcalc.architecture import Prefix
from gptcalc.equations.conditions import Chosen, Condition, Keep, Within, Workload
from gptcalc.equations.roles import ABSENT, LOOKED_BACK, LOOKING, ROWS, STACKED, Kind, Role, Shard, Stored, Use
from gptcalc.equations.statement import Reference, Statement, parse

if TYPE_CHECKING:
    from fractions import Fraction


class Index(Struct, frozen=True):
    """What an index letter runs over: its size, the same as a symbol, its role, and along which devices it is split."""

    symbol: str
    size: int
    role: Role
    shard: Shard | None = None
    every: int = 0  # an index over entries that each stand for so many tokens of the past

    @property
    def is_fixed(self) -> bool:
        """Whether its range is its size, whatever the pass."""
        return self.role not in ("new", "frames", "past", "source", "entries")

    def length(self, work: Workload) -> int:
        """Its range in one pass."""
        match self.role:
            case "new":
                return work.new_tokens
            case "frames":
                return work.new_tokens * self.size
            case "past":
                return work.context
            case "source":
                return work.source
            case "entries":
                return work.context // self.every
        return self.size


class Mark(Struct, frozen=True):
    """How a line names a learned tensor: its key in the sublayer, and what it is for."""

    key: str
    use: Use = "other"
    component: str = ""  # where it is another than the line's
    tied: bool = False  # another stage has it: it is counted there, and its key is whole
    borrowed: bool = False  # another model has it: it is counted nowhere, and its key is whole
    own: bool = False  # each layer has one, although the sublayer's weights are shared


class Weight(Struct, frozen=True):
    """A learned tensor: its key (the name it is known by everywhere) and the component it belongs to."""

    key: str
    component: str
    plain: str  # the key without the sublayer's number: attn2.q is attn.q
    use: Use = "other"
    tied: bool = False
    shared: bool = False  # one for all layers that have it
    borrowed: bool = False


def weight(prefix: Prefix, mark: Mark | str, component: str) -> Weight:
    """The learned tensor that a mark names in a line of this component, in a sublayer of this prefix."""
    if isinstance(mark, str):
        mark = Mark(mark)
    where = mark.component or component
    if mark.tied or mark.borrowed or not prefix.kind:
        return Weight(mark.key, where, mark.key, mark.use, mark.tied, borrowed=mark.borrowed)
    if prefix.shared and not mark.own:
        return Weight(f"shared.{prefix.shared}.{mark.key}", where, f"{prefix.kind}.{mark.key}", mark.use, shared=True)
    return Weight(f"{prefix}.{mark.key}", where, f"{prefix.kind}.{mark.key}", mark.use)


#: a number that a text has by name, or a list of them by an index
Named: TypeAlias = float | tuple[float, ...]


class Tensor(Struct, frozen=True, eq=False, dict=True):
    """A learned tensor as a line defines it."""

    weight: Weight
    line: Line
    reference: Reference
    indices: list[Index]  # what its own run over, as it is written

    @property
    def params(self) -> int:
        return prod([index.size for index in self.indices])

    @property
    def each_expert(self) -> bool:
        """Whether each expert has one of its own."""
        return "experts" in [index.role for index in self.indices]

    @property
    def active(self) -> int:
        """What one token's forward pass touches: of the experts the chosen ones, of what no token of a text
        passes nothing, of anything else all."""
        if self.line.is_idle:
            return 0
        chosen = self.line.condition
        if isinstance(chosen, Chosen) and self.each_expert:
            return self.params * chosen.active // chosen.total
        return self.params

    @property
    def expected(self) -> int | Fraction:
        """The same on average, where as many tokens choose each expert, those without weights included."""
        chosen = self.line.condition
        if isinstance(chosen, Chosen) and chosen.choices and self.each_expert:
            from fractions import Fraction

            return Fraction(self.params * chosen.active, chosen.choices)
        return self.active

    @cached_property
    def kind(self) -> Kind:
        """What is done with it, read off its place in the line."""
        roles = {index.role for index in self.indices}
        if self.reference in self.line.statement.factors:
            return "kernel" if "taps" in roles else "matrix"
        if self.line.kind == "sum":
            return "bias"
        return "vector" if roles.isdisjoint(ROWS) else "table"

    @property
    def layer(self) -> str:
        """The key of the matrix that it belongs to: of a bias the matrix of its sum, else its own."""
        if self.kind != "bias":
            return self.weight.key
        line = self.line
        return next(
            (line.weights[f.name].key for f in line.statement.factors if f.name in line.weights), self.weight.key
        )

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """A matrix's shape as inputs × outputs, a bias's as outputs (experts in front); any other as it is indexed."""
        if self.line.kind != "sum":
            return tuple(index.size for index in self.indices) or (1,)
        copies, inputs, outputs = self.axes([index.size for index in self.indices])
        return (*copies, outputs) if self.kind == "bias" else (*copies, inputs, outputs)

    @cached_property
    def places(self) -> list[int]:
        """Of a factor of a sum, what each of its indices counts: 0 copies, 1 inputs, 2 outputs."""
        line = self.line
        return [
            0 if line.scope[letter].role in STACKED else 1 if letter in line.statement.summed else 2
            for letter in self.reference.indices
        ]

    def axes(self, sizes: Iterable[int]) -> tuple[tuple[int, ...], int, int]:
        """Copies, inputs and outputs of a factor of a sum whose indices, as it is written, have these sizes."""
        copies: tuple[int, ...] = ()
        inputs = outputs = 1
        for place, size in zip(self.places, sizes, strict=True):
            if place == 0:
                copies += (size,)
            elif place == 1:
                inputs *= size
            else:
                outputs *= size
        return copies, inputs, outputs


#: What the mark `saved` means. Kept is what a product, a norm, a softmax or an activation function needs again in the
#: backward pass: the inputs of products (2 bytes an element in 16-bit training), of norms and of activations (2), the
#: softmax's result (2), dropout's mask (1), logits in fp32 (4). What is linear (residual, rotation, a constant factor)
#: needs nothing; φ(g) of a gated layer is made again from g. Korthikanti et al. 2022 (arXiv:2205.05198, §4.1) count so.
SAVED = "kept for the backward pass: inputs of products, norms and activations, the softmax's result, masks, logits"


class Aside(Struct, frozen=True):
    """What transformers' own kernels keep of a line beside what is marked as saved: they are not fused.

    Norms compute in fp32 and keep that copy in place of their input (modeling_llama.py, LlamaRMSNorm), then what they
    multiply with the weight; torch's layer norm keeps mean and deviation of a row. φ(g) of a gated layer is kept, too.
    """

    upcast: bool = False  # the input is kept in fp32
    narrow: int = 0  # results of the left side's size, in the model's type
    wide: int = 0  # the same, in fp32
    row: int = 0  # bytes a row, which is all but the letters …
    over: str = ""
    along: str = ""  # letters that what is kept has beside the left side's


#: bytes a row that FlashAttention keeps for its backward pass: log-sum-exp in fp32 (arXiv:2307.08691, §3.1)
LOG_SUM_EXP = 4


#: the residual stream: one, or several side by side
STREAM = frozenset({"x", "X"})

#: what a sublayer reads, and what it adds to the stream
ENTERS, LEAVES = "n", "y"

#: what the stream has been, which every later layer reads as well
ASIDE = frozenset({"Z"})


#: in which passes of a loop a line runs: all, the first, those behind it, those before the last, the last
Passes: TypeAlias = Literal["all", "first", "later", "earlier", "last"]


class Line(Struct, frozen=True, eq=False, kw_only=True, dict=True):
    """One equation of the forward pass."""

    text: str
    kind: Literal["sum", "pointwise", "store", "read"]
    component: str
    scope: dict[str, Index]
    part: str = ""  # the sublayer it belongs to, as its weights' keys begin
    weights: dict[str, Weight] = {}
    condition: Condition | None = None
    saved: int = 0  # bytes an element that the backward pass keeps of the left side, in 16-bit training (SAVED)
    stored: Stored | None = None  # of store lines, and the last that make a state: what is kept …
    kept: Keep | None = None  # … and how much of it
    aside: Aside | None = None  # what kernels that are not fused keep beside
    flash: int = 0  # bytes a row (the left side without the past) that fused attention keeps instead of the pairs
    passes: Passes = "all"  # of a loop, in which it runs
    constants: Mapping[str, Named] = {}  # numbers that the text has by name: ε of a norm, divisors of frequencies

    @cached_property
    def statement(self) -> Statement:
        return parse(self.text)

    @property
    def is_stream(self) -> bool:
        """Whether it makes the residual stream, which goes from layer to layer."""
        return self.statement.left.name in STREAM

    @property
    def is_idle(self) -> bool:
        """Whether no token of a text passes it, but tokens of images alone or of a block that is denoised."""
        return any(index.role in ABSENT for index in self.ranges().values())

    def indices(self, reference: Reference) -> list[Index]:
        """What a symbol's indices run over."""
        return [self.scope[letter] for letter in reference.indices]

    def roles(self, reference: Reference) -> set[Role]:
        return {index.role for index in self.indices(reference)}

    def ranges(self) -> dict[str, Index]:
        """The index letters of the line, each with what it runs over."""
        letters = dict.fromkeys(letter for ref in self.statement.references for letter in ref.indices)
        return {letter: self.scope[letter] for letter in letters}

    def factors(self) -> list[Index]:
        """What the sum's terms and results run over, each letter once: where a state is walked, results have the token
        that none of their factors has. None where nothing is summed."""
        of = self.statement
        multiplied = (*of.factors, of.left) if of.factors else ()
        letters = dict.fromkeys(letter for ref in multiplied for letter in ref.indices)
        return [self.scope[letter] for letter in letters]

    def joint(self, indices: Iterable[Index]) -> tuple[Condition | None, list[Index]]:
        """The condition where it holds for these indices, and those that it doesn't count."""
        listed, condition = list(indices), self.condition
        if condition is None or not {index.role for index in listed}.issuperset(condition.roles):
            return None, listed
        return condition, [index for index in listed if index.role not in condition.roles]

    def terms(self, work: Workload) -> int:
        """How many terms the sum has over all its results: the multiply-adds of one sequence."""
        times, rest = self.counted(work)
        return times * prod([index.size for index in rest])

    def counted(self, work: Workload) -> tuple[int, list[Index]]:
        """The same as a count that hangs on the pass, and the indices whose ranges do not."""
        if self.kind != "sum":
            return 0, []
        condition, rest = self.joint(self.factors())
        times = 1 if condition is None else condition.count(work)
        fixed = [index for index in rest if index.is_fixed]
        return times * prod([index.length(work) for index in rest if not index.is_fixed]), fixed

    def flops(self, work: Workload) -> int:
        """2 × the multiply-adds."""
        return 2 * self.terms(work)

    def attends(self) -> bool:
        """Whether it multiplies over pairs of a new token and what it looks back on, and no weights; not so within the
        chunks of a recurrent mixer."""
        if not self.statement.factors or isinstance(self.condition, Within) or not _pairs(self.factors()):
            return False
        return not any(ref.name in self.weights for ref in self.statement.factors)

    def is_of_pairs(self, reference: Reference) -> bool:
        """Whether there is one of these for every pair of a new token and what it looks back on."""
        return _pairs(self.indices(reference))

    def tensors(self) -> list[Tensor]:
        """The learned tensors on this line."""
        if not self.weights:
            return []
        marks = self.weights
        return [
            Tensor(marks[ref.name], self, ref, self.indices(ref))
            for ref in self.statement.references
            if ref.name in marks
        ]

    def stored_indices(self) -> list[Index]:
        """On a store line: the indices of what is kept of one token or entry, or of a state."""
        return [index for index in self.indices(self.statement.left) if index.role not in LOOKED_BACK]


def _pairs(indices: Iterable[Index]) -> bool:
    return of_pairs([index.role for index in indices])


def of_pairs(roles: list[Role]) -> bool:
    """Whether one of these looks back and another is looked back on, or slots of a block look at each other."""
    return roles.count("slots") == 2 or (not LOOKING.isdisjoint(roles) and not LOOKED_BACK.isdisjoint(roles))
