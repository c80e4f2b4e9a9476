"""Attention to blocks of keys by where they stand, other ones for each head.

Letters as in attention: B sequences, T new tokens, S keys held, g KV heads, r query heads that share one, c = d_v.
"""

from __future__ import annotations

import math

import numpy as np

from gptcalc.architecture import Attention, Strided
from gptcalc.reference.activations import softcapped
from gptcalc.reference.norms import softmax
from gptcalc.reference.step import Step
from gptcalc.reference.tally import Array


def visible_blocks(a: Attention, s: Strided, keys: int, step: Step) -> Array:
    """What is added to the scores of every query and key: 0, or −∞ where the key's block is not seen, (g, r, T, S)."""
    mask = step.mask(keys, None, None)
    assert mask is not None
    block = np.arange(0, keys, like=step.tokens) // s.block  # (S,)
    head = np.arange(0, a.n_heads, like=step.tokens).reshape(a.n_kv_heads, a.n_heads // a.n_kv_heads, 1, 1)
    strided = (block + head * s.step(a.n_heads) + 1) % s.stride == 0  # (g, r, 1, S)
    local = (step.positions // s.block)[:, None] - block < s.local  # (T, S)
    found: Array = np.where(strided | local, mask, -math.inf).astype(step.dtype)
    return found


def attend_one(a: Attention, s: Strided, q: Array, k: Array, v: Array, step: Step) -> Array:
    """softmax(q kᵀ) v of the newest token (B, 1, n_heads, h) -> (B, 1, n_heads, c), each head with its keys alone."""
    share = a.n_heads // a.n_kv_heads
    outputs = []
    for head in range(a.n_heads):
        own = q[:, :, head]  # (B, 1, h)
        keys, values = (_seen(a, s, head, x[:, head // share]) for x in (k, v))  # (B, S', h), (B, S', c)
        scores = softcapped(step.dot(own, keys.swapaxes(-1, -2), "scores"), a.scores.softcap)
        outputs.append(step.dot(softmax(scores), values, "values")[:, :, None])
    found: Array = np.concatenate(outputs, axis=2)
    return found


def _seen(a: Attention, s: Strided, head: int, x: Array) -> Array:
    """Of what is held for a KV head (B, S, h), the rows of the blocks that a head sees."""
    last = (x.shape[1] - 1) // s.block
    seen = [
        x[:, n * s.block : (n + 1) * s.block]
        for n in range(last + 1)
        if last - n < s.local or n % s.stride == s.first(head, a.n_heads)
    ]
    found: Array = np.concatenate(seen, axis=1)
    return found
