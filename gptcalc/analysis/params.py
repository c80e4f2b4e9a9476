"""Parameters: total, active, by component, by layer group, by tensor, and the formula."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from gptcalc.answers import Outcome
from gptcalc.architecture import Architecture
from gptcalc.equations import Equations, Layer, Line, Stage, Tensor, equations
from gptcalc.equations import polynomial as poly

COMPONENTS = (
    "embedding", "attention", "recurrent", "mlp", "experts", "shared_experts", "router", "norm", "output", "other",
)  # fmt: skip

CONVENTION = (
    "learned weights of the main model: a tied matrix once, the router's selection bias included; "
    "multi-token-prediction modules and derived buffers left out"
)


class TensorRow(Struct, frozen=True):
    name: str
    shape: tuple[int, ...]
    count: int  # how many there are
    params: int  # of one


class Group(Struct, frozen=True):
    name: str
    layers: int  # how many layers are so
    per_layer: int  # parameters of one
    total: int
    active: int
    tensors: tuple[TensorRow, ...]


class Params(Outcome, frozen=True):
    """The keys of `gptcalc params --json`."""

    model: str
    total: int  # learned weights of the main model
    active: int  # those that one token uses, the most where tokens differ
    active_mean: int | None  # on average, where some experts have no weights and so `active` is a bound
    embedding: int  # tables of tokens, positions and types
    non_embedding: int  # total without the embedding
    without_tables: int  # neither token tables nor an output matrix of its own, as papers and cards count
    tying: bool  # the output matrix is the token table
    mtp: int  # multi-token-prediction modules, not in the total
    borrowed: dict[str, int]  # by component, what tables of another model have that are not counted
    formula: str  # the total, its terms collected
    components: dict[str, int]  # the total by what weights are for
    groups: tuple[Group, ...]  # the total by kinds of layers


class Entry(Struct, frozen=True):
    """One learned tensor in the ledger: the line it stands on and how often that line's stage exists."""

    stage: Stage
    line: Line
    tensor: Tensor

    @property
    def copies(self) -> int:
        """How often the tensor exists: in every layer of its kind, or once for all."""
        return 1 if self.tensor.weight.shared else self.stage.times

    @property
    def total(self) -> int:
        return self.tensor.params * self.copies

    @property
    def active(self) -> int:
        return self.tensor.active * self.copies

    @property
    def used(self) -> int:
        """What one token's pass multiplies with: a tensor that layers share as often as it runs."""
        return self.tensor.active * self.stage.often(self.line)


def ledger(model: Equations) -> list[Entry]:
    """Every learned tensor once, in order of first use. A tied matrix stands on two lines and counts at the first; what
    layers of several kinds share counts in the first of them; another model's tables count nowhere."""
    entries = []
    of_all: set[tuple[str, str]] = set()
    for stage in model.stages:
        seen: set[str] = set()
        for line in stage.lines:
            for tensor in line.tensors():
                weight, stack = tensor.weight, "encoder" if stage.runs == "encoder" else ""
                if weight.tied or weight.borrowed or weight.key in seen:
                    continue
                if weight.shared and (stack, weight.key) in of_all:
                    continue
                seen.add(weight.key)
                if weight.shared:
                    of_all.add((stack, weight.key))
                entries.append(Entry(stage, line, tensor))
    return entries


def params(architecture: Architecture) -> Params:
    """What a checkpoint of the main model stores as learned weights, in exact integers."""
    model = equations(architecture)
    entries = ledger(model)
    components = dict.fromkeys(COMPONENTS, 0)
    for entry in entries:
        if entry.stage is not model.mtp:
            components[entry.tensor.weight.component] += entry.total
    of_stage = by_stage(entries)
    groups = {stage.name: _group(stage, of_stage.get(stage, [])) for stage in model.stages}
    main = tuple(groups[stage.name] for stage in model.main)
    total = sum(group.total for group in main)
    return Params(
        model=architecture.name,
        total=total,
        active=sum(group.active for group in main),
        active_mean=_mean(model, entries),
        embedding=components["embedding"],
        non_embedding=total - components["embedding"],
        without_tables=total - components["embedding"] - components["output"],
        tying=architecture.head.tying,
        mtp=0 if model.mtp is None else groups[model.mtp.name].total,
        borrowed=borrowed(model),
        formula=formula(model, entries),
        components=components,
        groups=main,
    )


