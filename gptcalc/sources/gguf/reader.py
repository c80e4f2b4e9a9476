"""GGUF files: their tensors and metadata, read with suspicion.

Every count and length is compared with the bytes that are left before anything is done with it. Names stand once, data
lie where the alignment says and never on top of each other, as in llama.cpp.
"""

from __future__ import annotations

import mmap
import re
import struct
from pathlib import Path
from typing import NamedTuple, NoReturn, TypeAlias

from gptcalc.dtypes import BF16, FP16, FP32, GGML, MXFP4, DType
from gptcalc.errors import InputError, file_name, printable
from gptcalc.sources.header import LONGEST_HEADER, Header, Tensor, bad, product, regular_size

MAGIC = b"GGUF"
VERSIONS = (2, 3)
ALIGNMENT = 32  # of the data, where the file doesn't say
MOST_DIMENSIONS = 4
DEEPEST_ARRAY = 4

#: ggml's numbers for its types
TYPES: dict[int, DType] = {
    0: FP32, 1: FP16, 2: GGML["q4_0"], 3: GGML["q4_1"], 6: GGML["q5_0"], 7: GGML["q5_1"], 8: GGML["q8_0"],
    9: DType("q8_1", 32, 36), 10: GGML["q2_k"], 11: GGML["q3_k"], 12: GGML["q4_k"], 13: GGML["q5_k"],
    14: GGML["q6_k"], 15: DType("q8_k", 256, 292), 16: DType("iq2_xxs", 256, 66), 17: DType("iq2_xs", 256, 74),
    18: DType("iq3_xxs", 256, 98), 19: DType("iq1_s", 256, 50), 20: GGML["iq4_nl"], 21: DType("iq3_s", 256, 110),
    22: DType("iq2_s", 256, 82), 23: DType("iq4_xs", 256, 136), 24: DType("i8", 1, 1), 25: DType("i16", 1, 2),
    26: DType("i32", 1, 4), 27: DType("i64", 1, 8), 28: DType("fp64", 1, 8), 29: DType("iq1_m", 256, 56), 30: BF16,
    34: DType("tq1_0", 256, 54), 35: DType("tq2_0", 256, 66), 39: MXFP4, 40: DType("nvfp4", 64, 36),
    41: GGML["q1_0"], 42: GGML["q2_0"],
}  # fmt: skip

#: metadata values: struct's letter of a number; 8 is a string, 9 an array
NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9

LEAST_STRING = 8
LEAST_PAIR = LEAST_STRING + 4 + 1
LEAST_TENSOR = LEAST_STRING + 4 + 4 + 8


#: a list of numbers for the layers is kept; longer ones are tokenizers' scores and alike
LONGEST_LIST = 4096

Value: TypeAlias = int | float | bool | str | list[int | float | bool]


class Length(NamedTuple):
    """What is kept of a long list, or of one of texts: how many entries it has."""

    entries: int


Metadata: TypeAlias = dict[str, Value | Length]


class File(NamedTuple):
    """One GGUF file: its metadata, and its tensors with their shapes as torch has them."""

    path: Path
    metadata: Metadata
    tensors: tuple[Tensor, ...]
    length: int  # of the header: what lies before the data


def read(path: Path) -> list[File]:
    """A GGUF file; of one of several that belong together, all of them, the first with the metadata in front."""
    first = _single(path)
    count = first.metadata.get("split.count", 0)
    if not isinstance(count, int) or isinstance(count, bool) or count <= 1:
        return [first]
    match = SPLIT.fullmatch(path.name)
    if match is None or int(match[3]) != count or count > MOST_FILES:
        raise bad(path, f"one of {printable(str(count), 20)} files that is not called NAME-00001-of-{count:05d}.gguf")
    parts = [path.with_name(f"{match[1]}-{number:05d}-of-{match[3]}.gguf") for number in range(1, count + 1)]
    for part in parts:
        if not part.exists():
            raise bad(path, f"file {printable(part.name)} of {count} is missing")
    files = [first if part.name == path.name else _single(part) for part in parts]
    seen: dict[str, Path] = {}
    for file in files:
        for tensor in file.tensors:
            if tensor.name in seen:
                raise bad(file.path, f"tensor {printable(tensor.name)!r} is in {seen[tensor.name].name}, too")
            seen[tensor.name] = file.path
    expected = files[0].metadata.get("split.tensors.count", len(seen))
    if expected != len(seen):
        raise bad(
            path, f"{len(seen)} tensors in {count} files; split.tensors.count says {printable(str(expected), 20)}"
        )
    return files


