"""Recurrences channel by channel, of which no product of matrices can be made: h ← kept ⊙ h + taken.

They run token by token, or as a scan: blocks of tokens side by side, each from nothing, then from block to block.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gptcalc.reference.recurrence import chunks_of
from gptcalc.reference.step import LONG, Step
from gptcalc.reference.tally import Array

BLOCK = 16  # tokens of a block
STEPS_OF_A_SCAN = BLOCK + LONG // BLOCK  # one behind the other, for LONG tokens


def stretches(new: int, step: Step) -> Iterator[tuple[int, int, int]]:
    """From which token to which all states are held at once, and how many tokens a block has; one by one otherwise."""
    block = step.chunk(BLOCK)
    for first in range(0, new, 1 if block is None else LONG):
        end = min(first + (1 if block is None else LONG), new)
        yield from ((first + a, first + b, size) for a, b, size in chunks_of(end - first, block or 1))


def side_by_side(x: Array, size: int) -> Array:
    """(B, T, …) -> (B, T/C, C, …)."""
    return x.reshape(x.shape[0], x.shape[1] // size, size, *x.shape[2:])


def scanned(kept: Array, taken: Array, start: Array, size: int) -> Array:
    """h behind each token, (B, T, …), from a state (B, …) on: in blocks of `size` tokens."""
    kept, taken = side_by_side(kept, size), side_by_side(taken, size)
    h, left = taken[:, :, 0], kept[:, :, 0]  # of a block from nothing; what is left of the state before it
    local, factors = [h], [left]
    for t in range(1, size):
        h, left = h * kept[:, :, t] + taken[:, :, t], left * kept[:, :, t]
        local.append(h)
        factors.append(left)
    starts = [start]
    for block in range(kept.shape[1] - 1):
        starts.append(starts[-1] * left[:, block] + h[:, block])
    before = _stacked(starts, 1)[:, :, None]  # (B, T/C, 1, …)
    found: Array = _stacked(local, 2) + _stacked(factors, 2) * before
    return found.reshape(kept.shape[0], kept.shape[1] * size, *kept.shape[3:])


def _stacked(arrays: list[Array], axis: int) -> Array:
    """Arrays behind each other along a new axis."""
    shape = arrays[0].shape
    return np.concatenate([x.reshape(*shape[:axis], 1, *shape[axis:]) for x in arrays], axis=axis)
