"""What a draft model takes from the model that it guesses tokens for, its target."""

from typing import Annotated

from gptcalc.architecture.base import Size, Small, Stream, Strict
from gptcalc.architecture.norms import Norm


class TargetStates(Strict, frozen=True, kw_only=True):
    """Hidden states of so many of the target's layers, d channels each: side by side they pass one matrix to the
    draft's width, and are the stream that its layers continue (EAGLE-3, arXiv:2503.01840, §3). With a norm each is
    normed before, with weights of its own.
    """

    layers: Annotated[Size, Small(2)]
    d: Stream
    norm: Norm | None = None
