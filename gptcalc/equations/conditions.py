"""What a pass works on, and the conditions that say which combinations of two indices occur in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Self, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from gptcalc.architecture import Architecture
from gptcalc.equations.roles import Role

if TYPE_CHECKING:
    from collections.abc import Callable

    from gptcalc.conventions import Logits, Pairing, Phase, SumsRun


class Workload(Struct, frozen=True):
    """One sequence of `context` tokens. prefill and train run all of them from nothing, decode the last one.

    source: tokens of the other sequence, for models whose encoder reads one.
    """

    context: int
    phase: Phase = "prefill"
    pairs: Pairing = "causal"
    logits: Logits = "all"
    source: int = 0

    @property
    def new_tokens(self) -> int:
        """T, the range of the new tokens."""
        return min(1, self.context) if self.phase == "decode" else self.context

    @property
    def new_source(self) -> int:
        """Source tokens that are read in this pass: all at once, none in a decode step."""
        return 0 if self.phase == "decode" else self.source

    @property
    def encoder(self) -> Workload:
        """The encoder's pass: its new tokens are the source's."""
        return Workload(self.new_source, "prefill", self.pairs)


def workload(architecture: Architecture, how: SumsRun) -> Workload:
    """One pass over a sequence of a model, as a run's conventions say. InputError where it has no such pass."""
    how.check_phase(architecture, how.phase)
    return Workload(how.length(architecture), how.phase, how.pairs, how.logits, how.source_length(architecture))


class Lettered(Struct, frozen=True, kw_only=True):
    """A condition whose numbers stand in lines as letters."""

    names: tuple[tuple[str, str], ...] = ()  # what lines call its numbers
    numbers: ClassVar[tuple[str, ...]] = ()  # which those are

    def named(self, number: Callable[[str, int], str]) -> Self:
        """The same, its numbers called as lines call them."""
        given = ((name, getattr(self, name)) for name in self.numbers)
        return replace(self, names=tuple((name, number(name, value)) for name, value in given if value is not None))

    def letter(self, name: str) -> str:
        """What lines call a number, else the number."""
        return dict(self.names).get(name, str(getattr(self, name)))


class Pairs(Lettered, frozen=True):
    """A token sees itself and what came before it, in its window or chunk, or its choice.

    What is chosen are top_k keys, or top_k blocks of keys, of which one is always the token's own block so far; with
    `complete` the others are complete with the token, and the one holds those tokens that fill none. With
    `both` it sees what comes behind it, too: all, or what is nearer than its window on both sides.
    """

    window: int | None = None
    chunk: int | None = None
    top_k: int | None = None
    block: int | None = None
    complete: bool = False
    chosen: str = "J(t)"  # the set that the choice is called by
    both: bool = False
    roles: ClassVar[tuple[Role, ...]] = ("new", "past")
    counts: ClassVar[str] = "pairs"
    numbers: ClassVar[tuple[str, ...]] = ("window", "chunk", "block")

    def __str__(self) -> str:
        window, chunk = self.letter("window"), self.letter("chunk")
        if self.both:
            return f"t − {window} < s < t + {window}" if self.window is not None else ""
        if self.window is not None:
            return f"t − {window} < s ≤ t"
        if self.chunk is not None:
            return f"s ≤ t, ⌊s/{chunk}⌋ = ⌊t/{chunk}⌋"
        if self.block is not None:
            return f"s ≤ t, ⌊s/{self.letter('block')}⌋ ∈ {self.chosen}"
        if self.top_k is not None:
            return f"s ≤ t, s ∈ {self.chosen}"
        return "s ≤ t"

    def kept(self, context: int) -> int:
        """How many of `context` tokens the newest one can still need: what the cache holds."""
        return min(context, self.window or self.chunk or context)

    def count(self, work: Workload) -> int:
        """How many pairs of a new token and one that it sees occur."""
        s = work.context
        if work.pairs == "full" or (self.both and self.window is None):
            return work.new_tokens * s
        if self.both:
            near = min(self.window or s, s)
            return s * (2 * near - 1) - near * (near - 1) if s else 0
        if self.block is not None and self.complete:
            before = 0 if work.phase == "prefill" or work.phase == "train" else s - 1
            return self._complete(s, self.block) - self._complete(before, self.block)
        if work.phase == "decode":
            if self.chunk is not None:
                return (s - 1) % self.chunk + 1
            if self.block is not None:
                return min(s, self.earlier + (s - 1) % self.block + 1)
            return min(s, self.window or self.top_k or s)
        if self.chunk is not None:
            whole, rest = divmod(s, self.chunk)
            return whole * triangle(self.chunk) + triangle(rest)
        if self.block is not None:
            limit = min(s, self.earlier + self.block)  # up to here all is seen
            whole, rest = divmod(s - limit, self.block)
            return triangle(limit) + (s - limit) * self.earlier + whole * triangle(self.block) + triangle(rest)
        limit = min(s, self.window or self.top_k or s)
        return triangle(limit) + (s - limit) * limit

    def _complete(self, s: int, block: int) -> int:
        """Pairs of the first s tokens: each with its chosen blocks of those that are complete, and what fills none."""
        whole, rest = divmod(s, block)
        chosen = (self.top_k or 1) - 1
        full = min(chosen, whole)
        blocks = triangle(full - 1) + (whole - full) * chosen if whole else 0
        return blocks * block**2 + full * block * (rest + 1) + whole * triangle(block - 1) + triangle(rest)

    @property
    def earlier(self) -> int:
        """Keys in the chosen blocks before a token's own, once there are as many."""
        return ((self.top_k or 1) - 1) * (self.block or 1)


