"""What every sublayer has: its norm, and how what it says joins the residual stream."""

from typing import Literal, TypeAlias

from msgspec import field

from gptcalc.architecture.base import (
    Flat,
    Inherited,
    Kernel,
    Narrow,
    Positive,
    Strict,
    exclude,
)
from gptcalc.architecture.factors import Factors
from gptcalc.architecture.loop import Messages
from gptcalc.architecture.norms import ModelNorm, Norm
from gptcalc.errors import InputError

NormAt: TypeAlias = Literal["pre", "post", "output", "sandwich", "stream", "stream_sandwich"]

#: where a sublayer's output goes: into the residual stream; or past it to the next sublayer, which reads it in place of
#: the stream (`next`) or added to the stream (`next_sum`)
Goal: TypeAlias = Literal["stream", "next", "next_sum"]


class ResidualGate(Strict, frozen=True, kw_only=True):
    """A residual that mixes, channel by channel, instead of adding: x ← α·x + β·y with β = σ(w / temperature) and
    α = √max((1 − β)(1 + β), eps), so that α² + β² = 1 (Muse Spark)."""

    temperature: Positive = 1.0  # divisor of the learned weight
    eps: Positive = 1e-3  # least square of what the stream keeps


class LowRankResidual(Strict, frozen=True, kw_only=True):
    """A learned residual beside a sublayer (LAuReL, arXiv:2411.07501): x ← (x + y + n + norm(n·A·B))/√2, where n is
    what the sublayer reads and A·B has this rank (Gemma 3n)."""

    rank: Narrow  # channels between A and B
    norm: ModelNorm


class ResidualRate(Strict, frozen=True, kw_only=True):
    """A residual that goes a part of the way: x ← x + |scale·λ|·(y − x), one learned λ a channel (nGPT,
    arXiv:2410.01131, §2.2.2)."""

    scale: Positive = 1.0  # of what is stored


class ResidualFactors(Strict, frozen=True, kw_only=True):
    """Learned factors of a residual: x ← f·(x + b) + f′·(y + b′), one of each a channel, as far as there are any.

    output: of what joins the stream, one factor a channel, or tanh of one number (arXiv:2204.14198, §2.2). bias: both
    are moved before they are multiplied (ZAYA).
    """

    stream: bool = False  # factors of the stream
    output: Literal["none", "channel", "tanh"] = "none"
    bias: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.stream and self.output == "none" and not self.bias:
            raise InputError("residual_factors: neither stream nor output nor bias")


class Residual(Strict, frozen=True, kw_only=True):
    """How a sublayer's output joins the stream: times a factor, gated, or with a learned part beside it.

    conv: it joins with its causal convolution added, channel by channel, over so many tokens (Inkling); conv_scaled:
    that sum of conv + 1 numbers is divided by √(conv + 1).
    """

    scale: Inherited[float] = field(default=1.0, name="residual_scale")  # factor of what joins the stream
    gate: ResidualGate | None = field(default=None, name="residual_gate")
    low_rank: LowRankResidual | None = field(default=None, name="laurel")
    conv: Kernel | None = field(default=None, name="out_conv")
    conv_scaled: bool = field(default=False, name="out_conv_scaled")
    factors: ResidualFactors | None = field(default=None, name="residual_factors")
    rate: ResidualRate | None = field(default=None, name="residual_rate")

    @property
    def is_sum(self) -> bool:
        """Whether the stream is just added to, so that others may add to it at once."""
        return self.gate is None and self.low_rank is None and self.factors is None and self.rate is None


class NormGate(Strict, frozen=True, kw_only=True):
    """What a sublayer reads, times σ of itself by way of a bottleneck: n·σ(silu(n·A)·B) (A.X K2)."""

    rank: Narrow  # channels of the bottleneck


class AdaptiveNorm(Strict, frozen=True, kw_only=True):
    """What a sublayer reads, times 1 + gelu(c·A)·B (adaptive norm, arXiv:2212.09748, §3.2, without what it adds): c are
    cosines and sines of one number, the same for all tokens of a sequence (Voxtral Realtime: its delay)."""

    rank: Narrow  # channels of the bottleneck
    time: float  # the number


