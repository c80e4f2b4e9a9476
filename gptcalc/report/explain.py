"""The sums of a forward pass, stage by stage, each line with its ranges, weights, parameters and FLOPs.

The lines are the very objects that the counts come from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import prod

from msgspec import Struct
from msgspec.structs import replace

from gptcalc.analysis.params import Entry, ledger
from gptcalc.answers import Outcome
from gptcalc.architecture import Block, by_prefix
from gptcalc.equations import Constant, Equations, Layer, Line, Stage, Strides, Workload
from gptcalc.equations.roles import LOOKED_BACK, LOOKING
from gptcalc.errors import InputError, did_you_mean, printable
from gptcalc.report.legend import Symbol, legend


def of_cache(line: Line) -> str:
    """What a line does to the cache, in words."""
    if line.stored is not None:
        return "kept in the cache"
    return "read from the cache" if line.kind == "read" else ""


class WeightRow(Struct, frozen=True):
    name: str
    shape: tuple[int, ...]  # as it is indexed on this line
    symbols: tuple[str, ...]  # the same as symbols
    params: int
    tied: bool  # stands on an earlier line too, and counts there
    borrowed: bool  # another model has it: counted nowhere


class LineRow(Struct, frozen=True):
    equation: str
    kind: str
    component: str
    part: str  # the sublayer
    where: str  # the condition, and in words what the line does to the cache and in which passes of a loop it runs
    condition: str  # in the language of equations
    ranges: dict[str, int]
    weights: tuple[WeightRow, ...]
    params: int  # of one repetition of the stage
    flops: int
    reads: int  # numbers that a decode step reads of the cache, and those that it adds or replaces
    writes: int

    @property
    def remark(self) -> str:
        """What of `where` is words."""
        return self.where.removeprefix(self.condition).removeprefix(", ")


class StageRow(Struct, frozen=True):
    name: str
    times: int
    letters: dict[str, str]
    lines: tuple[LineRow, ...]
    params: int  # of all repetitions
    flops: int
    passes: int = 1  # of a loop


class Explanation(Outcome, frozen=True):
    """The keys of `gptcalc explain --json`."""

    model: str
    phase: str
    context: int
    symbols: dict[str, int]
    stages: tuple[StageRow, ...]
    params: int
    flops: int
    legend: tuple[Symbol, ...]
    whole: bool = True  # whether nothing was left out
    source: int | None = None  # tokens that an encoder beside a decoder reads


class Wanted(Struct, frozen=True):
    """What is to be shown: one part (a component, a kind of sublayer, a stage), the block of one layer; else all."""

    part: str | None = None
    layer: int | None = None

    def stages(self, model: Equations, blocks: Sequence[Block]) -> list[tuple[Stage, tuple[Line, ...]]]:
        """The stages with those of their lines that are wanted. InputError where there are none."""
        stages = list(model.stages)
        if self.layer is not None:
            if self.layer >= len(blocks):
                raise InputError(f"--layer {self.layer}: there are layers 0 to {len(blocks) - 1}", kind="usage")
            stages = [stage for stage in model.layers if stage.block == blocks[self.layer]]
        if self.part is None:
            return [(stage, stage.lines) for stage in stages]
        found = [(stage, lines) for stage in stages if (lines := self._lines(stage, self.part))]
        if not found:
            known = dict.fromkeys(word for stage in stages for word in (stage.name, *_words(stage)))
            problem = f"--part: {printable(self.part)!r} is none of {', '.join(known)}"
            raise InputError(problem, did_you_mean(self.part, known), "usage")
        return found

    @staticmethod
    def _lines(stage: Stage, part: str) -> tuple[Line, ...]:
        """A stage by its name, a whole sublayer by its kind or what it is for, or single lines by what they are for."""
        if stage.name == part:
            return stage.lines
        sublayers = {line.part for line in stage.lines if part in (_kind(line), line.component) and _kind(line)}
        sublayers |= {place for place, section in _sections(stage).items() if section == part}
        if part in BETWEEN:
            return tuple(line for line in stage.lines if line.component == part)
        return tuple(line for line in stage.lines if line.part in sublayers or line.component == part)


#: components whose lines stand within sublayers of others
BETWEEN = ("norm", "router", "shared_experts", "other")


def _sections(stage: Stage) -> dict[str, str]:
    """What a document calls the sublayers of a layer (mla, gdn, local), by where they are."""
    if not isinstance(stage, Layer):
        return {}
    return {place: mixer.section for place, mixer in by_prefix(stage.block).items()}


def _words(stage: Stage) -> Iterator[str]:
    yield from _sections(stage).values()
    for line in stage.lines:
        yield from filter(None, (line.component, _kind(line)))


def _kind(line: Line) -> str:
    """attn2 → attn"""
    return line.part.rstrip("0123456789")


def explanation(
    name: str, model: Equations, work: Workload, blocks: Sequence[Block] = (), wanted: Wanted | None = None
) -> Explanation:
    """The lines that are wanted (default: all) with their numbers; `blocks`: the model's layers, in order.

    MTP modules are shown, and counted in neither sum; of one layer, the sums are that layer's.
    """
    wanted = wanted or Wanted()
    counted = ledger(model)
    chosen = wanted.stages(model, blocks)
    times = [1 if wanted.layer is not None else stage.times for stage, _ in chosen]
    stages = tuple(_stage(stage, lines, n, counted, work) for (stage, lines), n in zip(chosen, times, strict=True))
    main = [row for row, (stage, _) in zip(stages, chosen, strict=True) if stage is not model.mtp]
    passes = 3 if work.phase == "train" else 1
    params, flops = sum(row.params for row in main), passes * sum(row.flops for row in main)
    shown = [(line, stage.workload(work)) for stage, lines in chosen for line in lines]
    return Explanation(
        name,
        work.phase,
        work.context,
        dict(model.symbols),
        stages,
        params,
        flops,
        legend(shown, model.symbols),
        wanted == Wanted(),
        work.source or None,
    )


def _stage(stage: Stage, lines: tuple[Line, ...], times: int, counted: Iterable[Entry], work: Workload) -> StageRow:
    here = set(map(id, lines))
    own = [entry for entry in counted if entry.stage is stage and id(entry.line) in here]
    mine = {(id(entry.line), entry.tensor.weight.key) for entry in own}
    rows = tuple(_line(line, mine, _stored(stage), stage.workload(work)) for line in lines)
    if work.phase == "decode":
        whole = _read_whole(stage)
        rows = tuple(replace(row, reads=row.reads + whole.get(id(at), 0)) for row, at in zip(rows, lines, strict=True))
    params = sum(entry.total for entry in own) if times == stage.times else sum(row.params for row in rows)
    flops = sum(row.flops * stage.runs_in_passes(line) for row, line in zip(rows, lines, strict=True))
    return StageRow(stage.name, times, _letters(lines), rows, params, flops * times, stage.passes)


def _line(line: Line, counted: set[tuple[int, str]], stored: set[tuple[str, str]], work: Workload) -> LineRow:
    weights = tuple(
        WeightRow(
            t.weight.key,
            tuple(i.size for i in t.indices),
            tuple(i.symbol for i in t.indices),
            t.params,
            (id(line), t.weight.key) not in counted and not t.weight.borrowed,
            t.weight.borrowed,
        )
        for t in line.tensors()
    )
    step = work.phase == "decode"
    kept, condition = of_cache(line), str(line.condition or "")
    return LineRow(
        equation=line.text,
        kind=line.kind,
        component=line.component,
        part=line.part,
        where=", ".join(filter(None, (condition, kept, PASSES[line.passes]))),
        condition=condition,
        ranges={letter: index.length(work) for letter, index in line.ranges().items()},
        weights=weights,
        params=sum(w.params for w in weights if not w.tied and not w.borrowed),
        flops=line.flops(work),
        reads=_read(line, stored, work) if step and not kept else 0,
        writes=_written(line) if step and line.stored is not None else 0,
    )


def _stored(stage: Stage) -> set[tuple[str, str]]:
    """What is stored of every token or entry, by the sublayer."""
    kept = (line for line in stage.lines if of_cache(line) and not isinstance(line.kept, Constant))
    return {(line.part, line.statement.left.name) for line in kept}


def _read_whole(stage: Stage) -> dict[int, int]:
    """What a decode step reads of what has one size whatever the length, by line: a state once, where it stands first;
    last tokens where a line looks back on them."""
    found: dict[int, int] = {}
    for store in stage.lines:
        if not isinstance(store.kept, Constant):
            continue
        name = store.statement.left.name
        back = f"{name.removeprefix('R_')}[t − "
        for line in stage.lines:
            known = any(reference.name == name for reference in line.statement.references[1:])
            here = known if store.stored == "state" else back in line.text
            if line.part == store.part and here:
                found[id(line)] = found.get(id(line), 0) + _written(store)
                break
    return found


def _written(line: Line) -> int:
    """Of one token or entry its numbers, of a state or the last tokens all; of a source none: it is there already."""
    if any(index.role == "source" for index in line.indices(line.statement.left)):
        return 0
    return prod([index.size for index in line.stored_indices()])


def _read(line: Line, stored: set[tuple[str, str]], work: Workload) -> int:
    """What a line reads of the cache in a decode step: of the past what its condition lets the new token see."""
    found = 0
    looking = [index for index in line.ranges().values() if index.role in LOOKING]
    for reference in line.statement.references[1:]:
        if (line.part, reference.name) in stored:
            own = line.indices(reference)
            seen = looking if any(index.role in LOOKED_BACK for index in own) else []
            condition, rest = line.joint([*own, *seen])
            count = 1 if condition is None else condition.count(work)
            if isinstance(condition, Strides):
                count = condition.keys(work)  # heads that share them read them once
            found += count * prod([index.length(work) for index in rest if index.role not in LOOKING])
    return found


#: in which passes of a loop a line runs
PASSES = {
    "all": "",
    "first": "first pass",
    "later": "later passes",
    "earlier": "passes before the last",
    "last": "last pass",
}


def _letters(lines: Iterable[Line]) -> dict[str, str]:
    """What each index letter of the lines runs over, as a symbol; both where two sublayers use it differently."""
    found: dict[str, dict[str, None]] = {}
    for line in lines:
        for letter, index in line.ranges().items():
            found.setdefault(letter, {})[index.symbol] = None
    return {letter: " or ".join(symbols) for letter, symbols in found.items()}