class Strides(Lettered, frozen=True):
    """A head's query sees the newest blocks of keys and, of those before, every stride-th: the heads' pairs together.

    firsts: the first block that each head sees however far away. groups: KV heads, which read what any of their query
    heads sees. far: what the number of blocks up to a query's own is called in lines, 0 where a block is seen anyway.
    """

    block: int
    local: int
    stride: int
    firsts: tuple[int, ...]
    groups: int
    far: str
    roles: ClassVar[tuple[Role, ...]] = ("new", "past", "heads")
    counts: ClassVar[str] = "pairs of heads"
    numbers: ClassVar[tuple[str, ...]] = ("local",)

    def __str__(self) -> str:
        return f"s ≤ t, {self.far} < {self.letter('local')}"

    def count(self, work: Workload) -> int:
        """How many triples of a head, a new token and one that it sees occur."""
        if work.pairs == "full":
            return len(self.firsts) * work.new_tokens * work.context
        near = Pairs(top_k=self.local, block=self.block).count(work)
        each = {first: self._far(first, work) for first in range(self.stride)}
        return len(self.firsts) * near + sum(each[first] for first in self.firsts)

    def keys(self, work: Workload) -> int:
        """How many keys the new token of a decode step needs, over all KV heads."""
        if work.pairs == "full":
            return self.groups * work.context
        share = len(self.firsts) // self.groups
        wanted = (set(self.firsts[g * share : (g + 1) * share]) for g in range(self.groups))
        near = Pairs(top_k=self.local, block=self.block).count(work)
        return sum(near + sum(self._far(first, work) for first in firsts) for firsts in wanted)

    def _far(self, first: int, work: Workload) -> int:
        """Pairs with keys in blocks before the local ones, of a head that sees every stride-th from `first` on."""
        if work.phase == "decode":
            own = max(work.context - 1, 0) // self.block
            return self.block * strides(own - self.local - first, self.stride)
        whole, rest = divmod(work.context, self.block)
        # the tokens of block Q see strides(Q − local − first) such blocks; summed over all Q below `whole`
        rounds, left = divmod(max(whole - self.local - first, 0), self.stride)
        seen = self.stride * triangle(rounds) + left * (rounds + 1)
        return self.block**2 * seen + rest * self.block * strides(whole - self.local - first, self.stride)


def strides(last: int, stride: int) -> int:
    """How many of 0, stride, 2·stride, … are at most `last`."""
    return last // stride + 1 if last >= 0 else 0


class Within(Lettered, frozen=True):
    """A token and one of its chunk that is not behind it (or before it: `strict`); or such a pair and a third between
    them, from the earlier one on (`through`)."""

    chunk: int
    strict: bool = False
    through: bool = False
    roles: ClassVar[tuple[Role, ...]] = ("new", "past")
    numbers: ClassVar[tuple[str, ...]] = ("chunk",)

    def __str__(self) -> str:
        chunk = self.letter("chunk")
        return f"s {'<' if self.strict else '≤'} t, ⌊s/{chunk}⌋ = ⌊t/{chunk}⌋"

    @property
    def counts(self) -> str:
        return "triples" if self.through else "pairs"

    def count(self, work: Workload) -> int:
        """How many there are in the chunks of a prompt; with all pairs whole squares, and cubes."""
        whole, rest = divmod(work.context, self.chunk)
        return whole * self._in_one(self.chunk, work.pairs) + self._in_one(rest, work.pairs)

    def _in_one(self, n: int, pairs: Pairing) -> int:
        if pairs == "full":
            return n**3 if self.through else n**2
        if self.through:
            return (n - 1) * n * (n + 1) // 6
        return triangle(n - 1) if self.strict else triangle(n)


