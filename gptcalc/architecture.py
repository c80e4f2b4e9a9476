"""What a model IS: frozen, typed, validated. The only thing that every other room knows.

A model is written as a document (a mapping with the keys of a preset file). `build` turns a document into an
`Architecture`, in which every default is filled in, every section is resolved and equal blocks are counted, not listed.
Nothing about cost is computed here, and nothing is inferred from a model's name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec import Meta, Struct, convert, field
from msgspec.structs import force_setattr, replace

from gptcalc import expression
from gptcalc.errors import InputError, did_you_mean, printable

Size: TypeAlias = Annotated[int, Meta(ge=1, le=1_000_000_000)]
Count: TypeAlias = Annotated[int, Meta(ge=0, le=1_000_000_000)]
Depth: TypeAlias = Annotated[int, Meta(ge=1, le=1_000_000)]
Positive: TypeAlias = Annotated[float, Meta(gt=0)]


class Activation(NamedTuple):
    """An MLP's nonlinearity: the function, and whether it multiplies a second projection (a gate)."""

    function: str
    gated: bool


ACTIVATIONS: dict[str, Activation] = {
    "relu": Activation("relu", False),
    "relu2": Activation("relu2", False),
    "gelu": Activation("gelu", False),
    "gelu_tanh": Activation("gelu_tanh", False),
    "silu": Activation("silu", False),
    "xielu": Activation("xielu", False),  # two learned scalars a layer (Apertus)
    "swiglu": Activation("silu", True),
    "geglu": Activation("gelu", True),
    "geglu_tanh": Activation("gelu_tanh", True),
    "reglu": Activation("relu", True),
    "relu2glu": Activation("relu2", True),
    "swiglu_oai": Activation("silu_oai", True),  # gpt-oss: g·σ(1.702·g)·(u + 1), both clamped
}
ActivationName: TypeAlias = Literal[
    "relu", "relu2", "gelu", "gelu_tanh", "silu", "xielu",
    "swiglu", "geglu", "geglu_tanh", "reglu", "relu2glu", "swiglu_oai",
]  # fmt: skip


class _Struct(Struct, frozen=True, forbid_unknown_fields=True):
    pass


class Linear(_Struct, tag_field="kind", tag="linear", frozen=True, kw_only=True):
    """RoPE scaling by position interpolation: every frequency divided by `factor`."""

    factor: Positive


class Dynamic(_Struct, tag_field="kind", tag="dynamic", frozen=True, kw_only=True):
    """NTK-aware scaling whose base grows with the length once it exceeds `original`."""

    factor: Positive
    original: Size


class NTK(_Struct, tag_field="kind", tag="ntk", frozen=True, kw_only=True):
    """NTK-aware scaling with a fixed factor: theta · factor^(r / (r − 2)) for r rotated channels."""

    factor: Positive


class Yarn(_Struct, tag_field="kind", tag="yarn", frozen=True, kw_only=True):
    """YaRN (arXiv:2309.00071): high frequencies kept, low ones interpolated, a ramp between, scores rescaled."""

    factor: Positive
    original: Size
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    attention_factor: float | None = None
    mscale: float | None = None
    mscale_all_dim: float | None = None
    truncate: bool = True


class Llama3(_Struct, tag_field="kind", tag="llama3", frozen=True, kw_only=True):
    """Llama 3.1's scaling: wavelengths above original/low divided, below original/high kept, smooth between."""

    factor: Positive
    original: Size
    low: float = 1.0
    high: float = 4.0


class LongRope(_Struct, tag_field="kind", tag="longrope", frozen=True, kw_only=True):
    """LongRoPE (arXiv:2402.13753): one divisor a frequency, one list up to `original` tokens, another beyond."""

    short: tuple[float, ...]
    long: tuple[float, ...]
    original: Size
    factor: float | None = None
    attention_factor: float | None = None


class Proportional(_Struct, tag_field="kind", tag="proportional", frozen=True, kw_only=True):
    """Partial rotation whose frequencies are spaced over the whole head; the rest turn by zero (Gemma 4)."""

    factor: Positive = 1.0


Scaling: TypeAlias = Linear | Dynamic | NTK | Yarn | Llama3 | LongRope | Proportional


class Rope(_Struct, frozen=True, kw_only=True):
    """Rotary positions: `fraction` of the head's channels turn, paired by halves or with their neighbour."""

    theta: Positive = 10000.0
    fraction: Annotated[float, Meta(gt=0, le=1)] = 1.0
    channels: Size | None = None  # rotated channels; default ⌊fraction · d_head⌋
    pairing: Literal["half", "adjacent"] = "half"
    scaling: Scaling | None = None


