"""Parameters: total, active, by component, by layer group, by tensor, and the formula."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from msgspec import Struct

from gptcalc.architecture import Architecture
from gptcalc.equations import Equations, Line, Stage, Tensor, equations
from gptcalc.equations import polynomial as poly

COMPONENTS = (
    "embedding", "attention", "recurrent", "mlp", "experts", "shared_experts", "router", "norm", "output", "other",
)  # fmt: skip

CONVENTION = (
    "learned weights of the main model: a tied matrix once, the router's selection bias included; "
    "multi-token-prediction modules and derived buffers left out"
)


class TensorRow(Struct, frozen=True):
    name: str
    shape: tuple[int, ...]
    count: int
    params: int


class Group(Struct, frozen=True):
    name: str
    layers: int
    per_layer: int
    total: int
    active: int
    tensors: tuple[TensorRow, ...]


class Params(Struct, frozen=True):
    """The keys of `gptcalc params --json`."""

    model: str
    total: int
    active: int
    embedding: int
    non_embedding: int
    tying: bool
    mtp: int
    formula: str
    components: dict[str, int]
    groups: tuple[Group, ...]


class Entry(NamedTuple):
    """One learned tensor in the ledger: the line it stands on and how often that line's stage exists."""

    stage: Stage
    line: Line
    tensor: Tensor

    @property
    def total(self) -> int:
        return self.tensor.params * self.stage.times


def ledger(model: Equations) -> Iterator[Entry]:
    """Every learned tensor once, in order of first use. A tied matrix stands on two lines and counts at the first."""
    for stage in model.stages:
        seen: set[str] = set()
        for line in stage.lines:
            for tensor in line.tensors():
                key = tensor.weight.key
                if key in seen or (stage.kind != "embedding" and key.startswith("embedding.")):
                    continue
                seen.add(key)
                yield Entry(stage, line, tensor)


def params(architecture: Architecture) -> Params:
    """What a checkpoint of the main model stores as learned weights, in exact integers."""
    model = equations(architecture)
    components = dict.fromkeys(COMPONENTS, 0)
    stages: dict[str, tuple[Stage, list[Tensor]]] = {stage.name: (stage, []) for stage in model.stages}
    for entry in ledger(model):
        stages[entry.stage.name][1].append(entry.tensor)
        if entry.stage.kind != "mtp":
            components[entry.tensor.weight.component] += entry.total
    groups = tuple(_group(stage, tensors) for stage, tensors in stages.values() if stage.kind != "mtp")
    total = sum(group.total for group in groups)
    return Params(
        model=architecture.name,
        total=total,
        active=sum(group.active for group in groups),
        embedding=components["embedding"],
        non_embedding=total - components["embedding"],
        tying=architecture.head.tying,
        mtp=sum(_group(stage, tensors).total for stage, tensors in stages.values() if stage.kind == "mtp"),
        formula=formula(model),
        components=components,
        groups=groups,
    )


def _group(stage: Stage, tensors: list[Tensor]) -> Group:
    per_layer = sum(tensor.params for tensor in tensors)
    rows = tuple(TensorRow(t.weight.key, t.shape, stage.times, t.params) for t in tensors)
    active = sum(tensor.active for tensor in tensors)
    return Group(stage.name, stage.times, per_layer, per_layer * stage.times, active * stage.times, rows)


def formula(model: Equations) -> str:
    """The total in the model's symbols, equal terms collected: d·v + c·d + n_layers·(12·d² + 13·d) + 2·d."""
    once: dict[str, poly.Polynomial] = {stage.name: {} for stage in model.stages if stage.kind != "mtp"}
    for entry in ledger(model):
        if entry.stage.name in once:
            ranges = [index.symbol for _, index in entry.tensor.indices]
            poly.add(once[entry.stage.name], poly.product(ranges))
    layer_groups = sum(stage.kind == "layers" for stage in model.stages)
    pieces = []
    for stage in model.stages:
        terms = once.get(stage.name)
        if not terms:
            continue
        if stage.kind != "layers":
            pieces.append(poly.show(terms, model.symbols))
        else:
            times = "n_layers" if layer_groups == 1 else str(stage.times)
            pieces.append(f"{times}·({poly.show(terms, model.symbols)})")
    return " + ".join(pieces)
