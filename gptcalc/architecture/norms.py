"""Normalisations."""

from typing import Annotated, Literal, TypeAlias, TypeVar

from msgspec import Meta
from msgspec.structs import force_setattr

from gptcalc.architecture.base import Positive, Strict


class Norm(Strict, frozen=True, kw_only=True):
    """A normalisation over channels; `offset` 1 means that the stored weight is the scale minus one.

    A bias is there where it is said; unsaid, a layernorm with weights has one, any other norm has none.
    """

    kind: Literal["rmsnorm", "layernorm", "l2norm"] = "rmsnorm"  # which mean is taken out; l2norm makes the length 1
    weight: bool = True  # has a learned factor a channel
    bias: bool | None = None  # has a learned summand a channel
    offset: Literal[0, 1] = 0  # what is added to the stored weight
    eps: Positive = 1e-5  # added to the mean square (of l2norm, to the square) before its root
    weight_at: Literal["output", "input"] = "output"  # the weight multiplies what comes out or what goes in

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.bias is None:
            force_setattr(self, "bias", self.kind == "layernorm" and self.weight)
        if self.bias and not self.weight:
            raise ValueError("a norm without weights has no bias")


#: what a document's norms are where it doesn't say: the model's norm, or that without its weight
ModelNorm: TypeAlias = Annotated[Norm, Meta(extra={"norm": "model"})]
BareNorm: TypeAlias = Annotated[Norm, Meta(extra={"norm": "bare"})]

Given = TypeVar("Given")
#: a norm that is there where it is said; what is not said of it is as the model's norm has it
LikeNorm: TypeAlias = Annotated[Given, Meta(extra={"norm": "like"})]


class QKNorm(Norm, frozen=True, kw_only=True):
    """A norm of queries and keys: one weight a channel of the head (`head`), of all heads (`full`, taken over the
    whole width) or of each head apart (`each`); before the rotation or after it.

    at_read: keys are cached without it and normed where they are read, so that a layer that reuses another's keys
    norms them with a weight of its own (Hunyuan-Large).
    """

    # one weight a channel of the head, of all heads, or of each head apart
    over: Literal["head", "full", "each"] = "head"
    after_rope: bool = False  # rotated queries and keys are normed
    at_read: bool = False


class OutNorm(Norm, frozen=True, kw_only=True):
    """A norm of the heads' outputs, before a gate and the output projection: over all heads together or each apart."""

    over: Literal["head", "full"] = "full"  # of each head apart, or of all heads together
