"""How a foreign checkpoint holds a weight: under which name, in which layout, alone or together with others.

A map (`Names`) goes from the stem of a weight's key (`attn.q` for attn.q and attn.q.bias, `attn.norm` for
attn.norm.weight) to a module's name, with {l} for the layer, {before} for the last one, {even} and {odd} for both
halves of a layer where each counts as one, {run} for its number in its loop, {e} for the expert; of weights that layers
share {l} is the first of them, {group} the section's number among those of its kind. What each such layer has for
itself may stand in the {first} of them as its {use}, both counted from 0. A plain name means: a matrix of its own,
stored [out, in] as torch does. `Held` says what is different. Several alternatives are tried in order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from gptcalc.architecture import Architecture, Fused, Mixer, Modules, by_prefix, stem
from gptcalc.errors import InputError

#: parts of a fused matrix in order: each a stem, and what is proportional to its width, a field of the sublayer (or of
#: one of its groups, behind a dot) or a number
Parts: TypeAlias = tuple[tuple[str, str | int], ...]

QKV: Parts = (("attn.q", "n_heads"), ("attn.k", "n_kv_heads"), ("attn.v", "n_kv_heads"))
GATE_UP: Parts = (("mlp.gate", 1), ("mlp.up", 1))
UP_GATE: Parts = (("mlp.up", 1), ("mlp.gate", 1))
EXPERTS_GATE_UP: Parts = (("moe.gate", 1), ("moe.up", 1))


Stored: TypeAlias = Literal["out,in", "in,out", "each out,in"]


class Held(Struct, frozen=True):
    """A weight's place.

    module: the name without `weight` and `bias` below.
    parts: the weights that lie side by side along the output, this one among them.
    groups: the parts alternate within this many groups: a number, or a field of the sublayer such as n_kv_heads.
    stored: [out, in] is torch's Linear, [in, out] GPT-2's Conv1D. Leading dimensions (experts) stay in front; where
        each of several [out, in] has a share of the inputs (shared experts), they lie one behind the other.
    beside: it lies here in layers alone that have such a sublayer as well.
    speed: it lies here in layers of this speed alone.
    looped: equally wide parts that lie side by side along the output, for one layer of a loop behind the other.
    behind: modules of the same layer, as wide, whose outputs come behind this one's before parts are cut out.
    last: rows of a table that lie in a module of their own behind it, where there is no other part.
    padded: a vector that may have zeros behind it, up to as many numbers as this field of its sublayer says.
    """

    module: str
    parts: Parts = ()
    groups: str | int = 1
    stored: Stored = "out,in"
    weight: str = ".weight"
    bias: str = ".bias"
    beside: str = ""
    looped: Sequence[str] = ()
    speed: str = ""
    behind: tuple[str, ...] = ()
    padded: str = ""
    last: int = 0


Entry: TypeAlias = str | Held | Sequence[str | Held]
Names: TypeAlias = Mapping[str, Entry]


class Place(Struct, frozen=True):
    """One weight in a checkpoint: the tensor's name (with {e} where each expert has its own, {part} where it
    may lie in parts) and the cut out of it."""

    name: str
    matrix: bool
    stored: Stored = "out,in"
    shares: tuple[int, ...] = ()  # relative widths of the parts along the output
    index: int = 0
    groups: int = 1
    behind: tuple[str, ...] = ()  # further tensors, whose outputs come behind the first one's before the cut
    padded: int = 0  # how many numbers there are where zeros stand behind the weight
    last: int = 0  # rows of the one tensor behind, where it is not as wide as the first

    @property
    def stacked(self) -> bool:
        """Whether one tensor holds the weight, of all experts together where there are experts."""
        return "{e}" not in self.name and not self.parted

    @property
    def parted(self) -> bool:
        """Whether the weight may lie in several tensors, one behind the other along its first axis."""
        return "{part}" in self.name

    def expert(self, e: int) -> str:
        """The tensor of an expert, or of a part."""
        return self.name.replace("{e}", str(e)).replace("{part}", str(e))


def fused(module: str, parts: Parts, **more: str | int | tuple[str, ...]) -> dict[str, Entry]:
    """The entries of all parts of one fused matrix."""
    held = Held(module, parts=parts, **more)  # type: ignore[arg-type]
    return {stem: held for stem, _ in parts}


#: what the parts of a fused matrix are called together
TOGETHER: dict[frozenset[str], Fused] = {
    frozenset({"attn.q", "attn.k", "attn.v"}): "qkv",
    frozenset({"attn.k", "attn.v"}): "kv",
    frozenset({"mlp.gate", "mlp.up"}): "gate_up",
    frozenset({"moe.shared.gate", "moe.shared.up"}): "shared_gate_up",
}


def together(names: Names) -> list[Fused]:
    """Which projections are one matrix in the likeliest places."""
    found = [_together(likeliest(entry)) for entry in names.values()]
    return [word for word in TOGETHER.values() if word in found]


def likeliest(entry: Entry) -> Held:
    """The first of several places."""
    first = entry if isinstance(entry, (str, Held)) else entry[0]
    return Held(first) if isinstance(first, str) else first


def _together(held: Held) -> Fused | None:
    return TOGETHER.get(frozenset(stem for stem, _ in held.parts))


PROJECTIONS = ("attn.q", "attn.k", "attn.v", "attn.out", "mlp.gate", "mlp.up", "mlp.down", "moe.shared.gate")


def modules(names: Names) -> dict[str, str]:
    """What the class calls projections where it isn't as Llama's does; those that are one matrix together."""
    found: dict[str, str] = {}
    for part in PROJECTIONS:
        if part in names:
            held = likeliest(names[part])
            key = _together(held) or part.rpartition(".")[2]
            if part != "moe.shared.gate" or key == "shared_gate_up":
                whole = (held.module, *held.behind)
                module = whole[[stem for stem, _ in held.parts].index(part)] if held.behind else held.module
                found.setdefault(key, module.rpartition(".")[2])
    usual = Modules()
    return {key: name for key, name in found.items() if name != getattr(usual, key)}


def bare(name: str, **more: object) -> Held:
    """A parameter without `.weight` behind its name; its bias, if any, ends in _bias."""
    return Held(name, weight="", bias="_bias", **more)  # type: ignore[arg-type]


#: last words of the stems of matrices, which torch stores [out, in]; everything else lies as it is here
MATRICES = frozenset({
    "q", "k", "v", "out", "gate", "up", "down", "q_a", "q_b", "kv_a", "k_rope", "k_b", "v_b", "router", "shared_gate",
    "head", "projection", "latent_down", "latent_up", "weights",
    "prediction", "correction", "left", "right", "kv", "out_a", "out_b", "mix", "conv", "k_conv", "v_conv", "states",
    "profiles", "q_conv", "inner_conv", "x_conv", "B_conv", "C_conv", "beta", "decay", "decay_a", "decay_b", "gate_a",
    "decay_conv", "gate_b", "outer_conv", "u_conv", "head_conv", "v_before", "router_down", "router_1", "router_2",
    "z", "x", "B", "C", "dt", "dt_a", "dt_b", "y", "input_gate", "forget_gate",
    "router_k", "router_v", "dense", "labels", "confidence", "position_k", "position_q", "receptance", "taps",
    "token_sinks", "query",
    "shift_a", "shift_b", "spread", "rate_a", "rate_b", "value_a", "value_b", "forget", "gain",
    "input", "state", "hidden", "adaptive_a", "adaptive_b",
})  # fmt: skip


class TensorNames:
    """The tensor names of one model_type, bound to an architecture."""

    def __init__(self, names: Names, architecture: Architecture) -> None:
        self.names = names
        self.architecture = architecture
        self.shared = _shared(architecture)
        encoder = architecture.encoder
        self.encoder = [by_prefix(block) for block in encoder.blocks()] if encoder is not None else []
        self.layers = [by_prefix(block) for block in architecture.blocks()]
        self.firsts, self.uses = _sharing(self.layers)
        self.loop = _loops(architecture)
        self.speeds = [block.looped.entry if block.looped is not None else "" for block in architecture.blocks()]

    def places(self, key: str) -> list[Place]:
        """Where a weight may lie, the likeliest place first."""
        layer, local = self.split(key)
        stem, bias = _stem(local)
        entry = self.names.get(stem)
        if entry is None:
            raise InputError(f"no tensor name is known for {key}", kind="unsupported")
        entries = [entry] if isinstance(entry, (str, Held)) else entry
        held = [Held(e) if isinstance(e, str) else e for e in entries]
        fit = [each for each in held if len(held) == 1 or self.fits(each, stem, layer)]
        group = self.shared[key.split(".")[1]][0] if key.startswith("shared.") else None
        return [self.place(each, stem, bias, layer, group) for each in fit]

    def fits(self, held: Held, stem: str, layer: int | None) -> bool:
        """Whether a sublayer has what the parts of a fused matrix are measured by, and beside it what it should."""
        if held.beside and (layer is None or held.beside not in self.layers[layer]):
            return False
        if held.speed and (layer is None or held.speed != self.speeds[layer]):
            return False
        fields = [value for _, value in held.parts if isinstance(value, str)]
        return not fields or all(hasattr(self.mixer(stem, layer), name.partition(".")[0]) for name in fields)

    def split(self, key: str) -> tuple[int | None, str]:
        """layers.3.attn.q -> 3, attn.q; a multi-token module counts as the layer after the last, and weights that
        layers share, shared.attn.q, stand in the first of them."""
        words = key.split(".", 2)
        if words[0] == "encoder":
            layer, local = self.split(key.partition(".")[2])
            return layer, f"encoder.{local}"
        if words[0] == "shared":
            return self.firsts[words[1]], f"{self.shared[words[1]][1]}.{words[2]}"
        if words[0] == "layers":
            return int(words[1]), words[2]
        if words[0] == "mtp":
            return self.architecture.n_layers + int(words[1]), words[2]
        return None, key

    def place(self, held: Held, stem: str, bias: bool, layer: int | None, group: int | None = None) -> Place:
        """`group`: which of the sections of its kind whose weights layers share."""
        name = held.module + (held.bias if bias else held.weight)
        if layer is not None:
            name = name.replace("{l}", str(layer)).replace("{before}", str(layer - 1))
            name = name.replace("{even}", str(2 * layer)).replace("{odd}", str(2 * layer + 1))
        if "{first}" in name and layer is not None:
            first, use = self.uses[layer, stem.partition(".")[0]]
            name = name.replace("{first}", str(first)).replace("{use}", str(use))
        if group is not None:
            name = name.replace("{group}", str(group))
        matrix = not bias and stem.rpartition(".")[2] in MATRICES
        if "{run}" in name and layer is not None:
            name = name.replace("{run}", str(layer - self.loop[layer][0]))
        if held.looped and layer is not None:
            first, n = self.loop[layer]
            index = (layer - first) * len(held.looped) + held.looped.index(stem)
            return Place(name, matrix, held.stored, (1,) * len(held.looped) * n, index)
        if not held.parts:
            padded = int(getattr(self.mixer(stem, layer), held.padded)) if held.padded else 0
            behind = tuple(module + held.weight for module in held.behind)
            return Place(name, matrix, held.stored, behind=behind, padded=padded, last=held.last)
        mixer = self.mixer(stem, layer)
        shares = tuple(value if isinstance(value, int) else int(attrgetter(value)(mixer)) for _, value in held.parts)
        index = [part for part, _ in held.parts].index(stem)
        groups = held.groups if isinstance(held.groups, int) else int(getattr(mixer, held.groups))
        others = tuple(
            self.place(Held(m, weight=held.weight, bias=held.bias), stem, bias, layer).name for m in held.behind
        )
        return Place(name, matrix, held.stored, shares, index, groups, others)

    def mixer(self, stem: str, layer: int | None) -> Mixer:
        if stem.startswith("encoder."):
            assert layer is not None
            return self.encoder[layer][stem.split(".")[1]]
        prefix = stem.partition(".")[0]
        if layer is None:
            raise InputError(f"{stem} is not part of a layer", kind="unsupported")
        own = self.layers[layer] if layer < len(self.layers) else self.mtp()
        return own[prefix]

    def mtp(self) -> dict[str, Mixer]:
        assert self.architecture.mtp is not None
        return by_prefix(self.architecture.mtp.block)


def _loops(architecture: Architecture) -> dict[int, tuple[int, int]]:
    """Of each layer of a loop the loop's first one, and how many it has."""
    found: dict[int, list[int]] = {}
    run: list[int] = []
    for number, block in enumerate(architecture.blocks()):
        if block.looped is not None:
            run = [] if block.looped.begins else run
            run.append(number)
            found[number] = run
    return {number: (run[0], len(run)) for number, run in found.items()}


