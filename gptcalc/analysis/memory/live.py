"""Activations of inference: what is held at the widest moment of a pass.

Every left side of the equations is held from the line that makes it to the last line that reads it; a pointwise line
overwrites an operand that nobody reads again. Scores and attention weights are never held whole (flash attention), and
what the cache keeps is not counted twice. Sums of the stream that are set aside are held to the end. Exact for the
equations; an estimate of an engine, which fuses some lines and holds work space for others.
"""

from __future__ import annotations

from collections.abc import Iterable
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


class _Value:
    """A left side: what it takes, the line that makes it (−1: it came in), and the last that reads it."""

    def __init__(self, size: Size, made: int, last: int) -> None:
        self.size = size
        self.made = made
        self.last = last


def moments(stage: Stage, parallel: Layout = ALONE) -> list[Moment]:
    """The moments of a stage, one a line."""
    lines = [line for line in stage.lines if line.statement.left.name]
    born, dying = _lives(lines, parallel)
    held = [sum(each) for each in zip(NO_SIZE, *(v.size for at in dying for v in at if v.made < 0), strict=True)]
    found = []
    for at, line in enumerate(lines):
        new = born[at]
        held = [a + b for a, b in zip(held, new, strict=True)]
        room = NO_SIZE
        if line.kind == "pointwise":  # the widest operand that dies makes room for the result
            room = max((value.size for value in dying[at] if value.made < at), default=room)
        found.append(Moment(stage.name, line.text, *(n - min(a, b) for n, a, b in zip(held, room, new, strict=True))))
        for value in dying[at]:
            held = [a - b for a, b in zip(held, value.size, strict=True)]
    return [m._replace(token=0, past=0, source=m.token + m.past) for m in found] if stage.runs == "encoder" else found


def _lives(lines: list[Line], parallel: Layout) -> tuple[list[Size], list[list[_Value]]]:
    """What each line makes, and which values it is the last to read."""
    cached = {line.statement.left.name for line in lines if line.kind in ("store", "read")}
    over_past = {
        ref.name for line in lines if line.kind == "sum" for ref in line.statement.references
        if "past" in (roles := line.roles(ref)) and "new" not in roles
    } - cached  # fmt: skip
    values: list[_Value] = []
    now: dict[str, _Value] = {}
    born: list[Size] = []
    for at, line in enumerate(lines):
        for reference in _read(line):
            if reference.name not in cached:
                if reference.name not in now:
                    values.append(_Value(_size(line, reference, over_past, parallel), -1, at))
                    now[reference.name] = values[-1]
                now[reference.name].last = at
        left = line.statement.left
        if left.name in cached:
            born.append(NO_SIZE)
            continue
        values.append(_Value(_size(line, left, over_past, parallel), at, at))
        now[left.name] = values[-1]
        born.append(values[-1].size)
    for name in ASIDE & now.keys():
        now[name].last = len(lines) - 1
    dying: list[list[_Value]] = [[] for _ in lines]
    for value in values:
        dying[value.last].append(value)
    return born, dying


def _read(line: Line) -> list[Reference]:
    """What a line reads, weights left out. `+=` reads what it adds to."""
    references = line.statement.references if line.statement.adds else line.statement.references[1:]
    return [reference for reference in references if reference.name not in line.weights]


def _size(line: Line, reference: Reference, over_past: set[str], parallel: Layout) -> Size:
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
