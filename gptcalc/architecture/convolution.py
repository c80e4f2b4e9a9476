"""A convolution beside the layers of an encoder."""

from gptcalc.architecture.base import Width
from gptcalc.architecture.head import DenseFunction
from gptcalc.architecture.sublayer import Sublayer
from gptcalc.errors import InputError


class EmbeddingConvolution(Sublayer, tag_field="sublayer", tag="embedding_convolution", frozen=True, kw_only=True):
    """f(conv(x)) of what the tokens entered as: each with as many tokens before it as behind it, all channels with all
    (DeBERTa-v2's nGiE layer, which joins the stream behind the first layer)."""

    kernel: Width  # tokens that a convolution sees, an odd number
    function: DenseFunction  # behind the convolution

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.kernel % 2 == 0:
            raise InputError(f"{self.section}.kernel: {self.kernel} tokens have no middle")
        if self.norm is not None and self.norm_at != "post":
            raise InputError(f"{self.section}.norm_at: it reads no stream, so its norm is behind (post)")
