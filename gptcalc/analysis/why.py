"""The ledger behind a figure: the lines and ranges that add up to it (`--why KEY`)."""

from __future__ import annotations

from fractions import Fraction
from math import prod
from typing import Any

from msgspec import Struct

from gptcalc.analysis import params as parameters
from gptcalc.analysis.flops import Flops, convention
from gptcalc.analysis.memory.cache import CacheGroup, KVCache, types, whole
from gptcalc.architecture import Architecture
from gptcalc.equations import PAST, Chosen, Entries, Line, Pairs, Stage, Workload, equations
from gptcalc.equations.language import Completed, Condition
from gptcalc.errors import InputError, did_you_mean


class Row(Struct, frozen=True):
    """One line's share: `ranges` multiply to `each`; it counts `times` times."""

    group: str
    equation: str
    of: str
    ranges: str
    each: int | Fraction
    times: int
    amount: int | Fraction


class Ledger(Struct, frozen=True):
    key: str
    value: int | Fraction
    convention: str
    rows: tuple[Row, ...]


def why_params(architecture: Architecture, key: str) -> Ledger:
    """The tensors behind total, active, embedding, non_embedding, mtp, components.NAME or groups.N.total/active."""
    model = equations(architecture)
    wanted, active = _params_filter(key, [stage for stage in model.stages if stage.kind != "mtp"])
    rows = []
    for entry in parameters.ledger(model):
        if wanted(entry):
            each = entry.tensor.active if active else entry.tensor.params
            ranges = _tensor_ranges(entry, active)
            rows.append(_row(entry.stage, entry.line, entry.tensor.weight.key, ranges, each, entry.stage.times))
    return Ledger(key, sum(row.amount for row in rows), parameters.CONVENTION, tuple(rows))


def _params_filter(key: str, stages: list[Stage]) -> tuple[Any, bool]:
    main = [stage.name for stage in stages]
    parts = key.split(".")
    match parts:
        case ["total"] | ["active"]:
            return (lambda e: e.stage.kind != "mtp"), key == "active"
        case ["mtp"]:
            return (lambda e: e.stage.kind == "mtp"), False
        case ["embedding"]:
            return (lambda e: e.tensor.weight.component == "embedding"), False
        case ["non_embedding"]:
            return (lambda e: e.stage.kind != "mtp" and e.tensor.weight.component != "embedding"), False
        case ["components", name] if name in parameters.COMPONENTS:
            return (lambda e: e.stage.kind != "mtp" and e.tensor.weight.component == name), False
        case ["groups", number, ("total" | "active") as what] if number.isdigit() and int(number) < len(main):
            return (lambda e: e.stage.name == main[int(number)]), what == "active"
    raise _no_ledger(key, ["total", "active", "embedding", "non_embedding", "mtp", "components.attention"])


def _no_ledger(key: str, known: list[str]) -> InputError:
    return InputError(f"--why {key}: no such sum", did_you_mean(key, known) or "one of " + ", ".join(known), "usage")


def _row(stage: Stage, line: Line, of: str, ranges: str, each: int | Fraction, times: int) -> Row:
    return Row(stage.name, line.text, of, ranges, each, times, each * times)


def _tensor_ranges(entry: parameters.Entry, active: bool) -> str:
    chosen = entry.line.condition
    symbols, sizes = [], []
    for letter, index in zip(entry.tensor.reference.indices, entry.tensor.indices, strict=True):
        few = active and letter == "e" and isinstance(chosen, Chosen)
        symbols.append("top_k" if few else index.symbol)
        sizes.append(chosen.active if few and isinstance(chosen, Chosen) else index.size)
    return _spelled(symbols, sizes)


def _spelled(symbols: list[str], sizes: list[int]) -> str:
    if not symbols:
        return "1"
    shown = " · ".join(f"({s})" if "+" in s else s for s in symbols)
    return f"{shown} = {' · '.join(f'{n:,}' for n in sizes)}"


