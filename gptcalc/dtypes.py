"""Data types: how many bytes a row of numbers takes."""

from __future__ import annotations

from typing import NamedTuple

from gptcalc.errors import InputError, did_you_mean


class DType(NamedTuple):
    """A format that stores `block` numbers in `block_bytes` bytes (scales included)."""

    name: str
    block: int
    block_bytes: int

    def row_bytes(self, elements: int) -> int:
        """Bytes of one row, rounded up to whole blocks."""
        return -(-elements // self.block) * self.block_bytes


DTYPES = {
    dtype.name: dtype
    for dtype in (
        DType("fp32", 1, 4),
        DType("bf16", 1, 2),
        DType("fp16", 1, 2),
        DType("fp8", 1, 1),
        DType("int8", 1, 1),
        # ggml's block formats: an fp16 scale (and for _1 an fp16 minimum) for every 32 numbers
        DType("q8_0", 32, 34),
        DType("q5_0", 32, 22),
        DType("q5_1", 32, 24),
        DType("q4_0", 32, 18),
        DType("q4_1", 32, 20),
    )
}


def dtype(name: str) -> DType:
    """The data type of this name; InputError where there is none."""
    try:
        return DTYPES[name.lower()]
    except KeyError:
        hint = did_you_mean(name, DTYPES) or "one of " + ", ".join(DTYPES)
        raise InputError(f"unknown data type {name!r}", hint, "usage") from None
