"""What a checkpoint holds: the main model's weights, tensor by tensor, and everything that lies beside them.

Counted are parameters, however a quantiser packs them (`sources.packed`). With an architecture every learned tensor is
held against the one that the equations have; without one, names tell apart what is no weight of the main model.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

from gptcalc.analysis.memory import mixes
from gptcalc.analysis.params import Entry, ledger
from gptcalc.analysis.stored_result import Difference, Held, Stored
from gptcalc.architecture import Architecture, Block, DeltaMixing, Encoder, Files, Part, Repeat
from gptcalc.equations import Layer, equations
from gptcalc.equations.roles import STACKED
from gptcalc.errors import InputError
from gptcalc.sources import Model, tensor_names
from gptcalc.sources.checkpoint import config_beside, header, kind_at, located
from gptcalc.sources.header import SCHEME, Steps, Tensor
from gptcalc.sources.huggingface.tensors import Place, TensorNames
from gptcalc.sources.packed import Contents, Role, Weight, contents, unwrapped

#: roles whose sum is what a file holds in weights; anything else is no learned weight of the (text) model
WEIGHTS = ("main", "unused", "copies", "mtp", "unexpected")


# --- with an architecture ---------------------------------------------------------------------------------------------


def held(model: Model, path: str, steps: Steps = iter) -> Stored:
    """The tensors at a path against a model's. InputError where its model_type's tensors have no known names."""
    names = tensor_names(model, kind_at(path))
    return compared(model.architecture, names, contents(header(path, steps), config_beside(path)))


#: what of a packed matrix lies beside it, and is loaded with it
COMPANIONS: tuple[Role, ...] = ("scales", "zero_points", "absmax", "g_idx", "bookkeeping")
FORMS = {"F64": "fp64", "F32": "fp32", "F16": "fp16", "BF16": "bf16"}


def weighed(model: Model) -> Model:
    """The model with what each tensor takes in the files beside it, where these have all of them and no others."""
    if model.tensors is None or model.tensors.startswith(SCHEME) or model.architecture.encoder is not None:
        return model
    try:
        names = tensor_names(model, kind_at(model.tensors))
        inside = contents(header(model.tensors), config_beside(model.tensors))
    except InputError:  # `params` says what is wrong with them
        return model
    if inside.unclear or compared(model.architecture, names, inside).differ:
        return model
    files = Files(_taken(model.architecture, names, inside))
    storage = model.architecture.storage
    storage = replace(storage, files=files, weights=_called(storage.weights, files))
    return replace(model, architecture=replace(model.architecture, storage=storage))


def _called(said: str | None, files: Files) -> str | None:
    """The format's name: what is said of a file, unless no tensor in it is of such a type; then that of most bytes."""
    sizes: dict[str, int] = {}
    for type_, size in files.tensors.values():
        sizes[type_] = sizes.get(type_, 0) + size
    if said not in mixes.MIXES or any(type_[:3] == said[:3] for type_ in sizes):
        return said
    return max(sizes, key=sizes.__getitem__)