def borrowed(model: Equations) -> dict[str, int]:
    """Parameters of the target's tables that a draft reads, by component."""
    lines = [line for stage in model.main for line in stage.lines if line.weights]
    reading = [line for line in lines if True in [weight.borrowed for weight in line.weights.values()]]
    tensors = [tensor for line in reading for tensor in line.tensors()]
    return {tensor.weight.component: tensor.params for tensor in tensors if tensor.weight.borrowed}


def not_counted(model: Equations) -> tuple[str, ...]:
    """What is said of tables that are another model's, where there are any."""
    tables = [f"{NAMES.get(part, part)} ({n:,} parameters)" for part, n in borrowed(model).items()]
    verb = "is" if len(tables) == 1 else "are"
    return (f"the target's {' and '.join(tables)} {verb} read, and not counted here",) if tables else ()


#: what another model's tables are called, by their component
NAMES = {"output": "output matrix"}


def _mean(model: Equations, entries: list[Entry]) -> int | None:
    """Active parameters on average, rounded; None where a token's number is always the same."""
    own = [entry for entry in entries if entry.stage is not model.mtp]
    if all(entry.tensor.expected == entry.tensor.active for entry in own):
        return None
    return round(sum(entry.tensor.expected * entry.copies for entry in own))


def by_stage(entries: Iterable[Entry]) -> dict[Stage, list[Entry]]:
    """What each stage has."""
    found: dict[Stage, list[Entry]] = {}
    for entry in entries:
        found.setdefault(entry.stage, []).append(entry)
    return found


def _group(stage: Stage, own: list[Entry]) -> Group:
    rows = tuple(TensorRow(e.tensor.weight.key, e.tensor.shape, e.copies, e.tensor.params) for e in own)
    per_layer = sum(row.params for row in rows)
    return Group(stage.name, stage.times, per_layer, sum(e.total for e in own), sum(e.active for e in own), rows)


def formula(model: Equations, entries: list[Entry]) -> str:
    """The total in the model's symbols, equal terms collected: d·v + d·c + n_layers·(12·d² + 13·d) + 2·d."""
    parts: dict[
        tuple[str, str, int], int
    ] = {}  # terms and the symbol for all layers of their stack; how often they exist
    rank = {symbol: place for place, symbol in enumerate(model.symbols)}
    of_stage = by_stage(entries)
    for stage in model.main:
        for shared in (True, False):
            terms: poly.Polynomial = {}
            for entry in of_stage.get(stage, []):
                if entry.tensor.weight.shared is shared:
                    poly.add(terms, poly.product(index.symbol for index in entry.tensor.indices))
            if not terms:
                continue
            depth = _depth(stage, model.symbols) if not shared else ""
            key = poly.show(terms, rank), depth, 0 if depth else len(parts)  # equal ones are added up in layers alone
            parts[key] = parts.get(key, 0) + (1 if shared else stage.times)
    times = [depth if n == model.symbols.get(depth) else str(n) for (_, depth, _), n in parts.items()]
    return " + ".join(f"{n}·({text})" if depth else text for n, (text, depth, _) in zip(times, parts, strict=True))


def _depth(stage: Stage, symbols: dict[str, int]) -> str:
    """The symbol for how many layers the stage's stack has; none where the stage is no layer."""
    if not isinstance(stage, Layer):
        return ""
    return "n_layers_enc" if stage.runs == "encoder" and "n_layers_enc" in symbols else "n_layers"