class Norm(_Struct, frozen=True, kw_only=True):
    """A normalisation over channels; `offset` 1 means that the stored weight is the scale minus one.

    A bias is there where it is said; unsaid, a layernorm with weights has one, any other norm has none.
    """

    kind: Literal["rmsnorm", "layernorm", "l2"] = "rmsnorm"
    weight: bool = True
    bias: bool | None = None
    offset: Literal[0, 1] = 0
    eps: Positive = 1e-5

    def __post_init__(self) -> None:
        if self.bias is None:
            force_setattr(self, "bias", self.kind == "layernorm" and self.weight)
        if self.bias and not self.weight:
            raise ValueError("a norm without weights has no bias")


class QKNorm(Norm, frozen=True, kw_only=True):
    """A norm of queries and keys: one weight a channel of the head (`head`), of all heads (`full`, taken over the
    whole width) or of each head apart (`each`); before the rotation or after it."""

    over: Literal["head", "full", "each"] = "head"
    after_rope: bool = False


class Temperature(_Struct, frozen=True, kw_only=True):
    """Queries scaled by 1 + scale · ln(1 + ⌊(position + shift) / floor⌋) (Llama 4 without positions, Ministral 3)."""

    floor: Positive
    scale: float
    shift: Literal[0, 1] = 1


NormAt: TypeAlias = Literal["pre", "post", "output", "sandwich"]


class Sublayer(_Struct, frozen=True, kw_only=True):
    """What every sublayer has: its section's name, its norm and where that stands, and its residual's factor.

    norm_at: `pre` x + f(norm(x)); `post` norm(x + f(x)); `output` x + norm(f(x)); `sandwich` x + norm₂(f(norm₁(x))).
    """

    section: str
    norm: Norm | None
    norm_at: NormAt = "pre"
    residual_scale: float = 1.0


AttentionSite: TypeAlias = Literal["q", "k", "v", "out"]
LatentSite: TypeAlias = Literal["q_a", "q_b", "kv_a", "kv_b", "out"]
MlpSite: TypeAlias = Literal["gate", "up", "down"]
ExpertSite: TypeAlias = Literal["gate", "up", "down", "router", "shared"]


class AttentionExperts(_Struct, frozen=True, kw_only=True):
    """Query and output projections chosen per token from experts; K and V are shared (JetMoE)."""

    n_experts: Size
    top_k: Size


class KV(_Struct, frozen=True, kw_only=True):
    """Where keys and values come from: the last earlier sublayer of the section `from`."""

    from_: str = field(name="from")


class Attention(Sublayer, tag_field="sublayer", tag="attention", frozen=True, kw_only=True):
    """Softmax attention: multi-head, grouped or multi-query, over the whole past, a window or a chunk of it."""

    n_heads: Size
    n_kv_heads: Size
    d_head: Size
    d_v: Size
    bias: tuple[AttentionSite, ...] = ()
    position: Literal["rope", "alibi", "none"] = "rope"
    alibi_scale: Positive = 1.0  # Falcon scales the biases with the scores, by 1/√d_head
    rope: Rope | None = None
    window: Size | None = None
    chunk: Size | None = None
    qk_norm: QKNorm | None = None
    v_norm: Norm | None = None
    q_rank: Size | None = None  # queries through a normed bottleneck (Step-3)
    k_eq_v: bool = False  # one projection serves K and V
    kv: KV | None = None
    sinks: bool = False
    gate: Literal["head", "full"] | None = None  # σ(gate) on the heads' outputs, one a head or one a channel
    gate_function: Literal["sigmoid", "softplus"] = "sigmoid"
    softcap: Positive | None = None
    scale: Positive | None = None  # factor of the scores; default 1/√d_head
    clip: Positive | None = None  # q, k, v clamped to ±clip
    value_scale: float = 1.0
    temperature: Temperature | None = None
    experts: AttentionExperts | None = None
    out_norm: Norm | None = None  # a norm over all heads' outputs, before the output projection (BitNet)


class Indexer(_Struct, frozen=True, kw_only=True):
    """DeepSeek sparse attention's indexer: small heads choose the top_k keys; `shared` reuses the last own choice."""

    n_heads: Size
    d: Size
    top_k: Size
    shared: bool = False
    pairing: Literal["half", "adjacent"] = "half"


class LatentAttention(Sublayer, tag_field="sublayer", tag="latent_attention", frozen=True, kw_only=True):
    """Multi-head latent attention (arXiv:2405.04434): keys and values from one cached latent and one rotary key."""

    n_heads: Size
    kv_rank: Size
    d_nope: Size
    d_rope: Size
    d_v: Size
    q_rank: Size | None = None
    bias: tuple[LatentSite, ...] = ()
    position: Literal["rope", "none"] = "rope"
    rope: Rope | None = None
    latent_norm: Norm = Norm(eps=1e-6)
    scale: Positive | None = None  # default 1/√(d_nope + d_rope)
    q_scale: float = 1.0  # factors of the normed latents (LongCat)
    kv_scale: float = 1.0
    gate: Literal["head", "full"] | None = None
    index: Indexer | None = None
    temperature: Temperature | None = None
    kv: KV | None = None


