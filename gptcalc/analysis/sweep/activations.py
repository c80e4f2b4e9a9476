"""Activations of a prompt in symbols: every moment that may be the widest (memory.live), as a polynomial in bytes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gptcalc.analysis.memory.live import Place, Value, lives, made_of_past, peaks, place, width_of
from gptcalc.analysis.sweep.collected import Collected, NotPolynomial
from gptcalc.dtypes import FP32, weight_format
from gptcalc.equations import Chosen, Stage, equations
from gptcalc.equations import polynomial as poly
from gptcalc.equations.roles import LOOKED_BACK

#: symbols beside the sizes and the batch: new tokens of a pass, and of how many logits are wanted
TOKENS, WANTED = "tokens", "wanted"


class Symbolic:
    """A number of elements as a polynomial. One is less than another where it is so wherever the symbols may be."""

    __slots__ = ("ranges", "terms")

    def __init__(self, terms: poly.Polynomial, ranges: Mapping[str, tuple[int, int]]) -> None:
        self.terms = terms
        self.ranges = ranges

    def __add__(self, other: Symbolic, /) -> Symbolic:
        if not (self.terms and other.terms):  # most of a moment's lengths count nothing
            return self if self.terms else other
        return Symbolic(poly.added(self.terms, other.terms), self.ranges)

    def __sub__(self, other: Symbolic, /) -> Symbolic:
        if not other.terms:
            return self
        return Symbolic(poly.added(self.terms, poly.scaled(other.terms, -1)), self.ranges)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Symbolic) and not (self - other).terms

    def __lt__(self, other: Symbolic, /) -> bool:
        """NotPolynomial where it is so here and not there."""
        low, high = poly.between((other - self).terms, self.ranges)
        if low > 0 or high <= 0:
            return low > 0
        raise NotPolynomial("which operand is larger hangs on the sizes")

    __hash__ = None  # type: ignore[assignment]


def activations(collected: Collected) -> tuple[poly.Polynomial, ...]:
    """Bytes of every moment that may be the widest of a batch's pass; the largest counts. NotPolynomial where operands
    of one line change places."""
    architecture, how = collected.architecture, collected.how
    format = weight_format(how.dtype)
    width = width_of(how.dtype if format is None else format.name)
    past, source = how.length(architecture), how.source_length(architecture)
    per: tuple[poly.Polynomial, ...] = (  # as the slots of live.Size
        {((TOKENS, 1),): width},
        {(("batch", 1),): width * past},
        {((WANTED, 1),): FP32.block_bytes},
        {(): width},
        {(("batch", 1),): width * source},
    )
    found: list[Symbolic] = []
    for stage in equations(architecture).main:
        for moment in held(stage, collected):
            total: poly.Polynomial = {}
            for size, each in zip(moment, per, strict=True):
                poly.add(total, poly.multiplied(size.terms, each.items()))
            found.append(Symbolic(collected.where_it_runs(stage, total), collected.ranges))
    return tuple(each.terms for each in widest(found))


def held(stage: Stage, collected: Collected) -> list[tuple[Symbolic, ...]]:
    """Elements of each moment of a stage, by the length that they are counted by."""
    found = lives(stage)
    over_past = made_of_past(found.lines)
    none = Symbolic({}, collected.ranges)

    def size(value: Value) -> tuple[int, Symbolic] | None:
        where = place(value.line, value.reference, over_past)
        return None if where is None else (where.slot, elements(value, where, collected))

    sizes = {value: size(value) for values in found.dying() for value in values}
    moments = peaks(found, sizes, none, found.dying())
    if stage.runs == "encoder":  # its tokens are the source's
        return [(none, none, m[2], m[3], m[0] + m[1]) for m in moments]
    return moments


def elements(value: Value, where: Place, collected: Collected) -> Symbolic:
    """Of one value, for each that it is counted by."""
    line = value.line
    indices = [i for i in line.indices(value.reference) if i.role != "new" and i.role not in LOOKED_BACK]
    times = 1
    if isinstance(line.condition, Chosen) and any(index.role == "experts" for index in indices):
        indices = [index for index in indices if index.role != "experts"]
        times = line.condition.active
    terms = poly.scaled(collected.product(indices), times)
    if where.every > 1:
        terms = {monomial: shared(n, where.every, monomial) for monomial, n in terms.items()}
    return Symbolic(terms, collected.ranges)


def shared(n: int, every: int, monomial: poly.Monomial) -> int:
    """Each of so many tokens' share, rounded up where it is a number alone."""
    if monomial and n % every:
        raise NotPolynomial(f"{n} shared by {every}")
    return -(-n // every)


def widest(candidates: Iterable[Symbolic]) -> list[Symbolic]:
    """Without those that another one is never less than."""
    kept: list[Symbolic] = []
    for own in sorted(candidates, key=lambda c: -poly.between(c.terms, c.ranges)[1]):
        if not any(poly.between((other - own).terms, own.ranges)[0] >= 0 for other in kept):
            kept.append(own)
    return kept
