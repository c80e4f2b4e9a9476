"""Optimisers: what they keep of every parameter, in bytes.

Mixed precision (Micikevicius et al. 2018, arXiv:1710.03740) holds weights in 16 bits for the passes, gradients and a
master copy of the weights in fp32. With Adam that is 2 + 4 + 4 + 8 = 18 bytes a parameter, as Megatron-LM counts
(megatron/training/theoretical_memory_usage.py). Where gradients stay in 16 bits it is the 16 of the ZeRO paper.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import NamedTuple

from gptcalc.conventions import GradientType
from gptcalc.dtypes import BF16, FP32
from gptcalc.errors import InputError, did_you_mean, printable

Shape = tuple[int, ...]


class Optimizer(NamedTuple):
    """Bytes beside the weights. `state` takes a tensor's shape and the bytes of one of its numbers."""

    name: str
    master: bool  # an fp32 copy of weights that are narrower
    wide_gradients: bool  # gradients in fp32, else as wide as the weights
    state: Callable[[Shape, int], int]

    def master_bytes(self, width: int) -> int:
        """Of one parameter, where the weights take `width`."""
        return FP32.block_bytes if self.master and width < FP32.block_bytes else 0

    def gradient_bytes(self, width: int, chosen: GradientType | None) -> int:
        """Of one parameter."""
        if chosen is not None:
            return FP32.block_bytes if chosen == "fp32" else BF16.block_bytes
        return FP32.block_bytes if self.wide_gradients else width


def _moments(n: int) -> Callable[[Shape, int], int]:
    """So many fp32 numbers a parameter."""
    return lambda shape, _: n * FP32.block_bytes * prod(shape)


#: bitsandbytes' block-wise 8-bit states (arXiv:2110.02861; bitsandbytes/optim/optimizer.py, Optimizer2State): an fp32
#: maximum for each block, and tensors of fewer elements than this (min_8bit_size) keep fp32 states
EIGHT_BIT_BLOCK = 256
EIGHT_BIT_FROM = 4096


def _eight_bit(shape: Shape) -> int:
    """Of one state."""
    n = prod(shape)
    return FP32.block_bytes * n if n < EIGHT_BIT_FROM else n + FP32.block_bytes * -(-n // EIGHT_BIT_BLOCK)


def _factored(shape: Shape, _: int) -> int:
    """Adafactor (Shazeer & Stern 2018, arXiv:1804.04235): of a matrix's second moments only row and column means.

    No first moment. The last two axes are factored, experts each for themselves; vectors are not.
    """
    if len(shape) < 2:
        return FP32.block_bytes * prod(shape)
    *copies, rows, columns = shape
    return FP32.block_bytes * prod(copies) * (rows + columns)


def _eight_bits(n: int) -> Callable[[Shape, int], int]:
    return lambda shape, _: n * _eight_bit(shape)


def _as_wide(n: int) -> Callable[[Shape, int], int]:
    return lambda shape, width: n * width * prod(shape)


#: -bf16: weights, gradients and states all as wide as the weights, no master copy. -8bit: bitsandbytes' states
OPTIMIZERS = {
    optimizer.name: optimizer
    for optimizer in (
        Optimizer("adam", True, True, _moments(2)),
        Optimizer("adam-bf16", False, False, _as_wide(2)),  # 8 bytes a parameter
        Optimizer("adam-8bit", True, True, _eight_bits(2)),
        Optimizer("adam-8bit-bf16", False, False, _eight_bits(2)),
        Optimizer("sgd", True, True, _moments(0)),
        Optimizer("sgd-bf16", False, False, _moments(0)),  # weights and gradients alone: 4 bytes
        Optimizer("sgd-momentum", True, True, _moments(1)),
        Optimizer("sgd-momentum-bf16", False, False, _as_wide(1)),
        Optimizer("sgd-momentum-8bit", True, True, _eight_bits(1)),
        Optimizer("sgd-momentum-8bit-bf16", False, False, _eight_bits(1)),
        Optimizer("lion", True, True, _moments(1)),
        Optimizer("lion-bf16", False, False, _as_wide(1)),
        Optimizer("lion-8bit", True, True, _eight_bits(1)),
        Optimizer("lion-8bit-bf16", False, False, _eight_bits(1)),
        Optimizer("adafactor", True, True, _factored),
        Optimizer("adafactor-bf16", False, False, _factored),  # its means stay fp32
    )
}

#: other spellings, as trainers have them
SPELLINGS = {
    "adamw": "adam", "adamw-bf16": "adam-bf16", "bf16-adam": "adam-bf16", "adam8bit": "adam-8bit",
    "adamw8bit": "adam-8bit", "adamw-8bit": "adam-8bit", "adamw-bnb-8bit": "adam-8bit", "momentum": "sgd-momentum",
    "sgd8bit": "sgd-momentum-8bit", "lion8bit": "lion-8bit", "lion-8bit-bnb": "lion-8bit",
}  # fmt: skip


def named(name: str) -> Optimizer:
    """The optimiser of this name; InputError where there is none."""
    word = name.lower().replace("_", "-")
    word = SPELLINGS.get(word, word)
    if word not in OPTIMIZERS:
        hint = did_you_mean(word, OPTIMIZERS) or "one of " + ", ".join(OPTIMIZERS)
        raise InputError(f"unknown optimizer {printable(name)!r}", hint, "usage")
    return OPTIMIZERS[word]
