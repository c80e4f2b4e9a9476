"""How fast designs decode: the roofline of one device (analysis.timed) in symbols, for bounds and for many points.

Stage by stage, as there: FLOPs by the type that is multiplied in, weights read, cache read and written. These are
polynomials in the free sizes with real coefficients (the share of the experts that a batch reaches); what is within
rounding of the limit is decided by the analysis itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gptcalc.analysis.params import Entry
from gptcalc.analysis.sweep.bulk import Array, Points
from gptcalc.analysis.sweep.collected import ONE, NotPolynomial
from gptcalc.analysis.sweep.figures import Figured
from gptcalc.analysis.timed import Rates, left_out, peak, step_seconds
from gptcalc.analysis.traffic import Traffic, multiplied_in
from gptcalc.conventions import SweepRun, TimeRun
from gptcalc.equations import Line, Stage, Tensor
from gptcalc.equations import polynomial as poly
from gptcalc.errors import InputError

if TYPE_CHECKING:
    from gptcalc.architecture import Architecture
    from gptcalc.sources.devices import DeviceModel

#: seconds as a polynomial
Seconds = dict[poly.Monomial, float]
#: how near to the limit floats may be wrong
NEAR = 1e-9


class Demand(NamedTuple):
    """At least so many tokens a second, of so many sequences together, on a device."""

    device: DeviceModel
    rate: float
    batch: int
    mfu: float = 1.0
    mbu: float = 1.0

    @property
    def limit(self) -> float:
        """Seconds of a step."""
        return self.batch / self.rate

    def run(self, how: SweepRun) -> TimeRun:
        return how.to(TimeRun, batch=self.batch, mfu=self.mfu, mbu=self.mbu)

    def measured(self, architecture: Architecture, how: SweepRun) -> float:
        """Seconds of a step, by the analysis of one model."""
        return step_seconds(architecture, self.device, self.run(how))

    def left_out(self, architecture: Architecture, how: SweepRun) -> list[str]:
        """What a step is not bound by, as it is not known."""
        return left_out(Traffic(architecture, self.run(how), "decode"), self.device)


class Pace:
    """Seconds of a decode step of one combination: of each stage, computing and reading, the slower of which counts."""

    def __init__(self, collected: Figured, demand: Demand) -> None:
        """InputError where the device has no rate, or the model no such step."""
        self.collected = collected
        self.demand = demand
        self.traffic = Traffic(collected.architecture, demand.run(collected.how), "decode")
        if collected.architecture.sees_all:
            raise InputError("--tokens-per-second: it sees all tokens at once, and none comes later", kind="usage")
        self.rates = Rates(demand.device, demand.mfu, demand.mbu)
        self.entries = {(e.stage.name, e.tensor.weight.key): e for e in reversed(collected.entries)}
        self.by_key = {e.tensor.weight.key: e for e in reversed(collected.entries)}
        self.stages = [
            (self._computing(stage), self._reading(stage))
            for stage in self.traffic.model.main
            if stage.workload(self.traffic.work).new_tokens
        ]

    def holds(self, points: Points) -> tuple[Array, Array]:
        """Where a step is fast enough, and where rounding leaves that open."""
        seconds = np.zeros(points.number)
        for stage in self.stages:
            seconds += np.maximum(*(points.estimate(terms) for terms in stage))
        limit = self.demand.limit
        return seconds <= limit, abs(seconds - limit) <= NEAR * limit

    def possible(self, ranges: Mapping[str, tuple[int, int]]) -> bool:
        """Whether some point between these ends may be fast enough."""
        least = sum(max(poly.between(terms, ranges)[0] for terms in stage) for stage in self.stages)
        return least <= self.demand.limit * (1 + NEAR)

    def _computing(self, stage: Stage) -> Seconds:
        """Nothing where the device's rate for a type is not known, as in analysis.timed."""
        found: Seconds = {}
        for line in stage.lines:
            terms = self.collected.line_flops(stage, line, self.traffic.work)
            if not terms:
                continue
            rate = peak(self.demand.device, self._multiplied_in(stage, line))
            if rate is None:
                return {}
            whole = poly.multiplied(terms, self.collected.stage(stage).items())
            _add(found, whole, self.demand.batch / rate)
        return {monomial: n / self.rates.mfu for monomial, n in found.items()}

    def _multiplied_in(self, stage: Stage, line: Line) -> str:
        """Where types go by sizes and layers, which the traffic of one model doesn't know, that of the weights here."""
        for tensor in line.tensors() if self.collected.stored.is_mix else ():
            if tensor.kind in ("matrix", "kernel"):
                return multiplied_in(self.collected.stored.type(self._entry(stage, tensor)))
        return self.traffic.multiplied_in(stage, line)

    def _entry(self, stage: Stage, tensor: Tensor) -> Entry:
        """Where a tensor is counted: in this stage, or in another one that shares it."""
        key = tensor.weight.key
        return self.entries.get((stage.name, key)) or self.by_key[key]

    def _reading(self, stage: Stage) -> Seconds:
        """Of the weights that a step reaches, each once, and of the cache."""
        read: dict[str, Seconds] = {}
        for line in stage.lines:
            if line.kind == "sum" and not line.terms(stage.workload(self.traffic.work)):
                continue
            for tensor in line.tensors():
                own: Seconds = {}
                _add(own, self._bytes(stage, line, tensor), stage.runs_in_passes(line))
                kept = read.setdefault(tensor.weight.key, own)
                if kept != own:
                    read[tensor.weight.key] = self._larger(kept, own)
        found: Seconds = {}
        for terms in read.values():
            _add(found, terms, 1.0)
        cache = self.traffic.cache_of_layer(stage, self.demand.batch)
        _add(found, self.collected.stage(stage), cache)
        return {monomial: self.rates.read(n) for monomial, n in found.items()}

    def _bytes(self, stage: Stage, line: Line, tensor: Tensor) -> Mapping[poly.Monomial, float]:
        """Of a table the rows that are looked up, of experts the share that is reached, of all else everything, in all
        layers of a stage."""
        if line.is_idle:
            return {}
        stored, entry, layers = self.collected.stored, self._entry(stage, tensor), self.collected.stage(stage)
        if tensor.kind == "table":
            rows = poly.multiplied(self._rows(stage, line, tensor), layers.items())
            return poly.multiplied(stored.row(entry), rows.items())
        share = self.traffic.part(stage, line, tensor, self.demand.batch, self.demand.batch)
        whole = poly.multiplied(stored.of(entry), (layers if tensor.weight.shared else ONE).items())
        return {monomial: n * share for monomial, n in whole.items()}

    def _rows(self, stage: Stage, line: Line, tensor: Tensor) -> poly.Polynomial:
        """Of a table, that are looked up: no more than it has."""
        index = tensor.indices[0]
        tokens, of_each = self.traffic.looked_up(stage, line, tensor, self.demand.batch)
        rows = poly.scaled(self.collected.product(of_each), tokens)
        left = poly.added(self.collected.range(index), poly.scaled(rows, -1))
        low, high = poly.between(left, self.collected.ranges)
        if low < 0 < high:
            raise NotPolynomial("whether a table has as many rows as a batch looks up hangs on the sizes")
        return rows if low >= 0 else self.collected.range(index)

    def _larger(self, a: Seconds, b: Seconds) -> Seconds:
        """NotPolynomial where one is larger here and the other there."""
        difference = {m: a.get(m, 0.0) - b.get(m, 0.0) for m in a.keys() | b.keys()}
        low, high = poly.between(difference, self.collected.ranges)
        if low < 0 < high:
            raise NotPolynomial("which line reads more hangs on the sizes")
        return a if low >= 0 else b


def _add(total: Seconds, terms: Mapping[poly.Monomial, float], factor: float) -> None:
    for monomial, n in terms.items():
        total[monomial] = total.get(monomial, 0.0) + n * factor
