"""What stands in front of an encoder that reads no tokens."""

from typing import Annotated

from msgspec import Meta

from gptcalc.architecture.base import AtMost, Kernel, Size, Small, Strict
from gptcalc.architecture.head import DenseFunction


class Convolution(Strict, frozen=True, kw_only=True):
    """A convolution over time, all channels with all, padded so that a step of 1 keeps the length."""

    kernel: Kernel  # frames that a convolution sees
    stride: Annotated[Size, AtMost(3)] = 1  # frames from one output to the next


class ConvolutionalFront(Strict, frozen=True, kw_only=True):
    """Frames of so many channels (mel bins), through convolutions to the encoder's width (Whisper,
    arXiv:2212.04356)."""

    channels: Annotated[Size, Small(4)]  # of a frame (mel bins)
    convolutions: Annotated[tuple[Convolution, ...], Meta(min_length=1, max_length=2)]  # one after the other
    function: DenseFunction = "gelu"  # behind each convolution

    @property
    def frames(self) -> int:
        """How many frames become one position."""
        product = 1
        for convolution in self.convolutions:
            product *= convolution.stride
        return product
