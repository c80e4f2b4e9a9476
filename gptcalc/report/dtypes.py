"""The data types and formats that are known, and what a number takes in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from gptcalc.analysis.memory.mixes import MIXES, NEEDS_IMATRIX
from gptcalc.analysis.memory.mixes import SPELLINGS as MIX_SPELLINGS
from gptcalc.dtypes import APART, DTYPES, FORMATS, SPELLINGS
from gptcalc.report.table import Column, Table, View

#: the side of the square matrix whose bits are told
SIDE = 4096

COLUMNS = (
    Column("name", "type"),
    Column("cache_bits", "bits in a cache", "figure"),
    Column("weight_bits", "bits of a weight", "figure"),
    Column("packs", "packs"),
    Column("also", "also called"),
    Column("note", ""),
)


class Type(Struct, frozen=True):
    name: str
    cache_bits: float | None  # of a number in a cache, scales included; none: no cache is kept in it
    weight_bits: float | None  # of a weight in a matrix 4096 × 4096, scales included; none: not for weights
    packs: str  # which weights: none, linear (matrices of layers), experts, all, or mix (as llama.cpp's rules choose)
    also: tuple[str, ...]
    note: str = ""


def known() -> Iterator[Type]:
    """Types of caches, formats of weights, and llama.cpp's mixes, whose bits are those of most matrices."""
    for name in dict.fromkeys([*FORMATS, *DTYPES, *MIXES]):
        also = [word for words in (SPELLINGS, MIX_SPELLINGS) for word, meant in words.items() if meant == name]
        cache, format_, mix = DTYPES.get(name), FORMATS.get(name), MIXES.get(name)
        weight = None if mix is None else 8 * mix.block_bytes / mix.block
        if format_ is not None:
            weight = 8 * format_.packing.bytes(SIDE, SIDE) / SIDE**2
        yield Type(
            name,
            None if cache is None else 8 * cache.row_bytes(SIDE) / SIDE,
            weight,
            format_.packed if format_ is not None else "mix" if mix is not None else "",
            tuple(also),
            "needs an importance matrix" if name in NEEDS_IMATRIX else "",
        )


def view(found: Sequence[Type]) -> View:
    table = Table(COLUMNS, [[getattr(one, column.key) for column in COLUMNS] for one in found])
    groups = "with a group: int4:32, gptq:64:sym, mlx4:32; by mean bits: exl3:4.0"
    parts = f"components by hand: nvfp4,attention=bf16 ({', '.join(APART)})"
    more = f"{groups}; {parts}; tensors by hand: q4_k_m,blk.[0-3].ffn_down=q6_k"
    return View([table, more], table)
