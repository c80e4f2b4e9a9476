"""A model written out for a page: every line with what it costs, as products of open sizes and counts of the length.

Tables hold each size, count, line and stage once, for all variants of all models; all else names them by their places.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from functools import partial
from itertools import combinations
from math import lcm, prod
from typing import Any, TypeAlias, get_args

from gptcalc.analysis.explorer.depth import blocks, deeper, through
from gptcalc.analysis.explorer.lengths import Pieces, pieces
from gptcalc.analysis.explorer.moments import Parts, opened
from gptcalc.analysis.explorer.sizes import DEPTH, Key, Space, Thrice
from gptcalc.analysis.explorer.switches import Variant
from gptcalc.analysis.explorer.tables import (
    Body,
    OpenIndex,
    OpenLine,
    OpenSize,
    OpenStage,
    OpenStore,
    OpenTensor,
    Places,
    Structure,
    Table,
    what,
)
from gptcalc.analysis.memory.cache import turned, types
from gptcalc.analysis.memory.forms import published
from gptcalc.analysis.memory.sharding import Layout
from gptcalc.analysis.memory.weights import Weights
from gptcalc.analysis.params import Entry, ledger
from gptcalc.architecture import Architecture
from gptcalc.conventions import CacheForm, Chunks, FlopsRun, Form, Pass, possible
from gptcalc.document import build
from gptcalc.dtypes import weight_format
from gptcalc.equations import (
    Chosen,
    Constant,
    Entries,
    Equations,
    Index,
    Line,
    OfSource,
    Pairs,
    Stage,
    Tensor,
    Workload,
    equations,
)
from gptcalc.equations.conditions import Condition
from gptcalc.equations.letters import letters
from gptcalc.errors import InputError
from gptcalc.sources.preset import edited

#: weights in these types beside the one that a model is published in, caches in these
WEIGHTS = ("bf16", "fp32", "fp8", "int8", "int4")
CACHES = ("bf16", "fp32", "fp8")
PHASES: tuple[Pass, ...] = get_args(Pass)


#: tensors that lines count, by the line and by their keys
Counted: TypeAlias = dict[int, dict[str, tuple[Entry, ...]]]


class Unmovable(Exception):
    """A number that is no term in the keys, or lines that change with them."""


class Writer:
    """Writes variants into tables."""

    def __init__(self) -> None:
        self.sizes: Table[OpenSize] = Table()
        self.counts: Table[Pieces] = Table()
        self.lines: Table[OpenLine] = Table()
        self.bodies: Table[Body] = Table()
        self.places: Table[Hashable] = Table()  # what keys of the following have in common
        self.known: dict[Hashable, int] = {}  # sizes and counts that were found before …
        self.seen: dict[Hashable, tuple[OpenLine, int]] = {}  # … lines …
        self.steps: dict[Hashable, int] = {}  # … by how many layers models grow …
        self.held: dict[Hashable, tuple[Parts, ...] | None] = {}  # … and moments

    def structure(self, variant: Variant) -> Structure:
        """A variant with as many of its keys open as may be."""
        found = self._tried(variant, variant.keys)
        for size in range(len(variant.keys) - 1, -1, -1):
            if found is not None:
                break
            found = next(filter(None, (self._tried(variant, keys) for keys in combinations(variant.keys, size))), None)
        assert found is not None, variant.words
        return found

    def _tried(self, variant: Variant, keys: tuple[Key, ...]) -> Structure | None:
        tables = (self.sizes.places, self.counts.places, self.lines.places, self.bodies.places)
        filled: tuple[dict[Any, Any], ...] = (*tables, self.known, self.seen, self.held)
        before = [len(table) for table in filled]
        try:
            return Written(self, variant, keys).structure()
        except (Unmovable, InputError):
            if not keys:
                raise
            for table, length in zip(filled, before, strict=True):
                while len(table) > length:
                    table.popitem()  # what came later is forgotten
            return None


class Written:
    """One variant with some keys open, and its probes."""

    def __init__(self, writer: Writer, variant: Variant, keys: tuple[Key, ...]) -> None:
        self.writer = writer
        self.variant = variant
        self.space = Space(keys)
        self.models = [variant.architecture, *(self._build(probe) for probe in self.space.probes)]
        self.base: Architecture = self.models[0]
        self.weights: dict[str, list[Weights]] = {}
        symbols = [equations(model).symbols for model in self.models]
        if any(own.keys() != symbols[0].keys() for own in symbols):
            raise Unmovable
        found = {name: self.space.term(self._thrice(own[name] for own in symbols)) for name in symbols[0]}
        self.lines: list[OpenLine] = []
        self.symbols = {name: terms for name, terms in found.items() if terms is not None}
        self.published = published(self.base)
        self.dtypes = tuple(dict.fromkeys((self.published, *WEIGHTS)))
        self.step = step(equations(self.base))
        entries = ledger(equations(self.base))
        packed = {(e.tensor.weight.use == "selection", e.line.component == "experts") for e in entries}
        #: what else the bytes of a line's tensors and its counts hang on
        place = writer.places.place
        self.moving, self.counting = place(keys), place((self.step, self.base.encoder, self.base.encoded))
        self.context = place((self.moving, self.counting, self.published, frozenset(packed)))
        self.forms: dict[tuple[Form, CacheForm, Chunks], list[Equations]] = {}
        self.alike: dict[int, int] = {}  # lines by what they are, in the model and its probes
        self.counted: dict[int, Counted] = {}  # by equations: which line counts which tensor

    def _build(self, values: dict[str, int]) -> Architecture:
        paths = self.space.keys
        return build(edited(self.variant.document, [f"{paths[name].path}={n}" for name, n in values.items()]))

    @staticmethod
    def _thrice(numbers: Iterator[int]) -> Thrice:
        first, second, third = numbers
        return first, second, third

    def structure(self) -> Structure:
        phases = PHASES if self.base.continues else PHASES[:1]
        stages = {phase: tuple(self._stages(phase)) for phase in phases}
        keys = tuple(self.space.keys.values())
        source = self.count("source", self._source)
        longest = possible(None, self.base)
        return Structure(
            self.variant.words, keys, self._deeper(), self.step, stages, self._types(), longest, source
        )  # fmt: skip

    def _types(self) -> tuple[str, ...]:
        """The types in which every tensor has an open size."""
        tensors = [t for line in self.lines for t in line.tensors if t.counted]
        return tuple(name for name in self.dtypes if all(name in dict(t.bytes) for t in tensors))

    # sizes

    def size(self, indices: tuple[Index, ...]) -> int:
        """The place of what one index runs over in the model and in its probes."""
        values = self._thrice(index.size for index in indices)
        return self.number(values, indices[0].symbol)

    def number(self, values: Thrice, text: str = "") -> int:
        key = (text, values, self.moving)
        if key not in self.writer.known:
            terms = self.space.spelled(text, self.symbols, values) if text else None
            terms = self.space.term(values) if terms is None else terms
            if terms is None:
                raise Unmovable
            self.writer.known[key] = self.writer.sizes.place(OpenSize(text, terms))
        return self.writer.known[key]

    # lengths

    def work(self, phase: Pass, length: int, stage: Stage) -> Workload:
        return stage.workload(Workload(length, phase, source=self._source(length)))

    def _source(self, length: int) -> int:
        if self.base.encoder is None and self.base.encoded is None:
            return 0
        # beyond a learned table there is no context, so what stands there is asked for by nobody
        return FlopsRun(context=possible(length, self.base)).source_length(self.base)

    def count(self, key: Hashable, of: Callable[[int], int]) -> int:
        """The place of a function of the length."""
        whole = (key, self.counting)
        if whole not in self.writer.known:
            self.writer.known[whole] = self.writer.counts.place(pieces(of, self.step))
        return self.writer.known[whole]

    # stages

    def _forms(self, phase: Pass) -> list[Equations]:
        how = FlopsRun(phase=phase)
        form = how.form, how.kept, how.chunks
        if form not in self.forms:
            found = [equations(model, *form) for model in self.models]
            known = [own for own in self.forms.values() if own[0] is found[0]]  # where no form makes a difference
            self.forms[form] = known[0] if known else found
        return self.forms[form]

    def _stages(self, phase: Pass) -> Iterator[OpenStage]:
        base, *probes = self._forms(phase)
        if any([stage.name for stage in own.stages] != [stage.name for stage in base.stages] for own in probes):
            raise Unmovable
        if id(base) not in self.counted:
            self.counted[id(base)] = self._counted(base, probes)
        counted = self.counted[id(base)]
        for place, stage in enumerate(base.stages):
            same = [own.stages[place] for own in probes]
            if any(len(own.lines) != len(stage.lines) for own in same):
                raise Unmovable
            rows = []
            beside = (stage.runs == "encoder", any(line.stored == "index keys" for line in stage.lines), turned(stage))
            for number, line in enumerate(stage.lines):
                trio = (line, *(own.lines[number] for own in same))
                made, row = self._line(trio, phase, stage, counted.get(id(line), {}), beside)
                self.lines.append(made)
                rows.append(row)
            key = (tuple(rows), stage.runs, self.moving)
            if key not in self.writer.held:
                self.writer.held[key] = self._moments(stage, same)
            now = self.writer.held[key]
            body = self.writer.bodies.place(Body(tuple(rows), now))
            yield OpenStage(stage.name, stage.runs, stage.passes, self._times((stage, *same)), body)

    @staticmethod
    def _counted(base: Equations, probes: list[Equations]) -> Counted:
        """Which line counts which tensors, each of the model and of its probes."""
        others = [{(e.stage.name, e.tensor.weight.key): e for e in ledger(own)} for own in probes]
        found: Counted = {}
        for entry in ledger(base):
            name = entry.tensor.weight.key
            here = found.setdefault(id(entry.line), {})
            here[name] = (entry, *(other[entry.stage.name, name] for other in others))
        return found

    def _times(self, stages: tuple[Stage, ...]) -> tuple[int, int, int]:
        """How often a stage stands as a line in the number of layers."""
        times = [stage.times for stage in stages]
        if DEPTH not in self.space.base or len(set(times)) == 1:
            if len(set(times)) != 1:
                raise Unmovable
            return times[0], 0, 1
        depths = [self.space.base[DEPTH], *(probe[DEPTH] for probe in self.space.probes)]
        found = through(depths, times)
        if found is None:
            raise Unmovable
        return found

    def _deeper(self) -> int:
        """The fewest layers by which a model can grow again and again as its probes do; 0 where that is not found."""
        if DEPTH not in self.space.base:
            return 0
        key = self.space.keys[DEPTH]
        wanted = list(blocks(self.models[1].groups()))
        start = self.base.groups()
        whole = (self.variant.document.get("layers"), key.base, tuple(blocks(start)), tuple(wanted))
        if whole not in self.writer.steps:
            path = key.path
            self.writer.steps[whole] = deeper(
                start, wanted, lambda more: build(edited(self.variant.document, [f"{path}={key.base + more}"])).groups()
            )
        return self.writer.steps[whole]

    def _moments(self, stage: Stage, same: list[Stage]) -> tuple[Parts, ...] | None:
        pairs = {}
        for lines in zip(stage.lines, *(own.lines for own in same), strict=True):
            for letter, index in lines[0].scope.items():
                pairs[index] = tuple(line.scope[letter] for line in lines)
        if stage.runs == "mtp":
            return ()
        return opened(stage, lambda n, text: self.number((n, n, n), text), lambda index: self.size(pairs[index]))

    # lines

    def _line(
        self,
        lines: tuple[Line, ...],
        phase: Pass,
        stage: Stage,
        entries: dict[str, tuple[Entry, ...]],
        beside: Hashable,
    ) -> tuple[OpenLine, int]:
        """The line as it was made before, or anew, and its place. `beside`: what else of its stage it hangs on."""
        alike = self.alike.get(id(lines[0]))
        if alike is None:
            whole = tuple((what(line), tuple(line.ranges().items()), tuple(line.weights.items())) for line in lines)
            alike = self.alike[id(lines[0])] = self.writer.places.place(whole)
        key = (alike, phase, beside, frozenset(entries), self.context)
        if key not in self.writer.seen:
            made = self._made(lines, phase, stage, entries)
            self.writer.seen[key] = made, self.writer.lines.place(made)
        return self.writer.seen[key]

    def _made(
        self, lines: tuple[Line, ...], phase: Pass, stage: Stage, entries: dict[str, tuple[Entry, ...]]
    ) -> OpenLine:
        line = lines[0]
        same = [
            (x.text, x.kind, _rule(x.condition), x.stored, x.kept, x.passes, list(x.ranges()), x.constants)
            for x in lines
        ]
        if same[1:] != [same[0]] * 2:
            raise Unmovable
        return OpenLine(
            line,
            tuple(self._index(letter, lines, phase, stage) for letter in letters(line)),
            tuple(
                self._tensor(t, entries.get(t[0].weight.key)) for t in zip(*(x.tensors() for x in lines), strict=True)
            ),
            self._terms(lines, phase, stage),
            line.attends(),
            self._store(lines, stage) if line.stored is not None else None,
        )

    def _index(self, letter: str, lines: tuple[Line, ...], phase: Pass, stage: Stage) -> OpenIndex:
        indices = tuple(line.scope[letter] for line in lines)
        index = indices[0]
        if index.is_fixed:
            return OpenIndex(letter, index, self.size(indices), None)
        key = ("length", index.role, index.size, index.every, phase, stage.runs == "encoder")
        return OpenIndex(letter, index, None, self.count(key, lambda n: index.length(self.work(phase, n, stage))))

    def _terms(self, lines: tuple[Line, ...], phase: Pass, stage: Stage) -> tuple[int, Places] | None:
        line = lines[0]
        if line.kind != "sum":
            return None
        condition, rest = line.joint(line.factors())
        loose = tuple((i.role, i.size, i.every) for i in rest if not i.is_fixed)
        key = ("terms", _rule(condition), loose, phase, stage.runs == "encoder")
        fixed = zip(*(x.counted(self.work(phase, 1, stage))[1] for x in lines), strict=True)
        place = self.count(key, lambda n: line.counted(self.work(phase, n, stage))[0])
        return place, tuple(self.size(trio) for trio in fixed)

    def _tensor(self, tensors: tuple[Tensor, ...], entries: tuple[Entry, ...] | None) -> OpenTensor:
        tensor = tensors[0]
        indices = list(zip(*(own.indices for own in tensors), strict=True))
        sizes = tuple(self.size(trio) for trio in indices)
        active, chosen = sizes, tensor.line.condition
        if tensor.line.is_idle:
            active = (self.number((0,) * 3, "0"),)
        elif isinstance(chosen, Chosen):
            few = self.number((chosen.active,) * 3, chosen.active_symbol)
            active = tuple(
                few if trio[0].role == "experts" else size for trio, size in zip(indices, sizes, strict=True)
            )
        stored = () if entries is None else tuple(self._stored(entries))
        weight = tensor.weight
        name = tensor.reference.name
        return OpenTensor(name, weight.key, weight.component, sizes, active, entries is not None, weight.shared, stored)

    def _stored(self, entries: tuple[Entry, ...]) -> Iterator[tuple[str, tuple[int, int, int]]]:
        """The bytes in every type in which they are an open size."""
        for name in self.dtypes:
            try:
                yield name, self._bytes(name, entries)
            except (Unmovable, InputError):
                if name == self.published:
                    raise

    def _bytes(self, dtype: str, entries: tuple[Entry, ...]) -> tuple[int, int, int]:
        """A tensor's bytes: so many an element, and what comes on top."""
        if dtype not in self.weights:
            self.weights[dtype] = [Weights(model, dtype, Layout()) for model in self.models]
        rows = [own.share(entry, 1).row for own, entry in zip(self.weights[dtype], entries, strict=True)]
        whole = weight_format(dtype)
        format = None if whole is None else whole.at(entries[0].tensor.weight.component)
        element = format.packing.element if format is not None and rows[0].type == format.plain else None
        above, below = (element.block_bytes, element.block) if element else _ratio(rows[0].bytes, rows[0].params)
        rest = [row.bytes * below - above * row.params for row in rows]
        if any(n % below for n in rest):
            raise Unmovable
        return above, below, self.number(self._thrice(n // below for n in rest))

    def _store(self, lines: tuple[Line, ...], stage: Stage) -> OpenStore:
        line = lines[0]
        chosen = any(other.stored == "index keys" for other in stage.lines)
        sizes = [prod(index.size for index in own.stored_indices()) for own in lines]
        found = []
        for name in CACHES:
            kept = types(name)
            own_bytes = (kept.row_bytes(own, n, chosen, turned(stage)) for own, n in zip(lines, sizes, strict=True))
            found.append((name, self.number(self._thrice(own_bytes))))
        rule = line.kept
        rows = self.count(("kept", rule, stage.runs == "encoder"), partial(self._rows, line, stage))
        return OpenStore(str(line.stored), rows, tuple(found), isinstance(rule, Pairs | Entries))

    def _rows(self, line: Line, stage: Stage, length: int) -> int:
        """How often what a store line keeps is kept of a sequence."""
        match line.kept:
            case Pairs() | Entries():
                return line.kept.kept(length)
            case OfSource():
                return self.work("prefill", length, stage).source
            case Constant() | None:
                return 1


def step(model: Equations) -> int:
    """By how many tokens lengths are taken, where counts go by whole chunks."""
    rules = {rule for stage in model.stages for line in stage.lines for rule in (line.condition, line.kept)}
    return lcm(1, *(getattr(rule, name, None) or 1 for rule in rules for name in ("chunk", "block", "every")))


def _rule(condition: Condition | None) -> Hashable:
    """What a condition lets occur, whatever the number of experts that it chooses from."""
    return (condition.active, condition.name) if isinstance(condition, Chosen) else condition


def _ratio(size: int, params: int) -> tuple[int, int]:
    """Bytes an element of a tensor that isn't packed."""
    if size % params:
        raise Unmovable
    return size // params, 1
