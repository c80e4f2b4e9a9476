"""How parameters are shown."""

from __future__ import annotations

from typing import Literal

from gptcalc.analysis.params import NAMES, Params
from gptcalc.analysis.stored_result import StoredParams
from gptcalc.report import checkpoint
from gptcalc.report.table import Column, Table, View

By = Literal["component", "group", "tensor"]

FIGURES = (Column("figure", ""), Column("parameters", "parameters", "count"))
COMPONENTS = (
    Column("component", "component"),
    Column("params", "parameters", "count"),
    Column("share", "share", "share"),
)
GROUPS = (
    Column("group", "layers"),
    Column("layers", "×", "number"),
    Column("per_layer", "each", "count"),
    Column("total", "total", "count"),
    Column("share", "share", "share"),
)
TENSORS = (
    Column("group", "layers"),
    Column("count", "×", "number"),
    Column("tensor", "tensor"),
    Column("shape", "shape"),
    Column("params", "each", "number"),
    Column("total", "total", "count"),
    Column("share", "share", "share"),
)


def view(found: Params, by: By | None = None) -> View:
    """Figures, components and layer groups; CSV gets the tensors unless told otherwise."""
    tables = {"component": components(found), "group": groups(found), "tensor": tensors(found)}
    shown = [tables["component"], tables["group"]] if by is None else [tables[by]]
    if isinstance(found, StoredParams):
        shown.append(checkpoint.held(found.held))
    return View([figures(found), *shown, f"total = {found.formula}"], tables[by or "tensor"])


def figures(found: Params) -> Table:
    rows = [("total", found.total), ("active", found.active)]
    if found.active_mean is not None:
        rows[1:] = [("active at most", found.active), ("active on average", found.active_mean)]
    rows += [("embedding", found.embedding), ("non-embedding", found.non_embedding)]
    if found.without_tables != found.non_embedding:
        rows.append(("without an output matrix, too", found.without_tables))
    if found.mtp:
        rows.append(("MTP modules, not in the total", found.mtp))
    rows += [(f"the target's {NAMES.get(part, part)}, not in the total", n) for part, n in found.borrowed.items()]
    if isinstance(found, StoredParams) and found.stored != found.total:
        rows.append(("in the file", found.stored))
    tied = ", output matrix tied to the embedding" if found.tying else ""
    return Table(FIGURES, rows, title=f"{found.model}: parameters{tied}", heading=False)


def components(found: Params) -> Table:
    return Table(COMPONENTS, [(name, n, n) for name, n in found.components.items() if n], whole=found.total)


def groups(found: Params) -> Table:
    rows = [(group.name, group.layers, group.per_layer, group.total, group.total) for group in found.groups]
    return Table(GROUPS, rows, whole=found.total)


def tensors(found: Params) -> Table:
    rows = [
        (group.name, tensor.count, tensor.name, tensor.shape, tensor.params, total, total)
        for group in found.groups
        for tensor in group.tensors
        for total in (tensor.params * tensor.count,)
    ]
    return Table(TENSORS, rows, whole=found.total)
