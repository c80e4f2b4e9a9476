"""Points of a grid from a file, a column a key: Parquet, of which only the rows that are asked for are read (extra:
pyarrow), or CSV, which is held whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gptcalc.errors import InputError, file_name, is_count, printable

Columns = dict[str, NDArray[np.int64]]


class PointsFile(Protocol):
    """So many rows of whole numbers under names."""

    path: str
    keys: tuple[str, ...]
    number: int

    def rows(self, start: int, stop: int, keys: tuple[str, ...]) -> Columns:
        """These columns of the rows from `start` up to `stop`. InputError where one is no whole number."""
        ...


def opened(path: str) -> PointsFile:
    """InputError where there is no such file, or it holds no rows."""
    kinds: dict[str, Any] = {".parquet": ParquetPoints, ".csv": CsvPoints}
    kind = kinds.get(Path(path).suffix)
    if kind is None:
        raise InputError(f"--points {file_name(path)}: neither .parquet nor .csv", "give it one of these ends", "usage")
    try:
        found: PointsFile = kind(path)
    except (OSError, UnicodeDecodeError) as error:
        reason = (getattr(error, "strerror", None) or "is no text").lower()
        raise InputError(f"{file_name(path)}: {reason}") from None
    if not found.number:
        raise InputError(f"{file_name(path)}: no points in it", "a line of keys, and a row a point")
    if len(set(found.keys)) < len(found.keys):
        raise InputError(f"{file_name(path)}: a column is there twice", "each key once")
    return found


class CsvPoints:
    """A line of keys, and a line a point."""

    def __init__(self, path: str) -> None:
        import csv

        with open(path, newline="", encoding="utf-8") as file:
            lines = [line for line in csv.reader(file) if line]
        self.path = path
        self.keys = tuple(word.strip() for word in lines[0]) if lines else ()
        self.lines = lines[1:]
        self.number = len(self.lines)

    def rows(self, start: int, stop: int, keys: tuple[str, ...]) -> Columns:
        """As the protocol says."""
        return {key: self._column(key, self.keys.index(key), start, stop) for key in keys}

    def _column(self, key: str, place: int, start: int, stop: int) -> NDArray[np.int64]:
        numbers = []
        for row, line in enumerate(self.lines[start:stop], start + 1):
            word = line[place].strip() if place < len(line) else ""
            if not is_count(word, 18):
                raise InputError(
                    f"{file_name(self.path)}: {key} of point {row}: {printable(word)!r} is no whole number"
                )
            numbers.append(int(word))
        return np.array(numbers, dtype=np.int64)


class ParquetPoints:
    """A Parquet file, its groups of rows read one by one."""

    def __init__(self, path: str) -> None:
        try:
            import pyarrow
            from pyarrow.parquet import ParquetFile
        except ImportError:
            problem = f"--points {file_name(path)}: pyarrow is not installed"
            raise InputError(problem, "pip install 'gptcalc[parquet]', or points in a .csv", "usage") from None
        self.path = path
        try:
            self.file = ParquetFile(path)
        except pyarrow.ArrowInvalid:
            raise InputError(f"{file_name(path)}: is no Parquet file") from None
        self.keys = tuple(self.file.schema_arrow.names)
        self.number: int = self.file.metadata.num_rows

    def rows(self, start: int, stop: int, keys: tuple[str, ...]) -> Columns:
        """As the protocol says."""
        parts: list[Columns] = []
        before = 0
        for group in range(self.file.num_row_groups):
            number = self.file.metadata.row_group(group).num_rows
            first, last = max(start - before, 0), min(stop - before, number)
            if first < last:
                table = self.file.read_row_group(group, columns=list(keys)).slice(first, last - first)
                parts.append({key: self._column(key, table.column(key)) for key in keys})
            before += number
        return {key: np.concatenate([part[key] for part in parts]) for key in keys}

    def _column(self, key: str, column: Any) -> NDArray[np.int64]:
        import pyarrow

        if not pyarrow.types.is_integer(column.type) or column.null_count:
            raise InputError(f"{file_name(self.path)}: {key} is not a whole number at every point")
        found: NDArray[np.int64] = column.to_numpy().astype(np.int64)
        return found
