"""How the tensors of a checkpoint without a config.json are shown."""

from __future__ import annotations

import os

from msgspec import Struct

from gptcalc.report.table import Column, Table, View
from gptcalc.sources.header import Header, is_buffer

COLUMNS = (
    Column("name", "tensor"), Column("dtype", "type"), Column("shape", "shape"), Column("params", "elements", "count"),
)  # fmt: skip


class Listed(Struct, frozen=True):
    name: str
    shape: tuple[int, ...]
    dtype: str
    params: int


class Counted(Struct, frozen=True):
    """What a header says; buffers such as causal masks are listed, and left out of the total."""

    model: str
    total: int
    dtypes: dict[str, int]
    tensors: tuple[Listed, ...]


def counted(path: str, header: Header) -> Counted:
    """The elements of every tensor, and their sum by data type."""
    dtypes: dict[str, int] = {}
    for tensor in header.tensors:
        if not is_buffer(tensor):
            dtypes[tensor.dtype] = dtypes.get(tensor.dtype, 0) + tensor.elements
    listed = tuple(Listed(t.name, t.shape, t.dtype, t.elements) for t in header.tensors)
    return Counted(os.path.basename(os.path.abspath(path)), header.total, dtypes, listed)


def view(found: Counted) -> View:
    """The sum by data type, then every tensor."""
    sums = Table(
        (Column("dtype", ""), Column("params", "elements", "count")),
        [("total", found.total), *found.dtypes.items()],
        title=f"{found.model}: elements of a checkpoint's tensors",
        heading=False,
    )
    tensors = Table(COLUMNS, [(t.name, t.dtype, t.shape, t.params) for t in found.tensors])
    return View([sums, tensors], tensors)
