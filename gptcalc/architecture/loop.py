"""Loops: layers that run several times, with the same weights."""

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta

from gptcalc.architecture.base import AtMost, Count, Depth, Kept, Narrow, Strict
from gptcalc.architecture.norms import BareNorm, Norm
from gptcalc.errors import InputError

#: what a pass begins with: what the last one left (`on`), what the first one began with (`anew`), or both, normed and
#: added (`both`)
Entry: TypeAlias = Literal["on", "anew", "both"]
#: which passes keep keys and values: each its own, or the last alone, in which those before it look back, too
Caches: TypeAlias = Literal["each", "last"]
#: of which speed a layer is, where there are two
Speed: TypeAlias = Literal["fast", "slow"]
Cycles: TypeAlias = Annotated[int, Meta(ge=1, le=1_000), AtMost(2)]


class Loop(Strict, frozen=True, kw_only=True):
    """So many layers from layer `first` on, counted from 0, run `passes` times one behind the other (Universal
    Transformers, arXiv:1807.03819). Each pass keeps keys, values and states of its own, or of all the last one alone
    keeps them: then those before it see its past, and of the new tokens their own.
    """

    first: Count  # the first layer that runs several times, counted from 0
    layers: Depth  # how many do
    passes: Cycles  # how often
    entry: Entry = "on"  # a pass begins with what the last one left, with what the first one began with, or with both
    norm: Norm | None = None  # of both, where a pass begins with both
    caches: Caches = "each"  # each pass keeps what it looks back on, or the last one alone

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.passes == 1 and self.entry != "both":
            raise InputError("loop.passes: layers that run once are no loop")
        if (self.norm is not None) != (self.entry == "both"):
            raise InputError(f"loop.norm: what a pass begins with is normed with entry: both, here it is {self.entry}")


class Speeds(Strict, frozen=True, kw_only=True):
    """Two stacks, a state each (hierarchical reasoning, arXiv:2506.21734): the first `fast` layers run `fast_cycles`
    times on the sum of both states, which makes the fast state; then the rest once, which makes the slow one; all that
    `cycles` times. The slow state begins as the embedding and is what leaves, the fast one begins as a learned vector.

    norm: of what leaves a stack. Each pass keeps keys and values of its own.
    """

    fast: Depth  # layers of the fast stack, the first ones
    cycles: Cycles  # how often both run
    fast_cycles: Cycles  # how often the fast stack runs in a cycle
    norm: BareNorm


class Looped(Strict, frozen=True, kw_only=True):
    """What a layer of a loop knows of it.

    begins, ends: it is the loop's first, or last; what leaves the last is normed by `norm`, if there is one, and what a
    pass begins with by `entry_norm`. caches: which passes keep keys and values. sums: of
    how many sums of the last pass messages are mixtures, those that were set aside since its first layer and the
    stream at its end; aside: how many sums were set aside before those.
    """

    passes: Cycles
    entry: Entry | Speed = "on"
    begins: bool = False
    ends: bool = False
    norm: Norm | None = None
    entry_norm: Norm | None = None
    caches: Caches = "each"
    sums: Annotated[Count, Kept()] = 0
    aside: Annotated[Count, Kept()] = 0


class Messages(Strict, frozen=True, kw_only=True):
    """In passes behind the first, what each input h of a sublayer is mixed with m, a mixture of the last pass's sums by
    a learned query: (1 − tanh(F·c))·h + tanh(G·c)·m, where c = D·[norm(h); norm(m)] is of this rank (Inkling 2 Mini).

    The sums are normed as attention residuals norm theirs.
    """

    rank: Narrow  # channels of the bottleneck
    norm: BareNorm
