"""RWKV-7's recurrence, a generalised delta rule (Peng et al. 2025): token by token, or in chunks.

Letters: B sequences, T new tokens, H heads, n channels of a key, c channels of a value, C tokens of a chunk.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gptcalc.reference.recurrence import by_chunk, decayed, inverted, one_behind_the_other, products, sums_so_far
from gptcalc.reference.step import Step
from gptcalc.reference.tally import Array


class Past(NamedTuple):
    """What each token reads and writes, (B, T, H, n or c): r, k and v; g, the logarithm of what is left of the state;
    the unit vector that the state is read by, and what of this reading is taken away, channel by channel."""

    r: Array
    k: Array
    v: Array
    g: Array
    unit: Array
    taken: Array

    def part(self, first: int, end: int) -> Past:
        """Some of the tokens."""
        return Past(*(x[:, first:end] for x in self))

    def in_chunks(self, size: int) -> Past:
        """By chunk, heads in front of the chunk's tokens: (B, T/C, H, C, …)."""
        return Past(*(by_chunk(x, size) for x in self))


def recur_generalised(x: Past, step: Step, place: str, own_chunk: int) -> Array:
    """S ← e^g·S − taken ⊗ Sᵀunit + k ⊗ v and o = Sᵀr: o (B, T, H, c)."""
    batch, new, heads, c = x.v.shape
    start = np.broadcast_to(x.k[:, 0, :, :, None] * 0.0, (batch, heads, x.k.shape[-1], c))
    s = step.cache.state(place, "state", start)  # (B, H, n, c)

    def some(first: int, end: int, size: int | None, s: Array) -> tuple[Array, Array]:
        part = x.part(first, end)
        return _token_by_token(part, s, step) if size is None else _chunk_by_chunk(part, s, size, step)

    o, s = one_behind_the_other(some, s, new, step, own_chunk)
    step.cache.put(place, "state", s)
    return o


def _token_by_token(x: Past, s: Array, step: Step) -> tuple[Array, Array]:
    """o, and the last state."""
    kept, out = np.exp(x.g), []
    for t in range(x.v.shape[1]):
        held = step.dot(x.unit[:, t, :, None], s, "state")  # (B, H, 1, c)
        s = s * kept[:, t, :, :, None] + step.dot(x.k[:, t, :, :, None], x.v[:, t, :, None], "state")
        s = s - step.dot(x.taken[:, t, :, :, None], held, "state")
        out.append(step.dot(x.r[:, t, :, None], s, "state").swapaxes(1, 2))  # (B, 1, H, c)
    return np.concatenate(out, axis=1), s


def _chunk_by_chunk(x: Past, s: Array, size: int, step: Step) -> tuple[Array, Array]:
    """The same of whole chunks of `size` tokens. What is read of the state, h, solves (1 + A)·h = rest, where A are the
    products of units with what was taken away between."""
    batch, new, heads, c = x.v.shape
    x = x.in_chunks(size)
    so_far = sums_so_far(x.g)  # the logarithm of the decay since the chunk began
    before = so_far - x.g  # without the token's own
    of_keys = products(x.r, x.k, so_far, so_far, heads, step, strict=False)
    of_taken = products(x.r, x.taken, so_far, so_far, heads, step, strict=False)
    inverse = inverted(products(x.unit, x.taken, before, so_far, heads, step, strict=True), step)
    solved = step.dot(inverse, products(x.unit, x.k, before, so_far, heads, step, strict=True), "state")
    within = step.dot(solved, x.v, "state")  # (B, T/C, H, C, c)
    reading = step.dot(inverse, decayed(x.unit, before), "state")  # (B, T/C, H, C, n)
    read, left = decayed(x.r, so_far), np.exp(so_far[..., size - 1 :, :] - so_far)
    keys, taken = x.k * left, x.taken * left
    held, out = [], []
    for at in range(new // size):
        h = within[:, at] + step.dot(reading[:, at], s, "state")
        held.append(h[:, None])
        out.append(step.dot(read[:, at], s, "state")[:, None])
        s = s * np.exp(so_far[:, at, :, size - 1, :, None])
        s = s + step.dot(keys[:, at].swapaxes(-1, -2), x.v[:, at], "state")
        s = s - step.dot(taken[:, at].swapaxes(-1, -2), h, "state")
    o = np.concatenate(out, axis=1) + step.dot(of_keys, x.v, "state")
    o = o - step.dot(of_taken, np.concatenate(held, axis=1), "state")
    return o.swapaxes(2, 3).reshape(batch, new, heads, c), s
