"""How a trace is shown."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import Literal, TypeAlias

from gptcalc import units
from gptcalc.report.table import Column, Table, View
from gptcalc.tracing import StepRow, Trace

STEPS = (
    Column("stage", "stage"),
    Column("step", "step"),
    Column("shapes", "shapes"),
    Column("flops", "FLOPs", "flops"),
    Column("bytes", "result", "bytes"),
    Column("layers", "×", "number"),
)
#: tokens that come one by one, and the cache that grows
PASSES = (
    Column("pass", "pass"),
    Column("context", "tokens in all", "number"),
    Column("flops", "FLOPs", "flops"),
    Column("cache_elements", "numbers in the cache", "number"),
)
#: what is shown of a trace
Show: TypeAlias = Literal["steps", "values", "heatmap"]
MEANING = {
    "x": "what the sublayer reads, a row a token",
    "q": "queries, normed and turned as the model does",
    "k": "keys",
    "v": "values",
    "scores": "q·k of every query and key",
    "scaled": "times the scores' factor, 1/√d_head where none is said",
    "masked": "what a token may not see is −∞",
    "softmax": "attention weights: every row sums to 1",
    "output": "values, mixed by the weights",
}
WEIGHTS = {
    "none": "shapes only",
    "random": "random weights",
    "checkpoint": "the checkpoint's weights",
}


#: shades from 0 to 1
SHADES = " ·░▒▓█"
#: columns of a matrix that are shown
WIDE = 12


def view(found: Trace, show: Show = "steps") -> View:
    """Every product and residual sum; then what the run came to. Or what attention computed, in numbers or shades."""
    rows = [(r.stage, r.step, shapes(r), r.flops, r.bytes, r.layers) for r in found.steps]
    which = f"token {units.grouped(found.context)}" if found.decoded else f"{units.grouped(found.context)} tokens"
    weights = WEIGHTS[found.weights]
    if found.sizes is not None:
        weights = f"a small copy, {', '.join(f'{k} = {n}' for k, n in found.sizes.items())}, {weights}"
    steps = Table(STEPS, rows, title=f"{found.model}: forward pass of {which} ({weights})")
    if show == "values":
        return View([f"{found.model}: what attention computes", *values(found), *summary(found)], steps)
    if show == "heatmap":
        return View(
            [
                f"{found.model}: attention weights, a row a token, a column each that it sees; 0 to 1: {SHADES!r}",
                *heatmap(found),
                *summary(found),
            ],
            steps,
        )
    return View([steps, *grown(found), *summary(found)], steps)


def grown(found: Trace) -> Iterator[Table]:
    """Pass by pass, where there are several."""
    if found.passes:
        seen = list(accumulate(one.tokens for one in found.passes))
        names = ["prefill", *("decode" for _ in found.passes[1:])]
        rows = [
            (name, n, one.flops, one.cache_elements) for name, n, one in zip(names, seen, found.passes, strict=True)
        ]
        yield Table(PASSES, rows)


def values(found: Trace) -> Iterator[str]:
    """Matrix by matrix, head by head."""
    for one in found.values:
        for head, matrix in enumerate(one.heads):
            which = f", head {head}" if len(one.heads) > 1 else ""
            rows = [" ".join(f"{x:8.4f}" for x in row[:WIDE]) + (" …" if len(row) > WIDE else "") for row in matrix]
            yield "\n".join([f"{one.place}.{one.name}{which}: {MEANING[one.name]}", *rows])


def heatmap(found: Trace) -> Iterator[str]:
    """Attention weights as shades, the earliest token to the left."""
    for one in found.values:
        if one.name != "softmax":
            continue
        for head, matrix in enumerate(one.heads):
            rows = ["".join(SHADES[round(x * (len(SHADES) - 1))] for x in row) for row in matrix]
            yield "\n".join([f"{one.place}, head {head}", *map(_shaded, letters(found, len(rows)), rows)])


def _shaded(letter: str, row: str) -> str:
    return f"{letter}│{row}│"


def letters(found: Trace, rows: int) -> list[str]:
    """What stands in front of each row: of a text its letters, one a byte; else nothing."""
    if found.text is None or found.tokens is None or len(found.tokens) != rows:
        return [""] * rows
    return [chr(token) if _is_letter(token) else "·" for token in found.tokens]


def _is_letter(token: int) -> bool:
    return 32 <= token < 127


def named(found: Trace, token: int) -> str:
    """A token by its number; where tokens are bytes of a text, by its letter."""
    return f"'{chr(token)}'" if found.text is not None and _is_letter(token) else str(token)


def shapes(row: StepRow) -> str:
    """(4096 × 512)·(512 × 64) = (4096 × 64); axes of length 1 in front are left out."""
    sign = row.sign if row.sign == "·" else f" {row.sign} "
    return f"{_shape(row.left)}{sign}{_shape(row.right)} = {_shape(row.result)}"


def _shape(shape: tuple[int, ...]) -> str:
    while len(shape) > 2 and shape[0] == 1:
        shape = shape[1:]
    return "(" + " × ".join(map(str, shape)) + ")"


def summary(found: Trace) -> list[str]:
    """Lines below the table."""
    shown = sum(row.flops * row.layers for row in found.steps)
    lines = [] if shown == found.flops else [f"FLOPs of the steps: {units.grouped(shown)}"]
    all_of_them = f"{units.grouped(found.flops)} ({units.short_si(found.flops, 'FLOP')})"
    lines += [
        f"FLOPs in all: {all_of_them}, those of masked pairs among them (flops --pairs full)",
        f"parameters asked for: {units.grouped(found.parameters)}",
        f"numbers held in the cache: {units.grouped(found.cache_elements)}",
    ]
    if found.chunks:
        sizes = " and ".join(map(str, found.chunks))
        lines.append(f"recurrent states in chunks of {sizes} tokens: flops --scan chunked --pairs full")
    if found.top is not None:
        best = ", ".join(f"{named(found, token)} ({probability:.1%})" for token, probability in found.top)
        lines.append(f"likeliest {'tokens at the last position' if found.sees_all else 'next tokens'}: {best}")
    if found.generated is not None:
        lines.append("continued with: " + ",".join(named(found, token) for token in found.generated))
    return ["\n".join(lines)]
