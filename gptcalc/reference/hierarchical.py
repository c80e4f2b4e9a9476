"""HGRN's recurrence (arXiv:2311.04823), channel by channel.

Letters: B sequences, T new tokens, r = d_rnn channels.
"""

from __future__ import annotations

import numpy as np

from gptcalc.architecture import HierarchicalRecurrence
from gptcalc.reference.activations import sigmoid
from gptcalc.reference.convolution import convolution
from gptcalc.reference.linear import least_left
from gptcalc.reference.norms import normed
from gptcalc.reference.scan import scanned, stretches
from gptcalc.reference.step import Step
from gptcalc.reference.store import Weights
from gptcalc.reference.tally import Array


def hierarchical_recurrence(m: HierarchicalRecurrence, x: Array, w: Weights, step: Step) -> Array:
    """x (B, T, d) -> (B, T, d)."""
    v, f = (_projected(m, x, name, w, step) for name in ("v", "decay"))  # (B, T, r)
    kept = sigmoid(f)
    if m.bounds:
        least = least_left(step, m.d_rnn)
        kept = least + (1.0 - least) * kept
    taken = v * sigmoid(v) * (1.0 - kept)
    place = w.prefix.rstrip(".")
    h = step.cache.state(place, "state", taken[:, :1] * 0.0)  # (B, 1, r)
    out = []
    for begin, end, size in stretches(step.new, step):
        out.append(scanned(kept[:, begin:end], taken[:, begin:end], h[:, 0], size))
        h = out[-1][:, -1:]
    step.cache.put(place, "state", h)
    o = np.concatenate(out, axis=1)
    if m.out_norm is not None:
        o = normed(o, m.out_norm, w.at("out_norm"))
    gate = step.linear(x, w, "gate", m.d_rnn)
    return step.linear(o * gate * sigmoid(gate), w, "out", x.shape[-1])


def _projected(m: HierarchicalRecurrence, x: Array, name: str, w: Weights, step: Step) -> Array:
    """Values or decays before their function (B, T, r), convolved."""
    y = step.linear(x, w, name, m.d_rnn)
    return y if m.kernel is None else convolution(y, f"{name}_conv", m.kernel, w, step)
