"""What the equations of one architecture count, as polynomials in a grid's free symbols."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from fractions import Fraction
from functools import cached_property
from typing import TypeAlias

from gptcalc.analysis.memory.cache import pools, types
from gptcalc.analysis.memory.engines import held
from gptcalc.analysis.params import Entry, ledger
from gptcalc.architecture import Architecture
from gptcalc.conventions import FlopsRun, Phase, SweepRun
from gptcalc.dtypes import DType
from gptcalc.equations import Chosen, Equations, Index, Line, Stage, Workload, equations, workload
from gptcalc.equations import polynomial as poly

#: the symbol for the number of sequences
BATCH = "batch"
ONE: poly.Polynomial = {(): 1}
#: by stage and key of a tensor: the types that it has, each with in how many layers
Placed: TypeAlias = Mapping[tuple[str, str], Mapping[DType, poly.Polynomial]]


def times(stage: str) -> str:
    """The symbol for how often a stage's lines run."""
    return f"× {stage}"


def present(stage: str) -> str:
    """The symbol for whether a stage runs: 1, or 0."""
    return f"? {stage}"


class NotPolynomial(Exception):
    """A figure that is no polynomial with whole coefficients in these symbols."""


class Collected:
    """One architecture at one length. `free`: symbols that stay symbols; all others are numbers."""

    def __init__(
        self,
        architecture: Architecture,
        how: SweepRun,
        free: Collection[str],
        counted: bool,
        ranges: Mapping[str, tuple[int, int]],
        steps: Mapping[str, int] = {},
        placed: Placed | None = None,
    ) -> None:
        """counted: how often stages run stays a symbol, too. ranges: the least and the most of each symbol, steps: in
        what a symbol counts, where that isn't one. placed: of a GGUF mix the tensors whose types go by the layer."""
        self.architecture = architecture
        self.how = how
        self.free = free
        self.counted = counted
        self.ranges = ranges
        self.steps = steps
        self.placed = placed or {}
        self.written: dict[Index, poly.Polynomial] = {}  # what each index runs over

    @cached_property
    def entries(self) -> list[Entry]:
        model = equations(self.architecture)
        return [entry for entry in ledger(model) if entry.stage is not model.mtp]

    # parameters

    def params(self, entries: Iterable[Entry], width: Callable[[Entry], Fraction]) -> poly.Polynomial:
        """A sum over tensors, each as often as it exists, an element of it counting `width`."""
        total: poly.Polynomial = {}
        for entry in entries:
            terms = self.product(entry.tensor.indices)
            if not entry.tensor.weight.shared:
                terms = poly.multiplied(terms, self.stage(entry.stage).items())
            factor = width(entry)
            poly.add(total, {monomial: _whole(n * factor) for monomial, n in terms.items()})
        return total

    @staticmethod
    def active_share(entry: Entry) -> Fraction:
        tensor, chosen = entry.tensor, entry.line.condition
        if entry.line.is_idle:
            return Fraction(0)
        if isinstance(chosen, Chosen) and tensor.each_expert:
            return Fraction(chosen.active, chosen.total)
        return Fraction(1)

    # passes

    def flops(self, phase: Phase) -> poly.Polynomial:
        """Of a batch."""
        how = self.how.to(FlopsRun, phase=phase)
        work = workload(self.architecture, how)
        total: poly.Polynomial = {}
        for stage in equations(self.architecture, how.form, how.kept, how.chunks).main:
            own: poly.Polynomial = {}
            for line in stage.lines:
                poly.add(own, self.line_flops(stage, line, work))
            poly.add(total, poly.multiplied(own, self.stage(stage).items()))
        return poly.multiplied(total, [(((BATCH, 1),), 1)])

    def line_flops(self, stage: Stage, line: Line, work: Workload) -> poly.Polynomial:
        """Of one sequence, each time that the stage runs."""
        count, rest = line.counted(stage.workload(work))
        count *= stage.runs_in_passes(line)
        return poly.scaled(self.product(rest), 2 * count) if count else {}

    @cached_property
    def kv_bytes(self) -> poly.Polynomial:
        """The cache of a batch, as the mathematics needs it."""
        model = equations(self.architecture)
        kept = types(self.how.kv_dtype, self.how.state_dtype)
        source, length = self.how.source_length(self.architecture), self.how.length(self.architecture)
        total: poly.Polynomial = {}
        for stage in model.main:
            found = pools(model, kept, counts={stage.name: 1}, source=source)
            size = sum(part.bytes for part in held("ideal", found, length))
            poly.add(total, {m: size * n for m, n in self.stage(stage).items()})
        return poly.multiplied(total, [(((BATCH, 1),), 1)])

    # ranges

    def stage(self, stage: Stage) -> poly.Polynomial:
        return {((times(stage.name), 1),): 1} if self.counted else {(): stage.times}

    def where_it_runs(self, stage: Stage, terms: poly.Polynomial) -> poly.Polynomial:
        """What is there once where a stage runs at all, and not where it never does."""
        if self.counted and self.ranges[times(stage.name)][0] == 0:
            return poly.multiplied(terms, [(((present(stage.name), 1),), 1)])
        return terms

    def product(self, indices: Iterable[Index]) -> poly.Polynomial:
        terms = ONE
        for index in indices:
            terms = poly.multiplied(terms, self.range(index).items())
        return terms

    def range(self, index: Index) -> poly.Polynomial:
        """What an index runs over: a number, unless it is written with a free symbol."""
        found = self.written.get(index)
        if found is None:
            found = self.written[index] = self._range(index)
        return found

    def _range(self, index: Index) -> poly.Polynomial:
        written = poly.parse(index.symbol)
        if not any(symbol in self.free for monomial, _ in written for symbol, _ in monomial):
            return {(): index.size}
        symbols = equations(self.architecture).symbols
        terms: poly.Polynomial = {}
        for monomial, n in written:
            number = Fraction(n)
            for symbol, power in monomial:
                number *= Fraction(self.steps.get(symbol, 1) if symbol in self.free else symbols[symbol]) ** power
            own = tuple((symbol, power) for symbol, power in monomial if symbol in self.free)
            terms[own] = terms.get(own, 0) + _whole(number)
        return terms

    def stored_freely(self) -> set[str]:
        """Free symbols that the cache's rows depend on: types of blocks round these up."""
        found = set[str]()
        for model in self._forms():
            for line in (line for stage in model.main for line in stage.lines if line.stored is not None):
                for index in line.stored_indices():
                    found |= {s for m, _ in poly.parse(index.symbol) for s, _ in m} & set(self.free)
        return found

    def _forms(self) -> list[Equations]:
        return [equations(self.architecture), equations(self.architecture, "absorbed")]


def _whole(number: Fraction) -> int:
    if number.denominator != 1:
        raise NotPolynomial(f"{number} of something")
    return number.numerator
