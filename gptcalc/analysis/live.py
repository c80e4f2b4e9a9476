"""Activations of inference: what is held at the widest moment of a pass.

Every left side of the equations is held from the line that makes it to the last line that reads it; a pointwise line
overwrites an operand that nobody reads again. Scores and attention weights are never held whole (flash attention), and
what the cache keeps is not counted twice. Exact for the equations; an estimate of an engine, which fuses some lines and
holds work space for others.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import NamedTuple

from gptcalc.dtypes import FP32
from gptcalc.equations import Chosen, Line, Stage
from gptcalc.equations.language import Wanted


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


class _Value(NamedTuple):
    """A left side: what it takes, and the line after which it is not needed any more."""

    size: tuple[int, int, int]
    last: int


def moments(stage: Stage, tp: int = 1) -> list[Moment]:
    """The moments of a stage, one a line."""
    lines = [line for line in stage.lines if line.statement.left.name]
    cached = {line.statement.left.name for line in lines if line.kind in ("store", "read")}
    over_past = {
        ref.name for line in lines if line.kind == "sum" for ref in line.statement.references
        if "s" in ref.indices and "t" not in ref.indices
    } - cached  # fmt: skip
    made: dict[str, int] = {}  # the line that last wrote a name; −1: it came in
    last: dict[tuple[str, int], int] = {}
    sizes: dict[tuple[str, int], tuple[int, int, int]] = {}
    for at, line in enumerate(lines):
        left = line.statement.left
        for name in _read(line):
            if name not in cached:
                key = (name, made.get(name, -1))
                last[key] = at
                sizes.setdefault(key, _size(line, name, over_past, tp))
        if line.kind == "store" or left.name in cached:
            continue
        made[left.name] = at
        last[left.name, at], sizes[left.name, at] = at, _size(line, left.name, over_past, tp)
    values = {key: _Value(size, last[key]) for key, size in sizes.items()}
    return [_moment(stage.name, at, line, values) for at, line in enumerate(lines)]


def _read(line: Line) -> list[str]:
    """The names that a line reads, weights left out. `+=` reads what it adds to."""
    references = line.statement.references[1:] if "+=" not in line.text else line.statement.references
    return [ref.name for ref in references if ref.name not in line.weights]


def _size(line: Line, name: str, over_past: set[str], tp: int) -> tuple[int, int, int]:
    """Elements of a name as this line refers to it: per new token, per token of the past, per wanted position."""
    indices = next(ref.indices for ref in line.statement.references if ref.name == name)
    if {"t", "s"} <= set(indices):
        return 0, 0, 0
    letters = [letter for letter in indices if letter not in ("t", "s")]
    chosen = line.condition
    n = 1
    if isinstance(chosen, Chosen) and "e" in letters:
        letters.remove("e")
        n = chosen.active
    split = prod(line.scope[letter].size for letter in letters if line.scope[letter].shard)
    n *= -(-prod(line.scope[letter].size for letter in letters) // min(tp, split))
    if isinstance(chosen, Wanted):
        return 0, 0, n
    return (0, n, 0) if name in over_past else (n, 0, 0)


def _moment(stage: str, at: int, line: Line, values: dict[tuple[str, int], _Value]) -> Moment:
    """What is held while the line at `at` is computed. The widest operand that dies there makes room for the result."""
    held = [(made, value) for (_, made), value in values.items() if made <= at <= value.last]
    room = (0, 0, 0)
    if line.kind == "pointwise":
        room = max((value.size for made, value in held if value.last == at and made < at), default=room)
    result = values.get((line.statement.left.name, at), _Value((0, 0, 0), at)).size
    token, past, logits = (
        sum(value.size[part] for _, value in held) - min(room[part], result[part]) for part in range(3)
    )
    return Moment(stage, line.text, token, past, logits)


def widest(candidates: Iterable[Moment]) -> list[Moment]:
    """Without those that another one exceeds in everything."""
    kept: list[Moment] = []
    for moment in sorted(candidates, key=lambda m: m[2:], reverse=True):
        if not any(all(a >= b for a, b in zip(other[2:], moment[2:], strict=True)) for other in kept):
            kept.append(moment)
    return kept
