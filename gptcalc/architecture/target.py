"""What a draft model takes from the model that it guesses tokens for, its target."""

from typing import Annotated

from gptcalc.architecture.base import Several, Size, Small, Stream, Strict
from gptcalc.architecture.norms import Norm
from gptcalc.errors import InputError


class TargetStates(Strict, frozen=True, kw_only=True):
    """Hidden states of so many of the target's layers, d channels each: side by side they pass one matrix to the
    draft's width, and are the stream that its layers continue (EAGLE-3, arXiv:2503.01840, §3). With a norm each is
    normed before, with weights of its own; with `out_norm` what the matrix makes.

    block: layers attend to them instead, and so many tokens are drafted at once: the last one known, and masks
    (DFlash, arXiv:2602.06036). One pass takes the states of the new tokens in and drafts one block behind them.
    shifted: each slot of the block drafts the token behind its own, the first slot, of the known token, too.
    """

    layers: Annotated[Size, Small(2)]
    d: Stream
    norm: Norm | None = None
    out_norm: Norm | None = None
    block: Annotated[Several, Small(5)] | None = None
    shifted: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shifted and self.block is None:
            raise InputError("target.shifted: there is no block whose slots draft")

    @property
    def drafted(self) -> int:
        """How many slots of a block draft a token."""
        assert self.block is not None
        return self.block if self.shifted else self.block - 1
