"""The recurrence that linear attention and Mamba-2 share: a matrix for each head that decays, is written to and read.

Letters: H heads, T new tokens, n = d_k channels of a key, c = d_v channels of a value.
"""

from __future__ import annotations

import numpy as np

from gptcalc.reference.step import Step
from gptcalc.reference.tally import Array


def spread(x: Array, n_heads: int) -> Array:
    """Heads that several others share, repeated for each of them: (B, T, h, n) -> (B, T, n_heads, n)."""
    batch, new, shared, width = x.shape
    wide = np.broadcast_to(x[:, :, :, None], (batch, new, shared, n_heads // shared, width))
    return wide.reshape(batch, new, n_heads, width)


def recur(q: Array, k: Array, v: Array, g: Array | None, beta: Array | None, step: Step, place: str) -> Array:
    """S ← e^g·S + k ⊗ u and o = Sᵀq, token by token: o (B, T, H, c).

    q, k (B, T, H, n) and v (B, T, H, c); g (B, T, H, 1 or n); u is v, or β·(v − Sᵀk) for β (B, T, H, 1).
    """
    batch, new, heads, n = k.shape
    start = np.broadcast_to(k[:, 0, :, :, None] * 0.0, (batch, heads, n, v.shape[-1]))
    s = step.cache.state(place, "state", start)  # (B, H, n, c)
    kept = None if g is None else np.exp(g)
    out = []
    for t in range(new):
        if kept is not None:
            s = s * kept[:, t, :, :, None]
        key, u = k[:, t, :, :, None], v[:, t, :, None]  # (B, H, n, 1), (B, H, 1, c)
        if beta is not None:
            u = (u - step.dot(key.swapaxes(-1, -2), s, "state")) * beta[:, t, :, :, None]
        s = s + step.dot(key, u, "state")
        out.append(step.dot(q[:, t, :, None], s, "state").swapaxes(1, 2))  # (B, 1, H, c)
    step.cache.put(place, "state", s)
    return np.concatenate(out, axis=1)
