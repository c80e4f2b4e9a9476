"""Hyper-connections: several residual streams."""

from typing import Annotated, Literal

from gptcalc.architecture.base import AtMost, Few, Narrow, Positive, Strict, Times
from gptcalc.architecture.norms import BareNorm
from gptcalc.errors import InputError


class Streams(Strict, frozen=True, kw_only=True):
    """Hyper-connections (arXiv:2409.19606): n parallel residual streams. Weights that depend on the streams themselves
    join them before each sublayer, spread its output over them and mix them; Sinkhorn's iterations make the mixing
    doubly stochastic. Before the final norm they are joined once more, or their mean is taken (GLM-5.3-Flash). Streams
    that are not mixed are independent (Hy 4): each keeps what it has; what spreads the output is at least eps, too,
    unless they join channel by channel (Qwen4-Exp).
    """

    n: Annotated[Few, AtMost(3)]  # residual streams
    iterations: Annotated[Times, AtMost(20)] = 20  # of Sinkhorn's algorithm
    eps: Positive = 1e-6  # keeps quotients finite
    mixed: bool = True  # streams are mixed with each other
    # what joins them is one number a channel, made of all of them by way of a bottleneck of so many; they join normed
    rank: Narrow | None = None
    magnitude: Positive = 2.0  # of what spreads an output
    end: Literal["weighted", "mean"] = "weighted"  # how they are joined before the final norm
    norm: BareNorm  # of the streams as the weights see them

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rank is not None and self.mixed:
            raise InputError("streams.rank: streams that join channel by channel are independent", "set mixed: false")
        if self.rank is not None and self.end == "mean":
            raise InputError("streams.end: streams that join channel by channel do so at the end, too")

    @property
    def coefficients(self) -> int:
        """How many numbers a sublayer's connection reads off the streams of one token."""
        return (2 + self.n * self.mixed) * self.n

    @property
    def factors(self) -> int:
        """How many learned factors they have."""
        return 2 + self.mixed
