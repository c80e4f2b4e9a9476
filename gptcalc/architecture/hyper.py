"""Hyper-connections: several residual streams."""

from gptcalc.architecture.base import Few, Positive, Strict, Times
from gptcalc.architecture.norms import BareNorm


class Streams(Strict, frozen=True, kw_only=True):
    """Hyper-connections (arXiv:2409.19606): n parallel residual streams. Weights that depend on the streams themselves
    join them before each sublayer, spread its output over them and mix them; Sinkhorn's iterations make the mixing
    doubly stochastic. Before the final norm they are joined once more.
    """

    n: Few
    iterations: Times = 20
    eps: Positive = 1e-6
    norm: BareNorm  # of the streams as the weights see them
