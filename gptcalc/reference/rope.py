"""Rotary positions: pairs of channels turned by an angle that grows with the position (arXiv:2104.09864)."""

from __future__ import annotations

import math
from typing import assert_never

import numpy as np

from gptcalc.architecture import (
    NTK,
    Dynamic,
    Linear,
    Llama3,
    LongRope,
    Proportional,
    Rope,
    Yarn,
    rotated,
)
from gptcalc.reference.tally import Array


def turned_channels(rope: Rope, width: int) -> int:
    """How many channels of a head are paired; those that a proportional scaling leaves alone turn by angle 0."""
    if isinstance(rope.scaling, Proportional):
        return width
    return rotated(rope, width)


def frequencies(rope: Rope, r: int, length: int, context: int) -> tuple[Array, float]:
    """Angles per position of the r/2 pairs, and the factor of cos and sin.

    `length` is the sequence's length so far, `context` the model's: some scalings depend on them.
    """
    scaling = rope.scaling
    pairs = np.arange(0, r, 2) / r  # (r/2,)
    plain = rope.theta**-pairs
    match scaling:
        case None:
            return plain, 1.0
        case Linear():
            return plain / scaling.factor, 1.0
        case NTK():
            return (rope.theta * scaling.factor ** (r / (r - 2))) ** -pairs, 1.0
        case Dynamic():
            beyond = max(length, scaling.original) / scaling.original
            stretch = scaling.factor * beyond - (scaling.factor - 1)
            return (rope.theta * stretch ** (r / (r - 2))) ** -pairs, 1.0
        case Llama3():
            return _llama3(plain, scaling), 1.0
        case Yarn():
            return _yarn(plain, scaling, rope.theta, r), _yarn_factor(scaling)
        case LongRope():
            divisors = scaling.long if length > scaling.original else scaling.short
            return plain / np.array(divisors), _longrope_factor(scaling, context)
        case Proportional():
            turning = rotated(rope, r) // 2
            return np.where(np.arange(r // 2) < turning, plain / scaling.factor, 0.0), 1.0
        case _:
            assert_never(scaling)


def _llama3(plain: Array, scaling: Llama3) -> Array:
    """Few turns within the original context: divided by the factor; many: kept; between: a smooth mixture."""
    turns = scaling.original * plain / (2 * math.pi)
    if scaling.high == scaling.low:  # Llama 4: no band between
        kept = np.where(turns > scaling.high, 1.0, 0.0)
    else:
        kept = np.clip((turns - scaling.low) / (scaling.high - scaling.low), 0.0, 1.0)
    mixture: Array = kept * plain + (1 - kept) * plain / scaling.factor
    return mixture


def _yarn(plain: Array, scaling: Yarn, theta: float, r: int) -> Array:
    def pair_with(turns: float) -> float:
        """Which pair (a real number) makes so many turns within the original context."""
        return r * math.log(scaling.original / (turns * 2 * math.pi)) / (2 * math.log(theta))

    low, high = pair_with(scaling.beta_fast), pair_with(scaling.beta_slow)
    if scaling.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, r - 1)
    if low == high:
        high += 0.001
    divided = np.clip((np.arange(r // 2) - low) / (high - low), 0.0, 1.0)
    mixture: Array = divided * plain / scaling.factor + (1 - divided) * plain
    return mixture


def _yarn_factor(scaling: Yarn) -> float:
    if scaling.attention_factor is not None:
        return scaling.attention_factor
    if scaling.mscale and scaling.mscale_all_dim:
        return scaling.sharpening(scaling.mscale) / scaling.sharpening(scaling.mscale_all_dim)
    return scaling.sharpening(1.0)


def _longrope_factor(scaling: LongRope, context: int) -> float:
    if scaling.attention_factor is not None:
        return scaling.attention_factor
    factor = scaling.factor if scaling.factor is not None else context / scaling.original
    return math.sqrt(1 + math.log(factor) / math.log(scaling.original)) if factor > 1 else 1.0


def angles(
    positions: Array, rope: Rope, r: int, length: int, context: int, learned: Array | None = None
) -> tuple[Array, Array]:
    """cos and sin of every position's and pair's angle, each (T, r/2); `learned` multiplies the frequencies."""
    per_position, factor = frequencies(rope, r, length, context)
    angle = positions[:, None] * per_position  # (T, r/2)
    if learned is not None:
        angle = angle * learned
    if rope.backward:
        angle = -angle
    return np.cos(angle) * factor, np.sin(angle) * factor


def turn(x: Array, rope: Rope, cos: Array, sin: Array) -> Array:
    """The channels of x (B, T, heads, width) turned, those of each axis among themselves; cos and sin are (T, r/2)."""
    if rope.axes == 1:
        return rotate(x, cos, sin, rope.pairing)
    first = cos.shape[-1] // 2  # pairs, so that twice as many channels
    inside = rotate(x[..., : 2 * first], cos[:, :first], sin[:, :first], rope.pairing)
    behind = rotate(x[..., 2 * first :], cos[:, first:], sin[:, first:], rope.pairing)
    y: Array = np.concatenate([inside, behind], axis=-1)
    return y


def rotate(x: Array, cos: Array, sin: Array, pairing: str) -> Array:
    """The first r channels of x (B, T, heads, width) turned; cos and sin are (T, r/2). Channel i is paired with
    i + r/2 (half) or 2i with 2i + 1 (adjacent)."""
    r = 2 * cos.shape[-1]
    cos, sin = cos[:, None, :], sin[:, None, :]  # (T, 1, r/2)
    if pairing == "half":
        a, b = x[..., : r // 2], x[..., r // 2 : r]  # (B, T, heads, r/2)
        turned = [a * cos - b * sin, b * cos + a * sin]
    else:
        a, b = x[..., 0:r:2], x[..., 1:r:2]
        both = [(a * cos - b * sin)[..., None], (b * cos + a * sin)[..., None]]
        turned = [np.concatenate(both, axis=-1).reshape(*x.shape[:-1], r)]
    rest = [x[..., r:]] if r < x.shape[-1] else []
    y: Array = np.concatenate([*turned, *rest], axis=-1)
    return y