def triangle(n: int) -> int:
    """1 + 2 + … + n."""
    return n * (n + 1) // 2


class Entries(Lettered, frozen=True):
    """A token sees the entries of `every` tokens that are complete with it, or its choice of them."""

    every: int
    top_k: int | None = None
    roles: ClassVar[tuple[Role, ...]] = ("new", "entries")
    counts: ClassVar[str] = "pairs"
    numbers: ClassVar[tuple[str, ...]] = ("every",)

    def __str__(self) -> str:
        chosen = "" if self.top_k is None else ", χ ∈ J(t)"
        return f"χ < ⌊(t + 1)/{self.letter('every')}⌋{chosen}"

    def kept(self, context: int) -> int:
        """How many entries there are."""
        return context // self.every

    def count(self, work: Workload) -> int:
        """How many pairs of a new token and an entry occur."""
        entries = self.kept(work.context)
        if work.pairs == "full":
            return work.new_tokens * entries
        most = entries if self.top_k is None else min(entries, self.top_k)
        if work.phase == "decode":
            return most
        # every tokens see 1 entry, every further ones 2, …; from the one that completes the last on all see `most`
        return self.every * triangle(max(most - 1, 0)) + most * (work.context - most * self.every + 1)


class Completed(Lettered, frozen=True):
    """The entries that the new tokens complete."""

    every: int
    roles: ClassVar[tuple[Role, ...]] = ("entries",)
    counts: ClassVar[str] = "entries"
    numbers: ClassVar[tuple[str, ...]] = ("every",)

    def __str__(self) -> str:
        every = self.letter("every")
        return f"⌊(S − T)/{every}⌋ ≤ χ < ⌊S/{every}⌋"

    def count(self, work: Workload) -> int:
        return work.context // self.every - (work.context - work.new_tokens) // self.every


class Chosen(Struct, frozen=True):
    """Of `total` experts a token uses `active`, and so touches that share of their weights.

    Some of those chosen may have no weights (LongCat): then it is a bound. `choices` counts these, too. `token`: the
    letter of the tokens.
    """

    active: int
    total: int
    active_symbol: str = "top_k"
    name: str = "R"
    choices: int | None = None
    token: str = "t"
    roles: ClassVar[tuple[Role, ...]] = ("new", "experts")

    def __str__(self) -> str:
        return f"e ∈ {self.name}({self.token})"

    @property
    def counts(self) -> str:
        return f"T · {self.active_symbol}"

    def count(self, work: Workload) -> int:
        return work.new_tokens * self.active


class Later(Struct, frozen=True):
    """Of the tokens of a block that is drafted at once those from this one on."""

    first: int
    of: int
    roles: ClassVar[tuple[Role, ...]] = ("slots",)
    counts: ClassVar[str] = "slots"

    def __str__(self) -> str:
        return f"t ≥ {self.first}"

    def count(self, work: Workload) -> int:  # noqa: ARG002
        return self.of - self.first


class Wanted(Struct, frozen=True):
    """The new tokens whose logits are wanted: all of them, or the last; or none, where only a block that is denoised
    has some."""

    none: bool = False
    roles: ClassVar[tuple[Role, ...]] = ("new",)
    counts: ClassVar[str] = "T"

    def __str__(self) -> str:
        return ""

    def count(self, work: Workload) -> int:
        if self.none:
            return 0
        return work.new_tokens if work.logits == "all" else min(1, work.new_tokens)


class Once(Struct, frozen=True):
    """The source tokens where something is made of each of them once, in the first pass: cross-attention's keys."""

    roles: ClassVar[tuple[Role, ...]] = ("source",)
    counts: ClassVar[str] = "source"

    def __str__(self) -> str:
        return ""

    def count(self, work: Workload) -> int:
        return work.new_source


class Near(Lettered, frozen=True):
    """The tokens that some new one sees in its window: of earlier ones those that the first new token reaches."""

    window: int
    roles: ClassVar[tuple[Role, ...]] = ("past",)
    counts: ClassVar[str] = "past"
    numbers: ClassVar[tuple[str, ...]] = ("window",)

    def __str__(self) -> str:
        return f"s > S − T − {self.letter('window')}"

    def count(self, work: Workload) -> int:
        return min(work.context, self.window - 1 + work.new_tokens)


Condition: TypeAlias = Pairs | Strides | Within | Entries | Completed | Near | Chosen | Later | Wanted | Once


class Constant(Struct, frozen=True):
    """What is kept has the same size whatever the length: a state, the last tokens before a convolution."""


class OfSource(Struct, frozen=True):
    """What is kept is of every source token, from the first pass on; it doesn't grow."""


#: how much of the past a store line keeps
Keep: TypeAlias = Pairs | Entries | Constant | OfSource
