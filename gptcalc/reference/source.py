"""What a model is given to read beside its tokens where nobody gives anything: an encoder tokens at random, frames of
noise, or shapes alone; a draft numbers in place of its target's hidden states."""

from __future__ import annotations

import numpy as np

from gptcalc.architecture import Architecture, TargetStates
from gptcalc.reference.shapes import shape_only
from gptcalc.reference.tally import Array


def shapes_of_source(architecture: Architecture, tokens: int) -> Array | None:
    """Tokens (1, N), the frames (1, frames, channels) that become so many positions, or the states (1, N, d) of an
    encoder that is no part of the model; None where there is none. Without data."""
    encoder = architecture.encoder
    if architecture.encoded is not None:
        return shape_only((1, tokens, architecture.encoded.d))
    if encoder is None:
        return None
    if encoder.front is None:
        return shape_only((1, tokens), np.int64)
    return shape_only((1, tokens * encoder.front.frames, encoder.front.channels))


def random_source(architecture: Architecture, tokens: int, seed: int) -> Array | None:
    """The same with seeded data."""
    encoder, random = architecture.encoder, np.random.default_rng(seed)
    if architecture.encoded is not None:
        return random.standard_normal((1, tokens, architecture.encoded.d))
    if encoder is None:
        return None
    if encoder.front is None:
        return random.integers(0, encoder.v, (1, tokens))
    return random.standard_normal((1, tokens * encoder.front.frames, encoder.front.channels))


def stand_in_block(target: TargetStates, v: int, tokens: Array) -> Array:
    """In place of the tokens in a block that is drafted: (B, block), seeded, always the same."""
    assert target.block is not None
    if not isinstance(tokens, np.ndarray):
        return shape_only((tokens.shape[0], target.block), np.int64)
    block = np.random.default_rng(19).integers(0, v, target.block)
    return np.broadcast_to(block, (tokens.shape[0], target.block))


def stand_ins(target: TargetStates, tokens: Array, start: int) -> Array:
    """In place of hidden states of tokens (B, T) at positions start …: (B, T, layers · d), seeded, the same for every
    sequence and whenever a position is asked for."""
    batch, new = tokens.shape
    if not isinstance(tokens, np.ndarray):
        return shape_only((batch, new, target.layers * target.d))
    rows = [np.random.default_rng((17, start + t)).standard_normal(target.layers * target.d) for t in range(new)]
    return np.broadcast_to(np.array(rows), (batch, new, target.layers * target.d))