class Sublayer(Strict, frozen=True, kw_only=True):
    """What every sublayer has: its section's name, its norm and where that stands, and its residual.

    norm_at: `pre` x + f(norm(x)); `post` norm(x + f(x)); `output` x + norm(f(x)); `sandwich` x + norm₂(f(norm₁(x)));
    `stream` n + f(n) with n = stream_scale·norm(x) in the sum (MiniMax-01); `stream_sandwich` n + norm₂(f(n)) with
    n = norm₁(x) in the sum, too (nGPT).
    """

    section: str
    norm: Norm | None  # the model's where nothing is said
    norm_at: Inherited[NormAt] = "pre"
    stream_scale: float = 1.0  # of the normed stream, where the norm is the stream's
    post_norm: Norm | None = None  # the norm behind, where it is another than the one in front
    residual: Flat[Residual] = Residual()
    norm_gate: NormGate | None = None  # of the norm in front
    adaptive_norm: AdaptiveNorm | None = None  # a factor of what the norm in front leaves
    tied: bool = False  # one set of weights for all layers that have this sublayer (ALBERT)
    goal: Goal = "stream"  # where the output goes: into the stream, or past it to the next sublayer
    projected: bool = False  # the output passes a matrix d × d, of each layer its own (Zamba)
    messages: Messages | None = None  # of a loop's last pass

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.post_norm is not None and self.norm_at in ("pre", "stream"):
            raise InputError(f"{self.section}.post_norm: norm_at is {self.norm_at!r}, so there is no norm behind")
        if self.norm_at == "stream" and (self.norm is None or not self.residual.is_sum):
            raise InputError(f"{self.section}.norm_at: 'stream' needs a norm and a residual that adds")
        if self.norm_at == "stream_sandwich" and self.norm is None:
            raise InputError(f"{self.section}.norm_at: 'stream_sandwich' needs a norm")
        for key, used in self.behind_norm.items():
            if used and (self.norm is None or self.norm_at not in ("pre", "sandwich")):
                raise InputError(f"{self.section}.{key}: needs a norm in front")
        if self.messages is not None:
            others = {"goal": self.goal != "stream", "tied": self.tied, "laurel": self.residual.low_rank is not None}
            for key, used in {**others, **self.behind_norm}.items():
                if used or self.norm is None or self.norm_at != "pre":
                    raise InputError(f"{self.section}.messages: not defined with {key if used else 'no norm in front'}")
        if self.stream_scale != 1.0 and self.norm_at != "stream":
            raise InputError(f"{self.section}.stream_scale: norm_at is {self.norm_at!r}, not 'stream'")
        if self.residual.gate is not None and self.norm_at == "post":
            raise InputError(f"{self.section}.residual_gate: norm_at 'post' normalises a sum, not a gated mixture")
        if self.residual.gate is not None and self.residual.low_rank is not None:
            raise InputError(f"{self.section}.laurel: a residual is gated or has a learned part, not both")
        if self.goal != "stream" and (self.norm_at != "pre" or self.residual != Residual()):
            raise InputError(f"{self.section}.goal: {self.goal!r} is not the stream, so there is no residual to change")
        if self.residual.conv_scaled and self.residual.conv is None:
            raise InputError(f"{self.section}.out_conv_scaled: there is no out_conv")
        if self.tied and self.residual.conv is not None:
            raise InputError(f"{self.section}.out_conv: not defined for a sublayer whose weights layers share")
        if self.residual.factors is not None:
            others = {"residual_gate": self.residual.gate is not None, "laurel": self.residual.low_rank is not None}
            exclude(f"{self.section}.residual_factors", {**others, "norm_at: post": self.norm_at == "post"})
        if self.residual.rate is not None:
            others = {"residual_gate": self.residual.gate is not None, "laurel": self.residual.low_rank is not None}
            others |= {"residual_factors": self.residual.factors is not None, "norm_at: post": self.norm_at == "post"}
            exclude(f"{self.section}.residual_rate", others)

    @property
    def behind_norm(self) -> dict[str, bool]:
        """What changes that which the norm in front leaves, by key, and whether it is there."""
        return {"norm_gate": self.norm_gate is not None, "adaptive_norm": self.adaptive_norm is not None}

    @property
    def norms_input(self) -> bool:
        """Whether what is read is normed here."""
        return self.norm is not None and self.norm_at not in ("post", "output")

    @property
    def keeps_normed(self) -> bool:
        """Whether the stream goes on as it was normed in front."""
        return self.norm_at in ("stream", "stream_sandwich")

    @property
    def norms_stream(self) -> bool:
        """Whether the stream itself is normed, in front or behind, and not only what is read of it or added to it."""
        return self.norm_at == "post" or self.keeps_normed

    @property
    def norm_behind(self) -> Norm | None:
        """The norm of the output, or of the sum with the residual stream."""
        return None if self.norm_at in ("pre", "stream") else self.post_norm or self.norm


class Adapted(Strict, frozen=True, kw_only=True):
    """What every layer that has a sublayer with tied weights adds to its input projections W: W + A·B with A and B of
    this rank, its own (Zamba2, arXiv:2411.15242, §2)."""

    rank: Narrow = field(name="adapter_rank")  # of each layer's own adapter


class OutputGate(Strict, frozen=True, kw_only=True):
    """The heads' outputs times a gate of the sublayer's input: one number a head, or one a channel (`full`).

    bias: one number a head, or as many as there are gates (`full`).
    """

    over: Literal["head", "full"] = field(name="gate")  # one number a head, or one a channel
    function: Literal["sigmoid", "softplus"] = field(default="sigmoid", name="gate_function")  # of the gate's logits
    bias: bool | Literal["full"] = field(default=False, name="gate_bias")
    factors: Factors | None = field(default=None, name="gate_factors")  # of the gate's logits
    first: bool = field(default=False, name="gate_first")  # outputs are gated before they are normed


class KV(Strict, frozen=True, kw_only=True):
    """Where keys and values come from: the last earlier sublayer of the section `from`."""

    from_: str = field(name="from")  # the section whose last earlier keys and values are read
