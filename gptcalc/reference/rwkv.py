"""RWKV-4: time mixing and channel mixing.

Letters: B sequences, T new tokens, r = d_inner channels.
"""

from __future__ import annotations

import numpy as np

from gptcalc.architecture import ChannelMixing, TimeMixing
from gptcalc.reference.activations import activate, sigmoid
from gptcalc.reference.step import Step
from gptcalc.reference.store import Weights
from gptcalc.reference.tally import Array

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
    total, weight = (step.cache.state(place, name, zero) for name in ("state", "norm"))
    top = step.cache.state(place, "top", zero + NOTHING)
    out = []
    for t in range(step.new):
        key, value = k[:, t : t + 1], v[:, t : t + 1]
        out.append(np.divide(*_with(total, weight, top, key + bonus, value)[:2]))
        total, weight, top = _with(total, weight, top - np.exp(decay), key, value)
    for name, array in (("state", total), ("norm", weight), ("top", top)):
        step.cache.put(place, name, array)
    return np.concatenate(out, axis=1)


def _with(total: Array, weight: Array, top: Array, key: Array, value: Array) -> tuple[Array, Array, Array]:
    """A sum and its weights with one more value, whose weight is e^key."""
    largest = np.maximum(top, key)
    kept, new = np.exp(top - largest), np.exp(key - largest)
    return total * kept + value * new, weight * kept + new, largest


def channel_mixing(m: ChannelMixing, x: Array, w: Weights, step: Step) -> Array:
    """x (B, T, d) -> (B, T, d)."""
    before = _before(x, w, step)
    gate = sigmoid(step.linear(_mixed(x, before, "receptance", w), w, "receptance", x.shape[-1]))
    inner = activate("relu2", step.linear(_mixed(x, before, "up", w), w, "up", m.d_ff))
    return gate * step.linear(inner, w, "down", x.shape[-1])


def _before(x: Array, w: Weights, step: Step) -> Array:
    """What the token before read, zeros before the first: (B, T, d)."""
    return step.cache.recent(f"{w.prefix}n_conv", x, 1)[:, : x.shape[1]]


def _mixed(x: Array, before: Array, name: str, w: Weights) -> Array:
    """The input and the one before, in learned shares."""
    share = w(f"{name}_mix", x.shape[-1])
    return x * share + before * (1.0 - share)
