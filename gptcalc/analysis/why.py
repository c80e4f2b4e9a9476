"""The ledger behind a figure: the lines and ranges that add up to it (`--why KEY`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from math import prod
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from gptcalc import units
from gptcalc.analysis import params as parameters
from gptcalc.analysis.flops import Flops, of_states
from gptcalc.analysis.memory.cache import CacheGroup, KVCache, turned, types, whole
from gptcalc.analysis.memory.pools import CONSTANT
from gptcalc.architecture import Architecture
from gptcalc.conventions import CacheRun, FlopsRun
from gptcalc.equations import Chosen, Constant, Entries, Equations, Line, OfSource, Pairs, Stage, Workload, equations
from gptcalc.errors import InputError, did_you_mean, is_count, printable


class Row(Struct, frozen=True):
    """One line's share: `ranges` multiply to `each`; it counts `times` times."""

    group: str
    equation: str
    of: str
    ranges: str
    each: int | Fraction
    times: int
    amount: int | Fraction


#: the sums that --why takes apart, by analysis; those of components by their names
SUMS: dict[str, tuple[str, ...]] = {
    "params": ("total", "active", "embedding", "non_embedding", "mtp", "components.attention"),
    "kv": ("bytes", "bytes_per_token", "elements_per_token", "state_bytes", "full_bytes"),
    "flops": ("total", "attention", "weights", "states", "macs", "by_component.attention"),
}


class Ledger(Struct, frozen=True):
    key: str
    value: int | Fraction
    convention: str
    rows: tuple[Row, ...]
    confirmed_by: str = "no published figure; gptcalc validate holds it against a forward pass"


def confirmed(ledger: Ledger, document: Mapping[str, Any]) -> Ledger:
    """The same of parameters, which `published` counts, with where that was, and whether it is the same."""
    published = document.get("published")
    if not isinstance(published, Mapping) or ledger.key not in published:
        return ledger
    value = published[ledger.key]
    source = f" ({published['source']})" if "source" in published else ""
    same = "the published figure" if value == ledger.value else f"nothing; it differs from the published {value:,}"
    return replace(ledger, confirmed_by=f"{same}{source}")


def why_params(architecture: Architecture, key: str) -> Ledger:
    """The tensors behind total, active, embedding, non_embedding, mtp, components.NAME or groups.N.total/active."""
    model = equations(architecture)
    wanted, active = _params_filter(key, model)
    rows = []
    for entry in parameters.ledger(model):
        if wanted(entry):
            each = entry.tensor.active if active else entry.tensor.params
            ranges = _tensor_ranges(entry, active)
            rows.append(_row(entry.stage, entry.line, entry.tensor.weight.key, ranges, each, entry.stage.times))
    return Ledger(key, sum(row.amount for row in rows), parameters.CONVENTION, tuple(rows))


def _params_filter(key: str, model: Equations) -> tuple[Callable[[parameters.Entry], bool], bool]:
    main = model.main
    parts = key.split(".")
    match parts:
        case ["total"] | ["active"]:
            return (lambda e: e.stage is not model.mtp), key == "active"
        case ["mtp"]:
            return (lambda e: e.stage is model.mtp), False
        case ["embedding"]:
            return (lambda e: e.tensor.weight.component == "embedding"), False
        case ["non_embedding"]:
            return (lambda e: e.stage is not model.mtp and e.tensor.weight.component != "embedding"), False
        case ["components", name] if name in parameters.COMPONENTS:
            return (lambda e: e.stage is not model.mtp and e.tensor.weight.component == name), False
        case ["groups", number, ("total" | "active") as what] if is_count(number) and int(number) < len(main):
            return (lambda e: e.stage is main[int(number)]), what == "active"
    raise _no_ledger(key, SUMS["params"])


def _no_ledger(key: str, known: Sequence[str]) -> InputError:
    said = printable(key) or repr(key)
    return InputError(f"--why {said}: no such sum", did_you_mean(key, known) or "one of " + ", ".join(known), "usage")


def _row(stage: Stage, line: Line, of: str, ranges: str, each: int | Fraction, times: int) -> Row:
    return Row(stage.name, line.text, of, ranges, each, times, each * times)


def _tensor_ranges(entry: parameters.Entry, active: bool) -> str:
    chosen = entry.line.condition
    symbols, sizes = [], []
    for index in entry.tensor.indices:
        if active and index.role == "experts" and isinstance(chosen, Chosen):
            symbols.append(chosen.active_symbol)
            sizes.append(chosen.active)
        else:
            symbols.append(index.symbol)
            sizes.append(index.size)
    return _spelled(symbols, sizes)


def _spelled(symbols: list[str], sizes: list[int]) -> str:
    if not symbols:
        return "1"
    shown = " · ".join(f"({s})" if "+" in s else s for s in symbols)
    return f"{shown} = {' · '.join(f'{n:,}' for n in sizes)}"


