"""Multi-head latent attention and its indexer."""

from __future__ import annotations

from typing import Literal, TypeAlias

from gptcalc.architecture.base import Count, Positive, Size, Strict
from gptcalc.architecture.norms import Norm
from gptcalc.architecture.rope import Rope, Temperature
from gptcalc.architecture.sublayer import KV, Sublayer

LatentSite: TypeAlias = Literal["q_a", "q_b", "kv_a", "kv_b", "out"]


class Indexer(Strict, frozen=True, kw_only=True):
    """DeepSeek sparse attention's indexer: small heads choose the top_k keys; `shared` reuses the last own choice.

    Its queries come from the normed bottleneck of the queries; with a `q_norm`, from the sublayer's input, so normed.
    """

    n_heads: Size
    d: Size
    top_k: Size
    shared: bool = False
    pairing: Literal["half", "adjacent"] = "half"
    q_norm: Norm | None = None
    ssmax: bool = False  # as in LatentAttention, with weights of its own


class LatentAttention(Sublayer, tag_field="sublayer", tag="latent_attention", frozen=True, kw_only=True):
    """Multi-head latent attention (arXiv:2405.04434): keys and values from one cached latent and one rotary key."""

    n_heads: Size
    kv_rank: Size
    d_nope: Size
    d_rope: Count  # 0: no rotary key
    d_v: Size
    q_rank: Size | None = None
    bias: tuple[LatentSite, ...] = ()
    position: Literal["rope", "none"] = "rope"
    rope: Rope | None = None
    latent_norm: Norm = Norm(eps=1e-6)
    scale: Positive | None = None  # default 1/√(d_nope + d_rope)
    q_scale: float = 1.0  # factors of the normed latents (LongCat)
    kv_scale: float = 1.0
    gate: Literal["head", "full"] | None = None
    index: Indexer | None = None
    temperature: Temperature | None = None
    ssmax: bool = False  # queries times s·ln(position + 1) + b, learned for every head (Mistral Large 4)
    kv: KV | None = None
