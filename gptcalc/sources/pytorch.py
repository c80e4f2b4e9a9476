"""pytorch_model.bin files: the tensors that torch.save wrote, without running the pickle that describes them.

A pickle is a program. This one is read opcode by opcode by a machine that knows the few steps of which a mapping from
names to tensors is made; it imports nothing, calls nothing and refuses any other step.
"""

from __future__ import annotations

import pickletools
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeAlias

from gptcalc.errors import printable
from gptcalc.sources.header import Header, Tensor, bad, product, regular_size
from gptcalc.sources.safetensors import DTYPES

LONGEST_PICKLE = 64 * 2**20  # that of 100,000 tensors takes about thirty
MOST_STEPS = 8_000_000  # a tensor takes about fifty
#: what zipfile raises for archives that are none, or broken
BROKEN = (
    zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, OSError, ValueError, LookupError, struct.error,
    OverflowError, zlib.error,
)  # fmt: skip
DEEPEST = 200_000  # values that wait at the same time
MOST_DIMENSIONS = 16
MAGIC = 0x1950A86A20F9469CFC6C  # of files from before torch 1.6, which are no zip archives
BEFORE_STATE = 3  # pickles of such a file in front of that of the tensors: magic number, version, machine

#: torch's classes of storage, and its element types that have none
STORAGES = {
    "DoubleStorage": "F64", "FloatStorage": "F32", "HalfStorage": "F16", "BFloat16Storage": "BF16",
    "LongStorage": "I64", "IntStorage": "I32", "ShortStorage": "I16", "CharStorage": "I8", "ByteStorage": "U8",
    "BoolStorage": "BOOL",
    "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2", "float8_e8m0fnu": "F8_E8M0", "uint16": "U16",
    "uint32": "U32", "uint64": "U64",
}  # fmt: skip


class Storage(NamedTuple):
    """The memory that tensors lie in: one file of the archive."""

    kind: str
    key: str


#: the storages of an archive by key: where each one's entry begins, and how many bytes it holds
Places: TypeAlias = dict[str, tuple[int, int]]


class Stored(NamedTuple):
    """A tensor as the pickle describes it."""

    storage: Storage
    offset: int  # elements
    shape: tuple[int, ...]
    kind: str


def single(path: Path) -> Header:
    """The tensors of one file."""
    size = regular_size(path)
    try:
        with path.open("rb") as file:
            return parsed(path, size, file)
    except OSError as error:
        raise bad(path, f"not a file that torch wrote: {printable(str(error), 120)}") from None


def is_archive(begin: bytes) -> bool:
    """Whether a file that begins so is a zip archive, whose directory stands at its end."""
    return begin.startswith(b"PK\x03\x04")


def parsed(path: Path, size: int, file: BinaryIO) -> Header:
    """The tensors of a file of this size, wherever its bytes come from.

    Their places are exact up to the few bytes that head an entry of the archive: those of one storage are told apart,
    and seen where they are the same.
    """
    try:
        archive = is_archive(file.read(4))
        file.seek(0)
        found, places = _from_archive(path, file) if archive else (_from_stream(path, file), None)
    except BROKEN as error:
        raise bad(path, f"not a file that torch wrote: {printable(str(error), 120)}") from None
    tensors = tuple(_tensor(path, name, stored, places, size) for name, stored in found.items())
    return Header(tensors, {})


def _tensor(path: Path, name: str, stored: Stored, places: Places | None, size: int) -> Tensor:
    what = f"tensor {printable(name)!r}"
    kind = STORAGES.get(stored.kind)
    if kind is None:
        raise bad(path, f"{what}: element type {printable(stored.kind, 40)!r} is not known")
    width = DTYPES[kind][0] // 8
    end = (stored.offset + product(stored.shape)) * width
    begin, available = (0, size) if places is None else places.get(stored.storage.key, (0, 0))
    if end > available:
        raise bad(path, f"{what}: {printable(str(end), 40)} bytes do not fit into the {available} of its storage")
    return Tensor(name, stored.shape, kind, path, begin + stored.offset * width, begin + end)


