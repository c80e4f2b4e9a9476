"""Short causal convolutions, channel by channel."""

from __future__ import annotations

import math

import numpy as np

from gptcalc.architecture import KeyValueConvolution
from gptcalc.reference.step import Step
from gptcalc.reference.store import Weights
from gptcalc.reference.tally import Array


def convolution(x: Array, name: str, kernel: int, w: Weights, step: Step, bias: bool = False, apart: int = 1) -> Array:
    """Each channel of x (B, T, C) over each token and kernel − 1 before it, so far apart, zeros before the first."""
    batch, new, channels = x.shape
    whole = step.cache.recent(w.prefix + name, x, (kernel - 1) * apart)  # (B, (kernel − 1) · apart + T, C)
    taps_of = range(0, kernel * apart, apart)
    near = np.concatenate([whole[:, k : k + new, :, None] for k in taps_of], axis=-1)  # (B, T, C, kernel)
    taps = w(name, kernel, channels).swapaxes(0, 1)[..., None]  # (C, kernel, 1)
    y = step.dot(near[..., None, :], taps).reshape(batch, new, channels)
    return y + w(f"{name}.bias", channels) if bias else y


def convolved(x: Array, name: str, kernel: int, w: Weights, step: Step, scaled: bool = False) -> Array:
    """x (B, T, C) plus its convolution; `scaled`: divided by the root of how many numbers that sum is of."""
    both: Array = x + convolution(x, name, kernel, w, step)
    return both * (1 / math.sqrt(kernel + 1)) if scaled else both


def convolved_by_token(
    x: Array, read: Array, n_heads: int, name: str, c: KeyValueConvolution, w: Weights, step: Step
) -> Array:
    """x (B, T, C) plus its convolution with taps of which the first is the token's own: learned for each channel, and
    one for each head that is made of what the token's layer reads (B, T, d)."""
    batch, new, channels = x.shape
    kernel = c.kernel
    whole = step.cache.recent(w.prefix + name, x, kernel - 1)
    near = np.concatenate([whole[:, kernel - 1 - k : kernel - 1 - k + new, :, None] for k in range(kernel)], axis=-1)
    near = near.reshape(batch, new, n_heads, channels // n_heads, kernel)
    made = step.linear(read, w.at(name), "taps", n_heads * kernel)
    made = made.reshape(batch, new, n_heads, 1, kernel)
    own = w.at(name)("own", kernel, channels).swapaxes(0, 1).reshape(n_heads, channels // n_heads, kernel)
    y = step.dot(near[..., None, :], (made + own)[..., None], "values").reshape(batch, new, channels)
    both: Array = x + y
    return both * (1 / math.sqrt(c.terms)) if c.scaled else both
