"""Parameters: total, active, by component, by layer group, by tensor, and the formula."""

from __future__ import annotations

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


def ledger(model: Equations) -> list[Entry]:
    """Every learned tensor once, in order of first use. A tied matrix stands on two lines and counts at the first."""
    entries = []
    for stage in model.stages:
        seen: set[str] = set()
        for line in stage.lines:
            for tensor in line.tensors():
                weight = tensor.weight
                if not weight.tied and weight.key not in seen:
                    seen.add(weight.key)
                    entries.append(Entry(stage, line, tensor))
    return entries


def params(architecture: Architecture) -> Params:
    """What a checkpoint of the main model stores as learned weights, in exact integers."""
    model = equations(architecture)
    entries = ledger(model)
    components = dict.fromkeys(COMPONENTS, 0)
    for entry in entries:
        if entry.stage is not model.mtp:
            components[entry.tensor.weight.component] += entry.total
    groups = {stage.name: _group(stage, entries) for stage in model.stages}
    main = tuple(groups[stage.name] for stage in model.main)
    total = sum(group.total for group in main)
    return Params(
        model=architecture.name,
        total=total,
        active=sum(group.active for group in main),
        embedding=components["embedding"],
        non_embedding=total - components["embedding"],
        tying=architecture.head.tying,
        mtp=0 if model.mtp is None else groups[model.mtp.name].total,
        formula=formula(model, entries),
        components=components,
        groups=main,
    )


def _group(stage: Stage, entries: list[Entry]) -> Group:
    tensors = [entry.tensor for entry in entries if entry.stage is stage]
    rows = tuple(TensorRow(t.weight.key, t.shape, stage.times, t.params) for t in tensors)
    per_layer = sum(row.params for row in rows)
    active = sum(tensor.active for tensor in tensors)
    return Group(stage.name, stage.times, per_layer, per_layer * stage.times, active * stage.times, rows)


def formula(model: Equations, entries: list[Entry]) -> str:
    """The total in the model's symbols, equal terms collected: d·v + d·c + n_layers·(12·d² + 13·d) + 2·d."""
    layers: dict[str, int] = {}  # what one layer has -> how many layers have it
    before: list[str] = []
    after: list[str] = []
    for stage in model.main:
        terms: poly.Polynomial = {}
        for entry in entries:
            if entry.stage is stage:
                poly.add(terms, poly.product(index.symbol for index in entry.tensor.indices))
        text = poly.show(terms, model.symbols)
        if stage.runs == "layer":
            layers[text] = layers.get(text, 0) + stage.times
        elif terms:
            (after if layers else before).append(text)
    n_layers = model.symbols["n_layers"]
    middle = [f"{'n_layers' if times == n_layers else times}·({text})" for text, times in layers.items()]
    return " + ".join([*before, *middle, *after])