class Mlp(Sublayer, tag_field="sublayer", tag="mlp", frozen=True, kw_only=True):
    """A dense feed-forward layer."""

    d_ff: Size
    activation: ActivationName
    bias: tuple[MlpSite, ...] = ()
    clamp: Positive | None = None
    mid_norm: Norm | None = None  # a norm before the down projection (BitNet)
    sparsity: Annotated[float, Meta(ge=0, lt=1)] = 0.0  # gate values below this normal quantile are zeroed (Gemma 3n)


class ExpertGroups(_Struct, frozen=True, kw_only=True):
    """Routing in two steps: the top_k groups of experts first, each scored by its best or its two best experts."""

    n: Size
    top_k: Size
    score: Literal["max", "top2"] = "max"


class Experts(Sublayer, tag_field="sublayer", tag="experts", frozen=True, kw_only=True):
    """A mixture of experts: a router chooses top_k of n_experts for each token; shared experts see every token."""

    n_experts: Size
    top_k: Size
    d_ff: Size
    activation: ActivationName
    n_shared: Count = 0
    d_shared: Count = 0  # width of all shared experts together; default n_shared · d_ff
    shared_gate: bool = False
    router: Literal["softmax", "topk_softmax", "sigmoid", "topk_sigmoid", "sqrtsoftplus", "sparsemixer"] = "softmax"
    selection_bias: bool = False
    normalize: bool = True  # the chosen weights divided by their sum
    route_scale: float = 1.0
    groups: ExpertGroups | None = None
    bias: tuple[ExpertSite, ...] = ()
    clamp: Positive | None = None
    d_latent: Size | None = None  # experts work in a projection of this width
    n_identity: Count = 0  # further experts that return their input, without weights
    weight_at: Literal["output", "input"] = "output"  # the router's weight multiplies what comes out or what goes in
    router_scale: bool = False  # learned scales: d on the router's normed input, one an expert (Gemma 4)
    out_bias: bool = False  # one bias of width d after the experts' sum (JetMoE)
    router_softcap: Positive | None = None
    jitter: float = 0.01  # sparsemixer's threshold


Mixer: TypeAlias = Attention | LatentAttention | Mlp | Experts

#: what sublayers' weights are called by: attn.q, mlp.up, moe.router; the second of a kind in a block is attn2, …
PREFIX: dict[type[Mixer], str] = {Attention: "attn", LatentAttention: "attn", Mlp: "mlp", Experts: "moe"}


class Part(_Struct, frozen=True, kw_only=True):
    """One residual step: a unit, or several in parallel on the same input.

    `norm` is the shared norm in front of all units; without it each has its own. `out_norm` normalises their sum.
    """

    units: tuple[Attention | LatentAttention | Mlp | Experts | Block, ...]
    norm: Norm | None = None
    out_norm: Norm | None = None


class Block(_Struct, tag_field="sublayer", tag="block", frozen=True, kw_only=True):
    """Parts in sequence. In a layer, `name` is its expression."""

    name: str
    parts: tuple[Part, ...]


class Repeat(_Struct, frozen=True, kw_only=True):
    """`count` repetitions of a sequence of blocks."""

    count: int
    body: tuple[Block | Repeat, ...]


class Embedding(_Struct, frozen=True, kw_only=True):
    """How a token enters: its row (of width d unless factorised), scaled, plus a learned position, normed."""

    width: Size
    scale: float = 1.0
    position: Literal["learned", "sinusoidal", "none"] = "none"
    rows: Count = 0  # rows of the position table
    offset: Count = 0  # the row of position 0
    norm: Norm | None = None


class Head(_Struct, frozen=True, kw_only=True):
    """How logits leave: the final norm, the projection back where the embedding is factorised, the output matrix."""

    tying: bool
    norm: Norm | None
    bias: bool = False
    scale: float = 1.0  # factor of the logits
    softcap: Positive | None = None
    width: Size


class MTP(_Struct, frozen=True, kw_only=True):
    """Multi-token prediction (arXiv:2412.19437, §2.2): n modules of two norms, a projection 2d → d, a block, a norm."""

    n: Size
    block: Block
    norm: Norm


class PerLayerEmbedding(_Struct, frozen=True, kw_only=True):
    """A second token table whose slice of width d enters every layer through a gate (Gemma 3n and 4)."""

    v: Size
    d: Size
    activation: ActivationName = "gelu_tanh"
    norm: Norm | None = None  # default: the model's


class Dropout(_Struct, frozen=True, kw_only=True):
    """Where training drops activations; costs memory for masks, nothing else."""

    attention: bool = True
    residual: bool = True


