"""Queries, keys and values made of several tokens: compressed convolutional attention (arXiv:2510.04476), before they
are normed; localized filtering (arXiv:2311.15786).

Letters: B sequences, T new tokens, g KV heads, r query heads that share one, h = d_head, N = n_heads + n_kv_heads.
"""

from __future__ import annotations

import numpy as np

from gptcalc.architecture import Attention, ConvolvedHeads, LocalFilter
from gptcalc.reference.norms import normed
from gptcalc.reference.step import Step
from gptcalc.reference.store import Weights
from gptcalc.reference.tally import Array


def mixed_heads(a: Attention, cca: ConvolvedHeads, x: Array, w: Weights, step: Step) -> tuple[Array, Array]:
    """Queries (B, T, n_heads, h) and keys (B, T, g, h): convolved, with the mean of each query and its key."""
    batch, new = x.shape[:2]
    g, r = a.n_kv_heads, a.n_heads // a.n_kv_heads
    q = step.linear(x, w, "q", a.n_heads * a.d_head)
    k = step.linear(x, w, "k", g * a.d_head)
    by_group = q.reshape(batch, new, g, r, a.d_head)
    mean = (by_group + k.reshape(batch, new, g, 1, a.d_head)) * 0.5
    u = _convolved(a, cca, np.concatenate([q, k], axis=-1), w, step)  # (B, T, N, h)
    mean_of_keys = mean.mean(axis=3)
    return u[:, :, : a.n_heads] + mean.reshape(batch, new, a.n_heads, a.d_head), u[:, :, a.n_heads :] + mean_of_keys


def _convolved(a: Attention, cca: ConvolvedHeads, u: Array, w: Weights, step: Step) -> Array:
    """(B, T, N · h) through both convolutions: (B, T, N, h). Before the first token there are zeros."""
    batch, new, channels = u.shape
    heads = a.n_heads + a.n_kv_heads
    whole = step.cache.recent(f"{w.prefix}u_conv", u, cca.kernel - 1)
    near = np.concatenate([whole[:, k : k + new, :, None] for k in range(cca.kernel)], axis=-1)  # (B, T, N · h, kernel)
    taps = w("u_conv", cca.kernel, channels).swapaxes(0, 1)[..., None]  # (N · h, kernel, 1)
    inner: Array = step.dot(near[..., None, :], taps).reshape(batch, new, channels)
    inner = step.cache.recent(f"{w.prefix}head_conv", inner, cca.head_kernel - 1) + w("u_conv.bias", channels)
    inner = inner.reshape(batch, inner.shape[1], heads, a.d_head)
    near = np.concatenate([inner[:, k : k + new, ..., None] for k in range(cca.head_kernel)], axis=-1)
    near = near.reshape(batch, new, heads, 1, a.d_head * cca.head_kernel)
    matrix = w("head_conv", heads, a.d_head * cca.head_kernel, a.d_head)
    y = step.dot(near, matrix).reshape(batch, new, heads, a.d_head)
    return y + w("head_conv.bias", heads * a.d_head).reshape(heads, a.d_head)


def delayed_values(a: Attention, x: Array, w: Weights, step: Step) -> Array:
    """Values (B, T, g, c), half of whose channels are made of the token before."""
    half = a.n_kv_heads * a.d_v // 2
    own, other = step.linear(x, w, "v", half), step.linear(x, w, "v_before", half)
    before = step.cache.recent(f"{w.prefix}v_conv", other, 1)[:, : x.shape[1]]
    return np.concatenate([own, before], axis=-1).reshape(*x.shape[:2], a.n_kv_heads, a.d_v)


def filtered(f: LocalFilter, x: Array, w: Weights, step: Step) -> Array:
    """What queries and keys are made of (B, T, d): x and what two convolutions make of it, normed."""
    y = _over_all(x, "inner_conv", f.d, f.kernel, w, step)
    return normed(x + _over_all(y, "outer_conv", x.shape[-1], f.kernel, w, step), f.norm, w.at("norm"))


def _over_all(x: Array, name: str, n: int, kernel: int, w: Weights, step: Step) -> Array:
    """x (B, T, C) -> (B, T, n): all channels of each token and of those just before it, zeros before the first."""
    batch, new, channels = x.shape
    whole = step.cache.recent(w.prefix + name, x, kernel - 1)
    near = np.concatenate([whole[:, k : k + new, :, None] for k in range(kernel)], axis=-1)
    return step.linear(near.reshape(batch, new, channels * kernel), w, name, n, bias=True)
