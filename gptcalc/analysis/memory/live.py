"""Activations of inference: what is held at the widest moment of a pass.

Every left side of the equations is held from the line that makes it to the last line that reads it; a pointwise line
overwrites an operand that nobody reads again. Scores and attention weights are never held whole (flash attention), and
what the cache keeps is not counted twice. Sums of the stream that are set aside are held to the end. Exact for the
equations; an estimate of an engine, which fuses some lines and holds work space for others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import lru_cache
from math import prod
from operator import ge
from typing import Protocol, Self, TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from gptcalc.analysis.memory.sharding import Layout, share_of
from gptcalc.dtypes import BF16, FP32
from gptcalc.equations import Index, Line, Reference, Stage, Wanted
from gptcalc.equations.language import ASIDE, of_pairs
from gptcalc.equations.roles import LOOKED_BACK

#: elements per new token, per token of the past, per wanted position, whatever the length, and per token of the source
Size: TypeAlias = tuple[int, int, int, int, int]
LENGTHS = 5


def width_of(dtype: str) -> int:
    """Bytes of an activation: as wide as what weights of a type are multiplied in."""
    return (FP32 if dtype == FP32.name else BF16).block_bytes


#: by which of these lengths something is counted, and how many elements there are for each; None: never held
Counted: TypeAlias = tuple[int, int] | None
#: counts the elements of what a line refers to, given what is made of all tokens so far
Sized: TypeAlias = Callable[[Line, Reference, Set[str], Layout], Counted]

ALONE = Layout()


class Amount(Protocol):
    """A number of elements: an int, or one in symbols."""

    def __add__(self, other: Self, /) -> Self: ...
    def __sub__(self, other: Self, /) -> Self: ...
    def __lt__(self, other: Self, /) -> bool: ...


A = TypeVar("A", bound=Amount)


class Work(Struct, frozen=True):
    """The lengths that a pass's elements are counted by."""

    tokens: int  # new ones
    past: int
    wanted: int  # positions whose logits are wanted
    source: int  # tokens that an encoder reads

    @classmethod
    def prompt(cls, sequences: int, past: int, source: int, chunk: int) -> Work:
        """The widest pass of a prefill in pieces: so many tokens of all sequences, each of which has read a source;
        logits of the last of each."""
        tokens = min(past, chunk)
        return cls(tokens, past, min(sequences, tokens), sequences * source)


class Moment(Struct, frozen=True):
    """Elements that are held while one line is computed."""

    stage: str
    line: str
    token: int  # for each new token
    past: int  # for each token of the context: keys and values made anew from latents
    logits: int  # for each position whose logits are wanted
    once: int = 0  # whatever the length: what is made of weights alone
    source: int = 0  # for each token that an encoder reads

    @property
    def counts(self) -> Size:
        """The elements in the order of `Size`."""
        return self.token, self.past, self.logits, self.once, self.source

    def bytes(self, work: Work, width: int) -> int:
        """`width` bytes an element; logits are fp32."""
        elements = self.token * work.tokens + self.past * work.past + self.once + self.source * work.source
        return width * elements + FP32.block_bytes * self.logits * work.wanted


NOTHING = Moment("", "", 0, 0, 0)


class Value:
    """A left side: what it is, the line that makes it (−1: it came in), and the last that reads it."""

    def __init__(self, line: Line, reference: Reference, made: int, last: int) -> None:
        self.line = line  # one that refers to it
        self.reference = reference
        self.made = made
        self.last = last


class Lives(Struct, frozen=True):
    """What each line makes, if anything, and which values it reads."""

    lines: list[Line]
    made: list[Value | None]
    read: list[list[Value]]

    def dying(self) -> list[list[Value]]:
        """The values that nobody needs behind each line. One that nobody reads dies at once."""
        found: list[list[Value]] = [[] for _ in self.lines]
        read = (value for values in self.read for value in values)
        for value in dict.fromkeys([*read, *(own for own in self.made if own is not None)]):
            found[value.last].append(value)
        return found


def moments(stage: Stage, parallel: Layout = ALONE, sized: Sized | None = None) -> list[Moment]:
    """The moments of a stage, one a line. `sized`: counts elements in place of `elements`."""
    found_lives = lives(stage)
    lines, dying = found_lives.lines, found_lives.dying()
    over_past = made_of_past(lines)

    counted = sized or elements
    sizes = {value: counted(value.line, value.reference, over_past, parallel) for values in dying for value in values}
    held = peaks(found_lives, sizes, 0, dying)
    found = [Moment(stage.name, line.text, *n) for line, n in zip(lines, held, strict=True)]
    return [replace(m, token=0, past=0, source=m.token + m.past) for m in found] if stage.runs == "encoder" else found


