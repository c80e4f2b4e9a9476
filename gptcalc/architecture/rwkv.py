"""RWKV's two mixers, both of a token and the one before it."""

from gptcalc.architecture.base import Inner
from gptcalc.architecture.sublayer import Sublayer


class TimeMixing(Sublayer, tag_field="sublayer", tag="time_mixing", frozen=True, kw_only=True):
    """Time mixing of RWKV-4 (arXiv:2305.13048, equations 11 to 16): a mean of all values so far, channel by channel,
    with weights e^k that lose a factor e^{−e^w} a token; the newest one's is e^{k+u} (u: bonus). It is gated by σ(r).
    r, k and v are projections of a mixture of the input and the one before, each with a learned share a channel."""

    d_inner: Inner


class ChannelMixing(Sublayer, tag_field="sublayer", tag="channel_mixing", frozen=True, kw_only=True):
    """Channel mixing of RWKV-4 (arXiv:2305.13048, equations 17 and 18): an MLP with a squared ReLU, gated by σ(r); it
    and r read a mixture of the input and the one before, each with a learned share a channel."""

    d_ff: Inner
