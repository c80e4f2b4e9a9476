"""How a sublayer's output joins the residual stream, where more is done than added."""

from __future__ import annotations

import numpy as np

from gptcalc.architecture import AdaptiveNorm, LowRankResidual, ResidualFactors, ResidualGate, ResidualRate
from gptcalc.reference.activations import activate, sigmoid
from gptcalc.reference.norms import normed
from gptcalc.reference.step import Step
from gptcalc.reference.store import Weights
from gptcalc.reference.tally import Array


def multiplied(f: ResidualFactors, x: Array, y: Array, w: Weights) -> Array:
    """The stream x and a sublayer's output y, each moved and multiplied by what is learned, then added."""
    d = x.shape[-1]
    if f.bias:
        x, y = x + w("stream.bias", d), y + w("output.bias", d)
    if f.stream:
        x = x * w("stream", d)
    if f.output != "none":
        y = y * (w("output", d) if f.output == "channel" else np.tanh(w("output", 1)))
    return x + y


def adapted(adaptive: AdaptiveNorm, n: Array, w: Weights, step: Step) -> Array:
    """What was normed, (B, T, d), times 1 + gelu(c·A)·B of one number's cosines and sines c."""
    d = n.shape[-1]
    half = d // 2
    angle = adaptive.time / 10000.0 ** (np.arange(d - half) / half)
    one = np.concatenate([np.cos(angle[:half]), np.sin(angle)]).astype(step.dtype)
    of_time = n[:, :1] * 0.0 + one  # (B, 1, d)
    narrow = activate("gelu", step.linear(of_time, w, "adaptive_a", adaptive.rank))
    factor: Array = step.linear(narrow, w, "adaptive_b", d) + 1.0
    return n * factor


def moved(rate: ResidualRate, x: Array, y: Array, w: Weights) -> Array:
    """The stream x, gone a learned part of the way to a sublayer's output y, channel by channel."""
    share = np.abs(w("residual_rate", x.shape[-1]) * rate.scale)
    there: Array = x + share * (y - x)
    return there


def mixed(gate: ResidualGate, x: Array, y: Array, w: Weights) -> Array:
    """The stream x and a sublayer's output y, channel by channel, in shares whose squares sum to 1."""
    share = sigmoid(w("residual_gate", x.shape[-1]) * (1 / gate.temperature))
    rest: Array = np.sqrt(np.maximum((1.0 - share) * (1.0 + share), gate.eps))
    both: Array = x * rest + y * share
    return both


def low_rank(residual: LowRankResidual, n: Array, w: Weights, step: Step) -> Array:
    """What a sublayer reads (B, T, d), through a bottleneck and normed."""
    narrow = step.linear(n, w, "left", residual.rank)
    return normed(step.linear(narrow, w, "right", n.shape[-1]), residual.norm, w.at("norm"))
