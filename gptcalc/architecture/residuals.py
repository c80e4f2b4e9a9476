"""Attention residuals: what a sublayer reads is a mixture of all that the residual stream has been."""

import math
from typing import Literal

from gptcalc.architecture.base import Choices, Positive, Strict
from gptcalc.architecture.norms import BareNorm


class AttentionResiduals(Strict, frozen=True, kw_only=True):
    """Block attention residuals (arXiv:2603.15031, §3): in every `every`-th layer, from the first on, the stream so far
    is set aside and begins anew with what the first sublayer says. A sublayer reads a mixture of the sums set aside and
    the one that goes on: by a softmax over their products with a learned query. So does the final norm.

    norm: of the sums, where they are compared. values: what is mixed, the sums so normed (Inkling 2) or as they are
    (Kimi K3, arXiv:2607.24653, §2.2, Eq. 8–10). first: the first sublayer, which has one sum alone to read, has a query
    and a norm all the same; nothing is multiplied there, as a softmax over one number is 1.
    """

    every: Choices  # layers from one sum set aside to the next
    norm: BareNorm
    values: Literal["normed", "raw"] = "normed"  # what is mixed
    scale: Positive | None = None  # of the products with the query; default 1/√d
    first: bool = False  # the first sublayer has a query and a norm, too

    def score_scale(self, d: int) -> float:
        """The factor of the products with the query."""
        return 1 / math.sqrt(d) if self.scale is None else self.scale
