"""Short causal convolutions, channel by channel."""

from __future__ import annotations

import numpy as np

from gptcalc.reference.step import Step
from gptcalc.reference.store import Weights
from gptcalc.reference.tally import Array


def convolution(x: Array, name: str, kernel: int, w: Weights, step: Step, bias: bool = False) -> Array:
    """Each channel of x (B, T, C) over each token and the kernel − 1 before it, zeros before the first."""
    batch, new, channels = x.shape
    whole = step.cache.recent(w.prefix + name, x, kernel - 1)  # (B, kernel − 1 + T, C)
    near = np.concatenate([whole[:, k : k + new, :, None] for k in range(kernel)], axis=-1)  # (B, T, C, kernel)
    taps = w(name, kernel, channels).swapaxes(0, 1)[..., None]  # (C, kernel, 1)
    y = step.dot(near[..., None, :], taps).reshape(batch, new, channels)
    return y + w(f"{name}.bias", channels) if bias else y


def convolved(x: Array, name: str, kernel: int, w: Weights, step: Step) -> Array:
    """x (B, T, C) plus its convolution."""
    return x + convolution(x, name, kernel, w, step)
