"""Alternating updates: several streams of which one is computed."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from gptcalc.architecture.base import Count, Strict
from gptcalc.architecture.norms import Norm


class AltUp(Strict, frozen=True, kw_only=True):
    """Alternating updates (arXiv:2301.13310): n streams, of which the blocks compute one, the active one.

    The further streams begin as projections of the embedding; before a block all are predicted as mixtures of all,
    after it corrected by what the block changed; projected back, they are averaged before the final norm. A
    per-layer embedding enters all streams but the first.
    """

    n: Annotated[int, Meta(ge=2, le=64)]
    active: Count = 0
    scale: bool = False  # learned factors of the active stream where the per-layer embedding's gate reads it
    norm: Norm | None = None  # of the router; default: the model's
