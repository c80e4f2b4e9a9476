"""What queries, keys and values of attention pass besides their projections: short causal convolutions."""

from msgspec import field

from gptcalc.architecture.base import Inner, Kernel, Strict
from gptcalc.architecture.norms import ModelNorm


class KeyValueConvolution(Strict, frozen=True, kw_only=True):
    """Keys and values plus their causal convolutions, channel by channel, before norm and rotation (Inkling).

    token_taps: to what is learned of each tap something is added that is made of the token's input, one number a tap
    and head. scaled: that sum is divided by the square root of how many numbers it is of, kernel + 1 or 2·kernel + 1.
    """

    kernel: Kernel = field(name="kv_conv")  # tokens that the convolution sees
    token_taps: bool = field(default=False, name="kv_conv_token_taps")
    scaled: bool = field(default=False, name="kv_conv_scaled")

    @property
    def terms(self) -> int:
        """Of how many numbers the sum is."""
        return self.kernel * (1 + self.token_taps) + 1


class ConvolvedHeads(Strict, frozen=True, kw_only=True):
    """Compressed convolutional attention (arXiv:2510.04476): queries and keys pass two causal convolutions, channel by
    channel, then within each head; added to that is the mean of each query and its key, for keys the mean of those.
    Half of the values' channels are made of the token before. Keys have one learned factor a head, before they turn.
    """

    kernel: Kernel  # tokens of the first convolution, channel by channel
    head_kernel: Kernel  # tokens of the second convolution, within each head


class LocalFilter(Strict, frozen=True, kw_only=True):
    """Localized filtering-based attention (arXiv:2311.15786): queries and keys are made of the input plus two causal
    convolutions of it, one behind the other, in which each channel reads all; their sum is normed. Values are made of
    the input itself.
    """

    kernel: Kernel = 2  # tokens that each of the convolutions sees
    d: Inner  # channels between them
    norm: ModelNorm
