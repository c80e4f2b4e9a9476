"""Checkpoints in safetensors files: headers read with suspicion, weights handed out under this project's keys.

NumPy is imported only when a weight is read. Nothing is allocated in proportion to a number in a file before that
number has been compared with the size of the file.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from gptcalc.errors import InputError, printable
from gptcalc.sources import text
from gptcalc.sources.huggingface.tensors import Place, TensorNames

if TYPE_CHECKING:
    import numpy as np

    Array: TypeAlias = np.ndarray[Any, Any]

LONGEST_HEADER = 100_000_000
INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"

#: element types: bits, and NumPy's name for those that it has (bfloat16 is widened by hand)
DTYPES: dict[str, tuple[int, str | None]] = {
    "F64": (64, "<f8"), "F32": (32, "<f4"), "F16": (16, "<f2"), "BF16": (16, "<u2"),
    "I64": (64, "<i8"), "I32": (32, "<i4"), "I16": (16, "<i2"), "I8": (8, "|i1"),
    "U64": (64, "<u8"), "U32": (32, "<u4"), "U16": (16, "<u2"), "U8": (8, "|u1"), "BOOL": (8, "|b1"),
    "F8_E4M3": (8, None), "F8_E5M2": (8, None), "F8_E8M0": (8, None), "F8_E4M3FNUZ": (8, None),
    "F8_E5M2FNUZ": (8, None), "F6_E2M3": (6, None), "F6_E3M2": (6, None), "F4": (4, None), "C64": (64, None),
}  # fmt: skip

#: last words of tensors that are derived, not learned: masks and rotary tables that old checkpoints carry along
ROTARY_TABLES = ("rope_freqs.", "rope_factors_")  # GGUF's
BUFFERS = ("inv_freq", "masked_bias", "attn.bias", "attention.bias", "cos_cached", "sin_cached")


class Tensor(NamedTuple):
    """One tensor of a file: where its bytes lie, counted from the beginning of the file."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    file: Path
    start: int
    end: int

    @property
    def elements(self) -> int:
        return product(self.shape)


@dataclass(frozen=True)
class Header:
    """The tensors of a checkpoint, and what is odd about it."""

    tensors: tuple[Tensor, ...]
    metadata: Mapping[str, str]
    notes: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        """Elements of all tensors; buffers such as causal masks aside."""
        return sum(t.elements for t in self.tensors if not is_buffer(t))


def is_buffer(tensor: Tensor) -> bool:
    """Causal masks and rotary tables. A mask is square; a bias called attn.bias would be a vector."""
    if tensor.name.startswith(ROTARY_TABLES):
        return True
    if tensor.name.endswith(("attn.bias", "attention.bias")):
        return len(tensor.shape) == 4 and tensor.shape[-1] == tensor.shape[-2]
    return tensor.name.rpartition(".")[2] in BUFFERS


def product(shape: tuple[int, ...]) -> int:
    count = 1
    for n in shape:
        count *= n
    return count


# --- headers ----------------------------------------------------------------------------------------------------------


def header(path: str | Path) -> Header:
    """The header of a .safetensors or .gguf file, of an index with its shards, or of a folder that holds one."""
    path = Path(path)
    if path.is_dir():
        path = _in_folder(path)
    if path.name.endswith(".json"):
        return _sharded(path)
    if path.name.endswith(".gguf"):
        from gptcalc.sources import gguf

        return gguf.header(path)
    return _single(path)


def tensors(path: str | Path) -> list[tuple[str, tuple[int, ...], str]]:
    """Name, shape and element type of every tensor."""
    return [(t.name, t.shape, t.dtype) for t in header(path).tensors]


def _in_folder(folder: Path) -> Path:
    for name in (INDEX, SINGLE):
        if (folder / name).is_file():
            return folder / name
    for pattern in ("*.safetensors.index.json", "*.safetensors", "*.gguf"):
        found = sorted(folder.glob(pattern))
        if len(found) == 1:
            return found[0]
        if found:
            raise InputError(f"{folder}: {len(found)} files {pattern} and no {INDEX}; name one", kind="checkpoint")
    raise InputError(f"{folder}: no {SINGLE}, no {INDEX} and no .gguf file", kind="checkpoint")


