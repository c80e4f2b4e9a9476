"""Softmax attention over keys and values of every head, every group of heads or all."""

import math
from typing import Annotated, Literal, TypeAlias

from msgspec import field

from gptcalc.architecture.base import (
    AtMost,
    Choices,
    Chunk,
    Flat,
    Heads,
    Inherited,
    Inner,
    Multiple,
    Narrow,
    Paired,
    Positive,
    Several,
    Size,
    Small,
    Strict,
    Turned,
    Window,
    exclude,
)
from gptcalc.architecture.convolved import ConvolvedHeads, KeyValueConvolution, LocalFilter
from gptcalc.architecture.factors import Factors
from gptcalc.architecture.norms import BareNorm, LikeNorm, ModelNorm, Norm, OutNorm, QKNorm
from gptcalc.architecture.relative import Buckets, Disentangled
from gptcalc.architecture.rope import Dynamic, LongRope, Proportional, Rope, Temperature, check_rotation, rotated
from gptcalc.architecture.strided import Strided
from gptcalc.architecture.sublayer import KV, Adapted, OutputGate, Sublayer
from gptcalc.errors import InputError

#: what is added to a vector's length before it divides what the length may be
LENGTH_EPS = 1e-6

AttentionSite: TypeAlias = Literal["q", "k", "v", "out"]


class AttentionExperts(Strict, frozen=True, kw_only=True):
    """Query and output projections chosen per token from experts; K and V are shared (JetMoE)."""

    n_experts: Annotated[Size, Small(3)]  # experts of the query and output projections
    top_k: Choices  # experts of one token


class RelativeBias(Strict, frozen=True, kw_only=True):
    """Positions by a learned bias of the scores: d numbers of each head and query mix d profiles over the distance,
    which has no bias from `extent` on (Inkling).

    limit: the d numbers are multiplied by one learned factor each, and their length is at most this (Inkling 2).
    """

    d: Annotated[Size, Small(2)]  # numbers of each head and query
    extent: Annotated[Size, AtMost(5)]  # distances that have a bias
    limit: Positive | None = None


class BlockIndexer(Strict, frozen=True, kw_only=True):
    """Block-sparse attention's indexer (MiniMax-M3): one small head for each KV head scores all keys.

    A block of keys counts as much as its best key. Of these blocks the queries of a KV head attend to the top_k, always
    among them the `local` newest, the last of which is the query's own.

    n_heads: instead so many heads score the mean of a block's keys, normed and turned as its first one; a block counts
    as much as their positive scores together, and all heads attend to the same blocks. Blocks are complete, but for the
    newest, of those tokens that fill none (QSA, Qwen4-Exp).
    """

    d: Turned  # channels of an index head
    block: Annotated[Size, AtMost(2)]  # keys of a block
    top_k: Annotated[Size, AtMost(3)]  # blocks that are attended to
    local: Annotated[Size, AtMost(2)] = 1  # newest blocks, always among them
    norm: ModelNorm  # of the index queries and keys
    n_heads: Heads | None = None  # heads that choose for all


class Bottleneck(Strict, frozen=True, kw_only=True):
    """Queries by way of a narrow width, normed there (Step-3)."""

    rank: Inner = field(name="q_rank")  # channels of the bottleneck of the queries
    norm: ModelNorm = field(name="q_norm")


class Scores(Strict, frozen=True, kw_only=True):
    """What becomes of the scores between the product of queries and keys and the weighted sum."""

    scale: Positive | None = None  # their factor; default 1/√d_head
    softcap: Positive | None = None  # scores x become softcap·tanh(x / softcap)
    temperature: Temperature | None = None
    log_length: Annotated[Several, AtMost(3)] | None = (
        None  # queries beyond this position grow by ln(position) / ln(log_length) (Grok-2)
    )
    relative: RelativeBias | None = None
    buckets: Buckets | None = None
    disentangled: Disentangled | None = None
    alibi_scale: Positive = 1.0  # Falcon scales ALiBi's biases with the scores, by 1/√d_head
    sinks: bool = False  # one learned logit a head takes its share of the softmax (gpt-oss)
    token_sinks: bool = False  # the same, with logits that are made of each token's input (Inkling 2)

    @property
    def kinds(self) -> int:
        """How many scores of a pair are added, of content and of positions."""
        return 1 if self.disentangled is None else 1 + self.disentangled.c2p + self.disentangled.p2c