class Architecture(_Struct, frozen=True, kw_only=True):
    """A model, complete and checked. Equal blocks are counted: cost never grows with depth."""

    name: str
    d: Size
    v: Size
    c: Size
    n_layers: Depth
    embedding: Embedding
    layers: tuple[Repeat, ...]
    head: Head
    mtp: MTP | None = None
    per_layer_embedding: PerLayerEmbedding | None = None
    layer_scalar: bool = False  # one learned factor a block (Gemma 4)
    dropout: Dropout | None = None

    def groups(self) -> list[tuple[Block, int]]:
        """The distinct blocks in order of first appearance, each with how often it stands in the model."""
        counts: dict[Block, int] = {}
        _count(self.layers, 1, counts)
        return list(counts.items())

    def blocks(self) -> Iterator[Block]:
        """All n_layers blocks in order."""
        return _walk(self.layers)


def _count(items: tuple[Block | Repeat, ...], times: int, counts: dict[Block, int]) -> None:
    for item in items:
        if isinstance(item, Repeat):
            _count(item.body, times * item.count, counts)
        else:
            counts[item] = counts.get(item, 0) + times


def _walk(items: tuple[Block | Repeat, ...]) -> Iterator[Block]:
    for item in items:
        if isinstance(item, Repeat):
            for _ in range(item.count):
                yield from _walk(item.body)
        else:
            yield item


def sublayers(block: Block) -> Iterator[Mixer]:
    """The sublayers of a block in order of execution, nested ones included."""
    for part in block.parts:
        for unit in part.units:
            if isinstance(unit, Block):
                yield from sublayers(unit)
            else:
                yield unit


# --- from a document to an architecture -------------------------------------------------------------------------------

KINDS: dict[str, type[Mixer]] = {"attn": Attention, "mla": LatentAttention, "mlp": Mlp, "moe": Experts}

#: keys that describe the document, not the model
ABOUT = frozenset({"name", "family", "source", "aliases", "released", "published", "note", "unverified"})

Bias: TypeAlias = Literal["q", "k", "v", "out", "qkv", "mlp", "experts", "router", "head", "attn"]
ALL_BIASES = ("qkv", "out", "mlp", "experts", "router")


class EmbeddingKeys(_Struct, frozen=True, kw_only=True):
    width: Size | None = None
    scale: float | Literal["sqrt(d)"] = 1.0
    rows: Size | None = None
    offset: Count = 0
    norm: bool = False


class MTPKeys(_Struct, frozen=True, kw_only=True):
    n: Count
    block: str | None = None


class Document(_Struct, frozen=True, kw_only=True):
    """The keys of a preset file that are not sections. SECTION keys are those of the classes above."""

    name: str = "model"
    d: Size
    v: Size
    c: Size
    n_heads: Size | None = None
    n_layers: Depth
    n_kv_heads: Size | None = None
    d_head: Size | None = None
    d_v: Size | None = None
    d_ff: Size | None = None
    layers: str = "n*attn+mlp"
    tying: bool = False
    position: Literal["rope", "learned", "alibi", "sinusoidal", "none"] = "rope"
    rope: Rope | None = None
    norm: Norm | Literal["rmsnorm", "layernorm"] = "rmsnorm"
    norm_at: NormAt = "pre"
    final_norm: bool = True
    parallel_norm: Literal["shared", "separate"] = "shared"
    parallel_out_norm: bool = False
    mlp: ActivationName | None = None
    bias: Literal["none", "all", "qkv"] | tuple[Bias, ...] = "none"
    softcap: Positive | None = None
    logit_scale: float = 1.0
    residual_scale: float = 1.0
    embedding: EmbeddingKeys = EmbeddingKeys()
    mtp: Count | MTPKeys = 0
    per_layer_embedding: PerLayerEmbedding | None = None
    layer_scalar: bool = False
    dropout: Dropout | bool = False


CORE = frozenset(Document.__struct_fields__)


def build(document: Mapping[str, Any]) -> Architecture:
    """The architecture that a document describes.

    Raises InputError naming the key, what was found and what would be right.
    """
    plain = {key: value for key, value in document.items() if key not in ABOUT or key == "name"}
    sections = {key: value for key, value in plain.items() if isinstance(value, Mapping) and _is_section(key, value)}
    keys = {key: value for key, value in plain.items() if key not in sections}
    for key in keys:
        if key not in CORE:
            known = [*CORE, *KINDS, *ABOUT]
            raise InputError(f"unknown key {printable(str(key))!r}", did_you_mean(str(key), known), "unknown")
    doc = _typed(keys, Document, "")
    return _Builder(doc, sections).architecture()


def _is_section(key: str, value: Mapping[str, Any]) -> bool:
    return key in KINDS or "like" in value


def _typed(value: Any, type_: Any, place: str) -> Any:
    """msgspec's typed decoding, with its errors turned into ours."""
    try:
        return convert(value, type_)
    except msgspec.ValidationError as error:
        raise _explained(str(error), value, type_, place) from None


