"""Activations of inference: what is held at the widest moment of a pass.

Every left side of the equations is held from the line that makes it to the last line that reads it; a pointwise line
overwrites an operand that nobody reads again. Scores and attention weights are never held whole (flash attention), and
what the cache keeps is not counted twice. Exact for the equations; an estimate of an engine, which fuses some lines and
holds work space for others.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

from gptcalc.dtypes import FP32
from gptcalc.equations import PAST, Chosen, Line, Stage
from gptcalc.equations.language import Reference, Wanted

#: elements per new token, per token of the past, per wanted position
Size: TypeAlias = tuple[int, int, int]


class Moment(NamedTuple):
    """Elements that are held while one line is computed."""

    stage: str
    line: str
    token: int  # for each new token
    past: int  # for each token of the context: keys and values made anew from latents
    logits: int  # for each position whose logits are wanted

    def bytes(self, tokens: int, past: int, wanted: int, width: int) -> int:
        """`width` bytes an element; logits are fp32."""
        return width * (self.token * tokens + self.past * past) + FP32.block_bytes * self.logits * wanted


NOTHING = Moment("", "", 0, 0, 0)


class _Value:
    """A left side: what it takes, the line that makes it (−1: it came in), and the last that reads it."""

    def __init__(self, size: Size, made: int, last: int) -> None:
        self.size = size
        self.made = made
        self.last = last


def moments(stage: Stage, tp: int = 1) -> list[Moment]:
    """The moments of a stage, one a line."""
    lines = [line for line in stage.lines if line.statement.left.name]
    born, dying = _lives(lines, tp)
    token, past, logits = map(sum, zip(NOTHING[2:], *(v.size for at in dying for v in at if v.made < 0), strict=True))
    found = []
    for at, line in enumerate(lines):
        new = born[at]
        token, past, logits = token + new[0], past + new[1], logits + new[2]
        room = NOTHING[2:]
        if line.kind == "pointwise":  # the widest operand that dies makes room for the result
            room = max((value.size for value in dying[at] if value.made < at), default=room)
        spared = [min(a, b) for a, b in zip(room, new, strict=True)]
        found.append(Moment(stage.name, line.text, token - spared[0], past - spared[1], logits - spared[2]))
        for value in dying[at]:
            token, past, logits = token - value.size[0], past - value.size[1], logits - value.size[2]
    return found


def _lives(lines: list[Line], tp: int) -> tuple[list[Size], list[list[_Value]]]:
    """What each line makes, and which values it is the last to read."""
    cached = {line.statement.left.name for line in lines if line.kind in ("store", "read")}
    over_past = {
        ref.name for line in lines if line.kind == "sum" for ref in line.statement.references
        if "s" in ref.indices and "t" not in ref.indices
    } - cached  # fmt: skip
    values: list[_Value] = []
    now: dict[str, _Value] = {}
    born: list[Size] = []
    for at, line in enumerate(lines):
        for reference in _read(line):
            if reference.name not in cached:
                if reference.name not in now:
                    values.append(_Value(_size(line, reference, over_past, tp), -1, at))
                    now[reference.name] = values[-1]
                now[reference.name].last = at
        left = line.statement.left
        if left.name in cached:
            born.append(NOTHING[2:])
            continue
        values.append(_Value(_size(line, left, over_past, tp), at, at))
        now[left.name] = values[-1]
        born.append(values[-1].size)
    dying: list[list[_Value]] = [[] for _ in lines]
    for value in values:
        dying[value.last].append(value)
    return born, dying


def _read(line: Line) -> list[Reference]:
    """What a line reads, weights left out. `+=` reads what it adds to."""
    references = line.statement.references[1:] if "+=" not in line.text else line.statement.references
    return [reference for reference in references if reference.name not in line.weights]


def _size(line: Line, reference: Reference, over_past: set[str], tp: int) -> Size:
    """Elements of what this line refers to: per new token, per token of the past, per wanted position."""
    indices, condition = reference.indices, line.condition
    if "t" in indices and any(letter in PAST for letter in indices):
        return NOTHING[2:]
    n = split = 1
    for letter in indices:
        if letter == "e" and isinstance(condition, Chosen):
            n *= condition.active
        elif letter not in ("t", *PAST):
            index = line.scope[letter]
            n *= index.size
            split *= index.size if index.shard else 1
    n = -(-n // min(tp, split))
    if isinstance(condition, Wanted):
        return 0, 0, n
    if "χ" in indices:  # of an entry: each token's share
        n = -(-n // line.scope["χ"].every)
    return (0, n, 0) if reference.name in over_past else (n, 0, 0)


def widest(candidates: Iterable[Moment]) -> list[Moment]:
    """Without those that another one exceeds in everything."""
    kept: list[Moment] = []
    for moment in sorted(candidates, key=lambda m: m[2:], reverse=True):
        if not any(all(a >= b for a, b in zip(other[2:], moment[2:], strict=True)) for other in kept):
            kept.append(moment)
    return kept
