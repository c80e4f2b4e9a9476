"""Learned factors."""

from gptcalc.architecture.base import Positive, Strict


class Factors(Strict, frozen=True, kw_only=True):
    """Learned factors, one a channel: what is stored times `scale`, squared or not (nGPT, arXiv:2410.01131, §2.5)."""

    scale: Positive = 1.0  # of what is stored
    squared: bool = False  # the product is squared
