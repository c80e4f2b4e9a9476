"""Softmax attention over keys and values of every head, every group of heads or all."""

from __future__ import annotations

from typing import Literal, TypeAlias

from gptcalc.architecture.base import Kernel, Positive, Size, Strict
from gptcalc.architecture.norms import Norm, OutNorm, QKNorm
from gptcalc.architecture.rope import Rope, Temperature
from gptcalc.architecture.sublayer import KV, Sublayer

AttentionSite: TypeAlias = Literal["q", "k", "v", "out"]


class AttentionExperts(Strict, frozen=True, kw_only=True):
    """Query and output projections chosen per token from experts; K and V are shared (JetMoE)."""

    n_experts: Size
    top_k: Size


class RelativeBias(Strict, frozen=True, kw_only=True):
    """Positions by a learned bias of the scores: d numbers of each head and query mix d profiles over the distance,
    which has no bias from `extent` on (Inkling)."""

    d: Size
    extent: Size


class BlockIndexer(Strict, frozen=True, kw_only=True):
    """Block-sparse attention's indexer (MiniMax-M3): one small head for each KV head scores all keys.

    A block of keys counts as much as its best key. Of these blocks the queries of a KV head attend to the top_k, always
    among them the `local` newest, the last of which is the query's own.
    """

    d: Size
    block: Size
    top_k: Size
    local: Size = 1
    norm: Norm = Norm()  # of the index queries and keys; default: the model's


class Attention(Sublayer, tag_field="sublayer", tag="attention", frozen=True, kw_only=True):
    """Softmax attention: multi-head, grouped or multi-query, over the whole past, a window or a chunk of it."""

    n_heads: Size
    n_kv_heads: Size
    d_head: Size
    d_v: Size
    bias: tuple[AttentionSite, ...] = ()
    position: Literal["rope", "alibi", "none"] = "rope"
    alibi_scale: Positive = 1.0  # Falcon scales the biases with the scores, by 1/√d_head
    rope: Rope | None = None
    window: Size | None = None
    chunk: Size | None = None
    qk_norm: QKNorm | None = None
    v_norm: Norm | None = None
    q_rank: Size | None = None  # queries through a normed bottleneck (Step-3)
    k_eq_v: bool = False  # one projection serves K and V
    kv: KV | None = None
    sinks: bool = False
    gate: Literal["head", "full"] | None = None  # σ(gate) on the heads' outputs, one a head or one a channel
    gate_function: Literal["sigmoid", "softplus"] = "sigmoid"
    gate_bias: bool = False  # one number a head
    softcap: Positive | None = None
    scale: Positive | None = None  # factor of the scores; default 1/√d_head
    clip: Positive | None = None  # q, k, v clamped to ±clip
    value_scale: float = 1.0
    temperature: Temperature | None = None
    log_length: Size | None = None  # queries beyond this position grow by ln(position) / ln(log_length) (Grok-2)
    experts: AttentionExperts | None = None
    out_norm: OutNorm | None = None
    index: BlockIndexer | None = None
    relative: RelativeBias | None = None
    kv_conv: Kernel | None = None  # keys and values plus their causal convolutions, before norm and rotation
