"""The sums of a forward pass, stage by stage, each line with its ranges, weights, parameters and FLOPs.

The lines are the very objects that the counts come from.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from gptcalc import units
from gptcalc.analysis.params import Entry, ledger
from gptcalc.equations import Equations, Line, Stage, Workload
from gptcalc.report.table import Column, Table, View

COLUMNS = (
    Column("equation", "equation"), Column("where", "where"), Column("shape", "weights"),
    Column("params", "parameters", "number"), Column("flops", "FLOPs", "flops"),
)  # fmt: skip
CSV = (
    Column("stage", ""), Column("times", ""), Column("equation", ""), Column("where", ""), Column("ranges", ""),
    Column("params", ""), Column("flops", ""),
)  # fmt: skip
KINDS = {"store": "kept in the cache", "read": "read from the cache"}


class WeightRow(Struct, frozen=True):
    name: str
    shape: tuple[int, ...]  # as it is indexed on this line
    params: int
    tied: bool  # stands on an earlier line too, and counts there
    borrowed: bool  # another model has it: counted nowhere


class LineRow(Struct, frozen=True):
    equation: str
    kind: str
    component: str
    where: str
    ranges: dict[str, int]
    weights: tuple[WeightRow, ...]
    params: int  # of one repetition of the stage
    flops: int


class StageRow(Struct, frozen=True):
    name: str
    times: int
    letters: dict[str, str]
    lines: tuple[LineRow, ...]
    params: int  # of all repetitions
    flops: int


class Explanation(Struct, frozen=True):
    """The keys of `gptcalc explain --json`."""

    model: str
    phase: str
    context: int
    symbols: dict[str, int]
    stages: tuple[StageRow, ...]
    params: int
    flops: int


def explanation(name: str, model: Equations, work: Workload) -> Explanation:
    """Every line with its numbers. MTP modules are shown, and counted in neither sum."""
    counted = ledger(model)
    stages = tuple(_stage(stage, counted, work) for stage in model.stages)
    main = [row for row, stage in zip(stages, model.stages, strict=True) if stage is not model.mtp]
    passes = 3 if work.phase == "train" else 1
    params, flops = sum(row.params for row in main), passes * sum(row.flops for row in main)
    return Explanation(name, work.phase, work.context, dict(model.symbols), stages, params, flops)


def _stage(stage: Stage, counted: Iterable[Entry], work: Workload) -> StageRow:
    own = [entry for entry in counted if entry.stage is stage]
    mine = {(id(entry.line), entry.tensor.weight.key) for entry in own}
    lines = tuple(_line(line, mine, stage.workload(work)) for line in stage.lines)
    params, flops = sum(entry.total for entry in own), sum(line.flops for line in lines)
    return StageRow(stage.name, stage.times, _letters(stage), lines, params, flops * stage.times)


def _line(line: Line, counted: set[tuple[int, str]], work: Workload) -> LineRow:
    weights = tuple(
        WeightRow(
            t.weight.key,
            tuple(i.size for i in t.indices),
            t.params,
            (id(line), t.weight.key) not in counted and not t.weight.borrowed,
            t.weight.borrowed,
        )
        for t in line.tensors()
    )
    return LineRow(
        equation=line.text,
        kind=line.kind,
        component=line.component,
        where=KINDS.get(line.kind) or str(line.condition or ""),
        ranges={letter: index.length(work) for letter, index in line.ranges().items()},
        weights=weights,
        params=sum(w.params for w in weights if not w.tied and not w.borrowed),
        flops=line.flops(work),
    )


def _letters(stage: Stage) -> dict[str, str]:
    """What each index letter of a stage runs over, as a symbol; both where two sublayers use it differently."""
    found: dict[str, dict[str, None]] = {}
    for line in stage.lines:
        for letter, index in line.ranges().items():
            found.setdefault(letter, {})[index.symbol] = None
    return {letter: " or ".join(symbols) for letter, symbols in found.items()}


def view(found: Explanation) -> View:
    """A table a stage under its name; the letters and what they run over; the sums."""
    sums = f"{units.grouped(found.params)} parameters, {units.grouped(found.flops)} FLOPs"
    parts: list[Table | str] = [_heading(found)]
    for stage in found.stages:
        parts += [_table(stage), _indices(stage)]
    return View([*parts, f"in all, every stage as often as it runs: {sums}"], _csv(found))


def _heading(found: Explanation) -> str:
    what = {
        "prefill": f"a prefill of T = {units.grouped(found.context)} tokens",
        "decode": f"one new token (T = 1), S = {units.grouped(found.context)} with it",
        "train": f"T = {units.grouped(found.context)} tokens, the backward pass twice the forward pass shown",
    }
    return f"{found.model}: the forward pass of {what[found.phase]}"


def _table(stage: StageRow) -> Table:
    """The stage's lines; a column that would be empty is left out."""
    rows = [_row(line) for line in stage.lines]
    used = [position for position in range(len(COLUMNS)) if any(row[position] for row in rows)]
    kept = [COLUMNS[position] for position in used]
    return Table(kept, [[row[position] for position in used] for row in rows], title=_title(stage))


def _title(stage: StageRow) -> str:
    times = f" × {stage.times}" if stage.times != 1 else ""
    sums = f"{units.short_count(stage.params)} parameters, {units.short_si(stage.flops, 'FLOP')}"
    return f"{stage.name}{times}: {sums}"


def _indices(stage: StageRow) -> str:
    """What every letter runs over, and the number where all lines of the stage agree on it."""
    spelled = []
    for letter, symbol in stage.letters.items():
        sizes = {size for line in stage.lines for name, size in line.ranges.items() if name == letter}
        spelled.append(f"{letter}: {symbol}" + (f" = {units.grouped(sizes.pop())}" if len(sizes) == 1 else ""))
    return "indices  " + ", ".join(spelled)


def _row(line: LineRow) -> tuple[str, str, str, int | None, int | None]:
    shapes = " + ".join(_shape(weight) for weight in line.weights)
    return line.equation, line.where, shapes, line.params or None, line.flops or None


def _shape(weight: WeightRow) -> str:
    shape = "×".join(map(str, weight.shape)) or "1"
    if weight.borrowed:
        return f"({shape}, the target's)"
    return f"({shape}, counted above)" if weight.tied else shape


def _csv(found: Explanation) -> Table:
    rows = [
        (stage.name, stage.times, line.equation, line.where, _ranges(line), line.params, line.flops)
        for stage in found.stages
        for line in stage.lines
    ]
    return Table(CSV, rows)


def _ranges(line: LineRow) -> str:
    return " ".join(f"{letter}={size}" for letter, size in line.ranges.items())
