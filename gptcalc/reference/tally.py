"""The one multiplication-with-sum of the whole forward pass: it multiplies, and it counts.

A product of an (m, k) and a (k, n) matrix costs 2·m·n·k FLOPs: a multiply and an add per term, once per matrix of a
stack. Nothing else in this package multiplies and sums, so what the tally holds is what the mathematics costs.
"""

from __future__ import annotations

from math import prod
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
Kind: TypeAlias = Literal["weights", "scores", "values"]


class Tally:
    """FLOPs so far, by what was multiplied: activations with weights, queries with keys, probabilities with values."""

    def __init__(self) -> None:
        self.flops: dict[Kind, int] = {"weights": 0, "scores": 0, "values": 0}

    @property
    def total(self) -> int:
        return sum(self.flops.values())

    def clear(self) -> None:
        self.flops = dict.fromkeys(self.flops, 0)

    def dot(self, a: Array, b: Array, kind: Kind = "weights") -> Array:
        """The matrix product (..., m, k) · (..., k, n) -> (..., m, n), stacks broadcast."""
        if b.ndim == 2 and a.ndim > 2:  # one product of a tall matrix instead of a stack of small ones
            return self.dot(a.reshape(-1, a.shape[-1]), b, kind).reshape(*a.shape[:-1], b.shape[-1])
        product: Array = np.matmul(a, b)
        self.flops[kind] += 2 * prod(product.shape) * a.shape[-1]
        return product
