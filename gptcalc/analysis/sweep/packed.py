"""Bytes of weights as a type, a format of packed matrices or a GGUF mix stores them: polynomials in the free sizes.

Sizes are counted in steps of what all their values are multiples of (`Collected.steps`), so that blocks and groups of a
format divide them where they divide every value; where they don't, each point is one of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from math import gcd

from gptcalc.analysis.memory.mixes import fitting
from gptcalc.analysis.memory.sharding import Layout
from gptcalc.analysis.memory.weights import Weights
from gptcalc.analysis.params import Entry
from gptcalc.analysis.sweep.collected import ONE, Collected, NotPolynomial
from gptcalc.analysis.sweep.mixed import LARGEST
from gptcalc.dtypes import FP32, DType, Packing
from gptcalc.equations import Index, equations
from gptcalc.equations import polynomial as poly
from gptcalc.errors import InputError


class Stored:
    """The weights of one architecture in symbols, tensor by tensor."""

    def __init__(self, collected: Collected) -> None:
        """NotPolynomial where types are asked for by patterns of names, which may go by the layer's number."""
        self.collected = collected
        self.weights = Weights(collected.architecture, collected.how.dtype, Layout())
        self.is_mix = self.weights.format is None
        if self.is_mix and self.weights.by_hand is not None:
            raise NotPolynomial("types by patterns of names go by layers")

    def total(self) -> poly.Polynomial:
        """Of all tensors, each as often as it exists, and what a file has beside them."""
        entries = (*self.collected.entries, *self.weights.second_head())
        factors = self.weights.factors()
        return poly.added(*map(self.of, entries), {(): 0 if factors is None else factors.total})

    def of(self, entry: Entry) -> poly.Polynomial:
        """Of one tensor, in all layers that have it. NotPolynomial where blocks divide it at some points and not at
        others."""
        copies, inputs, outputs = self._matrix(entry)
        total: poly.Polynomial = {}
        for how, times in self._kinds(entry, inputs):
            poly.add(total, poly.multiplied(_bytes(how, copies, inputs, outputs), times.items()))
        more = self._rows_as_converted(entry)
        return {monomial: n * more.numerator // more.denominator for monomial, n in total.items()}

    def row(self, entry: Entry) -> dict[poly.Monomial, float]:
        """Of one row of a table: what its first index chooses, which of a vector is a single number."""
        _, inputs, _ = self._matrix(entry)
        ((how, _),) = self._kinds(entry, inputs)
        chosen = entry.tensor.indices[1:]
        if not chosen and not (isinstance(how, DType) and how.block == 1):
            raise NotPolynomial(f"a number of {entry.tensor.weight.key} lies in a block")
        row = _bytes(how, ONE, inputs if chosen else ONE, self.collected.product(chosen[:-1]))
        times = float(self._rows_as_converted(entry))
        return {monomial: n * times for monomial, n in row.items()}

    def type(self, entry: Entry) -> str:
        """The name of a tensor's type or format; where it goes by the layer that of one of them."""
        if self.is_mix:
            how, _ = next(self._kinds(entry, self._matrix(entry)[1]))
            assert isinstance(how, DType)
            return how.name
        return self.weights.stored_as(entry)[0]

    def _kinds(self, entry: Entry, inputs: poly.Polynomial) -> Iterator[tuple[Packing | DType, poly.Polynomial]]:
        """How a tensor is stored, and in how many layers it is so."""
        if self.weights.in_header(entry):
            return
        times = ONE if entry.tensor.weight.shared else self.collected.stage(entry.stage)
        if not self.is_mix:
            yield self.weights.stored_as(entry)[1], times
            return
        placed = self.collected.placed.get((entry.stage.name, entry.tensor.weight.key))
        if placed is None:
            yield _settled(inputs, lambda row: self.weights.gguf_type(entry, row)), times
            return
        for type_, layers in placed.items():
            yield _settled(inputs, lambda row, type_=type_: fitting(type_, row)), layers  # type: ignore[misc]

    def _matrix(self, entry: Entry) -> tuple[poly.Polynomial, poly.Polynomial, poly.Polynomial]:
        """Copies, inputs and outputs: of a table its rows are the outputs, a vector is one row."""
        indices, product = entry.tensor.indices, self.collected.product
        if entry.tensor.kind not in ("matrix", "kernel"):
            return ONE, product(indices[-1:]), product(indices[:-1])
        places = self.weights.multiplied(entry.tensor).places

        def at(place: int) -> list[Index]:
            return [index for index, own in zip(indices, places, strict=True) if own == place]

        copies, inputs, outputs = (product(at(place)) for place in range(3))
        last = outputs if entry.line.kind == "sum" else product(indices[-1:])
        if poly.between(last, self.collected.ranges)[0] <= 1 < entry.tensor.shape[-1]:
            raise NotPolynomial(f"{entry.tensor.weight.key} may have a single output, which is not packed")
        return copies, inputs, outputs

    def _rows_as_converted(self, entry: Entry) -> Fraction:
        """What rows of a file are to those of the model: every table of tokens has the vocabulary's in GGUF files."""
        v = self.collected.architecture.v
        if not self.is_mix or entry.tensor.weight.use != "tokens" or entry.tensor.indices[0].size >= v:
            return Fraction(1)
        rows = self.collected.range(entry.tensor.indices[0])
        symbols = equations(self.collected.architecture).symbols
        if set(rows) != {()} or v in {symbols[symbol] for symbol in self.collected.free}:
            raise NotPolynomial("rows of the table of tokens are others than the vocabulary's")
        return Fraction(v, rows[()])


def _settled(inputs: poly.Polynomial, type_of: Callable[[int], DType]) -> DType:
    """The type of rows that have so many numbers. NotPolynomial where blocks divide some of them and not others."""
    step = gcd(*inputs.values())
    if set(inputs) == {()}:
        return type_of(step)
    try:
        found = {type_of(step * 2**n) for n in range(LARGEST.bit_length())}
    except InputError:
        found = set()
    if len(found) != 1:
        raise NotPolynomial(f"whether blocks of {LARGEST} divide the sizes hangs on them")
    return found.pop()


def _bytes(
    how: Packing | DType, copies: poly.Polynomial, inputs: poly.Polynomial, outputs: poly.Polynomial
) -> poly.Polynomial:
    """So many matrices, each of so many inputs and outputs."""
    if isinstance(how, DType):
        rows = poly.scaled(shared(inputs, how.block), how.block_bytes)
        return poly.multiplied(poly.multiplied(rows, outputs.items()), copies.items())
    return poly.multiplied(packed(how, inputs, outputs), copies.items())


def packed(how: Packing, inputs: poly.Polynomial, outputs: poly.Polynomial) -> poly.Polynomial:
    """One matrix: as Packing.bytes has it of numbers."""
    if how.flat:
        inputs, outputs = poly.multiplied(inputs, outputs.items()), ONE
    groups = poly.multiplied(shared(inputs, how.group), shared(outputs, how.group_outputs).items())
    rows = poly.scaled(shared(inputs, how.element.block), how.element.block_bytes)
    parts = [poly.multiplied(rows, outputs.items()), shared(poly.scaled(groups, how.scale_bits), 8)]
    if how.nested:
        parts.append(poly.scaled(shared(groups, how.nested), FP32.block_bytes))
    if how.per_input and not how.flat:
        parts.append(poly.scaled(inputs, how.per_input))
    return poly.added(*parts, {(): how.per_matrix})


def shared(terms: poly.Polynomial, by: int | None) -> poly.Polynomial:
    """How many groups of so many there are, the last one cut; None: one of all."""
    if by is None:
        return ONE
    if set(terms) <= {()}:
        return {(): -(-terms.get((), 0) // by)}
    if any(n % by for n in terms.values()):
        raise NotPolynomial(f"whether groups of {by} divide the sizes hangs on them")
    return {monomial: n // by for monomial, n in terms.items()}
