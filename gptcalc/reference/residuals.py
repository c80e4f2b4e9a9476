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


def mixture(residuals: AttentionResiduals, x: Array, w: Weights, step: Step, inputs: int = 1) -> Array:
    """The sums set aside and the stream x (B, T, d), mixed: (B, T, d), for several inputs (B, T, inputs, d)."""
    new, d = x.shape[1:]
    sums = np.concatenate([each[:, step.new - new :, None] for each in (*step.sums_aside, x)], axis=2)  # (B, T, k, d)
    sums = normed(sums, residuals.norm, w.at("norm"))
    query = w("query", d, inputs)
    share = softmax(step.dot(sums, query).swapaxes(-1, -2) * (1 / math.sqrt(d)))  # (B, T, inputs, k)
    mixed = step.dot(share, sums, "values")  # (B, T, inputs, d)
    return mixed if inputs > 1 else mixed[:, :, 0]
