"""A buffer as ggml's allocator fills it (ggml/src/ggml-alloc.c)."""

from __future__ import annotations

from bisect import bisect
from typing import TypeAlias

Block: TypeAlias = tuple[int, int]
NOWHERE: Block = (0, 0)


class Arena:
    """A buffer that grows: the smallest freed block that is large enough is taken, else the end."""

    def __init__(self) -> None:
        self.free: list[Block] = []  # offset and size, in order
        self.end = 0
        self.peak = 0

    def take(self, size: int) -> Block:
        at, best = -1, 0
        for k, (_, n) in enumerate(self.free):
            if n >= size and (at < 0 or n <= best):
                at, best = k, n
        if at < 0:
            block = self.end, size
            self.end += size
            self.peak = max(self.peak, self.end)
            return block
        offset, _ = self.free.pop(at)
        if best > size:
            self.free.insert(at, (offset + size, best - size))
        return offset, size

    def give(self, block: Block) -> None:
        """Free a block. It joins its neighbours, or the end."""
        offset, size = block
        if not size:
            return
        at = bisect(self.free, block)
        if at < len(self.free) and self.free[at][0] == offset + size:
            size += self.free.pop(at)[1]
        if at and sum(self.free[at - 1]) == offset:
            at -= 1
            offset, before = self.free.pop(at)
            size += before
        if offset + size == self.end:
            self.end = offset
        else:
            self.free.insert(at, (offset, size))