class Differential(Strict, frozen=True, kw_only=True):
    """Differential attention (arXiv:2410.05258): of two heads' softmaxes one is taken off the other, times
    λ = e^{q₁·k₁} − e^{q₂·k₂} + λ₀ with four learned vectors, λ₀ = 0.8 − 0.6·e^{−0.3·l} in layer l = 0, 1, …

    Heads of the first half meet those of the second, both read the values of both; the result is normed and
    multiplied by 1 − λ₀.
    """

    norm: BareNorm


class DynamicMask(Strict, frozen=True, kw_only=True):
    """Scores that grow by what the keys' values say: e^{A·softplus(W·V + b)}, one number a key and KV head. Of more
    keys than top_k those are seen where it is largest (Doge)."""

    top_k: Window  # keys that are seen
    bias: bool = False  # of W


class Attention(Sublayer, tag_field="sublayer", tag="attention", frozen=True, kw_only=True):
    """Softmax attention: multi-head, grouped or multi-query, over the whole past, a window or a chunk of it.

    Without `causal` a token sees those behind it, too: all, or those nearer than its window on both sides. With
    `source` keys and values are those of an encoder's output, made once.
    """

    n_heads: Inherited[Annotated[Size, Multiple("n_kv_heads")]]  # heads of queries
    n_kv_heads: Inherited[Heads]  # heads of keys and values
    d_head: Inherited[Paired]  # channels of a head's queries and keys
    d_v: Inherited[Narrow]  # channels of a head's values
    bias: tuple[AttentionSite, ...] = ()  # which projections have a bias
    causal: Inherited[bool] = True  # a token sees none behind it
    whole_prompt: Inherited[bool] = False  # a prompt's tokens see all of it; what comes later sees all before it
    source: bool = False  # keys and values are those of an encoder's output
    position: Literal["rope", "alibi", "none"] = "rope"  # how scores depend on the distance
    rope: Rope | None = None
    window: Window | None = None  # tokens that are seen, the newest ones; default all
    chunk: Chunk | None = None  # tokens of a chunk, within which alone tokens see each other
    qk_norm: LikeNorm[QKNorm | None] = None
    q_factors: Factors | None = None  # of rotated queries
    qk_limit: Positive | None = None  # queries, times one learned factor a channel, and keys are no longer (Inkling 2)
    v_norm: Norm | None = None
    bottleneck: Flat[Bottleneck | None] = None
    k_eq_v: bool = False  # one projection serves K and V
    kv: KV | None = None
    scores: Flat[Scores] = Scores()
    gate: Flat[OutputGate | None] = None
    clip: Positive | None = None  # q, k, v clamped to ±clip
    value_scale: float = 1.0  # factor of the values
    experts: AttentionExperts | None = None
    out_norm: OutNorm | None = None
    index: BlockIndexer | None = None
    strided: Strided | None = None
    kv_conv: Flat[KeyValueConvolution | None] = None
    differential: Differential | None = None
    dynamic_mask: DynamicMask | None = None
    cca: ConvolvedHeads | None = None
    filter: LocalFilter | None = None
    own_inputs: bool = False  # queries, keys and values are each made of an input of their own, normed with a norm each
    # reads the stream and the embedding side by side, 2·d channels, normed together (arXiv:2405.16712); `apart`: each
    # normed by itself, the embedding in front (EAGLE-3)
    with_embedding: bool | Literal["apart"] = False
    with_target: bool = False  # keys and values of a target's states, too, made once of each token (DFlash)
    adapter: Flat[Adapted | None] = None

    @property
    def sees_ahead(self) -> bool:
        """Whether tokens of one pass see those behind them."""
        return not self.causal or self.whole_prompt

    @property
    def inputs(self) -> int:
        """How many inputs there are: one for queries, keys and values each, or one for all."""
        return 3 if self.own_inputs or self.messages is not None else 1

    @property
    def score_scale(self) -> float:
        """The factor of the scores."""
        return self.scores.scale if self.scores.scale is not None else 1 / math.sqrt(self.d_head * self.scores.kinds)

    def __post_init__(self) -> None:
        super().__post_init__()
        name = self.section
        if self.window is not None and self.chunk is not None:
            raise InputError(f"{name}: window and chunk exclude each other")
        if self.qk_norm is not None and self.qk_norm.at_read and not self.qk_norm.after_rope:
            raise InputError(f"{name}.qk_norm.at_read: cached keys are rotated, so after_rope must be true")
        if self.k_eq_v and self.d_v != self.d_head:
            raise InputError(f"{name}.k_eq_v: d_v = {self.d_v} differs from d_head = {self.d_head}")
        if self.kv_conv is not None and (self.kv is not None or self.k_eq_v):
            raise InputError(f"{name}.kv_conv: needs keys and values of its own")
        if self.scores.sinks and self.scores.token_sinks:
            raise InputError(f"{name}.token_sinks: a head has one sink, of its own or of the token")
        if self.rope is not None:
            check_rotation(name, self.rope, self.d_head, whole_prompt=self.whole_prompt and self.causal)
        if self.experts is not None:
            self._check_experts(self.experts)
        if self.scores.relative is not None:
            given = {"experts": self.experts, "index": self.index, "softcap": self.scores.softcap}
            self._refuse("relative", {key: value is not None for key, value in given.items()})
        if self.index is not None:
            self._check_index(self.index)
        if self.differential is not None:
            self._check_differential()
        if self.cca is not None:
            self._check_convolved()
        if self.filter is not None:
            others = {"own_inputs": self.own_inputs, "kv_conv": self.kv_conv is not None, "causal": not self.causal}
            self._refuse("filter", {**self._of_the_input(), **others, "filter": False})
        if self.dynamic_mask is not None:
            self._refuse("dynamic_mask", self._of_positions())
        if self.strided is not None:
            self._check_strided()
        if self.with_embedding:
            if self.norm is None or self.norm_at != "pre":
                raise InputError(f"{name}.with_embedding: needs a norm in front")
            own = {"laurel": self.residual.low_rank is not None, **self.behind_norm}
            self._refuse("with_embedding", {**own, **self._of_the_input()})
        if self.qk_limit is not None:
            others = {"qk_norm": self.qk_norm is not None, "cca": self.cca is not None}
            self._refuse("qk_limit", others | {"experts": self.experts is not None})
        if self.inputs > 1:
            if self.norm is None or self.norm_at != "pre":
                raise InputError(f"{name}.own_inputs: needs a norm in front")
            apart = {"gate": False, "relative": False}  # made of the queries' input
            others = {"with_embedding": bool(self.with_embedding), "laurel": self.residual.low_rank is not None}
            self._refuse("own_inputs" if self.own_inputs else "messages", self._of_the_input() | apart | others)
        if self.adapter is not None:
            if not self.tied:
                raise InputError(f"{name}.adapter_rank: weights that are not tied need no adapter")
            self._refuse("adapter_rank", self._of_the_input())
        if self.with_target:
            self._check_target()
        if self.whole_prompt and self.causal:
            others = {"window": self.window is not None, "disentangled": self.scores.disentangled is not None}
            self._refuse("whole_prompt", self._of_the_past() | others)
        if not self.causal:
            self._refuse("source" if self.source else "causal", self._of_the_past())
        elif self.source:
            raise InputError(f"{name}.causal: the whole source is seen, so it must be false")
        if self.source:
            positions = {"rope": self.rope, "buckets": self.scores.buckets, "disentangled": self.scores.disentangled}
            self._refuse(
                "source", {"window": self.window is not None, **{k: v is not None for k, v in positions.items()}}
            )
        if self.scores.buckets is not None or self.scores.disentangled is not None:
            self._check_distances()

    def _check_target(self) -> None:
        if self.causal:
            raise InputError(f"{self.section}.with_target: the whole block is seen, so causal must be false")
        others = {
            "window": self.window is not None,
            "own_inputs": self.own_inputs,
            "qk_limit": self.qk_limit is not None,
            "gate": self.gate is not None,
            "out_norm": self.out_norm is not None,
            "temperature": self.scores.temperature is not None,
            "log_length": self.scores.log_length is not None,
            "token_sinks": bool(self.scores.token_sinks),
            "with_embedding": bool(self.with_embedding),
            "k_eq_v": self.k_eq_v,
            "v_norm": self.v_norm is not None,
            "value_scale": self.value_scale != 1.0,
            "clip": self.clip is not None,
            "softcap": self.scores.softcap is not None,
            "sinks": self.scores.sinks,
            "differential": self.differential is not None,
            "tied": self.tied,
            "goal": self.goal != "stream",
            "qk_norm.at_read": self.qk_norm is not None and self.qk_norm.at_read,
            "rope.scaling that changes with the length": self.rope is not None
            and isinstance(self.rope.scaling, (Dynamic, LongRope)),
            **self._of_positions(),
            **self._of_the_input(),
        }
        self._refuse("with_target", others)

    def _check_differential(self) -> None:
        if self.n_kv_heads % 2:
            raise InputError(f"{self.section}.differential: n_kv_heads = {self.n_kv_heads} has no halves")
        others = {
            "gate": self.gate is not None,
            "out_norm": self.out_norm is not None,
            "sinks": self.scores.sinks or self.scores.token_sinks,
            "cca": self.cca is not None,
            "dynamic_mask": self.dynamic_mask is not None,
        }
        self._refuse("differential", {**others, **self._of_positions()})

    def _check_convolved(self) -> None:
        if self.n_kv_heads * self.d_v % 2:
            raise InputError(f"{self.section}.cca: the values' channels have no halves")
        others = {
            "kv": self.kv is not None,
            "kv_conv": self.kv_conv is not None,
            "k_eq_v": self.k_eq_v,
            "experts": self.experts is not None,
            "q_rank": self.bottleneck is not None,
            "source": self.source,
            "bias": bool({"q", "k", "v"} & set(self.bias)),
            "qk_norm.after_rope": self.qk_norm is not None and self.qk_norm.after_rope,
            "clip": self.clip is not None,
            "v_norm": self.v_norm is not None,
            "value_scale": self.value_scale != 1.0,
        }
        self._refuse("cca", others)

    def _check_strided(self) -> None:
        """Each head has keys of its own choice, before which nothing else is added to scores or takes a share."""
        others = {
            "sinks": self.scores.sinks or self.scores.token_sinks,
            "dynamic_mask": self.dynamic_mask is not None,
            "differential": self.differential is not None,
        }
        self._refuse("strided", {**{k: v for k, v in self._of_positions().items() if k != "strided"}, **others})

    def _of_positions(self) -> dict[str, bool]:
        """What adds to the scores, or chooses keys, by itself."""
        return {
            "relative": self.scores.relative is not None,
            "buckets": self.scores.buckets is not None,
            "disentangled": self.scores.disentangled is not None,
            "index": self.index is not None,
            "strided": self.strided is not None,
            "experts": self.experts is not None,
            "position: alibi": self.position == "alibi",
            "source": self.source,
            "window": self.window is not None,
            "chunk": self.chunk is not None,
            "kv": self.kv is not None,
        }

    def _of_the_input(self) -> dict[str, bool]:
        """What reads the input beside the plain projections to queries, keys and values."""
        return {
            "q_rank": self.bottleneck is not None,
            "gate": self.gate is not None,
            "cca": self.cca is not None,
            "filter": self.filter is not None,
            "relative": self.scores.relative is not None,
            "index": self.index is not None,
            "experts": self.experts is not None,
            "kv": self.kv is not None,
            "k_eq_v": self.k_eq_v,
            "source": self.source,
            **self.behind_norm,
        }

    def _of_the_past(self) -> dict[str, bool]:
        """What says something of tokens before others alone."""
        return {
            "chunk": self.chunk is not None,
            "kv": self.kv is not None,
            "index": self.index is not None,
            "strided": self.strided is not None,
            "relative": self.scores.relative is not None,
            "kv_conv": self.kv_conv is not None,
            "position: alibi": self.position == "alibi",
            "dynamic_mask": self.dynamic_mask is not None,
        }

    def _check_distances(self) -> None:
        """Biases of distances are added to the scores before the softmax, and that once."""
        if self.scores.disentangled is not None:
            if self.n_heads != self.n_kv_heads:
                raise InputError(f"{self.section}.disentangled: every head must have keys of its own (n_kv_heads)")
            if not self.scores.disentangled.c2p and not self.scores.disentangled.p2c:
                raise InputError(f"{self.section}.disentangled: neither c2p nor p2c would leave no positions")
            past = {"window": self.window is not None, "chunk": self.chunk is not None}
            self._refuse("disentangled", past if self.causal else {})
        others = {
            "relative": self.scores.relative is not None,
            "index": self.index is not None,
            "experts": self.experts is not None,
            "position: alibi": self.position == "alibi",
            "disentangled": self.scores.buckets is not None and self.scores.disentangled is not None,
        }
        self._refuse("buckets" if self.scores.buckets is not None else "disentangled", others)

    def _refuse(self, what: str, others: dict[str, bool]) -> None:
        exclude(f"{self.section}.{what}", others)

    def _check_index(self, index: BlockIndexer) -> None:
        """Blocks are chosen among the whole past."""
        name = f"{self.section}.index"
        if index.n_heads is not None and index.local != 1:
            raise InputError(f"{name}.local: with n_heads the newest block is one, not {index.local}")
        if index.local >= index.top_k:
            raise InputError(f"{name}: top_k = {index.top_k} blocks leave no choice beside local = {index.local}")
        turned = 0 if self.rope is None else rotated(self.rope, self.d_head)
        if turned > index.d:
            raise InputError(f"{name}.d: {index.d} channels, of which {turned} would be rotated")
        others = {
            "window": self.window is not None,
            "chunk": self.chunk is not None,
            "kv": self.kv is not None,
            "experts": self.experts is not None,
            "qk_norm.at_read": self.qk_norm is not None and self.qk_norm.at_read,
            "position: alibi": self.position == "alibi",
            "rope.scaling: proportional": self.rope is not None and isinstance(self.rope.scaling, Proportional),
        }
        self._refuse("index", others)

    def _check_experts(self, experts: AttentionExperts) -> None:
        """The heads of all chosen experts stand side by side, so nothing may be of one head alone."""
        if experts.top_k > experts.n_experts:
            name = f"{self.section}.experts"
            raise InputError(f"{name}: top_k = {experts.top_k} exceeds n_experts = {experts.n_experts}")
        if "q" in self.bias:
            raise InputError(f"{self.section}.bias: q has no bias where attn.experts choose the query projection")
        others = {
            "q_rank": self.bottleneck is not None,
            "qk_norm": self.qk_norm is not None and self.qk_norm.over != "head",
            "q_factors": self.q_factors is not None,
            "sinks": self.scores.sinks or self.scores.token_sinks,
            "gate": self.gate is not None,
            "out_norm": self.out_norm is not None,
            "position: alibi": self.position == "alibi",
        }
        self._refuse("experts", others)
