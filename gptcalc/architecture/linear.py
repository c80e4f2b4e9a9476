"""Linear attention: each head's past is one matrix that every token decays, writes to and reads."""

from typing import Annotated, Literal, TypeAlias

from gptcalc.architecture.base import Chunk, Heads, Kernel, Multiple, Narrow, Positive, Size, Strict, exclude
from gptcalc.architecture.norms import LikeNorm, OutNorm
from gptcalc.architecture.sublayer import Sublayer
from gptcalc.errors import InputError


class Decay(Strict, frozen=True, kw_only=True):
    """What is left of a head's state S (d_k × d_v) after a token, e^g, one number a head or one a channel of its keys.

    softplus: g = −e^A·softplus(f + b), f a projection of the input (gated DeltaNet, arXiv:2412.06464; KDA,
    arXiv:2510.26692). bounded: g = floor·σ(e^A·(f + b)) (Ling 3). sigmoid: g = ln σ(f + b)/divisor (GLA,
    arXiv:2312.06635). fixed: g = −2^(−8·h/n_heads) for head h = 1, 2, …, weaker from layer
    to layer: times 1 − l/(n_layers − 1) for layer l = 0, 1, …; nothing is learned (lightning attention,
    arXiv:2501.08313).
    """

    over: Literal["head", "channel"] = "head"  # one number a head, or one a channel of its keys
    form: Literal["softplus", "bounded", "sigmoid", "fixed"] = "softplus"  # how it is made of the input
    rank: Narrow | None = None  # the projection of the input goes through a bottleneck
    floor: float = -5.0  # of the bounded form, the strongest decay
    divisor: Positive = 16.0  # of the sigmoid form
    bias: bool = True  # b is there; it may be missing in the sigmoid form
    # of the sigmoid form: at least so much is left as all layers learn together, each more than the one before:
    # e^g ← λ + (1 − λ)·e^g with λ the sum over layers 1 … l of a softmax over all (HGRN2, arXiv:2404.07904)
    bounds: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.bounds or not self.bias) and self.form != "sigmoid":
            raise InputError(f"decay: bounds, or no bias, are of the sigmoid form, not of form: {self.form}")
        if self.bounds and self.over != "channel":
            raise InputError("decay.bounds: there is one for each channel of the keys (over: channel)")


class StateGate(Strict, frozen=True, kw_only=True):
    """What the normed outputs of the heads are multiplied with: a function of a projection of the input."""

    function: Literal["silu", "sigmoid"] = "silu"  # of the gate's logits
    rank: Narrow | None = None  # the projection goes through a bottleneck
    bias: bool = False  # of the gate's projection


LinearSite: TypeAlias = Literal["q", "k", "v", "out"]


class LinearAttention(Sublayer, tag_field="sublayer", tag="linear_attention", frozen=True, kw_only=True):
    """Attention without a softmax, S ← e^g·S + k ⊗ u, o = Sᵀq, whose state does not grow (arXiv:2006.16236).

    u is v, or with `delta` what the state lacks of it: β·(v − Sᵀk), β = beta_scale·σ(W·n), one number a head (delta
    rule, arXiv:2406.06484).
    """

    n_heads: Annotated[Size, Multiple("n_k_heads")]  # states, and heads of values
    n_k_heads: Heads  # heads of queries and keys, each for n_heads / n_k_heads states
    d_k: Narrow  # channels of a head's queries and keys
    d_v: Narrow  # channels of a head's values
    delta: bool = False  # the state takes in what it lacks of a value (delta rule)
    beta_scale: Positive = 1.0  # 2 allows negative eigenvalues (OLMo Hybrid)
    decay: Decay | None = None
    kernel: Kernel | None = None  # causal convolutions of queries, keys and values over so many tokens
    activation: Literal["silu", "queries", "none"] = "silu"  # of queries, keys and values, or of queries alone
    k_from_decay: bool = False  # keys are what of a state is not left, 1 − e^g (HGRN2, arXiv:2404.07904)
    qk_norm: Literal["l2", "none"] = "l2"  # queries and keys of length 1
    scale: Positive | None = None  # of the queries; default 1/√d_k
    gate: StateGate | None = None
    out_norm: LikeNorm[OutNorm | None] = None
    bias: tuple[LinearSite, ...] = ()  # which projections have a bias
    chunk: Chunk = 64  # tokens that the chunked form computes side by side

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.k_from_decay and (self.decay is None or self.decay.over != "channel" or self.decay.form == "fixed"):
            raise InputError(f"{self.section}.k_from_decay: needs a decay for each channel (decay: channel)")
        if self.k_from_decay and self.n_k_heads != self.n_heads:
            raise InputError(f"{self.section}.k_from_decay: each state must have keys of its own (n_k_heads)")
        if self.k_from_decay:
            exclude(f"{self.section}.k_from_decay", {"bias: k": "k" in self.bias, "qk_norm": self.qk_norm != "none"})

    @property
    def bound_channels(self) -> tuple[int, ...]:
        """What has a bound of its decay; empty where nothing has."""
        return (self.n_heads, self.d_k) if self.decay is not None and self.decay.bounds else ()

    @property
    def k_width(self) -> int:
        """Channels of all keys, and of all queries."""
        return self.n_k_heads * self.d_k

    @property
    def v_width(self) -> int:
        """Channels of all values."""
        return self.n_heads * self.d_v
