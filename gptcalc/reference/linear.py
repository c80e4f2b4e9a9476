"""Linear attention, with the delta rule and without, and its decays.

Letters: B sequences, T new tokens, H = n_heads states, n = d_k, c = d_v.
"""

from __future__ import annotations

import math

import numpy as np

from gptcalc.architecture import Decay, LinearAttention, StateGate
from gptcalc.reference.activations import sigmoid, softplus
from gptcalc.reference.convolution import convolution
from gptcalc.reference.norms import normed, softmax
from gptcalc.reference.recurrence import Inputs, recur
from gptcalc.reference.step import Step
from gptcalc.reference.store import Weights
from gptcalc.reference.tally import Array

EPS = 1e-6  # in the length of queries and keys


def linear_attention(a: LinearAttention, x: Array, w: Weights, step: Step) -> Array:
    """What each token reads from the states: x (B, T, d) -> (B, T, d)."""
    q, v = _projected(a, x, "q", w, step), _projected(a, x, "v", w, step)
    g = None if a.decay is None else _log_decay(a, a.decay, x, w, step)
    k = 1.0 - np.exp(g) if a.k_from_decay and g is not None else _projected(a, x, "k", w, step)
    if a.qk_norm == "l2":
        q, k = _unit(q), _unit(k)
    q = q * (a.scale if a.scale is not None else 1 / math.sqrt(a.d_k))
    beta = None
    if a.delta:
        beta = sigmoid(step.linear(x, w, "beta", a.n_heads))[..., None] * a.beta_scale
    o = recur(Inputs(q, k, v, g, beta), step, w.prefix.rstrip("."), a.chunk)  # (B, T, H, c)
    return step.linear(_gated(a, o, x, w, step), w, "out", x.shape[-1], "out" in a.bias)


def _projected(a: LinearAttention, x: Array, name: str, w: Weights, step: Step) -> Array:
    """Queries, keys or values (B, T, heads, n or c), convolved and through their activation."""
    heads, width = (a.n_heads, a.d_v) if name == "v" else (a.n_k_heads, a.d_k)
    y = step.linear(x, w, name, heads * width, name in a.bias)
    if a.kernel is not None:
        y = convolution(y, f"{name}_conv", a.kernel, w, step)
    if a.activation == "silu" or (a.activation == "queries" and name == "q"):
        y = y * sigmoid(y)
    return y.reshape(*x.shape[:2], heads, width)


def _unit(x: Array) -> Array:
    """Vectors of length 1."""
    unit: Array = x / np.sqrt(np.square(x).sum(axis=-1, keepdims=True) + EPS)
    return unit


def _log_decay(a: LinearAttention, decay: Decay, x: Array, w: Weights, step: Step) -> Array:
    """g (B, T, H, 1 or n): the logarithm of what is left of a state after each token."""
    if decay.form == "fixed":
        slopes = 2.0 ** (np.arange(1, a.n_heads + 1) * (-8 / a.n_heads))
        slopes = slopes * (1 - step.layer / (step.n_layers - 1 + 1e-5) + 1e-5)
        return ((step.positions * 0.0)[None, :, None, None] - slopes[:, None]).astype(step.dtype)
    width = a.d_k if decay.over == "channel" else 1
    f = _through(decay.rank, x, "decay", a.n_heads * width, w, step)
    if a.k_from_decay and a.kernel is not None:
        f = convolution(f, "decay_conv", a.kernel, w, step)
    f = (f + w("dt_bias", a.n_heads * width) if decay.bias else f).reshape(*x.shape[:2], a.n_heads, width)
    if decay.form == "sigmoid":
        left = softplus(f * -1.0) * (-1 / decay.divisor)
        return np.log(_at_least(left, step)) if decay.bounds else left
    rate = np.exp(w("A_log", a.n_heads)).reshape(a.n_heads, 1)
    return sigmoid(f * rate) * decay.floor if decay.form == "bounded" else softplus(f) * rate * -1.0


def _at_least(g: Array, step: Step) -> Array:
    """What is left of a state (B, T, H, n), given its logarithm: no less than the layers before and this one say."""
    heads, width = g.shape[2:]
    least = least_left(step, heads * width).reshape(heads, width)
    left: Array = np.exp(g) * (1.0 - least) + least
    return left


def least_left(step: Step, channels: int) -> Array:
    """The bound of each channel's decay in this layer, 0 in the first."""
    table = step.weights.at("decay")("bounds", step.n_layers, channels).swapaxes(0, 1) * 1.0
    least: Array = softmax(table)[:, 1 : step.layer + 1].sum(axis=-1)
    return least


def _through(rank: int | None, x: Array, name: str, n: int, w: Weights, step: Step, bias: bool = False) -> Array:
    """A projection to n channels, through a bottleneck where there is one."""
    if rank is None:
        return step.linear(x, w, name, n, bias)
    return step.linear(step.linear(x, w, f"{name}_a", rank), w, f"{name}_b", n, bias)


def _gated(a: LinearAttention, o: Array, x: Array, w: Weights, step: Step) -> Array:
    """The heads' outputs side by side (B, T, H · c), normed and gated."""
    batch, new, heads, c = o.shape
    if a.out_norm is not None and a.out_norm.over == "head":
        o = normed(o, a.out_norm, w.at("out_norm"))
    o = o.reshape(batch, new, heads * c)
    if a.out_norm is not None and a.out_norm.over == "full":
        o = normed(o, a.out_norm, w.at("out_norm"))
    return o if a.gate is None else o * _gate(a.gate, _through(a.gate.rank, x, "gate", heads * c, w, step, a.gate.bias))


def _gate(gate: StateGate, z: Array) -> Array:
    return z * sigmoid(z) if gate.function == "silu" else sigmoid(z)
