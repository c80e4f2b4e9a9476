"""What one device holds of a tensor, and where that stands."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from msgspec import Struct

from gptcalc import units
from gptcalc.analysis.memory.result import Tensors
from gptcalc.analysis.params import Entry
from gptcalc.architecture import Fused
from gptcalc.dtypes import DType, Format, weight_format
from gptcalc.equations import Tensor
from gptcalc.equations.roles import STACKED

#: of matrices that are one in the published class, those behind the first: component and use
BEHIND: dict[Fused, set[tuple[str, str]]] = {
    "qkv": {("attention", "keys"), ("attention", "values")},
    "kv": {("attention", "values")},
    "gate_up": {("mlp", "up")},
    "shared_gate_up": {("shared_experts", "up")},
}


class At(Struct, frozen=True):
    """Where a tensor stands, as far as its GGUF type depends on it: the i-th of n of its use. given: a type by hand."""

    i: int = 0
    n: int = 1
    given: DType | None = None
    form: str = ""  # the format by its name, of a matrix that the config names


#: in any layer
ANYWHERE = At()


class Share(Struct, frozen=True):
    """What one device of a pipeline stage holds of a tensor, and the undivided tensor."""

    row: Tensors
    whole: Tensors
    tensor: Tensor
    sizes: list[int]  # what the tensor's indices run over on the device
    stage: str  # of the equations, which has it
    fused: bool = False  # a part of one matrix of queries, keys and values

    @property
    def shape(self) -> tuple[int, ...]:
        """On the device: inputs × outputs, experts in front; rows × columns; a vector's length."""
        return shape_of(self.tensor, self.sizes)

    @property
    def experts(self) -> bool:
        """Spread over expert parallel ranks."""
        return any(index.shard == "ep" for index in self.tensor.indices)

    @property
    def vocabulary(self) -> bool:
        """With padded rows."""
        return any(index.shard == "vocab" for index in self.tensor.indices)


class Divided(Struct, frozen=True):
    """A tensor as one device holds it, in whatever format."""

    entry: Entry
    whole: list[int]  # what its indices run over
    mine: list[int]  # what they do on one device


def by_type(stored: Iterable[tuple[str, int]]) -> str:
    """Types with the bytes of all that have each, the largest in front."""
    sizes: dict[str, int] = {}
    for type_, size in stored:
        sizes[type_] = sizes.get(type_, 0) + size
    ordered = sorted(sizes, key=lambda type_: -sizes[type_])
    return ", ".join(f"{type_} {units.short_bytes(sizes[type_])}" for type_ in ordered)


def known(name: str) -> Format:
    """A format by its name, which was checked."""
    form = weight_format(name)
    assert form is not None, name
    return form


def shape_of(tensor: Tensor, sizes: list[int]) -> tuple[int, ...]:
    """A tensor's axes as checkpoints store them: heads and their channels are one, experts have one of their own."""
    if tensor.kind in ("matrix", "kernel"):
        copies, inputs, outputs = tensor.axes(sizes)
        return (*copies, inputs, outputs)
    if tensor.kind == "table":
        rows, *columns = sizes
        return rows, prod(columns)
    stacked = [index.role in STACKED for index in tensor.indices]
    copies = tuple(size for size, own in zip(sizes, stacked, strict=True) if own)
    return (*copies, prod(size for size, own in zip(sizes, stacked, strict=True) if not own))
