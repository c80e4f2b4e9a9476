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
from gptcalc.analysis.sweep.collected import Collected, NotPolynomial
from gptcalc.analysis.sweep.figures import is_packed
from gptcalc.analysis.sweep.packed import of
from gptcalc.analysis.timed import Rates, peak, step_seconds
from gptcalc.analysis.traffic import Traffic
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


class Pace:
    """Seconds of a decode step of one combination: of each stage, computing and reading, the slower of which counts."""

    def __init__(self, collected: Collected, demand: Demand) -> None:
        """InputError where the device has no rate, or the model no such step."""
        self.collected = collected
        self.demand = demand
        self.traffic = Traffic(collected.architecture, demand.run(collected.how), "decode")
        if collected.architecture.sees_all:
            raise InputError("--tokens-per-second: it sees all tokens at once, and none comes later", kind="usage")
        self.rates = Rates(demand.device, demand.mfu, demand.mbu)
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
        found: Seconds = {}
        for line in stage.lines:
            kind = self.traffic.multiplied_in(stage, line)
            terms = self.collected.line_flops(stage, line, self.traffic.work)
            if not terms:
                continue
            rate = peak(self.demand.device, kind)
            if rate is None:
                problem = f"--tokens-per-second: no {kind} rate of {self.demand.device.title} is known"
                raise InputError(problem, "name another --device", "unsupported")
            _add(found, poly.multiplied(terms, self.collected.stage(stage).items()), self.demand.batch / rate)
        return {monomial: n / self.rates.mfu for monomial, n in found.items()}

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
        _add(found, {(): self.traffic.cache_of_layer(stage, self.demand.batch)}, 1.0)
        whole = poly.multiplied(found, self.collected.stage(stage).items())  # type: ignore[arg-type]
        return {monomial: self.rates.read(n) for monomial, n in whole.items()}

    def _bytes(self, stage: Stage, line: Line, tensor: Tensor) -> Mapping[poly.Monomial, float]:
        """Of a table the rows that are looked up, of experts the share that is reached, of all else everything."""
        width = self.collected.width(tensor)
        if tensor.kind == "table":
            index = tensor.indices[0]
            tokens, of_each = self.traffic.looked_up(stage, line, tensor, self.demand.batch)
            rows = poly.scaled(self.collected.product(of_each), tokens)
            left = poly.added(self.collected.range(index), poly.scaled(rows, -1))
            low, high = poly.between(left, self.collected.ranges)
            if low < 0 < high:
                raise NotPolynomial("whether a table has as many rows as a batch looks up hangs on the sizes")
            read = rows if low >= 0 else self.collected.range(index)
            return poly.scaled(poly.multiplied(read, self.collected.product(tensor.indices[1:]).items()), width)
        if is_packed(self.collected.how.dtype) and not tensor.weight.tied:
            terms = of(self.collected, self.traffic.weights, Entry(stage, line, tensor))
        else:
            terms = poly.scaled(self.collected.product(tensor.indices), width)
        share = self.traffic.part(stage, line, tensor, self.demand.batch, self.demand.batch)
        return {monomial: n * share for monomial, n in terms.items()}

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
