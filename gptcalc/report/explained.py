"""The sums as tables: what stands in several stages is shown once, and referred to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Literal, TypeAlias

from msgspec import Struct

from gptcalc import units
from gptcalc.report.explain import Explanation, LineRow, StageRow, WeightRow
from gptcalc.report.legend import shown
from gptcalc.report.table import Column, Table, View

#: letters alone, the numbers of each line's ranges too, or both as far as a line needs
Detail: TypeAlias = Literal["usual", "symbols", "numbers"]

EQUATION, WHERE = Column("equation", "equation"), Column("where", "where")
SHAPE, RANGES = Column("shape", "weights"), Column("ranges", "ranges")
CACHE = Column("cache", "cache")
COUNTS = (Column("params", "parameters", "number"), Column("flops", "FLOPs", "flops"))
COLUMNS: dict[Detail, tuple[Column, ...]] = {
    "usual": (EQUATION, WHERE, CACHE, SHAPE, *COUNTS),
    "symbols": (EQUATION, WHERE, SHAPE),
    "numbers": (EQUATION, WHERE, CACHE, RANGES, SHAPE, *COUNTS),
}
LEGEND = (
    Column("symbol", "symbol"),
    Column("meaning", "meaning"),
    Column("over", "runs over"),
    Column("size", "size", "number"),
)
CSV = (
    Column("stage", ""),
    Column("times", ""),
    Column("equation", ""),
    Column("where", ""),
    Column("ranges", ""),
    Column("params", ""),
    Column("flops", ""),
)

#: lines that two sublayers must have in common, of so many, for the one to be shown as the other with its differences
MOST_OF = (3, 4)


class Piece(Struct, frozen=True):
    """The lines of one sublayer in a stage, and what stands for them where most were shown before."""

    part: str
    lines: tuple[LineRow, ...]
    like: str = ""  # the stage that has them
    shown: tuple[LineRow, ...] = ()
    without: tuple[LineRow, ...] = ()  # which of those it doesn't have

    @property
    def params(self) -> int:
        return sum(line.params for line in self.lines)

    @property
    def flops(self) -> int:
        return sum(line.flops for line in self.lines)


def pieces(stages: Sequence[StageRow]) -> Iterator[tuple[StageRow, list[Piece]]]:
    """Every stage's sublayers, with what of them was not shown before."""
    earlier: list[tuple[str, tuple[LineRow, ...]]] = []
    for stage in stages:
        found = []
        for part, group in groupby(stage.lines, lambda line: line.part):
            lines = tuple(group)
            found.append(_piece(part, lines, earlier))
            earlier.append((stage.name, lines))
        yield stage, found


def _piece(part: str, lines: tuple[LineRow, ...], earlier: list[tuple[str, tuple[LineRow, ...]]]) -> Piece:
    best, common = None, 0
    for stage, others in earlier:
        shared = len(set(map(_key, lines)) & set(map(_key, others)))
        if shared > common:
            best, common = (stage, others), shared
    if best is None or len(lines) == 1 or common * MOST_OF[1] < MOST_OF[0] * max(len(lines), len(best[1])):
        return Piece(part, lines, "", lines)
    stage, others = best
    there, here = set(map(_key, others)), set(map(_key, lines))
    new = tuple(line for line in lines if _key(line) not in there)
    instead = {line.equation for line in new}
    gone = tuple(line for line in others if _key(line) not in here and line.equation not in instead)
    return Piece(part, lines, stage, new, gone)


def _key(line: LineRow) -> tuple[object, ...]:
    shapes = tuple((weight.shape, weight.tied, weight.borrowed) for weight in line.weights)
    return line.equation, line.where, tuple(line.ranges.items()), shapes


def view(found: Explanation, detail: Detail = "usual") -> View:
    """A table a stage under its name; what every symbol is; the sums."""
    shown: list[Table | str] = [_table(stage, parts, detail) for stage, parts in pieces(found.stages)]
    end = [] if detail == "symbols" else [sums(found)]
    return View([heading(found), *shown, *_legend(found, detail), *end], csv(found))


def sums(found: Explanation) -> str:
    """Parameters and FLOPs of what is shown."""
    what = (
        "in all, every stage as often as it runs" if found.whole else "what is shown, every stage as often as it runs"
    )
    return f"{what}: {units.grouped(found.params)} parameters, {units.grouped(found.flops)} FLOPs"


def heading(found: Explanation) -> str:
    what = {
        "prefill": f"a prefill of T = {units.grouped(found.context)} tokens",
        "decode": f"one new token, t = {units.grouped(found.context - 1)} (counted from 0), behind "
        f"{units.grouped(found.context - 1)} in the cache: T = 1, S = {units.grouped(found.context)}",
        "train": f"T = {units.grouped(found.context)} tokens, the backward pass twice the forward pass shown",
    }
    said = any("T_P" in line.equation for stage in found.stages for line in stage.lines)
    prompt = "; the prompt is the first T_P tokens" if said else ""
    source = f"; the source has N = {units.grouped(found.source)} tokens" if found.source else ""
    return f"{found.model}: the forward pass of {what[found.phase]}{source}{prompt}"


