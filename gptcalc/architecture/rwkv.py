"""RWKV's mixers, all of a token and the one before it."""

from typing import Literal, TypeAlias

from gptcalc.architecture.base import Chunk, Heads, Inner, Narrow
from gptcalc.architecture.norms import Norm
from gptcalc.architecture.sublayer import Sublayer

#: what a learned share is a share of: the input, or the one before
ShareOf: TypeAlias = Literal["input", "before"]

#: of each head's output
HEAD_NORM = Norm(kind="layernorm", eps=64e-5)


class TimeMixing(Sublayer, tag_field="sublayer", tag="time_mixing", frozen=True, kw_only=True):
    """Time mixing of RWKV-4 (arXiv:2305.13048, equations 11 to 16): a mean of all values so far, channel by channel,
    with weights e^k that lose a factor e^{−e^w} a token; the newest one's is e^{k+u} (u: bonus). It is gated by σ(r).
    r, k and v are projections of a mixture of the input and the one before, each with a learned share a channel."""

    d_inner: Inner  # channels of r, k and v


class MatrixMixing(Sublayer, tag_field="sublayer", tag="matrix_mixing", frozen=True, kw_only=True):
    """Time mixing of RWKV-5 and 6 (arXiv:2404.05892, §4): each head's past is a matrix, o = (S + (u ⊙ k) ⊗ v)ᵀr, then
    S ← e^{−e^w} ⊙ S + k ⊗ v, channel by channel of k; u is the newest token's bonus. The heads' outputs are normed, and
    gated by SiLU(g).

    r, k, v and g are projections of mixtures of the input and the one before, each with a learned share a channel. With
    `shift_rank` the shares depend on the input, by way of a bottleneck for each; with `decay_rank` w does (RWKV-6).
    """

    n_heads: Heads  # heads
    d_k: Narrow  # channels of a head's r and k
    d_v: Narrow  # channels of a head's values
    shift_rank: Narrow | None = None  # channels of the bottleneck that shares depend on; default they don't
    decay_rank: Narrow | None = None  # channels of the bottleneck that the decay depends on; default it doesn't
    out_norm: Norm = HEAD_NORM
    chunk: Chunk = 64  # tokens that the chunked form computes side by side


class DeltaMixing(Sublayer, tag_field="sublayer", tag="delta_mixing", frozen=True, kw_only=True):
    """Time mixing of RWKV-7 (arXiv:2503.14456, §4), a generalised delta rule: S ← e^w ⊙ S − (a ⊙ κ) ⊗ Sᵀκ + k ⊗ v, and
    o = Sᵀr, with κ a unit vector along k ⊙ k_κ, a rate a channel, w = −e^{−1/2}·σ(…). The normed output and
    (r·(k ⊙ r_k))·v are gated by g.

    a, w and g are projections by way of bottlenecks. With `value_rank` v is mixed, by way of another, with the values
    of the last sublayer of this kind that has none.
    """

    n_heads: Heads  # heads
    d_k: Narrow  # channels of a head's r and k
    d_v: Narrow  # channels of a head's values
    decay_rank: Narrow  # channels of the decay's bottleneck
    rate_rank: Narrow  # channels of the rate's bottleneck
    gate_rank: Narrow  # channels of the gate's bottleneck
    value_rank: Narrow | None = None  # channels of the bottleneck that mixes values; default none
    out_norm: Norm = HEAD_NORM
    chunk: Chunk = 64  # tokens that the chunked form computes side by side


class ChannelMixing(Sublayer, tag_field="sublayer", tag="channel_mixing", frozen=True, kw_only=True):
    """Channel mixing of RWKV-4 (arXiv:2305.13048, equations 17 and 18): an MLP with a squared ReLU, gated by σ(r); it
    and r read a mixture of the input and the one before, each with a learned share a channel. RWKV-7 has no gate."""

    d_ff: Inner  # channels inside
    gated: bool = True  # the output is gated
    share: ShareOf = "input"  # what the share of the token before is made of