def _shared(architecture: Architecture) -> dict[str, tuple[int, str]]:
    """Sections whose weights layers share: which they are of those with their prefix, and the prefix."""
    found: dict[str, tuple[int, str]] = {}
    for mixer in architecture.mixers():
        if mixer.tied and mixer.section not in found:
            prefix = stem(mixer)
            found[mixer.section] = (sum(other == prefix for _, other in found.values()), prefix)
    return found


def _sharing(layers: list[dict[str, Mixer]]) -> tuple[dict[str, int], dict[tuple[int, str], tuple[int, int]]]:
    """Of sections whose weights layers share the first layer that has each; of each layer's sublayer with such weights
    that first layer, and how many sublayers of its prefix with such weights stand before it."""
    firsts: dict[str, int] = {}
    uses: dict[tuple[int, str], tuple[int, int]] = {}
    before: dict[str, int] = {}
    for number, layer in enumerate(layers):
        for prefix, mixer in layer.items():
            if mixer.tied:
                first = firsts.setdefault(mixer.section, number)
                uses[number, prefix] = first, before.get(prefix, 0)
                before[prefix] = before.get(prefix, 0) + 1
    return firsts, uses


def _stem(key: str) -> tuple[str, bool]:
    for ending, bias in ((".weight", False), (".bias", True)):
        if key.endswith(ending):
            return key.removesuffix(ending), bias
    return key, False


def in_layers(prefix: str, entries: Names) -> dict[str, Entry]:
    """Entries whose names all begin with a layer's prefix."""

    def prefixed(entry: str | Held) -> str | Held:
        if isinstance(entry, str):
            return prefix + entry
        return replace(entry, module=prefix + entry.module, behind=tuple(prefix + m for m in entry.behind))

    return {
        stem: prefixed(entry) if isinstance(entry, (str, Held)) else tuple(prefixed(e) for e in entry)
        for stem, entry in entries.items()
    }
