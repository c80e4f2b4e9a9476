"""The recurrence that linear attention, Mamba-2 and RWKV share: a matrix for each head that decays, is written to and
read.

It is computed token by token, or in chunks: products of matrices within a chunk, and one state from chunk to chunk.

Letters: H heads, h those of keys, which several may share, T new tokens, n = d_k channels of a key, c = d_v channels of
a value, C tokens of a chunk.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import numpy as np

from gptcalc.reference.step import Step
from gptcalc.reference.tally import Array

State = TypeVar("State")


def spread(x: Array, n_heads: int, axis: int = 2) -> Array:
    """Heads that several others share, repeated for each of them: (B, T, h, n) -> (B, T, n_heads, n)."""
    shared = x.shape[axis]
    before, behind = x.shape[:axis], x.shape[axis + 1 :]
    alone = x.reshape(*before, shared, 1, *behind)
    return np.broadcast_to(alone, (*before, shared, n_heads // shared, *behind)).reshape(*before, n_heads, *behind)


class Inputs(NamedTuple):
    """What each token reads and writes: q, k (B, T, h, n) and v (B, T, H, c); the logarithm g (B or 1, T, H, 1 or n) of
    what is left of the state before it; with the delta rule β (B, T, H, 1)."""

    q: Array
    k: Array
    v: Array
    g: Array | None
    beta: Array | None

    def part(self, first: int, end: int) -> Inputs:
        """Some of the tokens."""
        return Inputs(*(None if x is None else x[:, first:end] for x in self))  # type: ignore[arg-type]

    def in_chunks(self, size: int) -> Inputs:
        """By chunk, heads in front of the chunk's tokens: (B, T/C, heads, C, …)."""
        return Inputs(*(None if x is None else by_chunk(x, size) for x in self))  # type: ignore[arg-type]


