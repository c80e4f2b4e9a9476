"""Which types a GGUF mix gives to the layers of a model, for every number of layers.

Some tensors' types go by their layer and by how many layers there are. How many layers have which type is looked up for
each depth, as how often a kind of layer stands is; a symbol for each such column then says it in polynomials.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gptcalc.analysis.memory import mixes
from gptcalc.analysis.memory.sharding import Layout
from gptcalc.analysis.memory.weights import Weights
from gptcalc.architecture import Architecture
from gptcalc.dtypes import DType
from gptcalc.equations import equations
from gptcalc.equations import polynomial as poly

#: the most numbers that a block has; each block's are a power of two
LARGEST = 256
#: by a stage of the equations and a tensor's key
Tensors = tuple[str, str]
#: how many layers have a tensor in which type
Counts = Mapping[Tensors, Mapping[DType, int]]
Columns = Mapping[Tensors, Mapping[DType, list[int]]]


def counts(architecture: Architecture, dtype: str) -> Counts:
    """Of one model, were all rows whole blocks."""
    weights = Weights(architecture, dtype, Layout())
    entries = {(block, e.tensor.weight.key): e for block, own in weights.of_block.items() for e in own}
    found: dict[Tensors, dict[DType, int]] = {}
    for place, _, at, times in weights.moving(0, architecture.n_layers):
        entry = entries[place.block, place.key]
        own = found.setdefault((entry.stage.name, place.key), {})
        type_ = weights.gguf_type(entry, LARGEST, at)
        if not entry.tensor.weight.shared:
            own[type_] = own.get(type_, 0) + times
        elif not own:  # once, in the type of its first place
            own[type_] = 1
    return found


def numbers(architecture: Architecture, dtype: str) -> dict[Tensors, dict[DType, poly.Polynomial]]:
    """Of one model, as polynomials."""
    return {key: {type_: {(): n} for type_, n in of.items()} for key, of in counts(architecture, dtype).items()}


def columns(each: Sequence[Counts]) -> Columns:
    """Of models of several depths, one after the other."""
    types: dict[Tensors, dict[DType, None]] = {}
    for own in each:
        for key, of in own.items():
            types.setdefault(key, {}).update(dict.fromkeys(of))
    return {key: {t: [own.get(key, {}).get(t, 0) for own in each] for t in of} for key, of in types.items()}


def symbols(found: Columns) -> Iterator[tuple[str, list[int], list[tuple[Tensors, DType]]]]:
    """A symbol for each column that differs from the others, what it is at each depth, and what it counts."""
    alike: dict[tuple[int, ...], list[tuple[Tensors, DType]]] = {}
    for key, of in found.items():
        for type_, column in of.items():
            alike.setdefault(tuple(column), []).append((key, type_))
    for number, (depths, counted) in enumerate(alike.items()):
        yield f"# {number}", list(depths), counted


def experts_and_heads(architecture: Architecture) -> tuple[int, int]:
    """The numbers that rules of mixes ask for; sizes that they go by are not free."""
    found = mixes.traits(architecture)
    return found.n_experts, found.heads_per_kv_head


def kind(architecture: Architecture, dtype: str) -> Any:
    """What models have in common whose types at each depth are the same: their layers, what is in each, and what the
    rules of a mix ask of them."""
    mix = mixes.named(dtype)
    stages = [
        (stage.name, stage.times, tuple(t.weight.key for line in stage.lines for t in line.tensors()))
        for stage in equations(architecture).main
    ]
    return mix, mixes.alike(mixes.traits(architecture)), tuple(stages)
