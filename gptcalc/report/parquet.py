"""A grid as a Parquet file, a group of rows a piece: parts of a grid are files of one data set (extra: pyarrow).

Whole numbers have 64 bits, FLOPs 38 decimal digits: a prompt of a large batch has more than 2⁶³ of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from gptcalc.errors import InputError
from gptcalc.report.sweep import KINDS

DIGITS = 38
#: rows of a group: what readers take at once
GROUP = 1 << 20


class Sink:
    """What a writer has written and nobody has taken yet."""

    closed = False

    def __init__(self) -> None:
        self.written = 0
        self.held: list[bytes] = []

    def write(self, data: Any) -> int:
        self.held.append(bytes(data))
        self.written += len(self.held[-1])
        return len(self.held[-1])

    def tell(self) -> int:
        return self.written

    def flush(self) -> None:
        """Nothing waits."""

    def close(self) -> None:
        """Nothing is open."""

    def taken(self) -> bytes:
        found, self.held = b"".join(self.held), []
        return found


def packed(blocks: Iterator[list[list[Any]]], keys: Sequence[str]) -> Iterator[bytes]:
    """The bytes of a file with these columns, as they are made. InputError where pyarrow is missing or a number is
    too large."""
    try:
        import pyarrow
        from pyarrow.parquet import ParquetWriter
    except ImportError:
        problem = "--format parquet: pyarrow is not installed"
        raise InputError(problem, "pip install 'gptcalc[parquet]', or --format csv", "usage") from None

    def column(key: str, values: list[Any]) -> Any:
        kind = pyarrow.decimal128(DIGITS, 0) if KINDS.get(key) == "flops" else None
        try:
            if kind is None:
                return pyarrow.array(values, pyarrow.int64() if isinstance(values[0], int) else pyarrow.string())
            return pyarrow.array(values, kind)
        except (OverflowError, pyarrow.ArrowInvalid):
            problem = f"--format parquet: {key} is beyond what its column holds, {max(values)}"
            raise InputError(problem, "--format csv has every digit", "unsupported") from None

    sink, writer = Sink(), None
    for block in _grouped(blocks):
        table = pyarrow.table([column(*each) for each in zip(keys, block, strict=True)], names=list(keys))
        if writer is None:
            writer = ParquetWriter(pyarrow.PythonFile(sink, mode="w"), table.schema)
        writer.write_table(table, row_group_size=GROUP)
        yield sink.taken()
    if writer is None:
        types = [(key, pyarrow.decimal128(DIGITS, 0) if KINDS.get(key) == "flops" else pyarrow.int64()) for key in keys]
        writer = ParquetWriter(pyarrow.PythonFile(sink, mode="w"), pyarrow.schema(types))
    writer.close()
    yield sink.taken()


def _grouped(blocks: Iterator[list[list[Any]]]) -> Iterator[list[list[Any]]]:
    """Pieces put together until a group is full."""
    held: list[list[Any]] = []
    for block in blocks:
        held = block if not held else [[*own, *more] for own, more in zip(held, block, strict=True)]
        if len(held[0]) >= GROUP:
            yield held
            held = []
    if held:
        yield held
