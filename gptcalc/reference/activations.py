"""The nonlinearities of feed-forward layers, elementwise."""

from __future__ import annotations

import math
from functools import cache
from statistics import NormalDist
from typing import Any

import numpy as np

from gptcalc.reference.pieces import by_rows
from gptcalc.reference.tally import Array

XIELU_BETA = 0.5
XIELU_EPS = -1e-6


def sigmoid(x: Array) -> Array:
    """1 / (1 + e^−x), written so that nothing overflows."""
    y: Array = np.tanh(x * 0.5)
    y *= 0.5
    y += 0.5
    return y


def softplus(x: Array) -> Array:
    y: Array = np.logaddexp(x, 0.0)
    return y


def softcapped(x: Array, cap: float | None) -> Array:
    """cap · tanh(x / cap): almost x where small, never beyond ±cap."""
    if cap is None:
        return x
    y: Array = np.tanh(x / cap)
    y *= cap
    return y


def activate(function: str, x: Array) -> Array:
    """One of the functions that need neither a gate nor weights."""
    return by_rows(lambda rows: _activated(function, rows), x)


def _activated(function: str, x: Array) -> Array:
    match function:
        case "relu":
            return np.maximum(x, 0.0)
        case "relu2":
            return np.square(np.maximum(x, 0.0))
        case "gelu":
            return x * (erf(x * math.sqrt(0.5)) + 1.0) * 0.5
        case "gelu_tanh":
            return gelu_tanh(x)
        case "silu":
            return x * sigmoid(x)
        case "tanh":
            return np.tanh(x)
        case _:
            raise ValueError(f"no activation {function!r}")


def gelu_tanh(x: Array) -> Array:
    """x/2 · (1 + tanh(√(2/π) · (x + 0.044715 x³)))."""
    y: Array = x * x
    y *= 0.044715 * math.sqrt(2 / math.pi)
    y += math.sqrt(2 / math.pi)
    y *= x
    np.tanh(y, out=y)
    y += 1.0
    y *= x
    y *= 0.5
    return y


def xielu(x: Array, alpha_p: Array, alpha_n: Array) -> Array:
    """αₚx² + βx above zero, αₙ(eˣ − 1 − x) + βx below (arXiv:2411.13010); the α through a softplus."""
    above = softplus(alpha_p) * np.square(x)
    below = (np.expm1(np.minimum(x, XIELU_EPS)) - x) * (softplus(alpha_n) + XIELU_BETA)
    y: Array = np.where(x > 0, above, below)
    y += x * XIELU_BETA
    return y


def sparsified(x: Array, sparsity: float) -> Array:
    """x − cutoff where positive, else 0: the cutoff leaves a share 1 − sparsity of a normal distribution."""
    mean = x.mean(axis=-1, keepdims=True)
    deviation = np.sqrt(np.square(x - mean).mean(axis=-1, keepdims=True))
    y: Array = np.maximum(x - (mean + deviation * NormalDist().inv_cdf(sparsity)), 0.0)
    return y


STEPS_PER_UNIT, BOUND = 512, 6  # erf(6) is 1 to the last bit of float64


@cache
def _erf_table(dtype: Any) -> tuple[Array, Array]:
    """erf and its derivative at multiples of 1/STEPS_PER_UNIT in ±BOUND."""
    grid = [n / STEPS_PER_UNIT for n in range(-BOUND * STEPS_PER_UNIT, BOUND * STEPS_PER_UNIT + 1)]
    slopes = [2 / math.sqrt(math.pi) * math.exp(-x * x) for x in grid]
    return np.array([math.erf(x) for x in grid], dtype), np.array(slopes, dtype)


def erf(x: Array) -> Array:
    """The error function, which NumPy lacks: a third-order Taylor step from the nearest point of a table."""
    values, slopes = _erf_table(x.dtype)
    x = np.minimum(np.maximum(x, -float(BOUND)), float(BOUND))
    nearest = np.rint(x * STEPS_PER_UNIT)
    index = nearest.astype(np.int32).reshape(-1) + BOUND * STEPS_PER_UNIT
    at = nearest * (1 / STEPS_PER_UNIT)
    step = x - at
    series = step * (1.0 - at * step + (2.0 * np.square(at) - 1.0) * np.square(step) * (1 / 3))
    value, slope = (np.take_along_axis(table, index, axis=0).reshape(*x.shape) for table in (values, slopes))
    y: Array = value + slope * series
    return y
