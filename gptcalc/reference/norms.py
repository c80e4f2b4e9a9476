"""Normalisations over the last axis, and the softmax."""

from __future__ import annotations

from typing import assert_never

import numpy as np

from gptcalc.architecture import Factors, Norm
from gptcalc.reference.pieces import by_rows
from gptcalc.reference.store import Weights
from gptcalc.reference.tally import Array


def normed(x: Array, spec: Norm, w: Weights, *shape: int) -> Array:
    """x scaled to unit size over its last axis, times a learned weight of `shape` (default: that axis alone)."""
    shape = shape or x.shape[-1:]
    factor = None
    if spec.weight:
        weight = w("weight", *shape)
        factor = weight + 1.0 if spec.offset else weight
    bias = w("bias", *shape) if spec.bias else None
    return by_rows(lambda rows: _normed(rows, spec, factor, bias), x, len(shape))


def _normed(x: Array, spec: Norm, factor: Array | None, bias: Array | None) -> Array:
    if factor is not None and spec.weight_at == "input":
        x = x * factor
    match spec.kind:
        case "layernorm":
            x = x - x.mean(axis=-1, keepdims=True)
        case "rmsnorm" | "l2norm":
            pass
        case _:
            assert_never(spec.kind)
    square = np.square(x)
    size = square.sum(axis=-1, keepdims=True) if spec.kind == "l2norm" else square.mean(axis=-1, keepdims=True)
    y: Array = np.divide(x, np.sqrt(size + spec.eps), out=square)
    if factor is not None and spec.weight_at == "output":
        y *= factor
    if bias is not None:
        y += bias
    return y


def factors(spec: Factors, stored: Array) -> Array:
    """Learned factors, of what is stored of them."""
    found: Array = stored * spec.scale
    return np.square(found) if spec.squared else found


def softmax(x: Array, extra: Array | None = None) -> Array:
    """exp(x) / Σ exp(x) over the last axis, in place; `extra` is one more logit that takes its share and is dropped."""
    x, total = exponentials(x, extra)
    x /= total
    return x


def exponentials(x: Array, extra: Array | None = None) -> tuple[Array, Array]:
    """What the softmax divides, exp(x) in place, and by what, its sum (…, 1): of both the same factor is left out."""
    top = x.max(axis=-1, keepdims=True)
    if extra is not None:
        top = np.maximum(top, extra)
    x -= top  # so that no exponential overflows
    np.exp(x, out=x)
    total = x.sum(axis=-1, keepdims=True)
    if extra is not None:
        total = total + np.exp(extra - top)
    return x, total