def _taken(architecture: Architecture, names: TensorNames, inside: Contents) -> dict[str, tuple[str, int]]:
    """Type and bytes of every tensor under its full key; of a fused one each part has its share."""
    beside = _beside(inside)
    place = Located(inside.weights)
    found: dict[str, tuple[str, int]] = {}
    for key, entry in (*expected_tensors(architecture), *_second_head(architecture)):
        params = entry.tensor.params
        size, type_ = 0, ""
        for name, share in _places(_known(names, key), entry, params, place):
            if name in inside.weights:
                weight = inside.weights[name]
                whole = weight.tensor.end - weight.tensor.start
                type_ = _type(weight, whole)
                size += -(-(whole + beside.get(name, 0)) * share // (weight.elements or share or 1))
        if type_:
            found[key] = type_, size
    return found


def _second_head(architecture: Architecture) -> Iterator[tuple[str, Entry]]:
    """A tied output matrix under a name of its own, as some files have it."""
    if architecture.head.tying:
        yield from (("head.weight", entry) for key, entry in expected_tensors(architecture) if key == TOKEN_TABLE)


def _beside(inside: Contents) -> dict[str, int]:
    """The bytes of scales and the like by the weight that they belong to: its name begins theirs."""
    sizes: dict[str, int] = {}
    for tensor in (tensor for role in COMPANIONS for tensor in inside.apart.get(role, ())):
        name = unwrapped(tensor.name)
        while name:
            owner = next((own for own in (name, f"{name}.weight") if own in inside.weights), None)
            if owner is not None:
                sizes[owner] = sizes.get(owner, 0) + tensor.end - tensor.start
                break
            name = name[: max(name.rfind("."), name.rfind("_"), 0)]
    return sizes


def _type(weight: Weight, size: int) -> str:
    """What a weight is stored as: ggml's and torch's types by name, packed integers by their width."""
    kind = weight.tensor.dtype
    if kind.startswith("F8"):
        return "fp8"
    if kind in PACKED and weight.elements:
        return f"int{-(-8 * size // weight.elements)}"
    return FORMS.get(kind, kind.lower())


PACKED = ("U8", "I8", "U32", "I32")


def compared(architecture: Architecture, names: TensorNames, contents: Contents) -> Stored:
    """A checkpoint's tensors, each held against the architecture's."""
    place = Located(contents.weights)
    roles: dict[str, list[Weight]] = {"main": []}
    differ = []
    padded = dict(_padded(architecture, names, place))
    for name, expected in claims(architecture, names, place).items():
        weight = place.of.pop(name, None)
        if weight is not None and weight.elements == padded.get(name, expected) != expected:
            weight, zeros = _apart(weight, expected)
            roles.setdefault("unused", []).append(zeros)
        if weight is not None:
            roles["main"].append(weight)
        found = None if weight is None else weight.elements
        if weight is None or (found is not None and found != expected):
            differ.append(Difference(name, expected, found))
    for weight, role in leftover(architecture, names, place):
        roles.setdefault(role, []).append(weight)
    differ += [Difference(w.name, None, w.elements) for w in roles.get("unexpected", ())]
    stored = _stored(roles, contents, tuple(differ))
    return replace(stored, rows=_rows(architecture, names, place, stored.differ))


def _padded(architecture: Architecture, names: TensorNames, place: Located) -> Iterator[tuple[str, int]]:
    """The tensors that may have zeros behind a vector, with how many numbers they have then."""
    for key, _ in expected_tensors(architecture):
        for found in names.places(key):
            if found.padded:
                yield place.name(found.name) or found.name, found.padded


def _apart(weight: Weight, own: int) -> tuple[Weight, Weight]:
    """A weight of so many numbers, and the zeros behind it."""
    tensor, zeros = weight.tensor, (weight.elements or own) - own
    end = tensor.end - (tensor.end - tensor.start) * zeros // (own + zeros)
    first, rest = tensor._replace(shape=(own,), end=end), tensor._replace(shape=(zeros,), start=end)
    return Weight(weight.name, own, first), Weight(weight.name, zeros, rest)


def _rows(architecture: Architecture, names: TensorNames, place: Located, differ: tuple[Difference, ...]) -> int | None:
    """The rows of the token table in the file, where that alone differs."""
    tables = {place.name(p.name) for key in TOKEN_TABLES for p in _known(names, key)}
    width = architecture.embedding.width
    rows = {None if d.file is None else d.file / width for d in differ if d.tensor in tables}
    whole = [n for n in rows if n is not None and n.is_integer()]
    return int(whole[0]) if len(rows) == len(whole) == 1 and all(d.tensor in tables for d in differ) else None


def as_stored(architecture: Architecture, found: Stored) -> Architecture:
    """The architecture with as many rows of the token table as the file has: where both say one, the tensors count."""
    return architecture if found.rows is None else replace(architecture, v=found.rows)


class Located:
    """The weights of a checkpoint, found with other words in front of their names if need be."""

    def __init__(self, weights: Mapping[str, Weight]) -> None:
        self.all = weights
        self.of = dict(weights)  # those that are not claimed yet

    def name(self, name: str) -> str | None:
        return located(name, self.all)


def claims(architecture: Architecture, names: TensorNames, place: Located) -> dict[str, int]:
    """The tensors that a checkpoint of an architecture has, by their names there, with their parameters.

    A fused tensor has those of all its parts; where experts have tensors of their own, each has its share.
    """
    found: dict[str, int] = {}
    for key, entry in expected_tensors(architecture):
        params = entry.tensor.params
        for name, share in _places(names.places(key), entry, params, place):
            found[name] = found.get(name, 0) + share
    return found


def _places(places: list[Place], entry: Entry, params: int, at: Located) -> Iterator[tuple[str, int]]:
    chosen = next((p for p in places if at.name(p.expert(0)) is not None), places[0])
    if chosen.stacked:
        tensors = (chosen.name, *chosen.behind)
        if chosen.last:
            row = params // entry.tensor.indices[0].size
            shares = (params - chosen.last * row, chosen.last * row)
            yield from ((at.name(name) or name, share) for name, share in zip(tensors, shares, strict=True))
            return
        yield from ((at.name(name) or name, params // len(tensors)) for name in tensors)
        return
    if chosen.parted:
        n = 1
        while at.name(chosen.expert(n)) is not None:
            n += 1
        yield from ((at.name(chosen.expert(part)) or chosen.expert(part), params // n) for part in range(n))
        return
    stacked = [index.size for index in entry.tensor.indices if index.role in STACKED]
    n = stacked[0] if stacked else prod(entry.tensor.shape[:-1])  # a norm of each head (StableLM)
    for e in range(n):
        yield at.name(chosen.expert(e)) or chosen.expert(e), params // n


def expected_tensors(architecture: Architecture) -> Iterator[tuple[str, Entry]]:
    """Every tensor of the main model under its full key, as the equations have it."""
    model = equations(architecture)
    of_stage: dict[str, list[Entry]] = {stage.name: [] for stage in model.stages}
    for entry in ledger(model):
        of_stage[entry.stage.name].append(entry)
    once = [
        (stage, "encoder." if stage.runs == "encoder" else "") for stage in model.main if not isinstance(stage, Layer)
    ]
    for stage, start in once:
        yield from ((start + entry.tensor.weight.key, entry) for entry in of_stage[stage.name])
    stacks: list[tuple[str, Architecture | Encoder, tuple[Layer, ...]]] = [("", architecture, model.layers)]
    if architecture.encoder is not None:
        layers = tuple(stage for stage in model.encoder if isinstance(stage, Layer))
        stacks.append(("encoder.", architecture.encoder, layers))
    for start, stack, stages in stacks:
        stage_of = {stage.block: stage.name for stage in stages}
        shared: set[str] = set()
        for number, block in enumerate(stack.blocks()):
            for entry in of_stage[stage_of[block]]:
                weight = entry.tensor.weight
                if not weight.shared:
                    yield f"{start}layers.{number}.{weight.key}", entry
                elif weight.key not in shared:
                    shared.add(weight.key)
                    yield start + weight.key, entry


def leftover(architecture: Architecture, names: TensorNames, place: Located) -> Iterator[tuple[Weight, str]]:
    """What no tensor of the architecture claims, and what it is."""
    head = {at for p in _known(names, "head.weight") if (at := place.name(p.name))} if architecture.head.tying else ()
    borrowed = {at for key in BORROWED for p in _known(names, key) if (at := place.name(p.name))}
    full = unshared(architecture)
    unused = set(claims(full, TensorNames(names.names, full), place)) if full is not architecture else set()
    multi = multi_token([*place.of], architecture.n_layers)
    for name, weight in place.of.items():
        if is_other_modality(name):
            yield weight, "other_modalities"
        elif name in head or name in borrowed:
            yield weight, "copies"
        elif name in multi:
            yield weight, multi[name]
        else:
            yield weight, "unused" if name in unused else "unexpected"


def _known(names: TensorNames, key: str) -> list[Place]:
    try:
        return names.places(key)
    except InputError:
        return []


def unshared(architecture: Architecture) -> Architecture:
    """The same model without reuse of keys and values: some checkpoints keep the projections that reuse leaves idle.

    Nor does the first layer of RWKV-7 mix values, but its GGUF files have tensors for it.
    """
    layers = tuple(_unshared(item) for item in architecture.layers)
    return architecture if layers == architecture.layers else replace(architecture, layers=layers)


def _unshared(item: Any) -> Any:
    match item:
        case Repeat():
            return replace(item, body=tuple(_unshared(inner) for inner in item.body))
        case Block():
            return replace(item, parts=tuple(_unshared(part) for part in item.parts))
        case Part():
            return replace(item, units=tuple(_unshared(unit) for unit in item.units))
    if isinstance(item, DeltaMixing) and item.value_rank is None:
        return replace(item, value_rank=item.rate_rank)
    return replace(item, kv=None) if getattr(item, "kv", None) is not None else item


# --- by name ----------------------------------------------------------------------------------------------------------


def by_name(contents: Contents) -> Stored:
    """A checkpoint without an architecture: all weights are the main model's that no name takes out of it."""
    weights = contents.weights
    text = {name: w for name, w in weights.items() if not is_other_modality(name)} or weights
    multi = multi_token([*text])
    roles: dict[str, list[Weight]] = {"main": []}
    seen: set[tuple[Path, int, int]] = set()
    for name, weight in weights.items():
        role = "other_modalities" if name not in text else multi.get(name, "main")
        place = (weight.tensor.file, weight.tensor.start, weight.tensor.end)
        if weight.elements and place in seen:  # torch stores what is tied once, under both names
            role = "copies"
        seen.add(place)
        roles.setdefault(role, []).append(weight)
    return _stored(roles, contents, ())


#: first words of the names of what is not the text model
OTHERS = (
    "vision", "visual", "vit", "image", "img", "audio", "speech", "multi_modal", "mm", "embed_vision", "embed_audio",
    "embed_tokens_extend", "connector", "aligner", "resampler", "talker", "token2wav", "sam_model", "code_predictor",
)  # fmt: skip
OTHER = re.compile(rf"(?:[^.]*\.){{0,2}}(?:{'|'.join(OTHERS)})(?:[._]|$)")  # among the first three words
IN_LAYER = re.compile(r"\b(?:layers|blocks|blk|h)\.(\d+)\.")
#: tables that a draft reads and its target has
BORROWED = ("target.embedding.token", "target.head.weight")
TOKEN_TABLE = "embedding.token"
TOKEN_TABLES = (TOKEN_TABLE, "head.weight")
MTP = re.compile(r"(?:^|\.)mtp(?:_\w+)?\.|(?:^|\.)(?:nextn|eh_proj|enorm|hnorm)(?:_\w+)?\.")
TABLES = re.compile(
    r"(?:^|[._])(?:embed_tokens|word_embeddings|shared_head\.head|shared_head_head|lm_head|output_head)\."
)


def is_other_modality(name: str) -> bool:
    """Whether a tensor belongs to a vision tower, a projector, a speech decoder: not to the text model."""
    return OTHER.match(name) is not None


def multi_token(names: Iterable[str], n_layers: int | None = None) -> dict[str, str]:
    """The tensors of multi-token modules, and which of them are copies of the main model's tables.

    They are told by their names, or stand in layers behind the last one; without a number of layers, those are layers
    with a projection that joins two streams (eh_proj).
    """
    layers = {name: int(match[1]) for name in names if (match := IN_LAYER.search(name))}
    named = {name for name in names if MTP.search(name)}
    behind = {number for name, number in layers.items() if name in named}
    if n_layers is not None:
        behind = {number for number in layers.values() if number >= n_layers}
    found = {}
    for name in names:
        if name in named or layers.get(name) in behind:
            found[name] = "copies" if TABLES.search(name) else "mtp"
    return found


# --- sums -------------------------------------------------------------------------------------------------------------


class _Sum(NamedTuple):
    tensors: int
    params: int
    bytes: int


def _stored(roles: Mapping[str, list[Weight]], contents: Contents, differ: tuple[Difference, ...]) -> Stored:
    held = [_weights(role, roles[role]) for role in (*WEIGHTS, "other_modalities") if roles.get(role)]
    held += [_others(role, tensors) for role, tensors in sorted(contents.apart.items())]
    of = {row.role: row.params for row in held}
    return Stored(of.get("main", 0), sum(of.get(role, 0) for role in WEIGHTS), tuple(held), differ)


def _weights(role: str, weights: list[Weight]) -> Held:
    return Held(role, len(weights), sum(w.elements or 0 for w in weights), _bytes(w.tensor for w in weights))


def _others(role: str, tensors: list[Tensor]) -> Held:
    return Held(role, len(tensors), sum(t.elements for t in tensors), _bytes(tensors))


def _bytes(tensors: Iterable[Tensor]) -> int:
    return sum(tensor.end - tensor.start for tensor in tensors)