def by_chunk(x: Array, size: int) -> Array:
    """(B, T, heads, …) -> (B, T/C, heads, C, …)."""
    return x.reshape(x.shape[0], x.shape[1] // size, size, *x.shape[2:]).swapaxes(2, 3)


def recur(x: Inputs, step: Step, place: str, own_chunk: int, *, earlier: bool = False) -> Array:
    """S ← e^g·S + k ⊗ u and o = Sᵀq: o (B, T, H, c); u is v, or with the delta rule β·(v − Sᵀk). `earlier`: a token
    reads the state that the one before it left."""
    batch, new, heads, c = x.v.shape
    start = np.broadcast_to(x.v[:, 0, :, None] * 0.0, (batch, heads, x.k.shape[-1], c))
    s = step.cache.state(place, "state", start)  # (B, H, n, c)

    def some(first: int, end: int, size: int | None, s: Array) -> tuple[Array, Array]:
        part = x.part(first, end)
        if size is None:
            return _token_by_token(part, s, step, earlier)
        return _chunk_by_chunk(part, s, size, step, earlier)

    o, s = one_behind_the_other(some, s, new, step, own_chunk)
    step.cache.put(place, "state", s)
    return o


def one_behind_the_other(
    some: Callable[[int, int, int | None, State], tuple[Array, State]],
    state: State,
    new: int,
    step: Step,
    own_chunk: int,
) -> tuple[Array, State]:
    """What some of the tokens give after others, from the state on that these left: all of them token by token, or
    chunks of a size, then what is left. `some`: from which token to which, and in chunks of how many."""
    chunk = step.chunk(own_chunk)
    if chunk is None:
        return some(0, new, None, state)
    step.tally.chunks.add(chunk)
    outputs = []
    for first, end, size in chunks_of(new, chunk):
        output, state = some(first, end, size, state)
        outputs.append(output)
    return np.concatenate(outputs, axis=1), state


def chunks_of(new: int, chunk: int) -> list[tuple[int, int, int]]:
    """From which token to which chunks are equally long, and how long: whole ones, and what is left."""
    whole = new - new % chunk
    return [(first, end, size) for first, end, size in ((0, whole, chunk), (whole, new, new - whole)) if first < end]


def _token_by_token(x: Inputs, s: Array, step: Step, earlier: bool) -> tuple[Array, Array]:
    """o, and the last state."""
    heads = x.v.shape[2]
    q, k, kept = spread(x.q, heads), spread(x.k, heads), None if x.g is None else np.exp(x.g)
    out = []
    for t in range(x.v.shape[1]):
        before = s
        if kept is not None:
            s = s * kept[:, t, :, :, None]
        key, u = k[:, t, :, :, None], x.v[:, t, :, None]  # (B, H, n, 1), (B, H, 1, c)
        if x.beta is not None:
            u = (u - step.dot(key.swapaxes(-1, -2), s, "state")) * x.beta[:, t, :, :, None]
        s = s + step.dot(key, u, "state")
        read = before if earlier else s
        out.append(step.dot(q[:, t, :, None], read, "state").swapaxes(1, 2))  # (B, 1, H, c)
    return np.concatenate(out, axis=1), s


def _chunk_by_chunk(x: Inputs, s: Array, size: int, step: Step, earlier: bool) -> tuple[Array, Array]:
    """The same of whole chunks of `size` tokens (Dao and Gu 2024, §6; with the delta rule arXiv:2412.06464, §3.3).

    All but the state is computed for all chunks at once: (B, T/C, H, C, …).
    """
    batch, new, heads, c = x.v.shape
    x = x.in_chunks(size)
    so_far = None if x.g is None else sums_so_far(x.g)  # the logarithm of the decay since the chunk began
    at_read = so_far - x.g if earlier and so_far is not None and x.g is not None else so_far
    weights = products(x.q, x.k, at_read, so_far, heads, step, strict=earlier)
    k, v = spread(x.k, heads), x.v
    read = decayed(spread(x.q, heads), at_read)
    left = k if so_far is None else k * np.exp(so_far[..., size - 1 :, :] - so_far)
    lacked = None  # what is subtracted of the state before the chunk
    if x.beta is not None:
        inverse = inverted(products(x.k, x.k, so_far, so_far, heads, step, strict=True) * x.beta, step)
        lacked = step.dot(inverse, decayed(k, so_far) * x.beta, "state")
        v = step.dot(inverse, v * x.beta, "state")
    written, out = [], []
    for at in range(new // size):
        u = v[:, at] if lacked is None else v[:, at] - step.dot(lacked[:, at], s, "state")
        written.append(u[:, None])
        out.append(step.dot(read[:, at], s, "state")[:, None])
        if so_far is not None:
            s = s * np.exp(so_far[:, at, :, size - 1, :, None])
        s = s + step.dot(left[:, at].swapaxes(-1, -2), u, "state")
    o = np.concatenate(out, axis=1) + step.dot(weights, np.concatenate(written, axis=1), "state")
    return o.swapaxes(2, 3).reshape(batch, new, heads, c), s


def sums_so_far(g: Array) -> Array:
    """Sums from a chunk's first token on."""
    sums = [g[..., :1, :]]
    for t in range(1, g.shape[-2]):
        sums.append(sums[-1] + g[..., t : t + 1, :])
    return np.concatenate(sums, axis=-2)


def decayed(x: Array, so_far: Array | None) -> Array:
    return x if so_far is None else x * np.exp(so_far)


def products(
    left: Array, right: Array, at_read: Array | None, so_far: Array | None, heads: int, step: Step, *, strict: bool
) -> Array:
    """Products of the tokens t and s of each chunk, with what is left at t of what s wrote, e^(at_read_t − so_far_s), 0
    where s is not yet written: (B, T/C, H, C, C)."""
    size = left.shape[-2]
    t, s = np.arange(0, size, like=left)[:, None], np.arange(0, size, like=left)[None]
    seen = s < t if strict else s <= t
    if at_read is not None and so_far is not None and so_far.shape[-1] > 1:
        return _by_channel(spread(left, heads), spread(right, heads), at_read, so_far, seen, step)
    found = spread(step.dot(left, right.swapaxes(-1, -2), "state"), heads)
    if at_read is None or so_far is None:
        return np.where(seen, found, 0.0).astype(step.dtype)
    between = np.where(seen, at_read - so_far.swapaxes(-1, -2), -np.inf).astype(step.dtype)
    weights: Array = found * np.exp(between)
    return weights


def _by_channel(left: Array, right: Array, at_read: Array, so_far: Array, seen: Array, step: Step) -> Array:
    """The same with a decay of each channel, row by row, so that no exponent is positive."""
    rows = []
    for t in range(left.shape[-2]):
        between = np.where(seen[t][:, None], at_read[..., t : t + 1, :] - so_far, -np.inf).astype(step.dtype)
        rows.append(step.dot(left[..., t : t + 1, :], (right * np.exp(between)).swapaxes(-1, -2), "state"))
    return np.concatenate(rows, axis=-2)


def inverted(a: Array, step: Step) -> Array:
    """(1 + A)⁻¹ of strictly lower triangular matrices A (…, C, C), row after row."""
    size = a.shape[-1]
    rows, columns = np.arange(0, size, like=a)[:, None], np.arange(0, size, like=a)[None]
    inverse = a * 0.0
    for t in range(size):
        row = (columns == t) * 1.0 - step.dot(a[..., t : t + 1, :], inverse, "state")
        inverse = np.where(rows == t, row, inverse).astype(step.dtype)
    return inverse