def _explained(text: str, value: Any, type_: Any, place: str) -> InputError:
    problem, _, path = text.partition(" - at `$")
    where = path.rstrip("`").lstrip(".")
    key = ".".join(word for word in (place, where) if word) or "document"
    if problem.startswith("Object contains unknown field `"):
        word = problem.split("`")[1]
        known = [f.encode_name for f in msgspec.structs.fields(_struct_at(type_, where))]
        place_of = f" in {key}" if key != "document" else ""
        return InputError(f"unknown key {printable(word)!r}{place_of}", did_you_mean(word, known), "unknown")
    if problem.startswith("Object missing required field `"):
        return InputError(f"{key + ': ' if key != 'document' else ''}{problem.split('`')[1]} is missing")
    found = _at(value, where)
    shown = f", found {printable(repr(found), 60)}" if found is not None else ""
    return InputError(f"{key}: {problem[0].lower()}{problem[1:].replace('`', '')}{shown}")


def _at(value: Any, path: str) -> Any:
    for word in path.split(".") if path else []:
        if not isinstance(value, Mapping) or word not in value:
            return None
        value = value[word]
    return value


def _struct_at(type_: Any, path: str) -> Any:
    """The struct class at a dotted path inside a struct class (the last one known, where a union hides it)."""
    for word in path.split(".") if path else []:
        fields = {f.encode_name: f.type for f in msgspec.structs.fields(type_)}
        options = getattr(fields.get(word), "__args__", (fields.get(word),))
        structs = [t for t in options if isinstance(t, type) and issubclass(t, Struct)]
        if not structs:
            break
        type_ = structs[0]
    return type_


