"""How the tensors of a checkpoint are shown, alone and beside a config's count."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from gptcalc.analysis.stored_result import Difference, Held, Stored
from gptcalc.report.table import Column, Table, View

if TYPE_CHECKING:
    from gptcalc.sources.header import Header
    from gptcalc.sources.packed import Contents

TENSORS = (
    Column("name", "tensor"),
    Column("dtype", "type"),
    Column("shape", "shape"),
    Column("params", "elements", "count"),
)
HELD = (
    Column("role", "in the file"),
    Column("tensors", "tensors", "number"),
    Column("params", "elements", "count"),
    Column("bytes", "bytes", "bytes"),
)
DTYPES = (Column("dtype", "type"), Column("params", "elements", "count"))


class Listed(Struct, frozen=True):
    name: str
    shape: tuple[int, ...]
    dtype: str
    params: int


class Counted(Struct, frozen=True):
    """What a header says without an architecture. total: parameters of the main model, as the names tell them."""

    model: str
    total: int
    mtp: int
    stored: int
    held: tuple[Held, ...]
    dtypes: dict[str, int]  # elements as they are stored
    tensors: tuple[Listed, ...]


def counted(path: str, header: Header, contents: Contents, found: Stored) -> Counted:
    """Every tensor, and their sums by role and by data type."""
    dtypes: dict[str, int] = {}
    for tensor in header.tensors:
        dtypes[tensor.dtype] = dtypes.get(tensor.dtype, 0) + tensor.elements
    params = {weight.tensor.name: weight.elements for weight in contents.weights.values()}
    listed = tuple(Listed(t.name, t.shape, t.dtype, params.get(t.name) or t.elements) for t in header.tensors)
    name = os.path.basename(os.path.abspath(path))
    return Counted(name, found.main, found.mtp, found.stored, found.held, dtypes, listed)


def view(found: Counted, by: str | None = None) -> View:
    """The sums by role and by data type; every tensor where it is asked for, and in CSV."""
    sums = held(found.held, f"{found.model}: parameters of a checkpoint's main model {found.total:,}")
    types = Table(DTYPES, list(found.dtypes.items()))
    tensors = Table(TENSORS, [(t.name, t.dtype, t.shape, t.params) for t in found.tensors])
    return View([sums, tensors if by == "tensor" else types], tensors)


def held(rows: Sequence[Held], title: str = "") -> Table:
    return Table(HELD, [(row.role.replace("_", " "), row.tensors, row.params, row.bytes) for row in rows], title=title)


MOST_NAMED = 3


def differences(differ: Sequence[Difference], counts: str) -> str | None:
    """One sentence about the tensors that config and file see differently; `counts`: whose numbers the total has."""
    if not differ:
        return None
    named = "; ".join(
        f"{d.tensor} {_count(d.config)} by the config, {_count(d.file)} in the file" for d in differ[:MOST_NAMED]
    )
    more = f"; and {len(differ) - MOST_NAMED} more" if len(differ) > MOST_NAMED else ""
    return f"config and tensors differ: {named}{more}; the total is that of the {counts}"


def _count(n: int | None) -> str:
    return "none" if n is None else f"{n:,}"
