"""Attention to chosen blocks of keys, and what chooses them.

Letters: B sequences, T new tokens, S keys held, g KV heads, h index heads.
"""

from __future__ import annotations

import math

import numpy as np

from gptcalc.architecture import Attention, BlockIndexer
from gptcalc.reference.experts import top
from gptcalc.reference.norms import normed
from gptcalc.reference.rope import angles, rotate, turned_channels
from gptcalc.reference.step import Step
from gptcalc.reference.store import Weights
from gptcalc.reference.tally import Array


def indexed(
    a: Attention, index: BlockIndexer, k: Array, v: Array, x: Array, w: Weights, step: Step
) -> tuple[Array, Array, Array | None]:
    """What may be attended to: a single query gathers the keys of its blocks; several ones, whose
    choices differ, are masked."""
    if index.n_heads is not None:
        return _pooled(a, index, index.n_heads, k, v, x, w, step)
    keys, size = k.shape[2], index.block
    chosen = _chosen_blocks(a, index, x, w, step)  # (B, g, T, blocks)
    if step.new == 1:
        blocks = chosen[:, :, 0]
        blocks = np.take_along_axis(blocks, np.argsort(blocks, axis=-1), axis=-1)  # in order: the own block comes last
        at = blocks[..., None] * size + np.arange(0, size, like=step.tokens)  # (B, g, blocks, size)
        n = (blocks.shape[-1] - 1) * size + (keys - 1) % size + 1  # all blocks are full but the own one
        at = at.reshape(*blocks.shape[:2], blocks.shape[-1] * size)[:, :, :n, None]
        return np.take_along_axis(k, at, axis=-2), np.take_along_axis(v, at, axis=-2), None
    block_of = np.arange(0, keys, like=step.tokens) // size
    listed = (chosen[..., None] == block_of).any(axis=-2)  # (B, g, T, S)
    mask = step.mask(keys, None, None)
    assert mask is not None
    allowed: Array = np.where(listed, mask, -math.inf).astype(step.dtype)
    return k, v, allowed[:, :, None]


def _chosen_blocks(a: Attention, index: BlockIndexer, x: Array, w: Weights, step: Step) -> Array:
    """The numbers of the top_k blocks by their best key, the newest ones before all others: (B, g, T, blocks)."""
    g, width, size = a.n_kv_heads, index.d, index.block
    q = step.linear(x, w, "q", g * width).reshape(*x.shape[:2], g, width)
    k = step.linear(x, w, "k", width).reshape(*x.shape[:2], 1, width)
    q, k = normed(q, index.norm, w.at("q_norm")), normed(k, index.norm, w.at("k_norm"))
    if a.rope is not None:
        cos, sin = step.angles(a.rope, turned_channels(a.rope, a.d_head))
        q, k = rotate(q, cos, sin, a.rope.pairing), rotate(k, cos, sin, a.rope.pairing)
    k = step.cache.append(w.prefix.rstrip("."), "k", k.swapaxes(1, 2))  # (B, 1, S, width)
    score = step.dot(q.swapaxes(1, 2), k.swapaxes(-1, -2), "scores")  # (B, g, T, S)
    keys = k.shape[2]
    mask = step.mask(keys, None, None)
    if mask is not None:
        score += mask
    n = -(-keys // size)
    # where the last block is not full yet, the newest key stands for those that it lacks
    filled = np.minimum(np.arange(0, n * size, like=step.tokens), keys - 1)[None, None, None]
    best = np.take_along_axis(score, filled, axis=-1).reshape(*score.shape[:3], n, size).max(axis=-1)
    own, number = (step.positions // size)[:, None], np.arange(0, n, like=step.tokens)
    newest = (number > own - index.local) & (number <= own)  # (T, n)
    return top(np.where(newest, math.inf, best), min(index.top_k, n))


def _pooled(
    a: Attention, index: BlockIndexer, n_heads: int, k: Array, v: Array, x: Array, w: Weights, step: Step
) -> tuple[Array, Array, Array | None]:
    """The same with one choice for all, of complete blocks, and beside them the tokens that fill none."""
    keys, size = k.shape[2], index.block
    n = keys // size  # complete blocks
    scores = _scores_of_means(a, index, n_heads, n, x, w, step)  # (B, T, n)
    complete = ((step.positions + 1) // size)[:, None]  # (T, 1)
    number = np.arange(0, n, like=step.tokens)
    chosen = top(np.where(number < complete, scores, -math.inf), min(index.top_k - 1, n))  # (B, T, blocks)
    if step.new == 1:
        blocks = chosen[:, :, :, None] * size + np.arange(0, size, like=step.tokens)  # (B, 1, blocks, size)
        at = blocks.reshape(blocks.shape[0], 1, blocks.shape[2] * size, 1)
        seen = [(np.take_along_axis(held, at, axis=-2), held[:, :, n * size :]) for held in (k, v)]
        both = [np.concatenate(parts, axis=-2) for parts in seen]
        return both[0], both[1], None
    block_of = np.arange(0, keys, like=step.tokens) // size
    listed = (chosen[..., None] == block_of).any(axis=-2) & (block_of < complete)  # (B, T, S)
    mask = step.mask(keys, None, None)
    assert mask is not None
    allowed: Array = np.where(listed | (block_of == complete), mask, -math.inf).astype(step.dtype)
    return k, v, allowed[:, None, None]


def _scores_of_means(
    a: Attention, index: BlockIndexer, n_heads: int, n: int, x: Array, w: Weights, step: Step
) -> Array:
    """The sum of what is positive of all heads' products with the mean of each block's keys: (B, T, n)."""
    q = step.linear(x, w, "q", n_heads * index.d).reshape(*x.shape[:2], n_heads, index.d)
    q = normed(q, index.norm, w.at("q_norm"))
    k = step.cache.append(w.prefix.rstrip("."), "k", step.linear(x, w, "k", index.d))  # (B, S, d)
    blocks = k[:, : n * index.block].reshape(k.shape[0], n, index.block, index.d)
    mean = normed(blocks.mean(axis=2), index.norm, w.at("k_norm"))[:, :, None]  # (B, n, 1, d)
    if a.rope is not None:
        turned = turned_channels(a.rope, a.d_head)
        q = rotate(q, *step.angles(a.rope, turned), a.rope.pairing)
        first = np.arange(0, n, like=step.tokens) * index.block
        cos, sin = angles(first, a.rope, turned, step.length, step.context, step.frequencies)
        mean = rotate(mean, cos.astype(step.dtype), sin.astype(step.dtype), a.rope.pairing)
    score = step.dot(q.swapaxes(1, 2), mean.swapaxes(1, 2).swapaxes(-1, -2), "scores")  # (B, h, T, n)
    total: Array = np.maximum(score, 0.0).sum(axis=1)
    return total