class _Builder:
    """Resolves one document. Holds the top-level keys, the sections and the blocks made so far."""

    def __init__(self, doc: Document, sections: Mapping[str, Mapping[str, Any]]) -> None:
        self.doc = doc
        self.sections = sections
        self.norm = Norm(kind=doc.norm) if isinstance(doc.norm, str) else doc.norm
        self.resolved: dict[str, Mixer] = {}
        self.blocks: dict[expression.BlockNames, Block] = {}
        self.seen: set[str] = set()
        self.used: set[str] = set()

    def architecture(self) -> Architecture:
        doc = self.doc
        layers = tuple(self.repeat(item) for item in expression.parse(doc.layers, doc.n_layers))
        mtp = self.mtp(layers)
        for name in self.sections:
            if name not in self.used:
                raise InputError(f"section {name!r} is not used in layers {doc.layers!r}", kind="unknown")
        self.check_top_level()
        width = doc.embedding.width or doc.d
        learned = doc.position == "learned"
        ple = doc.per_layer_embedding
        rows = (doc.embedding.rows or doc.c) if learned else 0
        if learned and rows < doc.c + doc.embedding.offset:
            raise InputError(f"embedding.rows: {rows} rows for {doc.c} positions from row {doc.embedding.offset}")
        return Architecture(
            name=doc.name,
            d=doc.d,
            v=doc.v,
            c=doc.c,
            n_layers=doc.n_layers,
            embedding=Embedding(
                width=width,
                scale=doc.d**0.5 if isinstance(doc.embedding.scale, str) else doc.embedding.scale,
                position=doc.position if doc.position in ("learned", "sinusoidal") else "none",
                rows=rows,
                offset=doc.embedding.offset,
                norm=self.norm if doc.embedding.norm else None,
            ),
            layers=layers,
            head=Head(
                tying=doc.tying,
                norm=self.norm if doc.final_norm else None,
                bias="head" in self.biases(),
                scale=doc.logit_scale,
                softcap=doc.softcap,
                width=width,
            ),
            mtp=mtp,
            per_layer_embedding=ple if ple is None or ple.norm is not None else replace(ple, norm=self.norm),
            layer_scalar=doc.layer_scalar,
            dropout=Dropout() if doc.dropout is True else doc.dropout or None,
        )

    def check_top_level(self) -> None:
        """Keys that would be ignored silently are refused."""
        doc = self.doc
        if doc.position != "rope" and doc.rope is not None:
            raise InputError(f"rope: position is {doc.position!r}, so rope would be ignored")
        if doc.position != "learned" and (doc.embedding.rows or doc.embedding.offset):
            raise InputError(f"embedding.rows: position is {doc.position!r}, so there is no table of positions")
        kinds = {type(mixer) for mixer in self.resolved.values()}
        for key in ("n_kv_heads", "d_head"):
            if getattr(doc, key) is not None and Attention not in kinds:
                raise InputError(f"{key}: the layers have no attn sublayer that reads it")
        if doc.d_ff is not None and not kinds & {Mlp, Experts}:
            raise InputError("d_ff: the layers have no mlp or moe that reads it")

    def biases(self) -> tuple[str, ...]:
        chosen = self.doc.bias
        if isinstance(chosen, str):
            return {"none": (), "all": ALL_BIASES, "qkv": ("qkv",)}[chosen]
        return tuple(chosen)

    # layers

    def repeat(self, item: expression.Repeated) -> Repeat:
        body = tuple(self.repeat(b) if isinstance(b, expression.Repeated) else self.block(b) for b in item.body)
        return Repeat(count=item.count or 0, body=body)

    def block(self, names: expression.BlockNames) -> Block:
        if names not in self.blocks:
            parts = [part for written in names.parts for part in self.parts(written)]
            self.blocks[names] = Block(name=str(names), parts=tuple(parts))
        return self.blocks[names]

    def parts(self, names: tuple[str | expression.BlockNames, ...]) -> tuple[Part, ...]:
        """One part; several where brackets hold a whole block alone."""
        if len(names) == 1 and not isinstance(names[0], str):
            return self.block(names[0]).parts
        return (self.part(names),)

    def part(self, names: tuple[str | expression.BlockNames, ...]) -> Part:
        units = tuple(self.unit(n) if isinstance(n, str) else self.block(n) for n in names)
        if len(units) == 1:
            return Part(units=units)
        if self.doc.parallel_norm == "separate":
            for unit in units:
                if not isinstance(unit, Block) and unit.norm_at == "post":
                    raise InputError(f"{unit.section}: norm_at 'post' needs a residual of its own, not a parallel one")
            return Part(units=units, out_norm=self.norm if self.doc.parallel_out_norm else None)
        return Part(units=tuple(_without_first_norm(u) for u in units), norm=self.norm)

    def unit(self, name: str) -> Mixer:
        if name not in self.resolved:
            mixer = self.resolve(name)
            source = getattr(mixer, "kv", None)
            if source is not None and source.from_ not in self.seen:
                raise InputError(f"{name}.kv.from: no earlier layer uses section {source.from_!r}")
            self.resolved[name] = mixer
        self.seen.add(name)
        return self.resolved[name]

    def mtp(self, layers: tuple[Repeat, ...]) -> MTP | None:
        keys = self.doc.mtp if isinstance(self.doc.mtp, MTPKeys) else MTPKeys(n=self.doc.mtp)
        if keys.n == 0:
            return None
        last = layers[-1].body[-1]
        while isinstance(last, Repeat):
            last = last.body[-1]
        block = self.block(expression.parse_block(keys.block)) if keys.block else last
        if any(getattr(mixer, "kv", None) is not None for mixer in sublayers(block)):
            raise InputError(f"mtp: block {block.name!r} reuses another layer's keys", "give mtp: {n: …, block: …}")
        return MTP(n=keys.n, block=block, norm=self.norm)

    # sections

    def resolve(self, name: str) -> Mixer:
        kind, keys = self.keys_of(name, ())
        match kind:
            case "attn":
                return self.attention(name, keys)
            case "mla":
                return self.latent(name, keys)
            case "mlp":
                return self.feed_forward(name, keys)
            case "moe":
                return self.experts(name, keys)
        raise AssertionError(kind)

    def keys_of(self, name: str, chain: tuple[str, ...]) -> tuple[str, dict[str, Any]]:
        """A section's kind and its own keys laid over those of the section it is like."""
        if name in chain:
            raise InputError(f"{name}.like: sections refer to each other in a circle")
        own = self.sections.get(name)
        if own is None:
            if name in KINDS:
                return name, {}
            known = [*KINDS, *self.sections]
            raise InputError(f"layers: unknown sublayer {name!r}", did_you_mean(name, known), "unknown")
        self.used.add(name)
        if name in KINDS:
            if "like" in own:
                raise InputError(f"{name}.like: {name} is a built-in kind")
            return name, dict(own)
        base = own["like"]
        if not isinstance(base, str):
            raise InputError(f"{name}.like: expected a section's name, found {printable(repr(base))}")
        kind, keys = self.keys_of(base, (*chain, name))
        return kind, {**keys, **{key: value for key, value in own.items() if key != "like"}}

    def common(self, name: str, keys: dict[str, Any]) -> dict[str, Any]:
        """Every sublayer's defaults, and written-out forms of shorthands."""
        norm = keys.pop("norm", None)
        doc = self.doc
        out = {"section": name, "norm": self.norm, "norm_at": doc.norm_at, "residual_scale": doc.residual_scale}
        if norm is not None:
            out["norm"] = None if norm == "none" else _typed(norm, Norm, f"{name}.norm")
        return out | keys

    def attention(self, name: str, keys: dict[str, Any]) -> Attention:
        doc, top = self.doc, self.biases()
        keys = self.common(name, keys)
        n_heads = keys.setdefault("n_heads", doc.n_heads)
        if n_heads is None:
            raise InputError(f"{name}: n_heads is missing")
        keys.setdefault("n_kv_heads", doc.n_kv_heads or n_heads)
        if keys.setdefault("d_head", doc.d_head) is None:
            keys["d_head"] = self.equal_share(name, n_heads)
        keys.setdefault("d_v", doc.d_v or keys["d_head"])
        sites = {"q": {"qkv", "attn"}, "k": {"qkv", "attn"}, "v": {"qkv", "attn"}, "out": {"attn"}}
        default = [site for site, also in sites.items() if site in top or also & set(top)]
        keys["bias"] = _sites(keys.get("bias", default), ("q", "k", "v", "out"), {"qkv": ("q", "k", "v")})
        default_position = doc.position if doc.position in ("rope", "alibi") else "none"
        if keys.setdefault("position", default_position) == "rope":
            keys.setdefault("rope", doc.rope or Rope())
        elif "rope" in keys:
            if self.sections.get(name, {}).get("rope") is not None:
                raise InputError(f"{name}.rope: position is {keys['position']!r}, so rope would be ignored")
            keys.pop("rope")
        if isinstance(keys.get("qk_norm"), str):
            keys["qk_norm"] = {"over": keys["qk_norm"]}
        if isinstance(keys.get("qk_norm"), Mapping):
            keys["qk_norm"] = self.like_model_norm(keys["qk_norm"])
        mixer: Attention = _typed(keys, Attention, name)
        _check_attention(name, mixer)
        return mixer

    def like_model_norm(self, keys: Mapping[str, Any]) -> dict[str, Any]:
        """A norm of the model's kind takes what it doesn't say from the model's norm, another kind only eps."""
        norm = self.norm
        if keys.get("kind", norm.kind) != norm.kind or keys.get("weight", norm.weight) != norm.weight:
            return {"eps": norm.eps, "kind": norm.kind, **keys}
        return {**msgspec.to_builtins(norm), **keys}

    def equal_share(self, name: str, n_heads: Any) -> int:
        if not isinstance(n_heads, int) or n_heads < 1 or self.doc.d % n_heads:
            raise InputError(f"{name}: d = {self.doc.d} is not a multiple of n_heads = {n_heads}", "give d_head")
        return self.doc.d // n_heads

    def latent(self, name: str, keys: dict[str, Any]) -> LatentAttention:
        keys = self.common(name, keys)
        if keys.setdefault("n_heads", self.doc.n_heads) is None:
            raise InputError(f"{name}: n_heads is missing")
        if self.doc.d_v is not None:
            keys.setdefault("d_v", self.doc.d_v)
        if self.doc.position not in ("rope", "none"):
            keys.setdefault("position", "none")
        if keys.setdefault("position", self.doc.position) == "rope":
            keys.setdefault("rope", self.doc.rope or Rope())
        sites = ("q_a", "q_b", "kv_a", "kv_b", "out")
        keys["bias"] = _sites(keys.get("bias", ()), sites, {})
        keys.setdefault("latent_norm", msgspec.to_builtins(self.norm))
        mixer: LatentAttention = _typed(keys, LatentAttention, name)
        if mixer.rope is not None:
            _check_rope(name, mixer.rope, mixer.d_rope)
        if mixer.q_rank is None and {"q_a"} & set(mixer.bias):
            raise InputError(f"{name}.bias: q_a has no matrix without q_rank (q_b is the one query projection)")
        if mixer.index is not None and mixer.q_rank is None:
            raise InputError(f"{name}.index: the indexer's queries need q_rank")
        return mixer

    def feed_forward(self, name: str, keys: dict[str, Any]) -> Mlp:
        keys = self.common(name, keys)
        keys.setdefault("activation", self.doc.mlp or "swiglu")
        gated = _gated(name, keys["activation"])
        if keys.setdefault("d_ff", self.doc.d_ff) is None:
            if gated:
                raise InputError(f"{name}: d_ff is missing (no default where the activation has a gate)")
            keys["d_ff"] = 4 * self.doc.d
        default = ("gate", "up", "down") if "mlp" in self.biases() else ()
        keys["bias"] = _mlp_sites(keys.get("bias", default), gated, ())
        mixer: Mlp = _typed(keys, Mlp, name)
        return mixer

    def experts(self, name: str, keys: dict[str, Any]) -> Experts:
        keys = self.common(name, keys)
        keys.setdefault("activation", self.doc.mlp or "swiglu")
        gated = _gated(name, keys["activation"])
        if keys.setdefault("d_ff", self.doc.d_ff) is None:
            raise InputError(f"{name}: d_ff is missing")
        top = self.biases()
        default = (("gate", "up", "down") if "experts" in top else ()) + (("router",) if "router" in top else ())
        keys["bias"] = _mlp_sites(keys.get("bias", default), gated, ("router", "shared"))
        mixer: Experts = _typed(keys, Experts, name)
        if mixer.d_shared == 0 and mixer.n_shared:
            mixer = replace(mixer, d_shared=mixer.n_shared * mixer.d_ff)
        elif mixer.d_shared and not mixer.n_shared:
            mixer = replace(mixer, n_shared=1)
        _check_experts(name, mixer)
        return mixer


