"""Embeddings of n-grams beside the layers."""

from typing import Annotated, TypeAlias

from msgspec import Meta

from gptcalc.architecture.base import AtMost, Count, Kernel, Narrow, Size, Small, Strict
from gptcalc.architecture.norms import ModelNorm
from gptcalc.architecture.sublayer import Residual, Sublayer
from gptcalc.errors import InputError

Multiplier: TypeAlias = Annotated[int, Meta(ge=1, le=2**63 - 1)]


class Hashing(Strict, frozen=True, kw_only=True):
    """Which row of a table an n-gram has: the last token times the first multiplier, the one before times the second,
    …, joined by exclusive or, modulo the rows of a head. Heads of all n stand one behind the other, those of 2-grams
    first, as many of each; their rows lie one behind the other in one table.

    end: a token that ends a text; it stands for itself and for all before it.
    """

    rows: tuple[Size, ...]  # of each head
    multipliers: tuple[Multiplier, ...]  # as many as the longest n-gram has tokens
    end: Annotated[Count, AtMost(2)] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if any(number < 1 for number in (*self.rows, *self.multipliers)):
            raise InputError("hashing: rows and multipliers are 1 or more")
        orders = len(self.multipliers) - 1
        if orders < 1 or not self.rows or len(self.rows) % orders:
            longest = f"n-grams of up to {len(self.multipliers)} tokens"
            raise InputError(f"hashing: {len(self.rows)} heads are not as many for each n of {longest}")

    @property
    def longest(self) -> int:
        """Tokens of the longest n-gram."""
        return len(self.multipliers)

    def tokens(self, head: int) -> int:
        """Tokens of a head's n-grams."""
        return 2 + head // (len(self.rows) // (self.longest - 1))


class Engram(Sublayer, tag_field="sublayer", tag="engram", frozen=True, kw_only=True):
    """What is learned of the n-grams that end with each token (Engram, arXiv:2601.07372): a row of every head, side by
    side, projected to keys, one for each residual stream, and to one value. The stream, normed, says by its product
    with the key how much of the value joins it; so does a causal convolution of that, normed, whose taps are as far
    apart as the longest n-gram is long.
    """

    hashing: Hashing
    table: Annotated[Size, Small(61)]  # rows of all heads, and what fills them up
    d_row: Narrow  # channels of a row
    kernel: Kernel  # taps of the convolution
    key_norm: ModelNorm
    conv_norm: ModelNorm  # of what is convolved

    def __post_init__(self) -> None:
        super().__post_init__()
        if sum(self.hashing.rows) > self.table:
            raise InputError(f"{self.section}.table: {self.table} rows, of which heads have {sum(self.hashing.rows)}")
        if self.norm is None or self.norm_at != "pre":
            raise InputError(f"{self.section}: what it reads of the stream is normed in front")
        if any(self.behind_norm.values()) or self.residual != Residual() or self.tied or self.goal != "stream":
            raise InputError(f"{self.section}: it joins the stream it reads, as it is")

    @property
    def width(self) -> int:
        """Channels of all heads' rows."""
        return len(self.hashing.rows) * self.d_row

    @property
    def reach(self) -> int:
        """How many tokens before it a token's convolution reaches."""
        return (self.kernel - 1) * self.hashing.longest
