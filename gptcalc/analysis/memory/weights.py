"""The bytes of a model's weights, tensor by tensor, as a data type or a quantiser stores them."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from functools import cached_property
from math import prod
from typing import NamedTuple

from gptcalc.analysis.memory import mixes
from gptcalc.analysis.memory.result import Tensors
from gptcalc.analysis.memory.sharding import VOCABULARY_MULTIPLE, Layout, blocks_between, local, stage_ranges
from gptcalc.analysis.params import Entry, ledger
from gptcalc.architecture import Architecture, Block
from gptcalc.dtypes import FORMATS, FP32, DType, Format, unknown, weight_format
from gptcalc.equations import Equations, Index, equations
from gptcalc.errors import InputError


class Share(NamedTuple):
    """What one device of a pipeline stage holds of a tensor, and the undivided tensor."""

    row: Tensors
    whole: Tensors
    experts: bool  # spread over expert parallel ranks
    vocabulary: bool  # padded rows
    shape: tuple[int, ...]  # on the device: inputs × outputs, experts in front; rows × columns; a vector's length
    is_matrix: bool  # multiplied, not added or looked up


def names() -> list[str]:
    """Every name that --dtype knows, without the groups of int4."""
    return [*FORMATS, *mixes.MIXES]


def checked(dtype: str) -> str:
    """A data type's name as it is shown; InputError where there is none."""
    found = weight_format(dtype)
    if found is not None:
        return found.name
    word = {"gguf-f16": "f16", "bf16-gguf": "gguf-bf16"}.get(dtype.lower(), dtype.lower())
    if word not in mixes.MIXES:
        raise unknown(dtype, names())
    return word


class Weights:
    """A model's weights in one format, split one way."""

    def __init__(self, architecture: Architecture, dtype: str, parallel: Layout, engine: str = "ideal") -> None:
        self.architecture = architecture
        self.parallel = parallel
        self.multiple = VOCABULARY_MULTIPLE.get(engine, 1)
        self.model: Equations = equations(architecture)
        entries = list(ledger(self.model))
        kinds = [stage.name for stage in self.model.stages if stage.kind == "layers"]
        names = dict(zip((block for block, _ in architecture.groups()), kinds, strict=True))
        self.of_block: dict[Block, list[Entry]] = {
            block: [e for e in entries if e.stage.name == name] for block, name in names.items()
        }
        self.of_stage = {kind: [e for e in entries if e.stage.kind == kind] for kind in ("embedding", "output")}
        self.has_experts = any(e.tensor.weight.component == "experts" and _is_matrix(e) for e in entries)
        self._set_format(dtype)

    def in_format(self, dtype: str) -> Weights:
        """The same weights in another format."""
        other = copy(self)
        other._set_format(dtype)
        return other

    def _set_format(self, dtype: str) -> None:
        self.dtype = checked(dtype)
        self.format = weight_format(self.dtype)

    @cached_property
    def traits(self) -> mixes.Traits:
        return mixes.traits(self.architecture)

    @cached_property
    def places(self) -> list[mixes.Progression]:
        """Where the tensors stand whose GGUF type depends on it."""
        keys = {
            block: [k for e in own if _is_matrix(e) and mixes.role(k := e.tensor.weight.key) in mixes.BY_LAYER]
            for block, own in self.of_block.items()
        }
        return mixes.progressions(self.architecture, keys, self.traits)

    def stage(self, number: int) -> list[Share]:
        """What each device of a pipeline stage holds: its layers; the embedding first, the output last."""
        last = self.parallel.pp - 1
        start, stop = stage_ranges(self.architecture.n_layers, self.parallel.pp)[number]
        shares = []
        if number == 0:
            shares += [self.share(entry, 1) for entry in self.of_stage["embedding"]]
        shares += self.layers(start, stop)
        if number == last:
            shares += [self.share(entry, 1) for entry in self.of_stage["output"]]
            if self.architecture.head.tying and last > 0:  # the last stage needs the table as well
                table = next(e for e in self.of_stage["embedding"] if e.tensor.weight.key == "embedding.token")
                shares.append(self.share(table, 1, again=True))
        return shares

    def layers(self, start: int, stop: int) -> Iterator[Share]:
        placed = self._placed(start, stop) if self.format is None else {}
        for block, times in blocks_between(self.architecture, start, stop).items():
            for entry in self.of_block[block]:
                types = placed.get((block, entry.tensor.weight.key))
                if types is None:
                    yield self.share(entry, times)
                else:
                    for (i, n), count in types.items():
                        yield self.share(entry, count, i, n)

    def _placed(self, start: int, stop: int) -> dict[tuple[Block, str], dict[tuple[int, int], int]]:
        """How often each tensor whose GGUF type depends on its layer stands where, places of one type together."""
        found: dict[tuple[Block, str], dict[tuple[int, int], int]] = {}
        first: dict[tuple[str, DType], tuple[int, int]] = {}
        values = sum(place.times for place in self.places if mixes.role(place.key) == "v")
        for place in self.places:
            role = mixes.role(place.key)
            n = values if role == "v" else self.traits.n_layers
            for type_, i, times in mixes.kinds(self.dtype, place, place.between(start, stop), n, self.traits):
                where = first.setdefault((role, type_), (i, n))
                counts = found.setdefault((place.block, place.key), {})
                counts[where] = counts.get(where, 0) + times
        return found

    def share(self, entry: Entry, times: int, i: int = 0, n: int = 1, again: bool = False) -> Share:
        indices = _indices(entry)
        whole = {letter: index.size for letter, index in indices}
        mine = local(indices, self.parallel, self.multiple)
        row = undivided = self._row(entry, mine, times, i, n)
        if again or mine != whole:
            undivided = self._row(entry, whole, 0 if again else times, i, n)
            self._check_blocks(entry, whole, mine)
        shards = {index.shard for _, index in indices}
        return Share(row, undivided, "ep" in shards, "vocab" in shards, _shape(entry, mine), _is_matrix(entry))

    def _row(self, entry: Entry, sizes: dict[str, int], times: int, i: int, n: int) -> Tensors:
        type_, size = self._stored(entry, sizes, i, n)
        weight = entry.tensor.weight
        return Tensors(weight.key, weight.component, type_, times, prod(sizes.values()), size)

    def _stored(self, entry: Entry, sizes: dict[str, int], i: int, n: int) -> tuple[str, int]:
        """A tensor's type and bytes."""
        copies, inputs, outputs = _matrix(entry, sizes, self.format is None)
        if self.format is None:
            type_ = self._gguf_type(entry, inputs, i, n)
            return type_.name, copies * outputs * type_.row_bytes(inputs)
        if self._is_packed(entry, self.format):
            return self.format.name, copies * self.format.packing.bytes(inputs, outputs)
        wide = self.format.wide
        return wide.name, prod(sizes.values()) * wide.block_bytes

    def _is_packed(self, entry: Entry, format: Format) -> bool:
        """Whether a quantiser touches this tensor. Embeddings, output, norms, routers and single-output gates stay."""
        component = entry.tensor.weight.component
        if format.packed == "none" or not _is_matrix(entry) or component in ("embedding", "output", "router"):
            return False
        if format.packed == "experts" and self.has_experts:
            return component == "experts"
        return entry.tensor.shape[-1] > 1

    def _gguf_type(self, entry: Entry, row: int, i: int, n: int) -> DType:
        role = mixes.role(entry.tensor.weight.key)
        matrix = _is_matrix(entry) and entry.tensor.shape[-1] > 1
        if not matrix and role != "embedding":
            return FP32
        return mixes.tensor_type(self.dtype, role, row, self.traits, i, n)

    def _check_blocks(self, entry: Entry, whole: dict[str, int], mine: dict[str, int]) -> None:
        """A split that cuts through the blocks of a format is refused, as engines refuse it."""
        if whole == mine or not (self.format is None or self._is_packed(entry, self.format)):
            return
        _, inputs, outputs = _matrix(entry, whole, self.format is None)
        _, my_inputs, my_outputs = _matrix(entry, mine, self.format is None)
        if self.format is None:
            block, block_outputs = self._gguf_type(entry, inputs, 0, 1).block, 1
        else:
            packing = self.format.packing
            block = max(packing.element.block, (packing.group or 1) if not packing.flat else 1)
            block_outputs = packing.group_outputs or 1
        for size, mine_, step in ((inputs, my_inputs, block), (outputs, my_outputs, block_outputs)):
            if size % step == 0 and mine_ % step:
                raise InputError(
                    f"--tp {self.parallel.tp}: {entry.tensor.weight.key} would have {mine_} of {size} channels on a "
                    f"device, not a multiple of {self.dtype}'s blocks of {step}", kind="usage",
                )  # fmt: skip


