"""Bytes of weights in a format of packed matrices, as a polynomial in the free sizes.

Sizes are counted in steps of what all their values are multiples of (`Collected.steps`), so that blocks and groups of a
format divide them where they divide every value; where they don't, each point is one of its own.
"""

from __future__ import annotations

from gptcalc.analysis.memory.sharding import Layout
from gptcalc.analysis.memory.weights import Weights
from gptcalc.analysis.params import Entry
from gptcalc.analysis.sweep.collected import ONE, Collected, NotPolynomial
from gptcalc.dtypes import FP32, DType, Packing
from gptcalc.equations import polynomial as poly


def packed_bytes(collected: Collected) -> poly.Polynomial:
    """Of all tensors, each as the format stores it."""
    weights = Weights(collected.architecture, collected.how.dtype, Layout())
    total: poly.Polynomial = {}
    for entry in (*collected.entries, *weights.second_head()):
        terms = of(collected, weights, entry)
        if not entry.tensor.weight.shared:
            terms = poly.multiplied(terms, collected.stage(entry.stage).items())
        poly.add(total, terms)
    return total


def of(collected: Collected, weights: Weights, entry: Entry) -> poly.Polynomial:
    """One tensor's bytes. NotPolynomial where blocks divide it at some points and not at others."""
    _, how = weights.stored_as(entry)
    indices = entry.tensor.indices
    if isinstance(how, DType):
        return poly.scaled(collected.product(indices), how.block_bytes)
    if entry.tensor.kind in ("matrix", "kernel"):
        copies, inputs, outputs = (
            collected.product([index for index, own in zip(indices, entry.tensor.places, strict=True) if own == place])
            for place in range(3)
        )
        if poly.between(outputs, collected.ranges)[0] <= 1 < entry.tensor.shape[-1]:
            raise NotPolynomial(f"{entry.tensor.weight.key} may have a single output, which is not packed")
        return poly.multiplied(packed(how, inputs, outputs), copies.items())
    *rows, row = indices
    return packed(how, collected.product([row]), collected.product(rows))


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