def _without_first_norm(unit: Mixer | Block) -> Mixer | Block:
    """A unit whose input comes already normed by the part's shared norm."""
    if isinstance(unit, Block):
        first, *rest = unit.parts
        units = first.units if first.norm is not None else tuple(_without_first_norm(u) for u in first.units)
        return replace(unit, parts=(replace(first, units=units, norm=None), *rest))
    if unit.norm_at == "pre":
        return replace(unit, norm=None)
    if unit.norm_at == "sandwich":
        return replace(unit, norm_at="output")
    raise InputError(f"{unit.section}: norm_at {unit.norm_at!r} does not go with a shared parallel norm",
                     "set parallel_norm: separate")  # fmt: skip


def _gated(name: str, activation: Any) -> bool:
    if activation not in ACTIVATIONS:
        hint = did_you_mean(str(activation), ACTIVATIONS)
        raise InputError(f"{name}.activation: unknown activation {printable(str(activation))!r}", hint, "unknown")
    return ACTIVATIONS[activation].gated


def _sites(chosen: Any, all_sites: tuple[str, ...], groups: Mapping[str, tuple[str, ...]]) -> Any:
    """Bias sites in a fixed order, shorthands (none, all, qkv) written out; anything else is left to the type check."""
    if chosen == "none":
        return ()
    if chosen == "all":
        return all_sites
    if isinstance(chosen, str):
        return groups.get(chosen, (chosen,))
    if not isinstance(chosen, (list, tuple)):
        return chosen
    flat = [site for word in chosen for site in (groups.get(word, (word,)) if isinstance(word, str) else (word,))]
    known = [site for site in all_sites if site in flat]
    return (*known, *(site for site in flat if site not in all_sites))


