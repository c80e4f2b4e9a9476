"""Attention residuals (arXiv:2603.15031): what a sublayer reads is a mixture of the sums that the stream has been.

Letters: B sequences, T tokens, k sums, d channels.
"""

from __future__ import annotations

import math

import numpy as np

from gptcalc.architecture import AttentionResiduals
from gptcalc.reference.norms import normed, softmax
from gptcalc.reference.step import Step
from gptcalc.reference.store import Weights
from gptcalc.reference.tally import Array


def mixture_of(residuals: AttentionResiduals, sums: list[Array], w: Weights, step: Step, inputs: int = 1) -> Array:
    """Sums (B, T, d), mixed: (B, T, d), for several inputs (B, T, inputs, d)."""
    d = sums[0].shape[-1]
    each = normed(np.concatenate([one[:, :, None] for one in sums], axis=2), residuals.norm, w.at("norm"))
    query = w("query", d, inputs)  # each: (B, T, k, d)
    share = softmax(step.dot(each, query).swapaxes(-1, -2) * (1 / math.sqrt(d)))  # (B, T, inputs, k)
    mixed = step.dot(share, each, "values")  # (B, T, inputs, d)
    return mixed if inputs > 1 else mixed[:, :, 0]


def mixture(residuals: AttentionResiduals, x: Array, w: Weights, step: Step, inputs: int = 1) -> Array:
    """The sums set aside and the stream x (B, T, d), mixed: (B, T, d), for several inputs (B, T, inputs, d)."""
    new = x.shape[1]
    return mixture_of(residuals, [*(each[:, step.new - new :] for each in step.sums_aside), x], w, step, inputs)
