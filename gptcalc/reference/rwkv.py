"""RWKV: time mixing and channel mixing.

Letters: B sequences, T new tokens, r = d_inner channels; H heads, n = d_k channels of a key, c = d_v of a value.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from gptcalc.architecture import ChannelMixing, DeltaMixing, MatrixMixing, ShareOf, TimeMixing
from gptcalc.reference.activations import activate, sigmoid
from gptcalc.reference.generalised import Past, recur_generalised
from gptcalc.reference.norms import normed
from gptcalc.reference.recurrence import Inputs, recur
from gptcalc.reference.scan import side_by_side, stretches
from gptcalc.reference.step import Step
from gptcalc.reference.store import Weights
from gptcalc.reference.tally import Array

EPS = 1e-6  # in the length of a key
NOTHING = -1e38  # the largest exponent before the first token


def time_mixing(m: TimeMixing, x: Array, w: Weights, step: Step) -> Array:
    """x (B, T, d) -> (B, T, d)."""
    before = _before(x, w, step)
    r, k, v = (step.linear(_mixed(x, before, name, w), w, name, m.d_inner) for name in ("receptance", "k", "v"))
    wkv = _weighted_mean(k, v, w("decay_rate", m.d_inner), w("bonus", m.d_inner), step, w.prefix.rstrip("."))
    return step.linear(sigmoid(r) * wkv, w, "out", x.shape[-1])


def _weighted_mean(k: Array, v: Array, decay: Array, bonus: Array, step: Step, place: str) -> Array:
    """Of all values so far, with weights that are kept in units of e^top: k, v (B, T, r) -> (B, T, r)."""
    zero = k[:, :1] * 0.0  # (B, 1, r)
    starts = (zero, zero, zero + NOTHING)
    mean = Mean(*(step.cache.state(place, name, start) for name, start in zip(MEANS, starts, strict=True)))
    out = []
    for first, end, size in stretches(step.new, step):
        key, value = k[:, first:end], v[:, first:end]
        before, mean = _before_each(mean, key, value, np.exp(decay), size)
        now = _joined(before, Mean(value, value * 0.0 + 1.0, key + bonus))
        out.append(now.total / now.weight)
    for name, array in zip(MEANS, mean, strict=True):
        step.cache.put(place, name, array)
    return np.concatenate(out, axis=1)


MEANS = ("state", "norm", "top")  # what the cache calls a mean's parts


class Mean(NamedTuple):
    """A sum and the sum of its weights, in units of e^top."""

    total: Array
    weight: Array
    top: Array


def _joined(one: Mean, other: Mean) -> Mean:
    """The sums of both."""
    top = np.maximum(one.top, other.top)
    a, b = np.exp(one.top - top), np.exp(other.top - top)
    return Mean(one.total * a + other.total * b, one.weight * a + other.weight * b, top)


def _before_each(mean: Mean, k: Array, v: Array, decay: Array, size: int) -> tuple[Mean, Mean]:
    """The mean before each token (B, T, r) and behind the last (B, 1, r): blocks of `size` tokens side by side, each
    from nothing, then from block to block."""
    key, value = side_by_side(k, size), side_by_side(v, size)  # (B, T/C, C, r)
    nothing = key[:, :, :1] * 0.0
    own = Mean(nothing, nothing, nothing + NOTHING)  # of the block so far, (B, T/C, 1, r)
    before = []
    for t in range(size):
        before.append(own)
        new = Mean(value[:, :, t : t + 1], nothing + 1.0, key[:, :, t : t + 1])
        own = _joined(own._replace(top=own.top - decay), new)
    starts = []
    for block in range(key.shape[1]):
        starts.append(mean)
        mean = _joined(mean._replace(top=mean.top - decay * size), Mean(*(x[:, block] for x in own)))
    start = Mean(*(np.concatenate(x, axis=1)[:, :, None] for x in zip(*starts, strict=True)))
    each = [_joined(start._replace(top=start.top - decay * t), so_far) for t, so_far in enumerate(before)]
    return Mean(*(np.concatenate(x, axis=2).reshape(*k.shape) for x in zip(*each, strict=True))), mean


def matrix_mixing(m: MatrixMixing, x: Array, w: Weights, step: Step) -> Array:
    """x (B, T, d) -> (B, T, d)."""
    names = ("receptance", "decay", "k", "v", "gate") if m.decay_rank else ("receptance", "k", "v", "gate")
    before = _before(x, w, step)
    if m.shift_rank is None:
        read = {name: _mixed(x, before, name, w) for name in names}
    else:
        shares = _shares(m.shift_rank, x, before, len(names), w, step)  # (B, 4 or 5, T, d)
        read = {name: x + (before - x) * shares[:, number] for number, name in enumerate(names)}
    keys, values = (m.n_heads, m.d_k), (m.n_heads, m.d_v)
    r, k = (_by_head(step.linear(read[name], w, name, m.n_heads * m.d_k), keys) for name in ("receptance", "k"))
    v, z = (step.linear(read[name], w, name, m.n_heads * m.d_v) for name in ("v", "gate"))
    v = _by_head(v, values)
    if m.decay_rank is None:
        f = w("decay_rate", *keys) + k * 0.0
    else:
        f = _by_head(_through(m.decay_rank, "tanh", read["decay"], "decay", m.n_heads * m.d_k, w, step, True), keys)
    past = Inputs(r, k, v, np.exp(f) * -1.0, None)
    o = recur(past, step, w.prefix.rstrip("."), m.chunk, earlier=True) + _own(r * w("bonus", *keys), k, step) * v
    o = normed(o, m.out_norm, w.at("out_norm"), *values).reshape(*z.shape)
    return step.linear(z * sigmoid(z) * o, w, "out", x.shape[-1])


def _by_head(x: Array, heads: tuple[int, int]) -> Array:
    return x.reshape(*x.shape[:2], *heads)


def _own(r: Array, k: Array, step: Step) -> Array:
    """What a token reads of itself, one number a head: (B, T, H, 1)."""
    product: Array = step.dot(r[..., None, :], k[..., None], "state")[..., 0]
    return product


def _shares(rank: int, x: Array, before: Array, n: int, w: Weights, step: Step) -> Array:
    """n times what share the token before has in each channel, by way of a bottleneck for each: (B, n, T, d)."""
    d = x.shape[-1]
    read = (x + (before - x) * w("shift_mix", d))[:, None]
    low = np.tanh(step.dot(read, w("shift_a", n, d, rank)))
    return step.dot(low, w("shift_b", n, rank, d)) + w("shift_b.bias", n, d).reshape(n, 1, d)


def _through(
    rank: int, function: str, x: Array, name: str, n: int, w: Weights, step: Step, bias: bool = False
) -> Array:
    """A projection to n channels, through a bottleneck with an activation."""
    low = step.linear(x, w, f"{name}_a", rank)
    if function == "tanh":
        low = np.tanh(low)
    elif function == "sigmoid":
        low = sigmoid(low)
    return step.linear(low, w, f"{name}_b", n, bias)


def delta_mixing(m: DeltaMixing, x: Array, w: Weights, step: Step) -> Array:
    """x (B, T, d) -> (B, T, d)."""
    before = _before(x, w, step)
    read = {name: _mixed(x, before, name, w, "before") for name in ("receptance", "decay", "k", "v", "rate", "gate")}
    keys, values = (m.n_heads, m.d_k), (m.n_heads, m.d_v)
    n_keys, n_values = m.n_heads * m.d_k, m.n_heads * m.d_v
    r, k = (step.linear(read[name], w, name, n_keys) for name in ("receptance", "k"))
    f = sigmoid(_through(m.decay_rank, "tanh", read["decay"], "decay", n_keys, w, step, True)) * -math.exp(-0.5)
    a = sigmoid(_through(m.rate_rank, "none", read["rate"], "rate", n_keys, w, step, True))
    g = _through(m.gate_rank, "sigmoid", read["gate"], "gate", n_values, w, step)
    v = step.linear(read["v"], w, "v", n_values)
    if m.value_rank is None:
        step.values = v
    else:
        assert step.values is not None
        v = v + (step.values - v) * sigmoid(_through(m.value_rank, "none", read["v"], "value", n_values, w, step, True))
    unit = _by_head(k * w("key_direction", n_keys), keys)
    unit = unit / np.sqrt(np.square(unit).sum(axis=-1, keepdims=True) + EPS)
    k = _by_head(k + k * (a - 1.0) * w("key_rate", n_keys), keys)
    r, a, v, f = _by_head(r, keys), _by_head(a, keys), _by_head(v, values), _by_head(f, keys)
    past = Past(r, k, v, f, unit, a * unit)
    o = normed(recur_generalised(past, step, w.prefix.rstrip("."), m.chunk), m.out_norm, w.at("out_norm"), *values)
    o = o + _own(r * w("bonus", *keys), k, step) * v
    return step.linear(o.reshape(*g.shape) * g, w, "out", x.shape[-1])


def channel_mixing(m: ChannelMixing, x: Array, w: Weights, step: Step) -> Array:
    """x (B, T, d) -> (B, T, d)."""
    before = _before(x, w, step)
    gate = None
    if m.gated:
        gate = sigmoid(step.linear(_mixed(x, before, "receptance", w, m.share), w, "receptance", x.shape[-1]))
    inner = activate("relu2", step.linear(_mixed(x, before, "up", w, m.share), w, "up", m.d_ff))
    y = step.linear(inner, w, "down", x.shape[-1])
    return y if gate is None else gate * y


def _before(x: Array, w: Weights, step: Step) -> Array:
    """What the token before read, zeros before the first: (B, T, d)."""
    return step.cache.recent(f"{w.prefix}n_conv", x, 1)[:, : x.shape[1]]


def _mixed(x: Array, before: Array, name: str, w: Weights, share_of: ShareOf = "input") -> Array:
    """The input and the one before, in learned shares."""
    share = w(f"{name}_mix", x.shape[-1])
    return x * share + before * (1.0 - share) if share_of == "input" else x + (before - x) * share
