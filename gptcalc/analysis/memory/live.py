"""Activations of inference: what is held at the widest moment of a pass.

Every left side of the equations is held from the line that makes it to the last line that reads it; a pointwise line
overwrites an operand that nobody reads again. Scores and attention weights are never held whole (flash attention), and
what the cache keeps is not counted twice. Sums of the stream that are set aside are held to the end. Exact for the
equations; an estimate of an engine, which fuses some lines and holds work space for others.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import NamedTuple, TypeAlias

from gptcalc.analysis.memory.sharding import Layout, share
from gptcalc.dtypes import FP32
from gptcalc.equations import Line, Reference, Stage, Wanted
from gptcalc.equations.language import ASIDE
from gptcalc.equations.roles import LOOKED_BACK

#: elements per new token, per token of the past, per wanted position, whatever the length, and per token of the source
Size: TypeAlias = tuple[int, int, int, int, int]


ALONE = Layout()


class Moment(NamedTuple):
    """Elements that are held while one line is computed."""

    stage: str
    line: str
    token: int  # for each new token
    past: int  # for each token of the context: keys and values made anew from latents
    logits: int  # for each position whose logits are wanted
    once: int = 0  # whatever the length: what is made of weights alone
    source: int = 0  # for each token that an encoder reads

    def bytes(self, tokens: int, past: int, wanted: int, width: int, source: int = 0) -> int:
        """`width` bytes an element; logits are fp32."""
        elements = self.token * tokens + self.past * past + self.once + self.source * source
        return width * elements + FP32.block_bytes * self.logits * wanted


NOTHING = Moment("", "", 0, 0, 0)
NO_SIZE: Size = (0, 0, 0, 0, 0)


class Value:
    """A left side: what it is, the line that makes it (−1: it came in), and the last that reads it."""

    def __init__(self, line: Line, reference: Reference, made: int, last: int) -> None:
        self.line = line  # one that refers to it
        self.reference = reference
        self.made = made
        self.last = last


class Lives(NamedTuple):
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


def moments(stage: Stage, parallel: Layout = ALONE) -> list[Moment]:
    """The moments of a stage, one a line."""
    found_lives = lives(stage)
    lines, made, dying = found_lives.lines, found_lives.made, found_lives.dying()
    over_past = _over_past(lines)

    def size(value: Value) -> Size:
        return elements(value.line, value.reference, over_past, parallel)

    sizes = {each: size(each) for values in dying for each in values}
    held = [sum(each) for each in zip(NO_SIZE, *(n for old, n in sizes.items() if old.made < 0), strict=True)]
    found = []
    for at, line in enumerate(lines):
        own = made[at]
        new = NO_SIZE if own is None else sizes[own]
        held = [a + b for a, b in zip(held, new, strict=True)]
        room = NO_SIZE
        if line.kind == "pointwise":  # the widest operand that dies makes room for the result
            room = max((sizes[old] for old in dying[at] if old.made < at), default=room)
        found.append(Moment(stage.name, line.text, *(n - min(a, b) for n, a, b in zip(held, room, new, strict=True))))
        for old in dying[at]:
            held = [a - b for a, b in zip(held, sizes[old], strict=True)]
    return [m._replace(token=0, past=0, source=m.token + m.past) for m in found] if stage.runs == "encoder" else found


def lives(stage: Stage) -> Lives:
    """From where to where each left side of a stage is held. What the cache keeps is none."""
    lines = [line for line in stage.lines if line.statement.left.name]
    cached = {line.statement.left.name for line in lines if line.kind in ("store", "read")}
    now: dict[str, Value] = {}
    made: list[Value | None] = []
    read: list[list[Value]] = []
    for at, line in enumerate(lines):
        operands = {ref.name: ref for ref in _read(line) if ref.name not in cached}
        for name, reference in operands.items():
            now.setdefault(name, Value(line, reference, -1, at)).last = at
        read.append([now[name] for name in operands])
        left = line.statement.left
        value = None if left.name in cached else Value(line, left, at, at)
        if value is not None:
            now[left.name] = value
        made.append(value)
    for name in ASIDE & now.keys():
        now[name].last = len(lines) - 1
    return Lives(lines, made, read)


def _over_past(lines: list[Line]) -> set[str]:
    """What is made of all tokens so far, and not cached."""
    cached = {line.statement.left.name for line in lines if line.kind in ("store", "read")}
    return {
        ref.name
        for line in lines
        if line.kind == "sum"
        for ref in line.statement.references
        if "past" in (roles := line.roles(ref)) and "new" not in roles
    } - cached


def _read(line: Line) -> list[Reference]:
    """What a line reads, weights left out. `+=` reads what it adds to."""
    references = line.statement.references if line.statement.adds else line.statement.references[1:]
    return [reference for reference in references if reference.name not in line.weights]


def elements(line: Line, reference: Reference, over_past: Set[str], parallel: Layout) -> Size:
    """Elements of what this line refers to: per new token, per token of the past, per wanted position, else once."""
    if line.is_of_pairs(reference):
        return NO_SIZE
    n = share(line, reference, parallel).each
    if isinstance(line.condition, Wanted):
        return 0, 0, n, 0, 0
    if reference.name in over_past:
        return 0, n, 0, 0, 0
    if any(index.role == "source" for index in line.indices(reference)):
        return 0, 0, 0, 0, n
    sequence = [index for index in line.indices(reference) if index.role == "new" or index.role in LOOKED_BACK]
    if not sequence:
        return 0, 0, 0, n, 0
    for index in sequence:
        if index.role == "entries":  # each token's share
            n = -(-n // index.every)
    return n, 0, 0, 0, 0


def widest(candidates: Iterable[Moment]) -> list[Moment]:
    """Without those that another one exceeds in everything."""
    kept: list[Moment] = []
    for moment in sorted(candidates, key=lambda m: m[2:], reverse=True):
        if not any(all(a >= b for a, b in zip(other[2:], moment[2:], strict=True)) for other in kept):
            kept.append(moment)
    return kept
