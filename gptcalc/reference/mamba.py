"""Selective state spaces: Mamba and Mamba-2.

Letters: B sequences, T new tokens, m = d_inner channels, H heads, N = d_state.
"""

from __future__ import annotations

import numpy as np

from gptcalc.architecture import Mamba, Mamba2
from gptcalc.reference.activations import sigmoid, softplus
from gptcalc.reference.convolution import convolution
from gptcalc.reference.norms import normed
from gptcalc.reference.recurrence import Inputs, recur
from gptcalc.reference.scan import scanned, stretches
from gptcalc.reference.step import Step
from gptcalc.reference.store import Weights
from gptcalc.reference.tally import Array


def mamba2(m: Mamba2, x: Array, w: Weights, step: Step) -> Array:
    """x (B, T, d) -> (B, T, d)."""
    heads = (*x.shape[:2], m.n_heads)
    z = _scaled(step.linear(x, w, "z", m.d_inner, "in" in m.bias), m.scales[0])  # (B, T, m)
    u = _inner(m, "x", m.d_inner, m.scales[1], x, w, step).reshape(*heads, m.d_head)
    b, c = (
        _inner(m, name, m.d_shared, scale, x, w, step).reshape(*x.shape[:2], m.n_groups, m.d_state)
        for name, scale in (("B", m.scales[2]), ("C", m.scales[3]))
    )
    dt = _scaled(step.linear(x, w, "dt", m.n_heads, "in" in m.bias), m.scales[4])
    dt = np.maximum(softplus(dt + w("dt_bias", m.n_heads)), m.dt_min)
    if m.dt_max is not None:
        dt = np.minimum(dt, m.dt_max)
    dt = dt[..., None]  # (B, T, H, 1)
    rate = np.exp(w("A_log", m.n_heads)).reshape(m.n_heads, 1)
    y = recur(Inputs(c, b, u * dt, dt * rate * -1.0, None), step, w.prefix.rstrip("."), m.chunk)
    y = (y + u * w("D", m.n_heads).reshape(m.n_heads, 1)).reshape(*x.shape[:2], m.d_inner)
    return step.linear(_gated(m, y, z * sigmoid(z), w), w, "out", x.shape[-1], "out" in m.bias)


def _scaled(x: Array, factor: float) -> Array:
    return x if factor == 1.0 else x * factor


def _inner(m: Mamba2, name: str, width: int, scale: float, x: Array, w: Weights, step: Step) -> Array:
    """x, B or C (B, T, width): projected, convolved, through SiLU."""
    y = _scaled(step.linear(x, w, name, width, "in" in m.bias), scale)
    y = convolution(y, f"{name}_conv", m.kernel, w, step, "conv" in m.bias)
    return y * sigmoid(y)


def _gated(m: Mamba2, y: Array, gate: Array, w: Weights) -> Array:
    """The output (B, T, m), gated and normed group by group, one before the other."""
    if m.out_norm is None:
        return y * gate
    groups = (m.n_groups, m.d_inner // m.n_groups)
    if m.gate_first:
        y = y * gate
    y = normed(y.reshape(*y.shape[:2], *groups), m.out_norm, w.at("out_norm"), *groups).reshape(*y.shape)
    return y if m.gate_first else y * gate


def mamba(m: Mamba, x: Array, w: Weights, step: Step) -> Array:
    """x (B, T, d) -> (B, T, d)."""
    batch, new, d = x.shape
    z = step.linear(x, w, "z", m.d_inner, "in" in m.bias)  # (B, T, m)
    u = convolution(
        step.linear(x, w, "x", m.d_inner, "in" in m.bias), "inner_conv", m.kernel, w, step, "conv" in m.bias
    )
    u = u * sigmoid(u)
    heads = (batch, new, m.n_heads, m.d_inner // m.n_heads)
    by_head = u.reshape(*heads)[..., None, :]  # (B, T, H, 1, m/H)
    low, b, c = (
        _normed(m, step.dot(by_head, w(name, m.n_heads, heads[-1], width)).reshape(*heads[:3], width), name, w)
        for name, width in (("dt_a", m.dt_rank), ("B", m.d_state), ("C", m.d_state))
    )
    dt = step.dot(low[..., None, :], w("dt_b", m.n_heads, m.dt_rank, heads[-1])).reshape(batch, new, m.d_inner)
    dt = softplus(dt + w("dt_b.bias", m.d_inner))
    rate = np.exp(w("A_log", m.d_inner, m.d_state))  # (m, N)
    y = _scan(m, u, dt, b, c, rate, step, w.prefix.rstrip(".")) + u * w("D", m.d_inner)
    return step.linear(y * (z * sigmoid(z)), w, "out", d, "out" in m.bias)


def _normed(m: Mamba, x: Array, name: str, w: Weights) -> Array:
    return x if m.inner_norm is None else normed(x, m.inner_norm, w.at(f"{name}_norm"))


def _scan(m: Mamba, u: Array, dt: Array, b: Array, c: Array, rate: Array, step: Step, place: str) -> Array:
    """h ← e^{−Δ·rate} ⊙ h + Δ·u·B and y = h·C: (B, T, m)."""
    batch, new, inner = u.shape
    heads = (m.n_heads, inner // m.n_heads)
    start = np.broadcast_to(u[:, 0, :, None] * 0.0, (batch, inner, m.d_state)).reshape(batch, *heads, m.d_state)
    h = step.cache.state(place, "state", start)  # (B, H, m/H, N)
    rate = rate.reshape(*heads, m.d_state)
    out = []
    for first, end, size in stretches(new, step):
        delta, value = (x[:, first:end].reshape(batch, end - first, *heads)[..., None] for x in (dt, u))
        taken = step.dot(delta * value, b[:, first:end, :, None], "state")  # (B, T, H, m/H, N)
        states = scanned(np.exp(delta * rate * -1.0), taken, h, size)
        h = states[:, -1]
        out.append(step.dot(states, c[:, first:end, :, :, None], "state").reshape(batch, end - first, inner))
    step.cache.put(place, "state", h)
    return np.concatenate(out, axis=1)
