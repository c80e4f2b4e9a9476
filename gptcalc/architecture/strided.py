"""Attention to blocks of keys by where they stand: the newest ones, and of all others every so many."""

from typing import Annotated

from gptcalc.architecture.base import AtMost, Size, Strict


class Strided(Strict, frozen=True, kw_only=True):
    """Block-sparse attention of Phi-3-small (arXiv:2404.14219, §2): a query sees the `local` newest blocks of keys, of
    which its own is the last, and of those before them every `stride`-th one.

    by_head: other blocks for each head. Head h begins max(1, ⌊stride/n_heads⌋) blocks before head h − 1; else all are
    as head 0, which sees blocks stride − 1, 2·stride − 1, …
    """

    block: Annotated[Size, AtMost(2)]  # keys of a block
    local: Annotated[Size, AtMost(2)]  # newest blocks, which every query sees
    stride: Annotated[Size, AtMost(3)]  # of earlier blocks one in so many is seen
    by_head: bool = True

    def step(self, n_heads: int) -> int:
        """By how many blocks two neighbouring heads differ."""
        return max(1, self.stride // n_heads) if self.by_head else 0

    def first(self, head: int, n_heads: int) -> int:
        """The first block that a head sees however far away: this one, and every stride-th from here on."""
        return -(head * self.step(n_heads) + 1) % self.stride