def _from_archive(path: Path, file: BinaryIO) -> tuple[dict[str, Stored], Places]:
    """The tensors of a zip archive, and where its storages are (the entries of the archive that hold them)."""
    with zipfile.ZipFile(file) as archive:
        entries = archive.infolist()
        pickles = [entry for entry in entries if entry.filename.endswith("data.pkl")]
        if len(pickles) != 1:
            raise bad(path, "a zip archive without a data.pkl, not a file that torch wrote")
        if pickles[0].file_size > LONGEST_PICKLE or pickles[0].compress_type != zipfile.ZIP_STORED:
            raise bad(path, f"data.pkl is compressed or longer than {LONGEST_PICKLE} bytes")
        data = archive.read(pickles[0])
    root = pickles[0].filename.removesuffix("data.pkl") + "data/"
    places = {
        entry.filename.removeprefix(root): (entry.header_offset, entry.file_size)
        for entry in entries
        if entry.filename.startswith(root)
    }
    return _state(path, BytesIO(data)), places


def _from_stream(path: Path, file: BinaryIO) -> dict[str, Stored]:
    """The tensors of a file of several pickles, one behind the other, and the storages behind them."""
    stream = BytesIO(file.read(LONGEST_PICKLE))
    if stream.getvalue()[:8] == b"version ":
        raise bad(path, "this is a Git LFS pointer, not the model itself (git lfs pull)")
    if not stream.getvalue().startswith(b"\x80") or _Machine(path).run(stream) != MAGIC:
        raise bad(path, "not a file that torch wrote")
    for _ in range(BEFORE_STATE - 1):
        _Machine(path).run(stream)
    return _state(path, stream)


def _state(path: Path, stream: BytesIO) -> dict[str, Stored]:
    """The tensors of a state dict, or of the one that a larger checkpoint holds."""
    value = _Machine(path).run(stream)
    for key in ("state_dict", "model", "module"):
        if isinstance(value, dict) and isinstance(value.get(key), dict):
            value = value[key]
            break
    if not isinstance(value, dict):
        raise bad(path, "the pickle holds no mapping from names to tensors")
    return {name: item for name, item in value.items() if isinstance(name, str) and isinstance(item, Stored)}


# --- the machine ------------------------------------------------------------------------------------------------------


class Name(NamedTuple):
    """What would be imported."""

    module: str
    name: str


class Unknown(NamedTuple):
    """The result of a call that is of no interest here, and was not made."""


MARK = object()


