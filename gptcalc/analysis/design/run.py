"""A design: the best architectures like a model that meet a budget, each confirmed by the ordinary analyses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from math import prod
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from gptcalc import units
from gptcalc.analysis.design.pace import NEAR, Demand
from gptcalc.analysis.design.search import Search
from gptcalc.analysis.design.taste import Taste, tried
from gptcalc.analysis.flops import counted
from gptcalc.analysis.memory.cache import cached
from gptcalc.analysis.memory.inference import Inference
from gptcalc.analysis.memory.weights import total as weighed
from gptcalc.analysis.params import params
from gptcalc.analysis.sweep.figures import FIGURES
from gptcalc.analysis.sweep.run import kinds
from gptcalc.analysis.sweep.space import Space
from gptcalc.analysis.sweep.wanted import Order
from gptcalc.answers import Outcome
from gptcalc.conventions import CacheRun, FlopsRun, InferenceRun, SweepRun
from gptcalc.errors import InputError
from gptcalc.where import Test, check, parsed

if TYPE_CHECKING:
    from gptcalc.architecture import Architecture

#: figures of a table, beside the keys and what is asked for
SHOWN = ("total", "memory", "decode_flops")


class Brief(Struct, frozen=True, kw_only=True):
    """What is wanted. budget: usable bytes of a device; where: further conditions; goal: -total is the largest."""

    document: dict[str, Any]
    architecture: Architecture
    free: Mapping[str, Sequence[int] | None]
    goal: str
    budget: int | None = None
    where: tuple[str, ...] = ()
    batch: int = 1
    top: int = 1
    columns: tuple[str, ...] | None = None
    taste: Taste = Taste()
    demand: Demand | None = None
    how: SweepRun = SweepRun()


class Design(Outcome, frozen=True, kw_only=True):
    """The keys of `gptcalc design --json`. An empty `designs`: nothing there meets the budget."""

    like: str
    maximize: str | None
    minimize: str | None
    budget: int | None
    where: tuple[str, ...]
    tokens_per_second: float | None  # that a decode step gives at least, all sequences together
    device: str | None  # on which
    batch: int
    context: int
    dtype: str
    kv_dtype: str
    tried: tuple[str, ...]  # the free keys' values and the rules, in words
    points: int  # of the grid of the free keys, rules aside
    designs: tuple[dict[str, Any], ...]  # the best first: free keys, what follows them, figures
    confirmed: tuple[str, ...]  # the figures of every design that the analyses of it say, too
    notes: tuple[str, ...]


def designed(brief: Brief) -> Design:
    """The best architectures that meet a brief. InputError where a key or a column is none."""
    if brief.demand is not None:
        brief.how.check_phase(brief.architecture, "decode")
    if not brief.free:
        raise InputError("design: nothing is free", "give --free d,n_layers,d_ff", "usage")
    search = Search(*_asked(brief))
    best = search.best()
    for row in best:
        confirm(search.space, row, brief)
    demand = brief.demand
    goal = search.goal.key
    return Design(
        like=brief.architecture.name,
        maximize=goal if search.goal.down else None,
        minimize=None if search.goal.down else goal,
        budget=brief.budget,
        where=brief.where,
        tokens_per_second=None if demand is None else demand.rate,
        device=None if demand is None else demand.device.name,
        batch=brief.batch,
        context=brief.how.length(brief.architecture),
        dtype=brief.how.dtype,
        kv_dtype=brief.how.kv_dtype,
        tried=search.tried.said,
        points=prod(len(axis.values) for axis in search.tried.axes if axis.key in brief.free),
        designs=tuple(best),
        confirmed=tuple(key for key in search.columns if key in FIGURES),
        notes=notes(search, best, brief),
    )


def notes(search: Search, best: Sequence[Mapping[str, Any]], brief: Brief) -> tuple[str, ...]:
    """What the best are not held to; where there are none, why not."""
    if best:
        if brief.demand is None:
            return ()
        first = search.space.build({axis.key: best[0][axis.key] for axis in search.space.axes})
        return tuple(brief.demand.left_out(first, brief.how))
    said = [f"{number:,} points are no models: {why}" for why, number in search.space.refused.items()]
    if brief.budget is not None:
        smallest = search._replace(where=parsed((), {}), goal=Order("memory", False), top=1, demand=None)
        least = smallest._replace(columns=("memory",)).best()
        said += [f"the least memory of all that are tried is {units.short_bytes(row['memory'])}" for row in least]
    return tuple(said)


def _asked(brief: Brief) -> tuple[Any, ...]:
    """The grid, what is wanted of it and what is shown: the fields of a search."""
    found = tried(brief.document, brief.architecture, brief.free, brief.taste, brief.how.dtype)
    keys = [axis.key for axis in found.axes]
    known = [*keys, *FIGURES]
    goal = Order.of(brief.goal, known, "--maximize" if brief.goal.startswith("-") else "--minimize")
    where = parsed(brief.where, kinds(known))
    if brief.budget is not None:
        where = where.and_also((Test("memory", "<=", Fraction(brief.budget)),))
    columns = _columns(brief, [*keys, *FIGURES], [*keys, *dict.fromkeys((*SHOWN, goal.key, *where.keys))])
    figures = [key for key in FIGURES if key in {goal.key, *where.keys, *columns}]
    start = {key: brief.document[key] for key in keys if isinstance(brief.document.get(key), int)}
    space = Space(brief.document, found.axes, (brief.how.context,), (brief.batch,), figures, brief.how, base=start)
    if not prod(len(axis.values) for axis in found.axes):
        raise InputError("design: the rules leave no width of heads", "see --d-head", "usage")
    space.every_symbol = brief.demand is not None
    return space, found, where, goal, brief.top, tuple(dict.fromkeys((*keys, *columns))), brief.demand


def _columns(brief: Brief, known: Sequence[str], default: Sequence[str]) -> Sequence[str]:
    for key in brief.columns or ():
        check(key, known, "--columns")
    return brief.columns or default


def confirm(space: Space, row: dict[str, Any], brief: Brief) -> None:
    """Hold a row against the analyses of the architecture that it is. They differ where a polynomial is wrong. How fast
    it decodes is put beside it, if that was asked for."""
    architecture = space.build({axis.key: row[axis.key] for axis in space.axes})
    analyses = ordinary(architecture, brief.how, brief.batch)
    for key in row.keys() & analyses.keys():
        if (said := analyses[key]()) != row[key]:
            raise AssertionError(f"{key} of {dict(row)}: the analysis says {said}")
    if brief.demand is not None:
        rate = brief.demand.batch / brief.demand.measured(architecture, brief.how)
        if rate < brief.demand.rate * (1 - NEAR):
            raise AssertionError(f"{dict(row)}: the analysis says {rate} tokens a second")
        row["tokens_per_second"] = rate


def ordinary(architecture: Architecture, how: SweepRun, batch: int) -> dict[str, Callable[[], int]]:
    """Each figure of a grid as the analysis of one architecture has it."""
    context = how.length(architecture)
    counts = params(architecture)
    run = Inference(architecture, how.to(InferenceRun))

    def flops(**pass_: Any) -> int:
        return counted(architecture, how.to(FlopsRun, batch=batch, **pass_)).total

    return {
        "total": lambda: counts.total,
        "active": lambda: counts.active,
        "embedding": lambda: counts.embedding,
        "non_embedding": lambda: counts.non_embedding,
        "kv_bytes": lambda: cached(architecture, how.to(CacheRun, batch=batch)).bytes,
        "weights_bytes": lambda: weighed(architecture, how.dtype),
        "activations_bytes": lambda: run.device(0, batch, context).activations,
        "memory": lambda: run.needed(batch, context),
        "prefill_flops": lambda: flops(phase="prefill"),
        "decode_flops": lambda: flops(phase="decode"),
        "train_flops": lambda: flops(phase="train"),
    }
