"""Other mixers whose memory of the past does not grow: short convolutions, Griffin's recurrence, mLSTM.

Letters: B sequences, T new tokens, r = d_rnn channels.
"""

from __future__ import annotations

import math

import numpy as np

from gptcalc.architecture import GatedRecurrence, MatrixLSTM, ShortConvolution
from gptcalc.reference.activations import activate, sigmoid, softcapped, softplus
from gptcalc.reference.convolution import convolution
from gptcalc.reference.norms import normed
from gptcalc.reference.step import Step
from gptcalc.reference.store import Weights
from gptcalc.reference.tally import Array


def short_convolution(m: ShortConvolution, x: Array, w: Weights, step: Step) -> Array:
    """C ⊙ conv(B ⊙ x), projected: x (B, T, d) -> (B, T, d)."""
    d = x.shape[-1]
    b, c, u = (step.linear(x, w, name, d, m.bias) for name in ("B", "C", "x"))
    return step.linear(c * convolution(b * u, "inner_conv", m.kernel, w, step, m.bias), w, "out", d, m.bias)


DECAY = 8.0  # Griffin's constant c


def gated_recurrence(m: GatedRecurrence, x: Array, w: Weights, step: Step) -> Array:
    """Griffin's recurrent block: x (B, T, d) -> (B, T, d)."""
    y = activate("gelu_tanh", step.linear(x, w, "y", m.d_rnn, True))
    u = convolution(step.linear(x, w, "x", m.d_rnn, True), "inner_conv", m.kernel, w, step, True)  # (B, T, r)
    into, forget = (sigmoid(_within_blocks(m, u, name, w, step)) for name in ("input_gate", "forget_gate"))
    log_a = forget * softplus(w("decay_rate", m.d_rnn)) * -DECAY
    first = (step.positions == 0)[:, None]  # nothing is left of what was before the first token
    kept = np.where(first, 0.0, np.exp(log_a)).astype(step.dtype)
    taken = u * into * np.where(first, 1.0, np.sqrt(np.maximum(1.0 - np.exp(log_a * 2.0), 0.0))).astype(step.dtype)
    place = w.prefix.rstrip(".")
    h = step.cache.state(place, "state", taken[:, :1] * 0.0)  # (B, 1, r)
    out = []
    for t in range(step.new):
        h = h * kept[:, t : t + 1] + taken[:, t : t + 1]
        out.append(h)
    step.cache.put(place, "state", h)
    return step.linear(np.concatenate(out, axis=1) * y, w, "out", x.shape[-1], True)


def _within_blocks(m: GatedRecurrence, u: Array, name: str, w: Weights, step: Step) -> Array:
    """A projection of each block of channels to itself: (B, T, r)."""
    width = m.d_rnn // m.n_heads
    blocks = u.reshape(*u.shape[:2], m.n_heads, 1, width)
    y: Array = step.dot(blocks, w(name, m.n_heads, width, width)).reshape(*u.shape)
    return y + w(f"{name}.bias", m.d_rnn)


FLOOR = 1e-6  # added to mLSTM's denominator


def matrix_lstm(m: MatrixLSTM, x: Array, w: Weights, step: Step) -> Array:
    """x (B, T, d) -> (B, T, d)."""
    heads = (*x.shape[:2], m.n_heads)
    q, k = (step.linear(x, w, name, m.n_heads * m.d_k).reshape(*heads, m.d_k) for name in ("q", "k"))
    v = step.linear(x, w, "v", m.n_heads * m.d_v).reshape(*heads, m.d_v)
    gate = sigmoid(step.linear(x, w, "gate", m.n_heads * m.d_v))
    i, f = (
        softcapped(step.linear(x, w, name, m.n_heads, True), m.gate_softcap)[..., None]
        for name in ("input_gate", "forget_gate")
    )
    h = _cells(q * (1 / math.sqrt(m.d_k)), k, v, i, softplus(f * -1.0) * -1.0, step, w.prefix.rstrip("."))
    h = normed(h, m.out_norm, w.at("out_norm"), m.n_heads, m.d_v).reshape(*x.shape[:2], m.n_heads * m.d_v)
    return step.linear(gate * h, w, "out", x.shape[-1])


def _cells(q: Array, k: Array, v: Array, i: Array, f: Array, step: Step, place: str) -> Array:
    """The recurrence: q, k (B, T, H, n), v (B, T, H, c), log gates i and f (B, T, H, 1) -> (B, T, H, c)."""
    batch, new, heads, n = k.shape
    zero = k[:, 0, :, :, None] * 0.0  # (B, H, n, 1)
    s = step.cache.state(place, "state", np.broadcast_to(zero, (batch, heads, n, v.shape[-1])))
    norm = step.cache.state(place, "norm", zero)
    top = step.cache.state(place, "top", zero[:, :, :1])  # (B, H, 1, 1)
    out = []
    for t in range(new):
        log_i, log_f = i[:, t, :, :, None], f[:, t, :, :, None] + top
        top = np.maximum(log_f, log_i)
        kept, key = np.exp(log_f - top), k[:, t, :, :, None] * np.exp(log_i - top)
        s = s * kept + step.dot(key, v[:, t, :, None], "state")
        norm = norm * kept + key
        query = q[:, t, :, None]  # (B, H, 1, n)
        size = np.maximum(np.absolute(step.dot(query, norm, "state")), np.exp(top * -1.0)) + FLOOR
        out.append((step.dot(query, s, "state") / size).swapaxes(1, 2))  # (B, 1, H, c)
    for name, array in (("state", s), ("norm", norm), ("top", top)):
        step.cache.put(place, name, array)
    return np.concatenate(out, axis=1)
