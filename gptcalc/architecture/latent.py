"""Multi-head latent attention and its indexer."""

import math
from typing import Annotated, Literal, TypeAlias

from gptcalc.architecture.base import (
    AtMost,
    Count,
    Flat,
    Heads,
    Inherited,
    Inner,
    Narrow,
    Positive,
    Several,
    Small,
    Strict,
    Turned,
    Window,
)
from gptcalc.architecture.norms import ModelNorm, Norm
from gptcalc.architecture.rope import Rope, Temperature, Yarn, check_rotation
from gptcalc.architecture.sublayer import KV, OutputGate, Sublayer
from gptcalc.errors import InputError

LatentSite: TypeAlias = Literal["q_a", "q_b", "kv_a", "kv_b", "out"]


class Indexer(Strict, frozen=True, kw_only=True):
    """DeepSeek sparse attention's indexer: small heads choose the top_k keys; `shared` reuses the last own choice.

    Its queries come from the normed bottleneck of the queries; with a `q_norm`, from the sublayer's input, so normed.

    block: so many tokens become one key, a mixture with learned weights, channel by channel; the top_k complete blocks
    of tokens are attended to, and the tokens that fill none (GLM-5.3-Flash).
    """

    n_heads: Heads  # index heads
    d: Turned  # channels of an index head
    top_k: Window  # keys that are attended to, or blocks
    shared: bool = False  # the last own choice is reused
    pairing: Literal["half", "adjacent"] = "half"  # how its channels turn
    q_norm: Norm | None = None
    k_norm: Norm = Norm(kind="layernorm", eps=1e-6)
    ssmax: bool = False  # as in LatentAttention, with weights of its own
    rotates: Literal["first", "last"] = "first"  # which of its channels turn
    block: Annotated[Several, AtMost(2)] | None = None  # tokens of a key; default one


class LatentAttention(Sublayer, tag_field="sublayer", tag="latent_attention", frozen=True, kw_only=True):
    """Multi-head latent attention (arXiv:2405.04434): keys and values from one cached latent and one rotary key."""

    n_heads: Inherited[Heads]  # heads
    kv_rank: Inner  # channels of the cached latent: kv_lora_rank
    d_nope: Narrow  # channels of a head's queries and keys that don't turn: qk_nope_head_dim
    d_rope: Annotated[Count, Small(4, step=2)]  # 0: no rotary key
    d_v: Inherited[Narrow]  # channels of a head's values: v_head_dim
    q_rank: Inner | None = None  # channels of the bottleneck of the queries: q_lora_rank; default none
    bias: tuple[LatentSite, ...] = ()  # which projections have a bias
    position: Literal["rope", "none"] = "rope"  # how scores depend on the distance
    rope: Rope | None = None
    latent_norm: ModelNorm  # of the latent, and of the bottleneck of the queries
    k_rope_norm: Norm | None = None  # of the rotary key, before it turns (dots3)
    window: Window | None = None  # tokens that are seen, the newest ones; default all
    scale: Positive | None = None  # default 1/√(d_nope + d_rope)
    q_scale: float = 1.0  # factors of the normed latents (LongCat)
    kv_scale: float = 1.0  # of the keys' and values'
    gate: Flat[OutputGate | None] = None
    index: Indexer | None = None
    temperature: Temperature | None = None
    ssmax: bool = False  # queries times s·ln(position + 1) + b, learned for every head (Mistral Large 4)
    kv: KV | None = None
    sinks: bool = False  # one learned logit a head takes its share of the softmax
    raw_queries: bool = False  # queries and gate read the bottleneck normed and, beside it, as it was (A.X K2)

    def __post_init__(self) -> None:
        super().__post_init__()
        name = self.section
        if self.rope is not None:
            check_rotation(name, self.rope, self.d_rope)
        if self.q_rank is None and "q_a" in self.bias:
            raise InputError(f"{name}.bias: q_a has no matrix without q_rank (q_b is the one query projection)")
        if self.raw_queries and self.q_rank is None:
            raise InputError(f"{name}.raw_queries: there is no bottleneck (q_rank)")
        if self.k_rope_norm is not None and not self.d_rope:
            raise InputError(f"{name}.k_rope_norm: there is no rotary key (d_rope)")
        if self.index is not None and self.window is not None:
            raise InputError(f"{name}: window and index exclude each other")
        if self.index is not None and self.index.block is not None and self.d_rope:
            raise InputError(f"{name}.index.block: not defined together with a rotary key", "set d_rope: 0")
        if self.index is not None and (self.q_rank is None) == (self.index.q_norm is None):
            raise InputError(f"{name}.index: the indexer's queries need q_rank, or else q_norm")

    @property
    def d_qk(self) -> int:
        """Channels of a query and of a key."""
        return self.d_nope + self.d_rope

    @property
    def score_scale(self) -> float:
        """The factor of the scores; a YaRN with `mscale_all_dim` sharpens them by queries and keys (DeepSeek-V2)."""
        if self.scale is not None:
            return self.scale
        scaling = self.rope.scaling if self.rope is not None else None
        mscale = scaling.mscale_all_dim if isinstance(scaling, Yarn) else None
        sharpening = scaling.sharpening(mscale) ** 2 if isinstance(scaling, Yarn) and mscale else 1.0
        return sharpening / math.sqrt(self.d_nope + self.d_rope)