def _mlp_sites(chosen: Any, gated: bool, more: tuple[str, ...]) -> Any:
    sites = _sites(chosen, ("gate", "up", "down", *more), {"mlp": ("gate", "up", "down")})
    return tuple(s for s in sites if gated or s != "gate") if isinstance(sites, (list, tuple)) else sites


def _check_attention(name: str, a: Attention) -> None:
    if a.n_heads % a.n_kv_heads:
        raise InputError(f"{name}: n_heads = {a.n_heads} is not a multiple of n_kv_heads = {a.n_kv_heads}")
    if a.window is not None and a.chunk is not None:
        raise InputError(f"{name}: window and chunk exclude each other")
    if a.k_eq_v and a.d_v != a.d_head:
        raise InputError(f"{name}.k_eq_v: d_v = {a.d_v} differs from d_head = {a.d_head}")
    if a.rope is not None:
        _check_rope(name, a.rope, a.d_head)
    if a.experts is not None:
        _check_attention_experts(name, a, a.experts)


def _check_attention_experts(name: str, a: Attention, experts: AttentionExperts) -> None:
    if experts.top_k > experts.n_experts:
        raise InputError(f"{name}.experts: top_k = {experts.top_k} exceeds n_experts = {experts.n_experts}")
    if "q" in a.bias:
        raise InputError(f"{name}.bias: q has no bias where attn.experts choose the query projection")
    heads_of_their_own = {
        "q_rank": a.q_rank is not None,
        "qk_norm": a.qk_norm is not None and a.qk_norm.over != "head",
        "sinks": a.sinks,
        "gate": a.gate is not None,
        "out_norm": a.out_norm is not None,
        "position: alibi": a.position == "alibi",
    }
    for key, used in heads_of_their_own.items():
        if used:
            raise InputError(f"{name}: {key} is not defined for attention experts")


def rotated(rope: Rope, d_head: int) -> int:
    """How many of a head's channels turn."""
    return rope.channels if rope.channels is not None else int(rope.fraction * d_head)


def _check_rope(name: str, rope: Rope, width: int) -> None:
    channels = rotated(rope, width)
    if channels % 2 or not 0 < channels <= width:
        raise InputError(f"{name}.rope: {channels} rotated channels of {width}; must be even, from 2 to {width}")
    if isinstance(rope.scaling, (NTK, Dynamic)) and channels == 2:
        raise InputError(f"{name}.rope.scaling: {channels} rotated channels are too few for r / (r − 2)")
    if isinstance(rope.scaling, LongRope):
        for key, factors in (("short", rope.scaling.short), ("long", rope.scaling.long)):
            if len(factors) != channels // 2:
                raise InputError(f"{name}.rope.scaling.{key}: {len(factors)} factors for {channels // 2} frequencies")


def _check_experts(name: str, m: Experts) -> None:
    choices = m.n_experts + m.n_identity
    if m.top_k > choices:
        raise InputError(f"{name}: top_k = {m.top_k} exceeds n_experts = {choices}")
    if m.shared_gate and not m.n_shared:
        raise InputError(f"{name}.shared_gate: there is no shared expert (n_shared)")
    if m.groups is not None:
        if choices % m.groups.n:
            raise InputError(f"{name}.groups.n: {m.groups.n} groups do not divide {choices} experts")
        if m.groups.top_k > m.groups.n:
            raise InputError(f"{name}.groups: top_k = {m.groups.top_k} exceeds n = {m.groups.n}")
        if m.groups.top_k * (choices // m.groups.n) < m.top_k:
            raise InputError(f"{name}.groups: {m.groups.top_k} groups hold fewer than top_k = {m.top_k} experts")
