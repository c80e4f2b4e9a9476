"""What a pass of a loop hears of the last one.

Letters: B sequences, T tokens, d channels.
"""

from __future__ import annotations

import numpy as np

from gptcalc.architecture import Attention, AttentionResiduals, Looped, Messages, Mixer
from gptcalc.reference.norms import normed
from gptcalc.reference.residuals import mixture_of
from gptcalc.reference.step import Step
from gptcalc.reference.store import Weights
from gptcalc.reference.tally import Array

#: of attention: whose inputs are mixed with a message each
INPUTS = ("q", "k", "v")


def begin(loop: Looped, x: Array, w: Weights, step: Step) -> Array:
    """The stream (B, T, d) with which a pass begins."""
    if loop.entry == "on":
        return x
    if loop.entry == "both":
        assert loop.entry_norm is not None
        x = normed(x, loop.entry_norm, w.at("norm"))
        if step.number_of_pass == 0:
            step.loop_entry = x, []
        again: Array = x + step.loop_entry[0]
        return again
    if loop.entry in ("fast", "slow"):
        if loop.entry == "fast" and step.number_of_pass == 0:
            step.states = {"slow": x, "fast": w("start", x.shape[-1])}
        both: Array = step.states["slow"] + step.states["fast"]
        return both
    if step.number_of_pass == 0:
        step.loop_entry = x, list(step.sums_aside)
        return x
    step.heard = [*step.sums_aside[loop.aside :], x]
    x, aside = step.loop_entry
    step.sums_aside = list(aside)
    return x


def end(loop: Looped, x: Array, w: Weights, step: Step) -> Array:
    """What leaves a pass."""
    if loop.norm is not None:
        x = normed(x, loop.norm, w.at("norm"))
    step.states[loop.entry] = x
    return x


def hear(spec: Messages, mixer: Mixer, residuals: AttentionResiduals, read: Array, w: Weights, step: Step) -> Array:
    """A sublayer's input (B, T, d), or its three (B, T, 3, d): in later passes mixed with messages."""
    names = INPUTS if isinstance(mixer, Attention) else ("",)
    inputs = [read[:, :, n] if read.ndim == 4 else read for n in range(len(names))]
    if step.number_of_pass > 0:
        own = [w.at(name) if name else w for name in names]
        messages = [mixture_of(residuals, step.heard, each, step) for each in own]
        inputs = [_gated(spec, *both, step) for both in zip(inputs, messages, own, strict=True)]
    return inputs[0] if len(inputs) == 1 else np.concatenate([x[:, :, None] for x in inputs], axis=2)


def _gated(spec: Messages, x: Array, message: Array, w: Weights, step: Step) -> Array:
    """What is left of an input, and what is heard of a message."""
    d = x.shape[-1]
    both = np.concatenate([normed(x, spec.norm, w.at("norm")), normed(message, spec.norm, w.at("norm"))], axis=-1)
    inner = step.linear(both, w, "down", spec.rank)
    forget, gain = np.tanh(step.linear(inner, w, "forget", d)), np.tanh(step.linear(inner, w, "gain", d))
    mixed: Array = x * (1.0 - forget) + message * gain
    return mixed