def _sharded(index: Path) -> Header:
    weight_map = _index(index)
    shards: dict[str, Header] = {}
    for name in sorted(set(weight_map.values())):
        shard = index.parent / name
        if "/" in name or "\\" in name or not name.endswith(".safetensors"):
            raise _bad(index, f"weight_map names {printable(name)!r}, which is not a .safetensors file beside it")
        if not shard.exists():
            raise _bad(index, f"shard {printable(name)} is missing")
        shards[name] = _single(shard)
    held = {name: {t.name: t for t in shard.tensors} for name, shard in shards.items()}
    found: list[Tensor] = []
    for name, shard_name in weight_map.items():
        if name not in held[shard_name]:
            raise _bad(index, f"tensor {printable(name)!r} is not in {shard_name}")
        found.append(held[shard_name][name])
    notes = tuple(note for shard in shards.values() for note in shard.notes)
    more = sum(len(tensors) for tensors in held.values()) - len(found)
    if more:
        notes += (f"{index.name}: {more} tensors of the shards are not in the index; left out",)
    return Header(tuple(found), {}, notes)


def _index(path: Path) -> dict[str, str]:
    try:
        data = text.parse_json(text.read(str(path)))
    except InputError as error:
        raise error if str(path) in error.message else error.within(printable(str(path), 300)) from None
    weight_map = data.get("weight_map") if isinstance(data, dict) else None
    if not isinstance(weight_map, dict) or not all(isinstance(v, str) for v in weight_map.values()):
        raise _bad(path, "expected an object with a weight_map from tensor names to file names")
    return weight_map


def _single(path: Path) -> Header:
    size = regular_size(path)
    with path.open("rb") as file:
        start = file.read(8)
        if start == b"version ":
            raise _pointer(path)
        if size < 8:
            raise _bad(path, f"{size} bytes are too few for a safetensors header")
        length = int.from_bytes(start, "little")
        if length > LONGEST_HEADER:
            raise _bad(path, f"header length {length} exceeds the limit of {LONGEST_HEADER} bytes")
        if length > size - 8:
            raise _bad(path, f"header length {length} exceeds the file's {size} bytes")
        data = _json(path, file.read(length))
    metadata = data.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise _bad(path, "__metadata__ must hold strings")
    found = tuple(_tensor(path, name, entry, 8 + length, size) for name, entry in data.items())
    _no_overlap(path, found)
    return Header(found, metadata, _claims(path, metadata, found))


def _tensor(path: Path, name: str, entry: Any, begin: int, size: int) -> Tensor:
    what = f"tensor {printable(name)!r}"
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise _bad(path, f"{what}: expected dtype, shape and data_offsets")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if dtype not in DTYPES:
        raise _bad(path, f"{what}: element type {printable(str(dtype), 20)!r} is not known")
    if not isinstance(shape, list) or not all(_is_count(n) for n in shape) or len(shape) > 16:
        raise _bad(path, f"{what}: shape {printable(str(shape), 60)} is not a list of sizes")
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(_is_count(n) for n in offsets):
        raise _bad(path, f"{what}: data_offsets {printable(str(offsets), 60)} are not two positions")
    start, end = offsets
    if not start <= end <= size - begin:
        raise _bad(path, f"{what}: data_offsets {start}..{end} reach beyond the {size - begin} bytes of data")
    bits = product(tuple(shape)) * DTYPES[dtype][0]
    if (end - start) * 8 != bits:
        needed = f"{printable(str(bits), 40)} bits, data_offsets give {(end - start) * 8}"
        raise _bad(path, f"{what}: shape {printable(str(shape), 60)} of {dtype} needs {needed}")
    return Tensor(name, tuple(shape), dtype, path, begin + start, begin + end)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _no_overlap(path: Path, found: tuple[Tensor, ...]) -> None:
    before: Tensor | None = None
    for tensor in sorted((t for t in found if t.end > t.start), key=lambda t: t.start):
        if before is not None and tensor.start < before.end:
            raise _bad(path, f"tensors {printable(before.name)!r} and {printable(tensor.name)!r} overlap")
        before = tensor


def _claims(path: Path, metadata: Mapping[str, str], found: tuple[Tensor, ...]) -> tuple[str, ...]:
    claimed = metadata.get("total_parameters")
    counted = sum(t.elements for t in found)
    if claimed is None or claimed == str(counted):
        return ()
    return (f"{path.name}: metadata says {printable(claimed, 30)} total_parameters, the tensors have {counted}",)


def regular_size(path: Path) -> int:
    """The size of a regular file. Pipes and devices are refused: reading them might never end."""
    try:
        status = os.stat(path)
    except OSError as error:
        raise _bad(path, (error.strerror or "can't be read").lower()) from None
    if not stat.S_ISREG(status.st_mode):
        raise _bad(path, "not a regular file")
    if status.st_size == 0:
        raise _bad(path, "empty file")
    return status.st_size


