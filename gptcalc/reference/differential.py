"""Scores and softmaxes of another kind: one softmax less another, and keys that say by how much they are seen.

Letters as in attention: B sequences, T new tokens, S keys held, g KV heads, r query heads that share one, c = d_v.
"""

from __future__ import annotations

import math

import numpy as np

from gptcalc.architecture import Attention, Differential, DynamicMask
from gptcalc.reference.activations import softplus
from gptcalc.reference.experts import top
from gptcalc.reference.norms import normed
from gptcalc.reference.step import Step
from gptcalc.reference.store import Weights
from gptcalc.reference.tally import Array


def difference(a: Attention, d: Differential, p: Array, v: Array, w: Weights, step: Step) -> Array:
    """The outputs of pairs of heads, one from each half: softmaxes (B, g, r, T, S) and values (B, g, S, c) to
    (B, T, n_heads, c)."""
    batch, g, r, new, keys = p.shape
    one, two = ((w(f"lambda_q{n}", a.d_head) * w(f"lambda_k{n}", a.d_head)).sum(axis=-1, keepdims=True) for n in (1, 2))
    start = 0.8 - 0.6 * math.exp(-0.3 * step.layer)
    halves = p.reshape(batch, 2, g // 2, r, new, keys)
    less = halves[:, 0] - halves[:, 1] * (np.exp(one) - np.exp(two) + start)  # (B, g/2, r, T, S)
    both = v.reshape(batch, 2, g // 2, keys, a.d_v).transpose(0, 2, 3, 1, 4)  # (B, g/2, S, 2, c)
    o = step.dot(less, both.reshape(batch, g // 2, 1, keys, 2 * a.d_v), "values")  # (B, g/2, r, T, 2·c)
    o = normed(o, d.norm, w.at("difference_norm")) * (1.0 - start)
    return o.reshape(batch, g // 2 * r, new, 2 * a.d_v).swapaxes(1, 2).reshape(batch, new, g * r, a.d_v)


def dynamically_masked(mask: DynamicMask, k: Array, v: Array, w: Weights, step: Step) -> tuple[Array, Array, Array]:
    """Keys (B, g, S, h) and values (B, g, S, c), and what the values add to the scores, −∞ where a key is not seen:
    (B, g, 1, T, S). A single query gathers its top_k keys; several ones, whose choices differ, are masked."""
    batch, g, keys, c = v.shape
    flat = v.swapaxes(1, 2).reshape(batch, keys, g * c)
    grown = softplus(step.linear(flat, w, "dt", g, bias=mask.bias)) * w("A", g)  # (B, S, g)
    bias = np.exp(grown).swapaxes(1, 2)[:, :, None]  # (B, g, 1, S)
    seen = step.mask(keys, None, None)
    if seen is not None:
        bias = bias + seen  # (B, g, T, S)
    if keys > mask.top_k:
        chosen = top(bias, mask.top_k)  # (B, g, T, top_k)
        if step.new == 1:
            at = chosen[:, :, 0, :, None]
            k, v = np.take_along_axis(k, at, axis=2), np.take_along_axis(v, at, axis=2)
            bias = np.take_along_axis(bias, chosen, axis=-1)
        else:
            listed = (chosen[..., None] == np.arange(0, keys, like=step.tokens)).any(axis=-2)
            bias = np.where(listed, bias, -math.inf).astype(step.dtype)
    return k, v, bias[:, :, None]
