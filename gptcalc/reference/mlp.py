"""The dense feed-forward layer."""

from __future__ import annotations

import numpy as np

from gptcalc.architecture import ACTIVATIONS, ClampAt, Mlp, Softcaps
from gptcalc.reference.activations import activate, sigmoid, softcapped, sparsified, xielu
from gptcalc.reference.norms import factors, normed
from gptcalc.reference.step import Step
from gptcalc.reference.store import Weights
from gptcalc.reference.tally import Array


def mlp(m: Mlp, x: Array, w: Weights, step: Step, weight: Array | None = None) -> Array:
    """down(act(gate(x)) · up(x)): x (B, T, d) -> (B, T, d)."""
    gate = None
    own = step.own().at("adapter")  # what each layer has for itself
    narrow = None if m.adapter is None else step.linear(x, own, "left", m.adapter.rank)  # (B, T, rank)
    if ACTIVATIONS[m.activation].gated:
        gate = step.linear(x, w, "gate", m.d_ff, "gate" in m.bias)  # (B, T, d_ff)
        if narrow is not None:
            gate = gate + step.linear(narrow, own, "gate", m.d_ff)
        if m.gate_scale != 1.0:
            gate = gate * m.gate_scale
        if m.factors is not None:
            gate = gate * factors(m.factors, w("gate_scale", m.d_ff))
    up = step.linear(x, w, "up", m.d_ff, "up" in m.bias)  # (B, T, d_ff)
    if narrow is not None:
        up = up + step.linear(narrow, own, "up", m.d_ff)
    if m.factors is not None:
        up = up * factors(m.factors, w("up_scale", m.d_ff))
    if m.sparsity and gate is not None:
        gate = sparsified(gate, m.sparsity)
    inner = combined(m.activation, gate, up, m.clamp, w, m.clamp_at, m.softcaps)
    if m.mid_norm is not None:
        inner = normed(inner, m.mid_norm, w.at("mid_norm"))
    if weight is not None:  # one for each of several layers side by side
        inner = (inner.reshape(*weight.shape, m.d_ff // weight.shape[-1]) * weight[..., None]).reshape(*inner.shape)
    y = step.linear(inner, w, "down", x.shape[-1], "down" in m.bias)
    return y * w("out_scale", 1) if m.out_scale else y


def combined(
    name: str,
    gate: Array | None,
    up: Array,
    clamp: float | None,
    w: Weights,
    clamp_at: ClampAt = "input",
    caps: Softcaps | None = None,
) -> Array:
    """The nonlinearity of a feed-forward layer, from one projection or two, all of one shape."""
    if clamp is not None:
        gate = np.minimum(gate, clamp) if gate is not None and clamp_at == "input" else gate
        up = np.minimum(np.maximum(up, -clamp), clamp)
    function = ACTIVATIONS[name].function
    if function == "xielu":
        return xielu(up, w("alpha_p", 1), w("alpha_n", 1))
    if gate is None:
        return activate(function, up)
    if caps is not None:
        gated = softcapped(gate, caps.gate) * sigmoid(gate)
        return gated * (up if caps.up is None else softcapped(up, caps.up))
    if function == "silu_oai":
        return gate * sigmoid(gate * 1.702) * (up + 1.0)
    y = activate(function, gate)
    if clamp is not None and clamp_at == "output":
        y = np.minimum(y, clamp)
    y *= up
    return y