def peaks(
    found: Lives, sizes: Mapping[Value, tuple[int, A] | None], nothing: A, dying: Sequence[Sequence[Value]]
) -> list[tuple[A, ...]]:
    """What is held while each line is computed, were its values so large, by the lengths of a Size."""
    held = [nothing] * LENGTHS
    for value, size in sizes.items():
        if value.made < 0 and size is not None:
            held[size[0]] += size[1]
    every = []
    for at, line in enumerate(found.lines):
        own = found.made[at]
        new = None if own is None else sizes[own]
        if new is not None:
            held[new[0]] += new[1]
        now = tuple(held)
        if new is not None and line.kind == "pointwise" and dying[at]:
            now = _overwriting(now, new, [size for old in dying[at] if old.made < at and (size := sizes[old])])
        every.append(now)
        for old in dying[at]:
            if (size := sizes[old]) is not None:
                held[size[0]] -= size[1]
    return every


def _overwriting(held: tuple[A, ...], new: tuple[int, A], dying: Sequence[tuple[int, A]]) -> tuple[A, ...]:
    """The same where the widest operand that dies makes room for the result. By the token counts most."""
    slot, result = new
    first = min((size[0] for size in dying), default=None)
    if first != slot:
        return held
    room = max(n for other, n in dying if other == slot)
    return (*held[:slot], held[slot] - min(room, result), *held[slot + 1 :])


@lru_cache(maxsize=64)  # of runs that differ in types or devices it is the same
def lives(stage: Stage) -> Lives:
    """From where to where each left side of a stage is held. What the cache keeps is none."""
    lines = [line for line in stage.lines if line.statement.left.name]
    cached = {line.statement.left.name for line in lines if line.stored is not None or line.kind == "read"}
    now: dict[str, Value] = {}
    made: list[Value | None] = []
    read: list[list[Value]] = []
    for at, line in enumerate(lines):
        read.append(own := [])
        for name, reference in _read(line, cached).items():
            value = now.get(name)
            if value is None:
                value = now[name] = Value(line, reference, -1, at)
            value.last = at
            own.append(value)
        left = line.statement.left
        if left.name in cached:
            made.append(None)
        else:
            now[left.name] = result = Value(line, left, at, at)
            made.append(result)
    for name in ASIDE & now.keys():
        now[name].last = len(lines) - 1
    return Lives(lines, made, read)


def made_of_past(lines: list[Line]) -> set[str]:
    """What is made of all tokens so far, and not cached."""
    cached = {line.statement.left.name for line in lines if line.stored is not None or line.kind == "read"}
    found = set()
    for line in lines:
        if line.kind == "sum":
            for reference in line.statement.references:
                roles = [line.scope[letter].role for letter in reference.indices]
                if "past" in roles and "new" not in roles:
                    found.add(reference.name)
    return found - cached


def _read(line: Line, cached: Set[str]) -> dict[str, Reference]:
    """What a line reads by name, weights and what the cache keeps left out. `+=` reads what it adds to."""
    statement, weights = line.statement, line.weights
    references = statement.references if statement.adds else statement.references[1:]
    return {ref.name: ref for ref in references if ref.name not in weights and ref.name not in cached}


class Place(Struct, frozen=True):
    """By which of the lengths of a Size something is counted; `every` so many tokens share one."""

    slot: int
    every: int = 1


NEW, PAST, WANTED, ONCE, SOURCE = map(Place, range(5))


def place(line: Line, reference: Reference, over_past: Set[str]) -> Place | None:
    """Per new token, per token of the past, per wanted position, once, or per token of the source; None: never held."""
    return _place(line, reference, line.indices(reference), over_past)


def _place(line: Line, reference: Reference, indices: Sequence[Index], over_past: Set[str]) -> Place | None:
    roles = [index.role for index in indices]
    if of_pairs(roles):
        return None
    if isinstance(line.condition, Wanted):
        return WANTED
    if reference.name in over_past:
        return PAST
    if "source" in roles:
        return SOURCE
    if "new" not in roles and LOOKED_BACK.isdisjoint(roles):
        return ONCE
    return Place(0, prod([i.every for i in indices if i.role == "entries"])) if "entries" in roles else NEW


def elements(line: Line, reference: Reference, over_past: Set[str], parallel: Layout) -> Counted:
    """Elements of what this line refers to, by the length that they are counted by."""
    indices = line.indices(reference)
    where = _place(line, reference, indices, over_past)
    return None if where is None else (where.slot, -(-share_of(line, indices, parallel).each // where.every))


def widest(candidates: Iterable[Moment]) -> list[Moment]:
    """Without those that another one exceeds in everything."""
    kept: list[Moment] = []
    others: list[Size] = []
    for moment in sorted(candidates, key=lambda m: m.counts, reverse=True):
        counts = moment.counts
        if not any(all(map(ge, other, counts)) for other in others):
            kept.append(moment)
            others.append(counts)
    return kept