def _json(path: Path, data: bytes) -> dict[str, Any]:
    try:
        return text.mapping(text.parse_json(data.decode("utf-8")))
    except UnicodeDecodeError as error:
        raise _bad(path, f"the header is not UTF-8 at byte {8 + error.start}") from None
    except InputError as error:
        raise _bad(path, f"header: {error.message}") from None


def _pointer(path: Path) -> InputError:
    """What Git LFS leaves in place of a large file begins with `version `, a length of 10^18 otherwise."""
    try:
        text.read(str(path))
    except InputError as error:
        return InputError(error.message, error.hint, "checkpoint")
    return _bad(path, "not a safetensors file")


def _bad(path: Path, problem: str) -> InputError:
    return InputError(f"{printable(str(path), 300)}: {problem}", kind="checkpoint")


# --- weights ----------------------------------------------------------------------------------------------------------

#: words in front of a text model's names, where it stands alone or inside a larger model
PREFIXES = ("model.", "transformer.", "", "language_model.model.", "model.language_model.", "language_model.")


class Checkpoint:
    """The weights of a checkpoint, under this project's keys and in its layout, [inputs..., outputs...]."""

    def __init__(self, path: str | Path, names: TensorNames) -> None:
        self.header = header(path)
        self.names = names
        self.found = {tensor.name: tensor for tensor in self.header.tensors}
        self.read: set[str] = set()

    def get(self, key: str, shape: tuple[int, ...]) -> Array:
        """The weight `key`, which must have this shape."""
        import numpy as np

        places = self.names.places(key)
        for place in places:
            if self.locate(place.expert(0)) is None:
                continue
            if place.stacked:
                return self.cut(key, place, place.name, shape)
            return np.stack([self.cut(key, place, place.expert(e), shape[1:]) for e in range(shape[0])])
        raise InputError(f"the checkpoint has no {places[0].name} (for {key})", kind="checkpoint")

    def locate(self, name: str) -> Tensor | None:
        """The tensor of this name, with other words in front of it if need be."""
        if name in self.found:
            return self.found[name]
        bare = name.removeprefix("model.").removeprefix("transformer.")
        return next((self.found[prefix + bare] for prefix in PREFIXES if prefix + bare in self.found), None)

    def array(self, tensor: Tensor) -> Array:
        """A tensor's numbers, mapped from the file; bfloat16 widened to float32."""
        import numpy as np

        kind = DTYPES[tensor.dtype][1]
        if kind is None:
            raise InputError(f"{tensor.file}: {tensor.name} is {tensor.dtype}; no arithmetic for it", kind="checkpoint")
        self.read.add(tensor.name)
        if tensor.elements == 0:
            return np.zeros(tensor.shape, kind)
        raw = np.memmap(tensor.file, dtype=kind, mode="r", offset=tensor.start, shape=tensor.shape)
        if tensor.dtype == "BF16":
            return (raw.astype("<u4") << 16).view("<f4")
        return raw

    def cut(self, key: str, place: Place, name: str, shape: tuple[int, ...]) -> Array:
        """A weight's part of a tensor, turned to [inputs..., outputs...]."""
        tensor = self.locate(name)
        if tensor is None:
            raise InputError(f"the checkpoint has no {name} (for {key})", kind="checkpoint")
        array = self.array(tensor)
        if place.matrix:
            inputs = product(shape[:-1])
            outputs = array.size // max(1, inputs)
            if place.stored == "out,in":
                array = _shaped(key, array, (*shape[:-2], outputs, shape[-2])).swapaxes(-1, -2)
            else:
                array = _shaped(key, array, (*shape[:-1], outputs))
        if place.shares:
            array = _part(key, array, place)
        return _shaped(key, array, shape)


def _part(key: str, array: Array, place: Place) -> Array:
    """One of the parts that lie side by side, within each group, along the last axis."""
    total, shares = array.shape[-1], sum(place.shares)
    unit = total // shares
    if total % shares or total % place.groups or unit * place.shares[place.index] % place.groups:
        raise InputError(f"{key}: {total} outputs of {place.name} do not divide into its parts", kind="checkpoint")
    grouped = array.reshape(*array.shape[:-1], place.groups, total // place.groups)
    start = unit * sum(place.shares[: place.index]) // place.groups
    width = unit * place.shares[place.index] // place.groups
    return grouped[..., start : start + width].reshape(*array.shape[:-1], place.groups * width)


def _shaped(key: str, array: Array, shape: tuple[int, ...]) -> Array:
    if array.size != product(shape):
        raise InputError(f"{key}: the checkpoint has {array.shape}, the architecture {shape}", kind="checkpoint")
    return array.reshape(shape)
