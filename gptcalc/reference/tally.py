"""The one multiplication-with-sum of the whole forward pass: it multiplies, and it counts.

A product of an (m, k) and a (k, n) matrix costs 2·m·n·k FLOPs: a multiply and an add per term, once per matrix of a
stack. Nothing else in this package multiplies and sums, so what the tally holds is what the mathematics costs.
"""

from __future__ import annotations

from math import prod
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
Kind: TypeAlias = Literal["weights", "scores", "values", "state"]


#: bytes of a large matrix: memory of a larger one is taken from the system each time, and given back
LARGE = 2**25


class Event(NamedTuple):
    """One product or sum on the way: what met what, and what came out."""

    place: str  # layers.3.attn.q, layers.3.attn scores, …
    sign: Literal["·", "+"]
    left: tuple[int, ...]
    right: tuple[int, ...]
    result: tuple[int, ...]
    flops: int
    bytes: int  # of the result


class Tally:
    """FLOPs so far, by what was multiplied: activations with weights, queries with keys, probabilities with values,
    recurrent states with what is written to them and what reads them."""

    def __init__(self) -> None:
        self.flops: dict[Kind, int] = {"weights": 0, "scores": 0, "values": 0, "state": 0}
        self.chunks: set[int] = set()  # tokens of a chunk, where recurrent states were computed in chunks
        self.events: list[Event] | None = None  # filled, where asked for, with every product and every residual sum
        self.values: list[tuple[str, Array]] | None = None  # filled, where asked for, with what attention computes
        self.products: list[tuple[str, Array]] | None = None  # filled, where asked for, with what every product is

    @property
    def total(self) -> int:
        return sum(self.flops.values())

    @property
    def watched(self) -> bool:
        """Whether somebody wants to see what is computed on the way."""
        return any(record is not None for record in (self.events, self.values, self.products))

    def clear(self) -> None:
        self.flops = dict.fromkeys(self.flops, 0)

    def dot(self, a: Array, b: Array, kind: Kind = "weights", place: str = "") -> Array:
        """The matrix product (..., m, k) · (..., k, n) -> (..., m, n), stacks broadcast."""
        if b.ndim == 2 and a.ndim > 2:  # one product of a tall matrix instead of a stack of small ones
            return self.dot(a.reshape(-1, a.shape[-1]), b, kind, place).reshape(*a.shape[:-1], b.shape[-1])
        product = multiplied(a, b)
        flops = 2 * prod(product.shape) * a.shape[-1]
        self.flops[kind] += flops
        if self.products is not None:
            self.products.append((place or kind, np.array(product)))  # a copy: what comes of it may be changed in place
        if self.events is not None:
            size = prod(product.shape) * product.dtype.itemsize
            self.events.append(Event(place or kind, "·", a.shape, b.shape, product.shape, flops, size))
        return product

    def skipped(self, kind: Kind, terms: int) -> None:
        """Counts products of pairs that a mask forbids and nobody computed, so that all pairs are counted, however many
        queries are computed together."""
        self.flops[kind] += 2 * terms

    def noted(self, place: str, array: Array) -> None:
        """Keeps a copy of what was computed on the way, where that is asked for."""
        if self.values is not None:
            self.values.append((place, np.array(array)))

    def added(self, place: str, a: Array, b: Array) -> None:
        """Takes note of a residual sum."""
        if self.events is not None:
            self.events.append(Event(place, "+", a.shape, b.shape, a.shape, 0, prod(a.shape) * a.dtype.itemsize))


def multiplied(a: Array, b: Array) -> Array:
    """a · b. Where b is a large matrix that lies transposed, as (bᵀ · aᵀ)ᵀ, so that it need not be turned."""
    plain = isinstance(b, np.ndarray) and a.ndim == b.ndim == 2
    turned = plain and b.nbytes > LARGE and b.strides[0] < b.strides[1]
    if turned:
        a, b = b.T, a.T
    large = plain and a.shape[0] * b.shape[1] * a.itemsize > LARGE
    product: Array = np.matmul(a, b, out=room(a, b) if large else None)
    return product.T if turned else product


def room(a: Array, b: Array) -> Array:
    """Where the product of two large matrices goes, such as the logits of many tokens: memory in ordinary pages. NumPy
    asks for huge ones, for which a virtual machine may wait longer than for the product."""
    shape, dtype = (a.shape[0], b.shape[1]), np.result_type(a, b)
    return np.frombuffer(bytearray(prod(shape) * dtype.itemsize), dtype).reshape(shape)