def _table(stage: StageRow, parts: list[Piece], detail: Detail) -> Table:
    """The stage's lines; a column that would be empty is left out."""
    columns = COLUMNS[detail]
    rows = [row for piece in parts for row in _rows(piece, detail)]
    used = [position for position in range(len(columns)) if any(row[position] for row in rows)]
    return Table(
        [columns[position] for position in used],
        [[row[position] for position in used] for row in rows],
        title=title(stage, detail),
    )


Cell: TypeAlias = str | int | None


def _rows(piece: Piece, detail: Detail) -> Iterator[tuple[Cell, ...]]:
    if piece.like:
        yield _under(
            {"equation": reference(piece), "params": piece.params or None, "flops": piece.flops or None}, detail
        )
    for line in piece.without:
        yield _under({"equation": f"not: {line.equation}"}, detail)
    for line in piece.shown:
        yield _under(_cells(line, detail), detail)


def reference(piece: Piece) -> str:
    """Where the lines of a sublayer stand that were shown before."""
    return f"{piece.part or 'lines'}: as in {piece.like}" + (", but for" if piece.shown or piece.without else "")


def _under(cells: dict[str, Cell], detail: Detail) -> tuple[Cell, ...]:
    return tuple(cells.get(column.key, None if column in COUNTS else "") for column in COLUMNS[detail])


def _cells(line: LineRow, detail: Detail) -> dict[str, Cell]:
    cache = [f"{word} {units.grouped(n)}" for word, n in (("reads", line.reads), ("writes", line.writes)) if n]
    return {
        "equation": line.equation,
        "where": line.where,
        "cache": ", ".join(cache),
        "ranges": _ranges(line),
        "shape": " + ".join(_shape(weight, detail) for weight in line.weights),
        "params": line.params or None,
        "flops": line.flops or None,
    }


def title(stage: StageRow, detail: Detail) -> str:
    if detail == "symbols":
        return stage.name
    times = f" × {stage.times}" if stage.times != 1 else ""
    times += f", {stage.passes} passes" if stage.passes != 1 else ""
    sums = f"{units.short_count(stage.params)} parameters, {units.short_si(stage.flops, 'FLOP')}"
    reads, writes = (
        stage.times * stage.passes * sum(getattr(line, key) for line in stage.lines) for key in ("reads", "writes")
    )
    cache = f"; of the cache {units.grouped(reads)} numbers read, {units.grouped(writes)} written" if writes else ""
    return f"{stage.name}{times}: {sums}{cache}"


def _shape(weight: WeightRow, detail: Detail) -> str:
    if detail == "symbols":
        shape = " × ".join(f"({s})" if any(sign in s for sign in "+−/") else s for s in weight.symbols) or "1"
    else:
        shape = "×".join(map(str, weight.shape)) or "1"
    if weight.borrowed:
        return f"({shape}, the target's)"
    return f"({shape}, counted elsewhere)" if weight.tied else shape


#: what the letters of definitions are
DEFINED = ", in whose definitions x goes in and y comes out, n being how many the index runs over"


def _legend(found: Explanation, detail: Detail) -> Iterator[Table]:
    titles = {
        "index": "indices, each from 0",
        "value": "values",
        "weight": "weights, each with its key",
        "number": "numbers",
        "function": f"functions{DEFINED if any(s.definition for s in found.legend) else ''}",
    }
    for kind, title in titles.items():
        rows = [s for s in found.legend if s.kind == kind]
        columns: Sequence[Column] = LEGEND if kind == "index" else LEGEND[:2]
        columns = columns[:3] if detail == "symbols" else columns
        cells: list[tuple[Cell, ...]]
        if kind == "weight":
            columns = (*LEGEND[:2], Column("keys", "key"))
            cells = [(s.symbol, s.meaning, ", ".join(s.keys)) for s in rows]
        elif kind == "number":
            columns = (*LEGEND[:2], Column("values", "value"))
            cells = [(s.symbol, s.meaning, " or ".join(map(shown, s.values))) for s in rows]
        else:
            words = [": ".join(filter(None, (s.meaning, "; ".join(s.definition)))) for s in rows]
            cells = [
                (s.symbol, meaning, s.over, s.size)[: len(columns)] for s, meaning in zip(rows, words, strict=True)
            ]
        yield Table(columns, cells, title=title, heading=kind == "index")


def csv(found: Explanation) -> Table:
    """Every line of every stage."""
    rows = [
        (stage.name, stage.times, line.equation, line.where, _ranges(line), line.params, line.flops)
        for stage in found.stages
        for line in stage.lines
    ]
    return Table(CSV, rows)


def _ranges(line: LineRow) -> str:
    return " ".join(f"{letter}={size}" for letter, size in line.ranges.items())
