"""Hyper-connections: several residual streams."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from gptcalc.architecture.base import Positive, Size, Strict
from gptcalc.architecture.norms import Norm


class Streams(Strict, frozen=True, kw_only=True):
    """Hyper-connections (arXiv:2409.19606): n parallel residual streams. Weights that depend on the streams themselves
    join them before each sublayer, spread its output over them and mix them; Sinkhorn's iterations make the mixing
    doubly stochastic. Before the final norm they are joined once more.
    """

    n: Annotated[int, Meta(ge=2, le=1_000)]
    iterations: Size = 20
    eps: Positive = 1e-6
    norm: Norm | None = None  # of the streams as the weights see them; default: the model's, without a weight
