"""Hyper-connections (arXiv:2409.19606): n parallel residual streams, whose own values say how they are joined before a
sublayer, how its output is spread over them, and how they mix. Letters: B, T, n streams, d channels.
"""

from __future__ import annotations

import numpy as np

from gptcalc.architecture import Streams
from gptcalc.reference.activations import activate, sigmoid
from gptcalc.reference.norms import normed, softmax
from gptcalc.reference.step import Step
from gptcalc.reference.store import Weights
from gptcalc.reference.tally import Array


def spread_out(x: Array, n: int) -> Array:
    """The same in every stream: (B, T, d) -> (B, T, n, d)."""
    batch, new, d = x.shape
    streams: Array = np.broadcast_to(x[:, :, None], (batch, new, n, d))
    return streams


class Connection:
    """The streams (B, T, n, d) at one sublayer: `joined` is what it reads, `after` what comes of its output."""

    def __init__(self, s: Streams, streams: Array, w: Weights, step: Step) -> None:
        n = s.n
        self.streams = streams
        self.step = step
        self.mixing: Array | None = None
        if s.rank is not None:
            self.joined, flat = _channels_joined(s, s.rank, streams, w, step)
            self.spread = sigmoid(step.linear(flat, w, "spread", n) * (1 / n)) * s.magnitude
            return
        z = _coefficients(s, streams, s.coefficients, w, step)  # (B, T, 2n or 2n + n²)
        scale, base = w("scale", s.factors), w("base", s.coefficients)
        join = sigmoid(z[..., :n] * scale[0] + base[:n]) + s.eps
        self.spread = sigmoid(z[..., n : 2 * n] * scale[1] + base[n : 2 * n]) * s.magnitude  # (B, T, n)
        self.joined = _joined(join, streams, step)
        if not s.mixed:
            self.spread = self.spread + s.eps
            return
        mixing = (z[..., 2 * n :] * scale[2] + base[2 * n :]).reshape(*z.shape[:2], n, n)
        self.mixing = doubly_stochastic(softmax(mixing) + s.eps, s)  # (B, T, from, to)

    def after(self, y: Array) -> Array:
        """The streams, mixed, and the sublayer's output y (B, T, d), spread over them."""
        mixed = self.streams
        if self.mixing is not None:
            mixed = self.step.dot(self.mixing.swapaxes(-1, -2), self.streams, "values")  # (B, T, n, d)
        return mixed + self.spread[..., None] * y[:, :, None]


def joined_at_the_end(s: Streams, streams: Array, w: Weights, step: Step) -> Array:
    """(B, T, n, d) -> (B, T, d)."""
    if s.end == "mean":
        mean: Array = streams.mean(axis=2)
        return mean
    if s.rank is not None:
        return _channels_joined(s, s.rank, streams, w, step)[0]
    z = _coefficients(s, streams, s.n, w, step)
    return _joined(sigmoid(z * w("scale", 1) + w("base", s.n)) + s.eps, streams, step)


def _channels_joined(s: Streams, rank: int, streams: Array, w: Weights, step: Step) -> tuple[Array, Array]:
    """The mean of the normed streams, each channel of each weighted by what all say: (B, T, d); and the normed streams,
    side by side (B, T, n · d)."""
    batch, new, n, d = streams.shape
    each = normed(streams, s.norm, w.at("norm"), n, d)
    flat = each.reshape(batch, new, n * d)
    inner = activate("silu", step.linear(flat, w, "down", rank) * (1 / n))
    share = sigmoid(step.linear(inner, w, "up", n * d)).reshape(batch, new, n, d).swapaxes(-1, -2)
    mean = step.dot(share[..., None, :], each.swapaxes(-1, -2)[..., None], "values") * (1 / n)
    return mean.reshape(batch, new, d), flat


def _coefficients(s: Streams, streams: Array, n: int, w: Weights, step: Step) -> Array:
    """n numbers a token, of all its streams' channels: (B, T, n)."""
    batch, new, count, d = streams.shape
    flat = normed(streams.reshape(batch, new, count * d), s.norm, w.at("norm"))
    return step.linear(flat, w, "mix", n)


def _joined(weight: Array, streams: Array, step: Step) -> Array:
    """The streams, weighted by (B, T, n) and summed: (B, T, d)."""
    return step.dot(weight[:, :, None], streams, "values")[:, :, 0]


def doubly_stochastic(m: Array, s: Streams) -> Array:
    """Sinkhorn's iterations: columns and rows divided by their sums in turn, beginning and ending with columns."""
    m = m / (m.sum(axis=-2, keepdims=True) + s.eps)
    for _ in range(s.iterations - 1):
        m = m / (m.sum(axis=-1, keepdims=True) + s.eps)
        m = m / (m.sum(axis=-2, keepdims=True) + s.eps)
    return m
