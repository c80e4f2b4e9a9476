"""Attention residuals: what a sublayer reads is a mixture of all that the residual stream has been."""

from gptcalc.architecture.base import Choices, Strict
from gptcalc.architecture.norms import BareNorm


class AttentionResiduals(Strict, frozen=True, kw_only=True):
    """Block attention residuals (arXiv:2603.15031, §3): in every `every`-th layer, from the first on, the stream so far
    is set aside and begins anew with what the first sublayer says. A sublayer reads a mixture of the sums set aside and
    the one that goes on: by a softmax over their products with a learned query, divided by √d. So does the final norm.

    norm: of the sums, where they are compared and where they are mixed (Inkling 2).
    """

    every: Choices  # layers from one sum set aside to the next
    norm: BareNorm
