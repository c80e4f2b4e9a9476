"""Embeddings of n-grams: rows that hashes of the last tokens find (Engram, arXiv:2601.07372).

Letters: B sequences, T new tokens, n residual streams, d channels.
"""

from __future__ import annotations

import math

import numpy as np

from gptcalc.architecture import Engram, Hashing
from gptcalc.reference.activations import activate, sigmoid
from gptcalc.reference.convolution import convolution
from gptcalc.reference.norms import normed
from gptcalc.reference.step import Step
from gptcalc.reference.store import Weights
from gptcalc.reference.tally import Array

LEAST = 1e-6  # of what the root is taken of


def engram(m: Engram, x: Array, w: Weights, step: Step) -> Array:
    """What n-grams say to each of the normed streams x (B, T, n, d): as many."""
    batch, new, n, d = x.shape
    rows = np.take(w("table", m.table, m.d_row), hashed(m.hashing, step), axis=0)  # (B, T, heads, d_row)
    rows = rows.reshape(batch, new, m.width)
    key = step.linear(rows, w, "k", n * d).reshape(batch, new, n, d)
    key = normed(key, m.key_norm, w.at("key_norm"), n, d)
    value = step.linear(rows, w, "v", d)[:, :, None]  # (B, T, 1, d)
    wanted = step.dot(key[..., None, :], x[..., None], "values")[..., 0] * (1 / math.sqrt(d))  # (B, T, n, 1)
    size = np.sqrt(np.maximum(np.absolute(wanted), LEAST))
    given = sigmoid(np.where(wanted > 0, size, -size)) * value  # (B, T, n, d)
    near = normed(given, m.conv_norm, w.at("conv_norm"), n, d).reshape(batch, new, n * d)
    near = convolution(near, "conv", m.kernel, w, step, apart=m.hashing.longest)
    both: Array = given + activate("silu", near).reshape(batch, new, n, d)
    return both


def hashed(h: Hashing, step: Step) -> Array:
    """Of each new token the row of every head: (B, T, heads)."""
    before = h.longest - 1
    history = step.history(before, h.end or 0)
    alive: Array | None = None
    joined: list[Array] = []  # of the token alone, of 2-grams, …
    for far, multiplier in enumerate(h.multipliers):
        token = history[:, before - far : before - far + step.new]
        if far and h.end is not None:
            alive = token != h.end if alive is None else alive & (token != h.end)
            token = np.where(alive, token, h.end)
        part = token * multiplier
        joined.append(joined[-1] ^ part if joined else part)
    found = [joined[h.tokens(n) - 1] % rows + sum(h.rows[:n]) for n, rows in enumerate(h.rows)]
    return np.concatenate([row[..., None] for row in found], axis=-1)
