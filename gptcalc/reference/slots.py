"""Gated slot attention (arXiv:2409.07146): keys and values of slots, which a softmax reads.

Letters: B sequences, T new tokens, H = n_heads, h = n_kv_heads, n = d_k, c = d_v, M = n_slots, C tokens of a chunk.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gptcalc.architecture import SlotAttention
from gptcalc.reference.activations import sigmoid, softplus
from gptcalc.reference.convolution import convolution
from gptcalc.reference.norms import normed, softmax
from gptcalc.reference.recurrence import Inputs, by_chunk, one_behind_the_other, recur, spread, sums_so_far
from gptcalc.reference.step import Step
from gptcalc.reference.store import Weights
from gptcalc.reference.tally import Array


def slot_attention(a: SlotAttention, x: Array, w: Weights, step: Step) -> Array:
    """What each token reads from the slots: x (B, T, d) -> (B, T, d)."""
    q = _projected(a, x, "q", a.n_heads, a.d_k, w, step)
    k = _projected(a, x, "k", a.n_kv_heads, a.d_k, w, step)
    v = spread(_projected(a, x, "v", a.n_kv_heads, a.d_v, w, step), a.n_heads)
    f = step.linear(x, w, "decay", a.n_kv_heads * a.n_slots).reshape(*x.shape[:2], a.n_kv_heads, a.n_slots)
    g = softplus(f * -1.0) * (-1 / a.divisor)  # (B, T, h, M)
    taken, place = 1.0 - np.exp(g), w.prefix.rstrip(".")
    g = spread(g, a.n_heads)
    weights = softmax(_scores(a, q, k, taken, g, step, place) * 1.0)  # (B, T, H, M)
    o = recur(Inputs(weights, taken, v, g, None), step, place, a.chunk)  # (B, T, H, c)
    o = o.reshape(*x.shape[:2], a.n_heads * a.d_v)
    o = o * sigmoid(o)
    if a.out_norm is not None:
        o = normed(o, a.out_norm, w.at("out_norm"))
    return step.linear(o, w, "out", x.shape[-1])


def _projected(a: SlotAttention, x: Array, name: str, heads: int, width: int, w: Weights, step: Step) -> Array:
    """Queries, keys or values (B, T, heads, n or c), convolved and through their activations."""
    y = step.linear(x, w, name, heads * width)
    if a.kernel is not None:
        y = convolution(y, f"{name}_conv", a.kernel, w, step)
        y = y * sigmoid(y)
    return (y * sigmoid(y)).reshape(*x.shape[:2], heads, width)


class Slots(NamedTuple):
    """What each token reads and writes: q, k (B, T, H, n), what each slot takes in and the logarithm of what it keeps
    (B, T, H, M)."""

    q: Array
    k: Array
    taken: Array
    g: Array


def _scores(a: SlotAttention, q: Array, k: Array, taken: Array, g: Array, step: Step, place: str) -> Array:
    """What the slots' keys say of each query (B, T, H, M), given q (B, T, H, n), k (B, T, h, n), what each slot takes
    in (B, T, h, M) and the logarithm g (B, T, H, M) of what it keeps."""
    k, taken = spread(k, a.n_heads), spread(taken, a.n_heads)
    s = step.cache.state(place, "slots", k[:, 0, :, :, None] * taken[:, 0, :, None] * 0.0)  # (B, H, n, M)

    def some(first: int, end: int, size: int | None, s: Array) -> tuple[Array, Array]:
        part = Slots(*(each[:, first:end] for each in (q, k, taken, g)))
        return _by_token(part, s, step) if size is None else _by_chunk(part, s, step, size)

    found, s = one_behind_the_other(some, s, q.shape[1], step, a.chunk)
    step.cache.put(place, "slots", s)
    return found


def _by_token(x: Slots, s: Array, step: Step) -> tuple[Array, Array]:
    """The scores, and the keys of the slots behind the last token."""
    q, k, taken, g = x
    kept, out = np.exp(g), []
    for t in range(q.shape[1]):
        s = s * kept[:, t, :, None] + step.dot(k[:, t, :, :, None], taken[:, t, :, None], "state")
        out.append(step.dot(q[:, t, :, None], s, "state").swapaxes(1, 2))  # (B, 1, H, M)
    return np.concatenate(out, axis=1), s


def _by_chunk(x: Slots, s: Array, step: Step, size: int) -> tuple[Array, Array]:
    """The same of whole chunks of `size` tokens."""
    batch, new, heads, slots = x.g.shape
    q, k, taken, g = (by_chunk(each, size) for each in x)  # (B, T/C, H, C, …)
    so_far = sums_so_far(g)
    alike, left = step.dot(q, k.swapaxes(-1, -2), "state"), taken * np.exp(so_far[..., size - 1 :, :] - so_far)
    within, tokens = [], np.arange(0, size, like=q)[:, None]
    for t in range(size):  # row by row, so that no exponent is positive
        between = np.where(tokens <= t, so_far[..., t : t + 1, :] - so_far, -np.inf).astype(step.dtype)
        within.append(step.dot(alike[..., t : t + 1, :], taken * np.exp(between), "state"))
    before = []
    for at in range(new // size):
        before.append((step.dot(q[:, at], s, "state") * np.exp(so_far[:, at]))[:, None])
        s = s * np.exp(so_far[:, at, :, size - 1 :]) + step.dot(k[:, at].swapaxes(-1, -2), left[:, at], "state")
    found = np.concatenate(before, axis=1) + np.concatenate(within, axis=-2)
    return found.swapaxes(2, 3).reshape(batch, new, heads, slots), s
