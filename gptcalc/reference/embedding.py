"""What enters the first layer: rows of tables for tokens, positions and types, frames through convolutions, or hidden
states of another model.

Letters: B sequences, T tokens or positions, d channels.
"""

from __future__ import annotations

import numpy as np

from gptcalc.architecture import ConvolutionalFront, Embedding, EmbeddingConvolution, Sinusoids, TargetStates
from gptcalc.errors import InputError
from gptcalc.reference.activations import activate
from gptcalc.reference.norms import normed
from gptcalc.reference.step import Step
from gptcalc.reference.store import Weights
from gptcalc.reference.tally import Array


def embedded(e: Embedding, table: Array, d: int, w: Weights, step: Step) -> Array:
    """The first layer's input (B, T, d): a row of the token table (v, width) for each token, and what is added."""
    x: Array = np.take(table, step.tokens, axis=0)  # (B, T, width)
    narrow = e.width != d
    if narrow and e.projected == "token":
        x = step.linear(x, w, "projection", d, e.projection_bias)
    if e.beside:
        given = [w(f"beside.{n}", other.rows, other.d)[:1] for n, other in enumerate(e.beside)]  # (1, d) each
        rows = [np.broadcast_to(row, (*x.shape[:2], row.shape[-1])) for row in given]
        x = step.linear(np.concatenate([x, *rows], axis=-1), w, "projection", d, bias=True)
    if e.scale != 1.0:
        x = x * e.scale
    if e.norm is not None and e.normed == "token":
        x = normed(x, e.norm, w.at("norm"))
    x = positioned(e, x, w, step)
    if e.types:
        row = np.take(w("types", e.types, x.shape[-1]), step.types(step.tokens), axis=0)
        step.tally.added("embedding.types", x, row)
        x = x + row
    if narrow and e.projected == "sum":
        x = step.linear(x, w, "projection", d, e.projection_bias)
    if e.affine:
        x = (x + w("offset", x.shape[-1])) * w("factor", x.shape[-1])
    if e.norm is not None and e.normed == "sum":
        x = normed(x, e.norm, w.at("norm"))
    if narrow and e.projected == "normed":
        x = step.linear(x, w, "projection", d, e.projection_bias)
    return x


def positioned(e: Embedding, x: Array, w: Weights, step: Step) -> Array:
    """x (B, T, width) plus what its positions say, where the embedding says something of them."""
    if e.position == "learned":
        rows = np.take(w("position", e.rows, x.shape[-1]), step.positions + e.offset, axis=0)  # (T, width)
        step.tally.added("embedding.position", x, rows)
    elif e.position == "sinusoidal":
        rows = sinusoids(step.positions + e.offset, x.shape[-1], e.sinusoids).astype(x.dtype)
    else:
        return x
    both: Array = x + rows
    return both


def check_positions(e: Embedding, length: int) -> None:
    """A learned table ends somewhere."""
    if e.position == "learned" and length + e.offset > e.rows:
        raise InputError(f"tokens: {length} positions, but the table of positions ends at {e.rows - e.offset}")


def sinusoids(positions: Array, d: int, order: Sinusoids) -> Array:
    """sin and cos of position / 10000^(2i/d) (arXiv:1706.03762), in turn or one half behind the other; tensor2tensor
    spaces the frequencies so that the last is 1/10000: (T, d)."""
    half = (d + 1) // 2
    spacing = np.arange(half) / max(half - 1, 1) if order == "tensor2tensor" else np.arange(0, d, 2) / d
    angle = positions[:, None] * 10000.0**-spacing  # (T, d/2)
    if order == "interleaved":
        pairs = np.concatenate([np.sin(angle)[..., None], np.cos(angle)[..., None]], axis=-1)
        both: Array = pairs.reshape(positions.shape[0], 2 * half)
    else:
        both = np.concatenate([np.sin(angle), np.cos(angle)], axis=-1)
    return both[:, :d]


def projected_states(target: TargetStates, h: Array, d: int, w: Weights, step: Step) -> Array:
    """Hidden states (B, T, layers · target.d), each layer's normed or not, through one matrix: (B, T, d)."""
    if target.norm is not None:
        apart = h.reshape(*h.shape[:2], target.layers, target.d)
        h = normed(apart, target.norm, w.at("norm"), target.layers, target.d).reshape(*h.shape)
    x = step.linear(h, w, "projection", d)
    return x if target.out_norm is None else normed(x, target.out_norm, w.at("out_norm"))


# --- frames -----------------------------------------------------------------------------------------------------------


def positions_of_frames(front: ConvolutionalFront, frames: Array, d: int, w: Weights, step: Step) -> Array:
    """Frames (B, frames, channels) through the convolutions: (B, T, d)."""
    x = frames
    for number, convolution in enumerate(front.convolutions):
        x = convolved_over_time(x, convolution.kernel, convolution.stride, d, w.at(f"front.{number}"), step)
        x = activate(front.function, x)
    return x


def convolved_over_time(x: Array, kernel: int, stride: int, d: int, w: Weights, step: Step) -> Array:
    """x (B, T, C) -> (B, ⌈T / stride⌉, d), zeros beyond both ends."""
    batch, length, channels = x.shape
    before = (kernel - 1) // 2
    edge = np.broadcast_to(x[:, :1] * 0.0, (batch, kernel, channels))
    padded = np.concatenate([edge[:, :before], x, edge[:, : kernel - 1 - before]], axis=1)
    taken = range(0, length, stride)
    near = np.concatenate([padded[:, k : k + taken[-1] + 1 : stride, :, None] for k in range(kernel)], axis=-1)
    return step.linear(near.reshape(batch, len(taken), channels * kernel), w, "conv", d, bias=True)


def embedding_convolution(m: EmbeddingConvolution, w: Weights, step: Step) -> Array:
    """What the tokens entered as, convolved over time: (B, T, d)."""
    assert step.embedded is not None
    y = convolved_over_time(step.embedded, m.kernel, 1, step.embedded.shape[-1], w, step)
    return y if m.function == "none" else activate(m.function, y)