class _Machine:
    """Runs the steps of a pickle that build plain values and descriptions of tensors."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def run(self, stream: BytesIO) -> Any:
        """The value of the next pickle in a stream."""
        try:
            for number, (opcode, argument, _) in enumerate(pickletools.genops(stream)):
                if opcode.name == "STOP":
                    return self.stack.pop()
                if number > MOST_STEPS or len(self.stack) > DEEPEST:
                    break
                self.step(opcode.name, argument)
        except (ValueError, IndexError, TypeError, KeyError, UnicodeError, OverflowError) as error:
            raise bad(self.path, f"a broken pickle: {printable(str(error), 120)}") from None
        raise bad(self.path, "a pickle of more steps than a state dict takes")

    def step(self, name: str, argument: Any) -> None:
        stack = self.stack
        if name in CONSTANTS:
            stack.append(CONSTANTS[name]())
        elif name in LITERALS:
            stack.append(argument)
        elif name in STORING:
            self.memo[argument if name != "MEMOIZE" else len(self.memo)] = stack[-1]
        elif name in FETCHING:
            stack.append(self.memo[argument])
        elif name == "GLOBAL":
            stack.append(Name(*argument.split(" ", 1)))
        elif name == "STACK_GLOBAL":
            word, module = stack.pop(), stack.pop()
            if not isinstance(module, str) or not isinstance(word, str):
                raise TypeError("a name that is no text")
            stack.append(Name(module, word))
        elif name in ACTIONS:
            ACTIONS[name](self)
        elif name not in IDLE:
            raise bad(self.path, f"the pickle has a step {name}, which a state dict has not")

    def marked(self) -> list[Any]:
        """What lies above the newest mark."""
        at = len(self.stack) - 1
        while self.stack[at] is not MARK:
            at -= 1
            if at < 0:
                raise IndexError("no mark")
        found = self.stack[at + 1 :]
        del self.stack[at:]
        return found

    def tuple_of(self, n: int) -> None:
        found = tuple(self.stack[len(self.stack) - n :])
        if len(found) < n:
            raise IndexError("an empty stack")
        del self.stack[len(self.stack) - n :]
        self.stack.append(found)

    def set_items(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if isinstance(target, dict):
            target.update(_pairs(items))

    def persistent(self) -> None:
        """A storage: ('storage', its class, its key, its device, its length)."""
        value = self.stack.pop()
        word, kind, key = value[:3]
        if word != "storage" or not isinstance(kind, Name) or not isinstance(key, str):
            raise ValueError("a reference to something else than a storage")
        self.stack.append(Storage(kind.name, key))

    def call(self) -> None:
        """A call: those that make a tensor or a mapping are understood, no other one is made."""
        arguments, what = self.stack.pop(), self.stack.pop()
        self.stack.append(_called(what, arguments))


def _called(what: Any, arguments: Any) -> Any:
    if not isinstance(what, Name) or not isinstance(arguments, tuple):
        return Unknown()
    match what.name:
        case "OrderedDict":
            return {}
        case "_rebuild_tensor_v2" | "_rebuild_tensor_v3" | "_rebuild_tensor":
            return _described(arguments, arguments[6] if what.name == "_rebuild_tensor_v3" else None)
        case "_rebuild_parameter" | "_rebuild_parameter_with_state":
            return arguments[0]
    return Unknown()


def _described(arguments: tuple[Any, ...], kind: Any) -> Stored:
    """A tensor: its storage, where in it it begins, its sizes; newer ones name their element type."""
    storage, offset, shape = arguments[:3]
    if not isinstance(storage, Storage) or not isinstance(shape, tuple) or len(shape) > MOST_DIMENSIONS:
        raise ValueError("a tensor that is not described by sizes")
    if not all(type(n) is int and n >= 0 for n in (offset, *shape)) or not isinstance(kind, Name | None):
        raise ValueError("a tensor that is not described by sizes")
    return Stored(storage, offset, shape, storage.kind if kind is None else kind.name)


def _pop_two(machine: _Machine) -> None:
    value, key = machine.stack.pop(), machine.stack.pop()
    machine.set_items([key, value])


def _append(machine: _Machine, items: list[Any]) -> None:
    if isinstance(machine.stack[-1], list):
        machine.stack[-1].extend(items)


def _new(machine: _Machine) -> None:
    machine.stack.pop()
    machine.stack.pop()
    machine.stack.append(Unknown())


CONSTANTS: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_DICT": dict,
    "EMPTY_LIST": list,
    "EMPTY_TUPLE": tuple,
    "EMPTY_SET": list,
    "MARK": lambda: MARK,
}
LITERALS = frozenset({
    "BININT", "BININT1", "BININT2", "INT", "LONG", "LONG1", "LONG4", "BINFLOAT", "FLOAT", "BINUNICODE",
    "SHORT_BINUNICODE", "BINUNICODE8", "UNICODE", "BINSTRING", "SHORT_BINSTRING", "STRING", "BINBYTES",
    "SHORT_BINBYTES", "BINBYTES8",
})  # fmt: skip
STORING = frozenset({"PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"})
FETCHING = frozenset({"GET", "BINGET", "LONG_BINGET"})
IDLE = frozenset({"PROTO", "FRAME"})
ACTIONS: dict[str, Callable[[_Machine], Any]] = {
    "TUPLE": lambda m: m.stack.append(tuple(m.marked())),
    "TUPLE1": lambda m: m.tuple_of(1),
    "TUPLE2": lambda m: m.tuple_of(2),
    "TUPLE3": lambda m: m.tuple_of(3),
    "LIST": lambda m: m.stack.append(m.marked()),
    "DICT": lambda m: m.stack.append(dict(_pairs(m.marked()))),
    "SETITEM": _pop_two,
    "SETITEMS": lambda m: m.set_items(m.marked()),
    "APPEND": lambda m: _append(m, [m.stack.pop()]),
    "APPENDS": lambda m: _append(m, m.marked()),
    "ADDITEMS": lambda m: _append(m, m.marked()),
    "BINPERSID": _Machine.persistent,
    "REDUCE": _Machine.call,
    "NEWOBJ": _new,
    "BUILD": lambda m: m.stack.pop(),
    "POP": lambda m: m.stack.pop(),
    "POP_MARK": lambda m: m.marked(),
}


def _pairs(items: list[Any]) -> Iterator[tuple[Any, Any]]:
    """Keys and values. Keys that are no texts name no tensor, and comparing them may go too deep: they are left out."""
    return ((key, value) for key, value in zip(items[::2], items[1::2], strict=True) if isinstance(key, str))
