"""Attention residuals (arXiv:2603.15031): what a sublayer reads is a mixture of the sums that the stream has been.

Letters: B sequences, T tokens, k sums, d channels.
"""

from __future__ import annotations

import numpy as np

from gptcalc.architecture import AttentionResiduals
from gptcalc.reference.norms import normed, softmax
from gptcalc.reference.step import Step
from gptcalc.reference.store import Weights
from gptcalc.reference.tally import Array


def mixture_of(residuals: AttentionResiduals, sums: list[Array], w: Weights, step: Step, inputs: int = 1) -> Array:
    """Sums (B, T, d), mixed: (B, T, d), for several inputs (B, T, inputs, d)."""
    d = sums[0].shape[-1]
    each = np.concatenate([one[:, :, None] for one in sums], axis=2)  # (B, T, k, d)
    compared = normed(each, residuals.norm, w.at("norm"))
    query = w("query", d, inputs)
    share = softmax(step.dot(compared, query).swapaxes(-1, -2) * residuals.score_scale(d))  # (B, T, inputs, k)
    mixed = step.dot(share, compared if residuals.values == "normed" else each, "values")  # (B, T, inputs, d)
    return mixed if inputs > 1 else mixed[:, :, 0]


def one_sum(residuals: AttentionResiduals, x: Array, w: Weights, inputs: int = 1) -> Array:
    """The stream x (B, T, d) where nothing is set aside: its share is 1, whatever the query says."""
    compared = normed(x, residuals.norm, w.at("norm"))
    w("query", x.shape[-1], inputs)
    read = compared if residuals.values == "normed" else x
    return np.concatenate([read[:, :, None]] * inputs, axis=2) if inputs > 1 else read


def mixture(residuals: AttentionResiduals, x: Array, w: Weights, step: Step, inputs: int = 1) -> Array:
    """The sums set aside and the stream x (B, T, d), mixed: (B, T, d), for several inputs (B, T, inputs, d)."""
    if not step.sums_aside:
        return one_sum(residuals, x, w, inputs)
    new = x.shape[1]
    return mixture_of(residuals, [*(each[:, step.new - new :] for each in step.sums_aside), x], w, step, inputs)