def _is_matrix(entry: Entry) -> bool:
    """Whether a tensor is a factor of a sum: multiplied, not added or looked up."""
    return entry.tensor.reference in entry.line.statement.factors


def _indices(entry: Entry) -> list[tuple[str, Index]]:
    return list(zip(entry.tensor.reference.indices, entry.tensor.indices, strict=True))


def _shape(entry: Entry, sizes: dict[str, int]) -> tuple[int, ...]:
    """A tensor's axes as checkpoints store them: heads and their channels are one, experts have one of their own."""
    copies = (sizes["e"],) if "e" in sizes else ()
    if _is_matrix(entry):
        return (*copies, *_matrix(entry, sizes, False)[1:])
    if entry.stage.kind == "embedding" and len(sizes) > 1:
        rows, *columns = sizes.values()
        return rows, prod(columns)
    return (*copies, prod(size for letter, size in sizes.items() if letter != "e"))


def _matrix(entry: Entry, sizes: dict[str, int], gguf_rows: bool) -> tuple[int, int, int]:
    """A tensor as so many matrices of inputs × outputs. A table's rows are its outputs; a vector is one row.

    In GGUF the rows of latent attention's k_b are one head's channels: it is stored as the absorbed form multiplies it.
    """
    if gguf_rows and entry.tensor.weight.key.endswith(".k_b"):
        return 1, sizes["a"], sizes["l"] * sizes["h"]
    if not _is_matrix(entry):
        *rows, row = sizes.values() if sizes else (1,)
        return 1, row, prod(rows)
    summed = set(entry.line.statement.summed)
    copies = inputs = outputs = 1
    for letter, size in sizes.items():
        if letter == "e":
            copies *= size
        elif letter in summed:
            inputs *= size
        else:
            outputs *= size
    return copies, inputs, outputs


def total(architecture: Architecture, dtype: str = "bf16") -> int:
    """Bytes of all weights on one device."""
    return sum(share.row.total for share in Weights(architecture, dtype, Layout()).stage(0))
