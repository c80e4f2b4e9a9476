"""How a trace is shown."""

from __future__ import annotations

from gptcalc import units
from gptcalc.report.table import Column, Table, View
from gptcalc.trace import StepRow, Trace

STEPS = (
    Column("stage", "stage"), Column("step", "step"), Column("shapes", "shapes"), Column("flops", "FLOPs", "flops"),
    Column("bytes", "result", "bytes"), Column("layers", "×", "number"),
)  # fmt: skip
WEIGHTS = {
    "none": "shapes only",
    "random": "a small copy, random weights",
    "checkpoint": "the checkpoint's weights",
}


def view(found: Trace) -> View:
    """Every product and residual sum; then what the run came to."""
    rows = [(r.stage, r.step, shapes(r), r.flops, r.bytes, r.layers) for r in found.steps]
    which = f"token {units.grouped(found.context)}" if found.decoded else f"{units.grouped(found.context)} tokens"
    steps = Table(STEPS, rows, title=f"{found.model}: forward pass of {which} ({WEIGHTS[found.weights]})")
    return View([steps, *summary(found)], steps)


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
    lines = [
        f"FLOPs in all: {units.grouped(found.flops)} ({units.short_si(found.flops, 'FLOP')})",
        f"parameters asked for: {units.grouped(found.parameters)}",
        f"numbers held in the cache: {units.grouped(found.cache_elements)}",
    ]
    if found.chunks:
        sizes = " and ".join(map(str, found.chunks))
        lines.append(f"recurrent states in chunks of {sizes} tokens: flops --scan chunked --pairs full")
    if found.top is not None:
        best = ", ".join(f"{token} ({probability:.1%})" for token, probability in found.top)
        lines.append(f"likeliest next tokens: {best}")
    if found.generated is not None:
        lines.append("continued with: " + ",".join(map(str, found.generated)))
    return ["\n".join(lines)]
