"""Attention to slots: a bounded number of places that keys and values are blended into."""

from typing import Annotated

from gptcalc.architecture.base import Chunk, Heads, Kernel, Multiple, Narrow, Positive, Size
from gptcalc.architecture.norms import LikeNorm, Norm
from gptcalc.architecture.sublayer import Sublayer


class SlotAttention(Sublayer, tag_field="sublayer", tag="slot_attention", frozen=True, kw_only=True):
    """Gated slot attention (arXiv:2409.07146): of a head two states, keys and values of n_slots slots,
    K ← K·e^g + k ⊗ (1 − e^g), V ← e^g·V + (1 − e^g) ⊗ v, g = ln σ(W·n)/divisor, one number a slot; a query reads
    o = Vᵀ·softmax(Kᵀq).

    Queries, keys and values pass a SiLU, and where they are convolved one more in front of it. What the heads read
    passes a SiLU, then the norm. Each of n_heads / n_kv_heads query heads holds states of its own, though all write
    the same into them, as the published layer does.
    """

    n_heads: Annotated[Size, Multiple("n_kv_heads")]  # heads of queries, each with two states
    n_kv_heads: Heads  # heads of keys, values and decays, each for n_heads / n_kv_heads heads of queries
    d_k: Narrow  # channels of a head's queries and keys
    d_v: Narrow  # channels of a head's values
    n_slots: Narrow  # slots of a head
    divisor: Positive = 8.0  # of the decay's logarithm
    kernel: Kernel | None = None  # causal convolutions of queries, keys and values over so many tokens
    out_norm: LikeNorm[Norm | None] = None  # of all heads' outputs together
    chunk: Chunk = 64  # tokens that the chunked form computes side by side
