"""Alternating updates (AltUp, arXiv:2301.13310): n streams, of which the blocks compute one.

Letters: n streams, B sequences, T new tokens, d channels. Streams are stacked in front: (n, B, T, d).
"""

from __future__ import annotations

import numpy as np

from gptcalc.architecture import AltUp
from gptcalc.reference.norms import normed
from gptcalc.reference.step import Step
from gptcalc.reference.store import Weights
from gptcalc.reference.tally import Array

LEAST_SQUARE = 1e-5  # of what is scaled to another's size


def spread(a: AltUp, x: Array, w: Weights, step: Step) -> Array:
    """The embedding (B, T, d) and its n − 1 projections, scaled to its size: (n, B, T, d)."""
    d = x.shape[-1]
    others = step.dot(x[None], w("projection", a.n - 1, d, d)[:, None])  # (n − 1, B, T, d)
    streams: Array = np.concatenate([x[None], as_large(others, x)])
    return streams


def predicted(a: AltUp, streams: Array, w: Weights, step: Step) -> Array:
    """Each stream plus a mixture of all, whose coefficients the active one decides: (n, B, T, d)."""
    route = _route(a, streams[a.active], w, step)  # (B, T, n)
    mixture = step.dot(route, w("prediction", a.n, a.n * a.n)).reshape(*route.shape, a.n)  # (B, T, to n, from n)
    mixed = step.dot(mixture, streams.transpose(1, 2, 0, 3))  # (B, T, n, d)
    both: Array = streams + mixed.transpose(2, 0, 1, 3)
    return both


def corrected(a: AltUp, streams: Array, x: Array, w: Weights, step: Step) -> Array:
    """Each predicted stream plus a share of what the block made of the active one, x (B, T, d): (n, B, T, d)."""
    route = _route(a, x, w, step)  # (B, T, n)
    share = step.dot(route, w("correction", a.n, a.n)) + 1.0
    both: Array = streams + share.transpose(2, 0, 1)[..., None] * (x - streams[a.active])
    return both


def merged(a: AltUp, streams: Array, w: Weights, step: Step) -> Array:
    """The mean of the first stream and the projections of the others, scaled to its size: (B, T, d)."""
    d = streams.shape[-1]
    others = step.dot(streams[1:], w("out", a.n - 1, d, d)[:, None])  # (n − 1, B, T, d)
    mean: Array = np.concatenate([streams[:1], as_large(others, streams[0])]).mean(axis=0)
    return mean


def _route(a: AltUp, x: Array, w: Weights, step: Step) -> Array:
    """One number between −1 and 1 for each stream: (B, T, d) -> (B, T, n)."""
    normal = normed(x, a.norm, w.at("router_norm")) * (1 / x.shape[-1])
    route: Array = np.tanh(step.linear(normal, w, "router", a.n))
    return route


def as_large(x: Array, other: Array) -> Array:
    """x scaled so that its channels' root mean square is that of the other."""
    wanted = np.sqrt(np.square(other).mean(axis=-1, keepdims=True))
    found = np.sqrt(np.maximum(np.square(x).mean(axis=-1, keepdims=True), LEAST_SQUARE))
    scaled: Array = x * wanted / found
    return scaled