def why_kv(architecture: Architecture, how: CacheRun, found: KVCache, key: str) -> Ledger:
    """The store lines behind a sum of a cache analysis: one of SUMS, full_bytes with the ideal engine alone."""
    known = [sum_ for sum_ in SUMS["kv"] if sum_ != "full_bytes" or found.engine == "ideal"]
    if key not in known:
        raise _no_ledger(key, known)
    held = f"engine {found.engine}, {found.mla_cache} MLA cache"
    if key in ("bytes", "state_bytes") and found.engine != "ideal":
        groups = [group for group in found.groups if key == "bytes" or group.kind in CONSTANT]
        return Ledger(key, getattr(found, key), held, tuple(_set_aside(group, found.engine) for group in groups))
    kept = types(found.kv_dtype, how.state_dtype, found.engine)
    rows = []
    per_token = key in ("bytes_per_token", "elements_per_token")
    model = equations(architecture, cache=found.mla_cache)
    for stage in model.stages if how.mtp else model.main:
        chosen, rotary = any(line.stored == "index keys" for line in stage.lines), turned(stage)
        for line in stage.lines:
            constant = isinstance(line.kept, (Constant, OfSource))
            if line.stored is None or (per_token and constant) or (key == "state_bytes" and not constant):
                continue
            indices = line.stored_indices()
            symbols, sizes = [index.symbol for index in indices], [index.size for index in indices]
            elements = prod(sizes)
            tokens = _tokens(line, found, key)
            kind = kept.of(line, chosen)
            size = kept.row_bytes(line, elements, chosen, rotary)
            each: int | Fraction = elements if key == "elements_per_token" else size
            ranges = _spelled(symbols, sizes)
            if key != "elements_per_token":
                ranges += f", {kind.name}: {each:,} bytes"
            if isinstance(line.kept, Entries) and per_token:
                ranges += f"; an entry every {line.kept.every} tokens"
                each = whole([Fraction(each, line.kept.every)])
            times = stage.often(line)
            if not per_token:
                ranges += f"; {tokens:,} {_counted(line)} × {units.sequences(found.batch)}"
                times *= tokens * found.batch
            rows.append(_row(stage, line, line.statement.left.name, ranges, each, times))
    return Ledger(key, whole(Fraction(row.amount) for row in rows), held, tuple(rows))


def _tokens(line: Line, found: KVCache, key: str) -> int:
    """How often a store line's left side is kept; a constant state once, what is of the source once a source token."""
    match line.kept:
        case Entries():
            return line.kept.kept(found.context)
        case Pairs():
            return line.kept.kept(found.context) if key == "bytes" else found.context
        case OfSource():
            return found.source or 0
        case Constant() | None:
            return 1


def _counted(line: Line) -> str:
    """What a store line keeps one of."""
    match line.kept:
        case Entries():
            return "entries"
        case Pairs():
            return "tokens"
        case OfSource():
            return "source tokens"
        case Constant() | None:
            return "state"


def _set_aside(group: CacheGroup, engine: str) -> Row:
    """What an engine sets aside for the layers of one group."""
    ranges = f"{group.layers:,} layers, {group.cached_tokens:,} tokens as {engine} rounds them"
    return Row(group.name, f"a cache of kind {group.kind}", group.kind, ranges, group.bytes, 1, group.bytes)


def why_flops(architecture: Architecture, found: Flops, key: str) -> Ledger:
    """The counted sums behind total, attention, weights, states, macs or by_component.NAME of a FLOPs analysis."""
    work = Workload(found.context, found.phase, found.pairs, found.logits, found.source or 0)
    component = key.removeprefix("by_component.") if key.startswith("by_component.") else None
    if component not in (None, *parameters.COMPONENTS) or (component is None and key not in SUMS["flops"]):
        raise _no_ledger(key, SUMS["flops"])
    per_term = 1 if key == "macs" else 2
    passes = found.batch * (3 if found.phase == "train" else 1)
    rows = []
    how = FlopsRun(phase=found.phase, mla=found.mla, scan=found.scan or "recurrent")
    for stage in equations(architecture, how.form, how.kept, how.chunks).main:
        own = stage.workload(work)
        for line in stage.lines:
            terms = line.terms(own)
            side = "attention" if line.attends() else "states" if of_states(line) else "weights"
            wrong_side = key in ("attention", "states", "weights") and key != side
            if not terms or wrong_side or component not in (None, line.component):
                continue
            of = line.statement.left.name
            rows.append(
                _row(stage, line, of, _terms(line, own, per_term), per_term * terms, stage.often(line) * passes)
            )
    return Ledger(key, sum(row.amount for row in rows), found.convention, tuple(rows))


def _terms(line: Line, work: Workload, per_term: int) -> str:
    """2 · T · d · d_ff = …, a condition's joint count as one factor."""
    symbols, sizes = ([str(per_term)], [per_term]) if per_term != 1 else ([], [])
    condition, indices = line.joint(line.factors())
    if condition is not None:
        symbols.append(condition.counts)
        sizes.append(condition.count(work))
    for index in indices:
        symbols.append(index.symbol)
        sizes.append(index.length(work))
    return _spelled(symbols, sizes)
