"""How a block enters that is denoised at once."""

from __future__ import annotations

from msgspec.structs import replace

from gptcalc.architecture import ACTIVATIONS, Canvas
from gptcalc.reference.mlp import combined
from gptcalc.reference.norms import normed
from gptcalc.reference.step import Step
from gptcalc.reference.store import Weights
from gptcalc.reference.tally import Array


def conditioned(c: Canvas, x: Array, guessed: Array, w: Weights, step: Step) -> Array:
    """The block's rows x (B, length, d), with what an MLP makes of those that the step before guessed, normed."""
    n = normed(guessed, c.norm, w.at("norm"))
    gate = step.linear(n, w, "gate", c.d_ff) if ACTIVATIONS[c.activation].gated else None
    inner = combined(c.activation, gate, step.linear(n, w, "up", c.d_ff), None, w)
    y = step.linear(inner, w, "down", x.shape[-1])
    return normed(x + y, replace(c.norm, weight=False, bias=False), w)
