"""Learned positions as distances: a bias for each bucket of them (T5), vectors that queries and keys meet (DeBERTa).

Letters: B sequences, T queries, S keys, H heads, h = d_head.
"""

from __future__ import annotations

import math

import numpy as np

from gptcalc.architecture import Attention, Buckets, Disentangled
from gptcalc.reference.norms import normed
from gptcalc.reference.step import Step
from gptcalc.reference.store import Weights
from gptcalc.reference.tally import Array


def bucket_bias(a: Attention, buckets: Buckets, keys: int, w: Weights, step: Step) -> Array:
    """What is added to the scores of each query and key: (1, H, T, S)."""
    store = step.weights if buckets.shared else w
    table = store.at("relative")("buckets", buckets.rows, a.n_heads)
    number = bucket_of(step.distance(keys), buckets.n, buckets.max_distance, both=a.sees_ahead)  # (T, S)
    bias: Array
    if buckets.segments is None:
        bias = np.take(table, number, axis=0).transpose(2, 0, 1)[None]
        return bias
    types = step.types(step.history(keys - step.new, 0))  # (B, S)
    own = types[:, keys - step.new :, None]  # (B, T, 1)
    pair = own * buckets.segments + types[:, None] + buckets.n
    place = np.where(own == types[:, None], number, pair)  # (B, T, S)
    bias = np.take(table, place, axis=0).transpose(0, 3, 1, 2)
    return bias


def bucket_of(distance: Array, n: int, max_distance: int, both: bool) -> Array:
    """The bucket of a key so far before its query (arXiv:1910.10683, §2.1): (T, S). The logarithm is taken in float32,
    as models were trained."""
    if both:
        n //= 2
        base = np.where(distance < 0, n, 0)
        distance = np.absolute(distance)
    else:
        base = np.where(distance < 0, 0, 0)
        distance = np.maximum(distance, 0)
    exact = n // 2
    ratio = (np.maximum(distance, 1) / exact).astype(np.float32)
    far = np.floor(np.log(ratio) / np.float32(math.log(max_distance / exact)) * (n - exact)).astype(np.int64) + exact
    bucket: Array = base + np.where(distance < exact, distance, np.minimum(far, n - 1))
    return bucket


def disentangled_bias(a: Attention, p: Disentangled, q: Array, k: Array, w: Weights, step: Step, d_model: int) -> Array:
    """Scores of queries (B, T, H, h), already scaled, with the keys of their distances, and of keys (B, H, S, h) with
    the queries of theirs: (B, H, T, S)."""
    store = step.weights.at("relative")
    d = a.n_heads * a.d_head
    rows = store("table", 2 * p.span, d_model)
    if p.norm is not None:
        rows = normed(rows, p.norm, store.at("norm"))
    place = np.minimum(np.maximum(log_distance(step.distance(k.shape[2]), p) + p.span, 0), 2 * p.span - 1)[None, None]
    heads = (2 * p.span, a.n_heads, a.d_head)
    bias: Array | None = None
    if p.c2p:
        name = "position_k" if p.own else "k"
        keys = (
            step.linear(rows, w, name, d, p.own_key_bias if p.own else "k" in a.bias).reshape(*heads).transpose(1, 2, 0)
        )  # (H, h, 2·span)
        met = step.dot(q.swapaxes(1, 2), keys[None], "scores")  # (B, H, T, 2·span)
        bias = np.take_along_axis(met, place, axis=-1)
    if p.p2c:
        name = "position_q" if p.own else "q"
        queries = step.linear(rows, w, name, d, p.own or "q" in a.bias).reshape(*heads).transpose(1, 2, 0)
        met = step.dot(k, queries[None] * a.score_scale, "scores")  # (B, H, S, 2·span)
        other = np.take_along_axis(met, place.swapaxes(-1, -2), axis=-1).swapaxes(-1, -2)
        bias = other if bias is None else bias + other
    assert bias is not None
    return bias


def log_distance(distance: Array, p: Disentangled) -> Array:
    """Distances that grow by the logarithm from span/2 on, up to max_distance (arXiv:2006.03654, as version 2 of the
    model's code has it)."""
    if p.max_distance is None:
        return distance
    mid = p.span // 2
    size = np.maximum(np.absolute(distance), mid)
    ratio = np.log((size / mid).astype(np.float32)) / np.float32(math.log((p.max_distance - 1) / mid))
    far = -np.floor(-(ratio * (mid - 1))).astype(np.int64) + mid
    grown: Array = np.where(np.absolute(distance) <= mid, distance, np.where(distance < 0, -far, far))
    return grown