def why_kv(architecture: Architecture, found: KVCache, key: str) -> Ledger:
    """The store lines behind bytes, bytes_per_token, elements_per_token or full_bytes of a cache analysis."""
    known = ["bytes", "bytes_per_token", "elements_per_token", *(["full_bytes"] if found.engine == "ideal" else [])]
    if key not in known:
        raise _no_ledger(key, known)
    held = f"engine {found.engine}, {found.mla_cache} MLA cache"
    if key == "bytes" and found.engine != "ideal":
        return Ledger(key, found.bytes, held, tuple(_set_aside(group, found.engine) for group in found.groups))
    kept = types(found.kv_dtype)
    rows = []
    for stage in equations(architecture, cache=found.mla_cache).stages:
        for line in stage.lines:
            if line.kind != "store" or stage.kind == "mtp" or (line.kept is None and key.endswith("per_token")):
                continue
            letters = [letter for letter in line.statement.left.indices if letter not in PAST]
            symbols = [line.scope[letter].symbol for letter in letters]
            sizes = [line.scope[letter].size for letter in letters]
            elements = prod(sizes)
            tokens = _tokens(line, found.context, key)
            kind = kept.of(line)
            each: int | Fraction = elements if key == "elements_per_token" else kind.row_bytes(elements)
            ranges = _spelled(symbols, sizes)
            if key != "elements_per_token":
                ranges += f", {kind.name}: {each:,} bytes"
            if isinstance(line.kept, Entries) and key.endswith("per_token"):
                ranges += f"; an entry every {line.kept.every} tokens"
                each = whole([Fraction(each, line.kept.every)])
            times = stage.times
            if key in ("bytes", "full_bytes"):
                what = "entries" if isinstance(line.kept, Entries) else "tokens" if line.kept is not None else "state"
                ranges += f"; {tokens:,} {what} × {found.batch} sequences"
                times *= tokens * found.batch
            rows.append(_row(stage, line, line.statement.left.name, ranges, each, times))
    return Ledger(key, whole(Fraction(row.amount) for row in rows), held, tuple(rows))


def _tokens(line: Line, context: int, key: str) -> int:
    """How often a store line's left side is kept of `context` tokens; a constant state once."""
    if line.kept is None:
        return 1
    return line.kept.kept(context) if key == "bytes" or isinstance(line.kept, Entries) else context


def _set_aside(group: CacheGroup, engine: str) -> Row:
    """What an engine sets aside for the layers of one group."""
    ranges = f"{group.layers:,} layers, {group.cached_tokens:,} tokens as {engine} rounds them"
    return Row(group.name, f"a cache of kind {group.kind}", group.kind, ranges, group.bytes, 1, group.bytes)


def why_flops(architecture: Architecture, found: Flops, key: str) -> Ledger:
    """The counted sums behind total, attention, weights, macs or by_component.NAME of a FLOPs analysis."""
    work = Workload(found.context, found.phase, found.pairs, found.logits)
    component = key.removeprefix("by_component.") if key.startswith("by_component.") else None
    if component not in (None, *parameters.COMPONENTS) or (
        component is None and key not in ("total", "attention", "weights", "macs")
    ):
        raise _no_ledger(key, ["total", "attention", "weights", "macs", "by_component.attention"])
    per_term = 1 if key == "macs" else 2
    passes = found.batch * (3 if found.phase == "train" else 1)
    rows = []
    for stage in equations(architecture, found.mla).stages:
        for line in stage.lines:
            terms = line.terms(work)
            attends = line.attends()
            wrong_side = (key == "attention" and not attends) or (key == "weights" and attends)
            if stage.kind == "mtp" or not terms or wrong_side or component not in (None, line.component):
                continue
            of = line.statement.left.name
            rows.append(_row(stage, line, of, _terms(line, work, per_term), per_term * terms, stage.times * passes))
    return Ledger(key, sum(row.amount for row in rows), convention(work, found.mla), tuple(rows))


def _counted(condition: Condition) -> str:
    """What a condition's joint count counts."""
    if isinstance(condition, (Pairs, Entries)):
        return "pairs"
    return "entries" if isinstance(condition, Completed) else "T"


def _terms(line: Line, work: Workload, per_term: int) -> str:
    """2 · T · d · d_ff = …, a condition's joint count as one factor."""
    letters = list(dict.fromkeys(letter for ref in line.statement.factors for letter in ref.indices))
    symbols, sizes = ([str(per_term)], [per_term]) if per_term != 1 else ([], [])
    condition = line.condition
    if condition is not None and set(letters).issuperset(condition.indices):
        letters = [letter for letter in letters if letter not in condition.indices]
        if isinstance(condition, Chosen):
            symbols.append("T · top_k")
        else:
            symbols.append(_counted(condition))
        sizes.append(condition.count(work))
    for letter in letters:
        symbols.append(line.scope[letter].symbol)
        sizes.append(line.size(letter, work))
    return _spelled(symbols, sizes)
