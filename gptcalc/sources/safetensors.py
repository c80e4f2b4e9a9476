"""Safetensors files: headers read with suspicion, alone or behind an index with shards.

Nothing is allocated in proportion to a number in a file before that number has been compared with the size of the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from gptcalc.errors import InputError, file_name, printable
from gptcalc.sources import text
from gptcalc.sources.header import LONGEST_HEADER, Header, Tensor, bad, product, regular_size

#: element types: bits, and NumPy's name for those that it has (bfloat16 is widened by hand)
DTYPES: dict[str, tuple[int, str | None]] = {
    "F64": (64, "<f8"), "F32": (32, "<f4"), "F16": (16, "<f2"), "BF16": (16, "<u2"),
    "I64": (64, "<i8"), "I32": (32, "<i4"), "I16": (16, "<i2"), "I8": (8, "|i1"),
    "U64": (64, "<u8"), "U32": (32, "<u4"), "U16": (16, "<u2"), "U8": (8, "|u1"), "BOOL": (8, "|b1"),
    "F8_E4M3": (8, None), "F8_E5M2": (8, None), "F8_E8M0": (8, None), "F8_E4M3FNUZ": (8, None),
    "F8_E5M2FNUZ": (8, None), "F6_E2M3": (6, None), "F6_E3M2": (6, None), "F4": (4, None), "C64": (64, None),
}  # fmt: skip


#: the bytes of a file from a position on, as many as are asked for
Read: TypeAlias = Callable[[int, int], bytes]
#: the headers of shards by their names
ShardsOf: TypeAlias = Callable[[list[str]], Iterable[Header]]


def sharded(index: Path, suffix: str = ".safetensors", shards_of: ShardsOf | None = None) -> Header:
    """The header of all shards that an index names, files with this suffix; `shards_of` reads others than beside it."""
    weight_map = weight_map_of(index, suffix)
    names = sorted(set(weight_map.values()))
    shards = dict(zip(names, shards_of(names) if shards_of else beside(index, names, single), strict=True))
    held = {name: {t.name: t for t in shard.tensors} for name, shard in shards.items()}
    found: list[Tensor] = []
    for name, shard_name in weight_map.items():
        if name not in held[shard_name]:
            raise bad(index, f"tensor {printable(name)!r} is not in {shard_name}")
        found.append(held[shard_name][name])
    notes = tuple(note for shard in shards.values() for note in shard.notes)
    more = sum(len(tensors) for tensors in held.values()) - len(found)
    if more:
        notes += (f"{index.name}: {more} tensors of the shards are not in the index; left out",)
    return Header(tuple(found), {}, notes)


def beside(index: Path, names: list[str], read: Callable[[Path], Header]) -> Iterator[Header]:
    """The headers of the files of these names beside an index."""
    for name in names:
        shard = index.parent / name
        if not shard.exists():
            raise bad(index, f"shard {printable(name)} is missing")
        yield read(shard)


def weight_map_of(path: Path, suffix: str) -> dict[str, str]:
    """Where an index says that tensors are: in files with this suffix, beside it."""
    try:
        data = text.parse_json(text.read(str(path)))
    except InputError as error:
        raise error if str(path) in error.message else error.within(file_name(path)) from None
    weight_map = data.get("weight_map") if isinstance(data, dict) else None
    if not isinstance(weight_map, dict) or not all(isinstance(v, str) for v in weight_map.values()):
        raise bad(path, "expected an object with a weight_map from tensor names to file names")
    for name in set(weight_map.values()):
        if "/" in name or "\\" in name or not name.endswith(suffix):
            raise bad(path, f"weight_map names {printable(name)!r}, which is not a {suffix} file beside it")
    return weight_map


def single(path: Path) -> Header:
    """The header of one file."""
    size = regular_size(path)
    with path.open("rb") as file:

        def read(start: int, count: int) -> bytes:
            file.seek(start)
            return file.read(count)

        return parsed(path, size, read)


def parsed(path: Path, size: int, read: Read) -> Header:
    """The header of a file of this size, wherever its bytes come from."""
    start = read(0, 8)
    if start == b"version ":
        raise _pointer(path)
    if size < 8:
        raise bad(path, f"{size} bytes are too few for a safetensors header")
    length = int.from_bytes(start, "little")
    if length > LONGEST_HEADER:
        raise bad(path, f"header length {length} exceeds the limit of {LONGEST_HEADER} bytes")
    if length > size - 8:
        raise bad(path, f"header length {length} exceeds the file's {size} bytes")
    data = _json(path, read(8, length))
    metadata = data.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise bad(path, "__metadata__ must hold strings")
    found = tuple(_tensor(path, name, entry, 8 + length, size) for name, entry in data.items())
    _no_overlap(path, found)
    return Header(found, metadata, _claims(path, metadata, found))


def _tensor(path: Path, name: str, entry: Any, begin: int, size: int) -> Tensor:
    def wrong(problem: str) -> InputError:
        return bad(path, f"tensor {printable(name)!r}: {problem}")

    if not isinstance(entry, dict) or entry.keys() != ENTRY:
        raise wrong("expected dtype, shape and data_offsets")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise wrong(f"element type {printable(str(dtype), 20)!r} is not known")
    if not isinstance(shape, list) or not all(map(_is_count, shape)) or len(shape) > 16:
        raise wrong(f"shape {printable(str(shape), 60)} is not a list of sizes")
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(map(_is_count, offsets)):
        raise wrong(f"data_offsets {printable(str(offsets), 60)} are not two positions")
    start, end = offsets
    if not start <= end <= size - begin:
        raise wrong(f"data_offsets {start}..{end} reach beyond the {size - begin} bytes of data")
    bits = product(tuple(shape)) * DTYPES[dtype][0]
    if (end - start) * 8 != bits:
        needed = f"{printable(str(bits), 40)} bits, data_offsets give {(end - start) * 8}"
        raise wrong(f"shape {printable(str(shape), 60)} of {dtype} needs {needed}")
    return Tensor(name, tuple(shape), dtype, path, begin + start, begin + end)


ENTRY = {"dtype", "shape", "data_offsets"}


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _no_overlap(path: Path, found: tuple[Tensor, ...]) -> None:
    before: Tensor | None = None
    for tensor in sorted((t for t in found if t.end > t.start), key=lambda t: t.start):
        if before is not None and tensor.start < before.end:
            raise bad(path, f"tensors {printable(before.name)!r} and {printable(tensor.name)!r} overlap")
        before = tensor


def _claims(path: Path, metadata: Mapping[str, str], found: tuple[Tensor, ...]) -> tuple[str, ...]:
    claimed = metadata.get("total_parameters")
    counted = sum(t.elements for t in found)
    if claimed is None or claimed == str(counted):
        return ()
    return (f"{path.name}: metadata says {printable(claimed, 30)} total_parameters, the tensors have {counted}",)


def _json(path: Path, data: bytes) -> dict[str, Any]:
    try:
        return text.mapping(text.parse_json(data.decode("utf-8")))
    except UnicodeDecodeError as error:
        raise bad(path, f"the header is not UTF-8 at byte {8 + error.start}") from None
    except InputError as error:
        raise bad(path, f"header: {error.message}") from None


def _pointer(path: Path) -> InputError:
    """What Git LFS leaves in place of a large file begins with `version `, a length of 10^18 otherwise."""
    try:
        text.read(str(path))
    except InputError as error:
        return InputError(error.message, error.hint, "checkpoint")
    return bad(path, "not a safetensors file")