def length(path: Path) -> int:
    """How long the header of one file is."""
    return _single(path).length


SPLIT = re.compile(r"(.+)-(\d{5})-of-(\d{5})\.gguf")
MOST_FILES = 10_000


def header(path: str | Path) -> Header:
    """The tensors of a GGUF file, those of its other parts included, and its metadata as text (lists left out)."""
    files = read(Path(path))
    metadata = {key: str(value) for key, value in files[0].metadata.items() if not isinstance(value, (list, Length))}
    return Header(tuple(tensor for file in files for tensor in file.tensors), metadata)


def _single(path: Path) -> File:
    size = regular_size(path)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return _Cursor(path, data, size).file()


class _Cursor:
    """A place in the file, and what is read from there on."""

    def __init__(self, path: Path, data: mmap.mmap, size: int) -> None:
        self.path = path
        self.data = data
        self.size = size
        self.at = 0

    def bad(self, problem: str) -> NoReturn:
        raise InputError(f"{file_name(self.path)}: {problem}", kind="checkpoint")

    def take(self, count: int, what: str) -> bytes:
        if count > self.size - self.at:
            self.bad(f"{what} of {count} bytes at {self.at} reaches beyond the file's {self.size}")
        if self.at + count > LONGEST_HEADER:
            self.bad(f"{what} lies beyond the {LONGEST_HEADER} bytes that a header may have")
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, letter: str, what: str) -> int | float | bool:
        value: int | float | bool = struct.unpack("<" + letter, self.take(struct.calcsize("<" + letter), what))[0]
        return value

    def integer(self, letter: str, what: str) -> int:
        return int(self.number(letter, what))

    def count(self, what: str, least: int) -> int:
        """A number of things of at least `least` bytes each, which must fit into what is left."""
        value = self.integer("Q", f"the number of {what}")
        if value * least > self.size - self.at:
            self.bad(f"{value} {what} do not fit into the {self.size - self.at} bytes that are left")
        return value

    def text(self, what: str) -> str:
        length = self.count(f"bytes of {what}", 1)
        try:
            return self.take(length, what).decode("utf-8")
        except UnicodeDecodeError:
            self.bad(f"{what} before byte {self.at} is not UTF-8")

    def file(self) -> File:
        if self.data[:8] == b"version ":
            self.bad("this is a Git LFS pointer, not the model itself (git lfs pull)")
        if self.take(min(4, self.size), "the magic number") != MAGIC:
            self.bad("not a GGUF file: it does not begin with GGUF")
        version = self.integer("I", "the version")
        if int.from_bytes(version.to_bytes(4, "little"), "big") in VERSIONS:
            self.bad("a big-endian GGUF file, which is not read; convert it to little-endian")
        if version not in VERSIONS:
            self.bad(f"GGUF version {version} is not known; known are {' and '.join(map(str, VERSIONS))}")
        n_tensors = self.count("tensors", LEAST_TENSOR)
        n_pairs = self.count("metadata entries", LEAST_PAIR)
        metadata: Metadata = {}
        for _ in range(n_pairs):
            key, value = self.pair()
            if key in metadata:
                self.bad(f"metadata {printable(key)!r} stands twice")
            metadata[key] = value
        found: dict[str, Tensor] = {}
        for _ in range(n_tensors):
            tensor = self.tensor()
            if tensor.name in found:
                self.bad(f"tensor {printable(tensor.name)!r} stands twice")
            found[tensor.name] = tensor
        return File(self.path, metadata, self.placed(list(found.values()), metadata), self.at)

    # metadata

    def pair(self) -> tuple[str, Value | Length]:
        key = self.text("a metadata key")
        return key, self.value(self.integer("I", "a value's type"), key)

    def value(self, kind: int, key: str) -> Value | Length:
        """A metadata value; of lists of texts, and of long lists, the length."""
        what = f"metadata {printable(key)!r}"
        if kind in NUMBERS:
            return self.number(NUMBERS[kind], what)
        if kind == STRING:
            return self.text(what)
        if kind != ARRAY:
            self.bad(f"{what}: value type {kind} is not known")
        return self.array(what, 0)

    def array(self, what: str, depth: int) -> list[int | float | bool] | Length:
        if depth >= DEEPEST_ARRAY:
            self.bad(f"{what}: arrays nested deeper than {DEEPEST_ARRAY}")
        inner = self.integer("I", what)
        if inner in NUMBERS:
            width = struct.calcsize("<" + NUMBERS[inner])
            count = self.count(f"entries of {what}", width)
            data = self.take(count * width, what)
            return list(struct.unpack(f"<{count}{NUMBERS[inner]}", data)) if count <= LONGEST_LIST else Length(count)
        if inner not in (STRING, ARRAY):
            self.bad(f"{what}: value type {inner} is not known")
        count = self.count(f"entries of {what}", LEAST_STRING)
        if inner == STRING:
            self.skip_texts(count, what)
        else:
            for _ in range(count):
                self.array(what, depth + 1)
        return Length(count)

    def skip_texts(self, count: int, what: str) -> None:
        """Past texts, of which a tokenizer has hundreds of thousands: nothing but their lengths is looked at."""
        length = struct.Struct("<Q").unpack_from
        at, last = self.at, min(self.size, LONGEST_HEADER) - LEAST_STRING
        for _ in range(count):
            if at > last:
                break
            at += LEAST_STRING + length(self.data, at)[0]
        if at > last + LEAST_STRING:
            self.bad(f"{what} reaches beyond the file's {self.size} bytes, or the {LONGEST_HEADER} of a header")
        self.at = at

    # tensors

    def tensor(self) -> Tensor:
        """A tensor whose place is still counted from the beginning of the data."""
        name = self.text("a tensor's name")
        what = f"tensor {printable(name)!r}"
        dimensions = self.integer("I", what)
        if dimensions > MOST_DIMENSIONS:
            self.bad(f"{what}: {dimensions} dimensions; GGUF has up to {MOST_DIMENSIONS}")
        shape = struct.unpack(f"<{dimensions}Q", self.take(8 * dimensions, what))
        number, start = self.integer("I", what), self.integer("Q", what)
        if number not in TYPES:
            self.bad(f"{what}: ggml type {number} is not known")
        dtype = TYPES[number]
        if shape and shape[0] % dtype.block:
            self.bad(f"{what}: rows of {shape[0]} are not whole blocks of {dtype.block} ({dtype.name})")
        width = product(shape) // dtype.block * dtype.block_bytes
        return Tensor(name, shape[::-1], dtype.name.upper(), self.path, start, start + width)

    def placed(self, found: list[Tensor], metadata: Metadata) -> tuple[Tensor, ...]:
        alignment = metadata.get("general.alignment", ALIGNMENT)
        if not isinstance(alignment, int) or isinstance(alignment, bool) or not 0 < alignment <= 2**20:
            self.bad(f"general.alignment: {printable(str(alignment), 40)} is no alignment")
        begin = -(-self.at // alignment) * alignment
        reached = 0
        for tensor in sorted(found, key=lambda t: (t.start, t.end)):
            what = f"tensor {printable(tensor.name)!r}"
            if begin + tensor.end > self.size:
                place = f"{printable(str(tensor.start), 30)}..{printable(str(tensor.end), 30)}"
                self.bad(f"{what}: bytes {place} reach beyond the file's {self.size}")
            if tensor.start % alignment:
                self.bad(f"{what}: byte {tensor.start} is no multiple of the alignment {alignment}")
            if tensor.start < reached:
                self.bad(f"{what} overlaps another")
            reached = max(reached, tensor.end)
        return tuple(t._replace(start=begin + t.start, end=begin + t.end) for t in found)
