"""A file elsewhere as one that is read here: parts of it are fetched when they are asked for."""

from __future__ import annotations

import io
from collections.abc import Callable

PIECE = 2**18  # bytes of a request: the directory of an archive, or what describes its tensors, often in one


class Ranged(io.RawIOBase):
    """A file of `size` bytes of which `fetch(start, count)` brings a range. What was brought once stays."""

    def __init__(self, size: int, fetch: Callable[[int, int], bytes]) -> None:
        super().__init__()
        self.size = size
        self.fetch = fetch
        self.at = 0
        self.pieces: dict[int, bytes] = {}

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self.at, io.SEEK_END: self.size}[whence]
        if at < 0:
            raise ValueError(f"a position of {at}")
        self.at = at
        return at

    def tell(self) -> int:
        return self.at

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        """Fills the buffer as far as one piece reaches; 0 at the end."""
        number, begin = divmod(self.at, PIECE)
        if self.at >= self.size:
            return 0
        if number not in self.pieces:
            self.pieces[number] = self.fetch(number * PIECE, min(PIECE, self.size - number * PIECE))
        found = self.pieces[number][begin : begin + len(buffer)]
        buffer[: len(found)] = found
        self.at += len(found)
        return len(found)
