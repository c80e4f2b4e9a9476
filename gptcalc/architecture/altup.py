"""Alternating updates: several streams of which one is computed."""

from typing import Annotated

from gptcalc.architecture.base import AtMost, Count, Few, Strict
from gptcalc.architecture.norms import ModelNorm
from gptcalc.errors import InputError


class AltUp(Strict, frozen=True, kw_only=True):
    """Alternating updates (arXiv:2301.13310): n streams, of which the blocks compute one, the active one.

    The further streams begin as projections of the embedding; before a block all are predicted as mixtures of all,
    after it corrected by what the block changed; projected back, they are averaged before the final norm. A
    per-layer embedding enters all streams but the first.
    """

    n: Annotated[Few, AtMost(3)]  # streams
    active: Annotated[Count, AtMost(2)] = 0  # which stream the blocks compute
    scale: bool = False  # learned factors of the active stream where the per-layer embedding's gate reads it
    norm: ModelNorm  # of the router

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.active >= self.n:
            raise InputError(f"altup.active: there is no stream {self.active} among {self.n}; they are numbered from 0")
