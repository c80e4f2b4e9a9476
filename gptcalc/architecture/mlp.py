"""Dense feed-forward layers and their activations."""

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

from gptcalc.architecture.base import Flat, Inherited, Inner, Positive, Quantile, Strict
from gptcalc.architecture.factors import Factors
from gptcalc.architecture.norms import Norm
from gptcalc.architecture.sublayer import Adapted, Sublayer
from gptcalc.errors import InputError


class Activation(Struct, frozen=True):
    """An MLP's nonlinearity: the function, and whether it multiplies a second projection (a gate)."""

    function: str
    gated: bool


ACTIVATIONS: dict[str, Activation] = {
    "relu": Activation("relu", False),
    "relu2": Activation("relu2", False),
    "gelu": Activation("gelu", False),
    "gelu_tanh": Activation("gelu_tanh", False),
    "silu": Activation("silu", False),
    "xielu": Activation("xielu", False),  # two learned scalars a layer (Apertus)
    "swiglu": Activation("silu", True),
    "geglu": Activation("gelu", True),
    "geglu_tanh": Activation("gelu_tanh", True),
    "reglu": Activation("relu", True),
    "relu2glu": Activation("relu2", True),
    "swiglu_oai": Activation("silu_oai", True),  # gpt-oss: g·σ(1.702·g)·(u + 1), both clamped
}

ActivationName: TypeAlias = Literal[
    "relu", "relu2", "gelu", "gelu_tanh", "silu", "xielu",
    "swiglu", "geglu", "geglu_tanh", "reglu", "relu2glu", "swiglu_oai",
]  # fmt: skip

#: the model's, which a document calls `mlp`, where a section doesn't say
ModelActivation: TypeAlias = Annotated[ActivationName, Meta(extra={"inherited": "mlp"})]

MlpSite: TypeAlias = Literal["gate", "up", "down"]

#: where a gate is clamped to at most `clamp`, before its activation function or after it; what it gates lies in ±clamp
ClampAt: TypeAlias = Literal["input", "output"]


class Softcaps(Strict, frozen=True, kw_only=True):
    """A gated layer whose factors stay within bounds: c·tanh(x/c) in place of x, of the gate where it is a factor, not
    inside σ, and of what it gates (Inkling 2; SiTU of Kimi K3, arXiv:2607.24653)."""

    gate: Positive  # of the gate
    up: Positive | None = None  # of what it gates; default none


def check_softcaps(section: str, activation: str, clamp: float | None) -> None:
    """What bounded factors go with."""
    if ACTIVATIONS[activation] != Activation("silu", True):
        raise InputError(f"{section}.softcaps: not defined with activation: {activation}")
    if clamp is not None:
        raise InputError(f"{section}.softcaps: not defined with clamp")


class Mlp(Sublayer, tag_field="sublayer", tag="mlp", frozen=True, kw_only=True):
    """A dense feed-forward layer."""

    d_ff: Inherited[Inner]  # channels inside
    activation: ModelActivation  # the nonlinearity; those with a gate are a product of two projections
    bias: tuple[MlpSite, ...] = ()  # which projections have a bias
    clamp: Positive | None = None  # what goes through the activation is clamped to this
    clamp_at: ClampAt = "input"  # before the activation or after it
    softcaps: Softcaps | None = None
    mid_norm: Norm | None = None  # a norm before the down projection (BitNet)
    out_scale: bool = False  # one learned factor of the output
    factors: Factors | None = None  # of what gate and up project to, one each a channel
    gate_scale: float = 1.0  # factor of the gate before its activation
    sparsity: Quantile = 0.0  # gate values below this normal quantile are zeroed (Gemma 3n)
    adapter: Flat[Adapted | None] = None  # A is one for gate and up

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.softcaps is not None:
            check_softcaps(self.section, self.activation, self.clamp)
        if self.adapter is not None and not self.tied:
            raise InputError(f"{self.section}.adapter_rank: weights that are not tied need no adapter")
