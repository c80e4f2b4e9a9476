"""What a draft model takes from the model that it guesses tokens for, its target."""

from typing import Annotated

from gptcalc.architecture.base import Several, Size, Small, Stream, Strict
from gptcalc.architecture.norms import Norm


class TargetStates(Strict, frozen=True, kw_only=True):
    """Hidden states of so many of the target's layers, d channels each: side by side they pass one matrix to the
    draft's width, and are the stream that its layers continue (EAGLE-3, arXiv:2503.01840, §3). With a norm each is
    normed before, with weights of its own; with `out_norm` what the matrix makes.

    block: layers attend to them instead, and so many tokens are drafted at once: the last one known, and masks
    (DFlash, arXiv:2602.06036). One pass takes the states of the new tokens in and drafts one block behind them.
    """

    layers: Annotated[Size, Small(2)]
    d: Stream
    norm: Norm | None = None
    out_norm: Norm | None = None
    block: Annotated[Several, Small(5)] | None = None
