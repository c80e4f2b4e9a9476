"""Other mixers whose memory of the past does not grow: short convolutions, Griffin's recurrence, mLSTM.

Letters: B sequences, T new tokens, r = d_rnn channels.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from gptcalc.architecture import GatedRecurrence, MatrixLSTM, ShortConvolution
from gptcalc.reference.activations import activate, sigmoid, softcapped, softplus
from gptcalc.reference.convolution import convolution
from gptcalc.reference.norms import normed
from gptcalc.reference.recurrence import by_chunk, one_behind_the_other, sums_so_far
from gptcalc.reference.scan import scanned, stretches
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
    y = activate(m.activation, step.linear(x, w, "y", m.d_rnn, True))
    u = convolution(step.linear(x, w, "x", m.d_rnn, True), "inner_conv", m.kernel, w, step, True)  # (B, T, r)
    into, forget = (sigmoid(_within_blocks(m, u, name, w, step)) for name in ("input_gate", "forget_gate"))
    log_a = forget * softplus(w("decay_rate", m.d_rnn)) * -DECAY
    first = (step.positions == 0)[:, None]  # nothing is left of what was before the first token
    kept = np.where(first, 0.0, np.exp(log_a)).astype(step.dtype)
    taken = u * into * np.where(first, 1.0, np.sqrt(np.maximum(1.0 - np.exp(log_a * 2.0), 0.0))).astype(step.dtype)
    place = w.prefix.rstrip(".")
    h = step.cache.state(place, "state", taken[:, :1] * 0.0)  # (B, 1, r)
    out = []
    for begin, end, size in stretches(step.new, step):
        out.append(scanned(kept[:, begin:end], taken[:, begin:end], h[:, 0], size))
        h = out[-1][:, -1:]
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
    cells = Cells(q * (1 / math.sqrt(m.d_k)), k, v, i, softplus(f * -1.0) * -1.0)
    h = _memory(cells, step, w.prefix.rstrip("."), m.chunk)
    h = normed(h, m.out_norm, w.at("out_norm"), m.n_heads, m.d_v).reshape(*x.shape[:2], m.n_heads * m.d_v)
    return step.linear(gate * h, w, "out", x.shape[-1])


class Cells(NamedTuple):
    """What each token reads and writes: q, k (B, T, H, n), v (B, T, H, c), log gates i and f (B, T, H, 1)."""

    q: Array
    k: Array
    v: Array
    i: Array
    f: Array


class Memory(NamedTuple):
    """What is kept: a matrix (B, H, n, c) and the sum of its keys (B, H, n, 1), in units of e^top (B, H, 1, 1)."""

    state: Array
    norm: Array
    top: Array


def _memory(x: Cells, step: Step, place: str, own_chunk: int) -> Array:
    """The recurrence: (B, T, H, c)."""
    batch, new, heads, n = x.k.shape
    zero = x.k[:, 0, :, :, None] * 0.0  # (B, H, n, 1)
    starts = (np.broadcast_to(zero, (batch, heads, n, x.v.shape[-1])), zero, zero[:, :, :1])
    memory = Memory(*(step.cache.state(place, name, start) for name, start in zip(Memory._fields, starts, strict=True)))

    def some(first: int, end: int, size: int | None, memory: Memory) -> tuple[Array, Memory]:
        part = Cells(*(each[:, first:end] for each in x))
        return _token_by_token(part, memory, step) if size is None else _chunk_by_chunk(part, memory, size, step)

    h, memory = one_behind_the_other(some, memory, new, step, own_chunk)
    for name, array in zip(Memory._fields, memory, strict=True):
        step.cache.put(place, name, array)
    return h


def _token_by_token(x: Cells, memory: Memory, step: Step) -> tuple[Array, Memory]:
    """h, and what is kept behind the last token."""
    (s, norm, top), out = memory, []
    for t in range(x.k.shape[1]):
        log_i, log_f = x.i[:, t, :, :, None], x.f[:, t, :, :, None] + top
        top = np.maximum(log_f, log_i)
        kept, key = np.exp(log_f - top), x.k[:, t, :, :, None] * np.exp(log_i - top)
        s = s * kept + step.dot(key, x.v[:, t, :, None], "state")
        norm = norm * kept + key
        query = x.q[:, t, :, None]  # (B, H, 1, n)
        size = np.maximum(np.absolute(step.dot(query, norm, "state")), np.exp(top * -1.0)) + FLOOR
        out.append((step.dot(query, s, "state") / size).swapaxes(1, 2))  # (B, 1, H, c)
    return np.concatenate(out, axis=1), Memory(s, norm, top)


def _chunk_by_chunk(x: Cells, memory: Memory, size: int, step: Step) -> tuple[Array, Memory]:
    """The same of whole chunks of `size` tokens (arXiv:2503.14376, §3)."""
    batch, new, heads, c = x.v.shape
    x = Cells(*(by_chunk(each, size) for each in x))  # (B, T/C, H, C, …)
    so_far = sums_so_far(x.f)  # the logarithm of what is left since the chunk began: (B, T/C, H, C, 1)
    t, s = np.arange(0, size, like=x.k)[:, None], np.arange(0, size, like=x.k)[None]
    exponents = np.where(s <= t, so_far + (x.i - so_far).swapaxes(-1, -2), -np.inf)  # (B, T/C, H, C, C)
    largest = exponents.max(axis=-1, keepdims=True)
    scores = step.dot(x.q, x.k.swapaxes(-1, -2), "state")
    (state, norm, top), out = memory, []
    for at in range(new // size):
        own, past, end = largest[:, at], so_far[:, at] + top, so_far[:, at, :, size - 1 :]
        unit = np.maximum(own, past)  # (B, H, C, 1)
        weights = (scores[:, at] * np.exp(exponents[:, at] - unit)).astype(step.dtype)
        query = (x.q[:, at] * np.exp(past - unit)).astype(step.dtype)
        total = step.dot(query, norm, "state") + weights.sum(axis=-1, keepdims=True)
        read = step.dot(query, state, "state") + step.dot(weights, x.v[:, at], "state")
        h = read / (np.maximum(np.absolute(total), np.exp(unit * -1.0)) + FLOOR)
        out.append(h[:, None].astype(step.dtype))
        kept, top = end + top, np.maximum(end + top, own[:, :, size - 1 :])
        keys = (x.k[:, at] * np.exp(end - so_far[:, at] + x.i[:, at] - top)).astype(step.dtype).swapaxes(-1, -2)
        left = np.exp(kept - top).astype(step.dtype)
        state = state * left + step.dot(keys, x.v[:, at], "state")
        norm = norm * left + keys.sum(axis=-1, keepdims=True)
    return np.concatenate(out, axis=1).swapaxes(2, 3).reshape(batch, new, heads, c), Memory(state, norm, top)
