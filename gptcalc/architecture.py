"""What a model IS: frozen, typed, validated. The only thing that every other room knows.

Every default is filled in and every section resolved (document.py does that, from the keys of a preset file); equal
blocks are counted, not listed. Nothing about cost is computed here, nothing is inferred from a model's name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Literal, NamedTuple, TypeAlias

from msgspec import Meta, Struct, field
from msgspec.structs import force_setattr

Size: TypeAlias = Annotated[int, Meta(ge=1, le=1_000_000_000)]
Count: TypeAlias = Annotated[int, Meta(ge=0, le=1_000_000_000)]
Depth: TypeAlias = Annotated[int, Meta(ge=1, le=1_000_000)]
Positive: TypeAlias = Annotated[float, Meta(gt=0)]
Kernel: TypeAlias = Annotated[int, Meta(ge=2, le=64)]


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


class Strict(Struct, frozen=True, forbid_unknown_fields=True):
    """A struct that refuses keys that it doesn't have."""


class Linear(Strict, tag_field="kind", tag="linear", frozen=True, kw_only=True):
    """RoPE scaling by position interpolation: every frequency divided by `factor`."""

    factor: Positive


class Dynamic(Strict, tag_field="kind", tag="dynamic", frozen=True, kw_only=True):
    """NTK-aware scaling whose base grows with the length once it exceeds `original`."""

    factor: Positive
    original: Size


class NTK(Strict, tag_field="kind", tag="ntk", frozen=True, kw_only=True):
    """NTK-aware scaling with a fixed factor: theta · factor^(r / (r − 2)) for r rotated channels."""

    factor: Positive


class Yarn(Strict, tag_field="kind", tag="yarn", frozen=True, kw_only=True):
    """YaRN (arXiv:2309.00071): high frequencies kept, low ones interpolated, a ramp between, scores rescaled."""

    factor: Positive
    original: Size
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    attention_factor: float | None = None
    mscale: float | None = None
    mscale_all_dim: float | None = None
    truncate: bool = True


class Llama3(Strict, tag_field="kind", tag="llama3", frozen=True, kw_only=True):
    """Llama 3.1's scaling: wavelengths above original/low divided, below original/high kept, smooth between."""

    factor: Positive
    original: Size
    low: float = 1.0
    high: float = 4.0


class LongRope(Strict, tag_field="kind", tag="longrope", frozen=True, kw_only=True):
    """LongRoPE (arXiv:2402.13753): one divisor a frequency, one list up to `original` tokens, another beyond."""

    short: tuple[float, ...]
    long: tuple[float, ...]
    original: Size
    factor: float | None = None
    attention_factor: float | None = None


class Proportional(Strict, tag_field="kind", tag="proportional", frozen=True, kw_only=True):
    """Partial rotation whose frequencies are spaced over the whole head; the rest turn by zero (Gemma 4)."""

    factor: Positive = 1.0


Scaling: TypeAlias = Linear | Dynamic | NTK | Yarn | Llama3 | LongRope | Proportional


class Rope(Strict, frozen=True, kw_only=True):
    """Rotary positions: `fraction` of the head's channels turn, paired by halves or with their neighbour."""

    theta: Positive = 10000.0
    fraction: Annotated[float, Meta(gt=0, le=1)] = 1.0
    channels: Size | None = None  # rotated channels; default ⌊fraction · d_head⌋
    pairing: Literal["half", "adjacent"] = "half"
    scaling: Scaling | None = None


class Norm(Strict, frozen=True, kw_only=True):
    """A normalisation over channels; `offset` 1 means that the stored weight is the scale minus one.

    A bias is there where it is said; unsaid, a layernorm with weights has one, any other norm has none.
    """

    kind: Literal["rmsnorm", "layernorm", "l2"] = "rmsnorm"
    weight: bool = True
    bias: bool | None = None
    offset: Literal[0, 1] = 0
    eps: Positive = 1e-5
    weight_at: Literal["output", "input"] = "output"  # the weight multiplies what comes out or what goes in

    def __post_init__(self) -> None:
        if self.bias is None:
            force_setattr(self, "bias", self.kind == "layernorm" and self.weight)
        if self.bias and not self.weight:
            raise ValueError("a norm without weights has no bias")


class QKNorm(Norm, frozen=True, kw_only=True):
    """A norm of queries and keys: one weight a channel of the head (`head`), of all heads (`full`, taken over the
    whole width) or of each head apart (`each`); before the rotation or after it.

    at_read: keys are cached without it and normed where they are read, so that a layer that reuses another's keys
    norms them with a weight of its own (Hunyuan-Large).
    """

    over: Literal["head", "full", "each"] = "head"
    after_rope: bool = False
    at_read: bool = False


class OutNorm(Norm, frozen=True, kw_only=True):
    """A norm of the heads' outputs, before a gate and the output projection: over all heads together or each apart."""

    over: Literal["head", "full"] = "full"


class Temperature(Strict, frozen=True, kw_only=True):
    """Queries that grow with the position: by 1 + scale · ln(1 + ⌊(position + shift) / floor⌋) (Llama 4 without
    positions, Ministral 3), by a power: (1 + (position + shift) / floor)^scale (Beam), or beyond `floor` alone:
    1 + scale · ln(max(1, (position + shift) / floor)) (Inkling)."""

    floor: Positive
    scale: float
    shift: Literal[0, 1] = 1
    form: Literal["log", "power", "beyond"] = "log"


class ResidualGate(Strict, frozen=True, kw_only=True):
    """A residual that mixes, channel by channel, instead of adding: x ← α·x + β·y with β = σ(w / temperature) and
    α = √max((1 − β)(1 + β), eps), so that α² + β² = 1 (Muse Spark)."""

    temperature: Positive = 1.0
    eps: Positive = 1e-3


class LowRankResidual(Strict, frozen=True, kw_only=True):
    """A learned residual beside a sublayer (LAuReL, arXiv:2411.07501): x ← (x + y + n + norm(n·A·B))/√2, where n is
    what the sublayer reads and A·B has this rank (Gemma 3n)."""

    rank: Size
    norm: Norm = Norm()  # default: the model's


NormAt: TypeAlias = Literal["pre", "post", "output", "sandwich"]


class Sublayer(Strict, frozen=True, kw_only=True):
    """What every sublayer has: its section's name, its norm and where that stands, and its residual's factor.

    norm_at: `pre` x + f(norm(x)); `post` norm(x + f(x)); `output` x + norm(f(x)); `sandwich` x + norm₂(f(norm₁(x))).
    """

    section: str
    norm: Norm | None
    norm_at: NormAt = "pre"
    post_norm: Norm | None = None  # the norm behind, where it is another than the one in front
    residual_scale: float = 1.0
    residual_gate: ResidualGate | None = None
    laurel: LowRankResidual | None = None
    conv: Kernel | None = None  # the output plus its causal convolution, channel by channel, over so many tokens

    @property
    def norm_behind(self) -> Norm | None:
        """The norm of the output, or of the sum with the residual stream."""
        return None if self.norm_at == "pre" else self.post_norm or self.norm


AttentionSite: TypeAlias = Literal["q", "k", "v", "out"]
LatentSite: TypeAlias = Literal["q_a", "q_b", "kv_a", "kv_b", "out"]
MlpSite: TypeAlias = Literal["gate", "up", "down"]
ExpertSite: TypeAlias = Literal["gate", "up", "down", "router", "shared"]


class AttentionExperts(Strict, frozen=True, kw_only=True):
    """Query and output projections chosen per token from experts; K and V are shared (JetMoE)."""

    n_experts: Size
    top_k: Size


class KV(Strict, frozen=True, kw_only=True):
    """Where keys and values come from: the last earlier sublayer of the section `from`."""

    from_: str = field(name="from")


class RelativeBias(Strict, frozen=True, kw_only=True):
    """Positions by a learned bias of the scores: d numbers of each head and query mix d profiles over the distance,
    which has no bias from `extent` on (Inkling)."""

    d: Size
    extent: Size


class BlockIndexer(Strict, frozen=True, kw_only=True):
    """Block-sparse attention's indexer (MiniMax-M3): one small head for each KV head scores all keys.

    A block of keys counts as much as its best key. Of these blocks the queries of a KV head attend to the top_k, always
    among them the `local` newest, the last of which is the query's own.
    """

    d: Size
    block: Size
    top_k: Size
    local: Size = 1
    norm: Norm = Norm()  # of the index queries and keys; default: the model's


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
    gate_bias: bool = False  # one number a head
    softcap: Positive | None = None
    scale: Positive | None = None  # factor of the scores; default 1/√d_head
    clip: Positive | None = None  # q, k, v clamped to ±clip
    value_scale: float = 1.0
    temperature: Temperature | None = None
    log_length: Size | None = None  # queries beyond this position grow by ln(position) / ln(log_length) (Grok-2)
    experts: AttentionExperts | None = None
    out_norm: OutNorm | None = None
    index: BlockIndexer | None = None
    relative: RelativeBias | None = None
    kv_conv: Kernel | None = None  # keys and values plus their causal convolutions, before norm and rotation


class Indexer(Strict, frozen=True, kw_only=True):
    """DeepSeek sparse attention's indexer: small heads choose the top_k keys; `shared` reuses the last own choice.

    Its queries come from the normed bottleneck of the queries; with a `q_norm`, from the sublayer's input, so normed.
    """

    n_heads: Size
    d: Size
    top_k: Size
    shared: bool = False
    pairing: Literal["half", "adjacent"] = "half"
    q_norm: Norm | None = None
    ssmax: bool = False  # as in LatentAttention, with weights of its own


class LatentAttention(Sublayer, tag_field="sublayer", tag="latent_attention", frozen=True, kw_only=True):
    """Multi-head latent attention (arXiv:2405.04434): keys and values from one cached latent and one rotary key."""

    n_heads: Size
    kv_rank: Size
    d_nope: Size
    d_rope: Count  # 0: no rotary key
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
    ssmax: bool = False  # queries times s·ln(position + 1) + b, learned for every head (Mistral Large 4)
    kv: KV | None = None


#: where a gate is clamped to at most `clamp`, before its activation function or after it; what it gates lies in ±clamp
ClampAt: TypeAlias = Literal["input", "output"]


class EntryIndexer(Strict, frozen=True, kw_only=True):
    """Small heads that choose which top_k of the entries are attended to, by entries of their own of width d."""

    n_heads: Size
    d: Size
    top_k: Size


class Compression(Strict, frozen=True, kw_only=True):
    """Every so many tokens become one entry, a mixture with learned weights, channel by channel.

    overlap: an entry takes in the tokens of the entry before, too, which a second half of the projections is for.
    """

    every: Annotated[int, Meta(ge=2, le=1_000_000_000)]
    overlap: bool = False
    index: EntryIndexer | None = None


class CompressedAttention(Sublayer, tag_field="sublayer", tag="compressed_attention", frozen=True, kw_only=True):
    """Multi-query attention over one latent a token that is both K and V (DeepSeek-V4): those of a window, and with
    `compress` one entry for every so many tokens of the whole past, all of them or an indexer's choice.

    The rotation turns the last channels; the output's are turned back, as V has turned with K. The heads leave through
    n_groups narrow projections of their own, then a common one.
    """

    n_heads: Size
    d_head: Size  # the latent's width, too
    q_rank: Size
    n_groups: Size
    out_rank: Size  # what each group of heads is projected to
    window: Size
    rope: Rope | None = None
    latent_norm: Norm = Norm(eps=1e-6)
    sinks: bool = False
    compress: Compression | None = None


class Mlp(Sublayer, tag_field="sublayer", tag="mlp", frozen=True, kw_only=True):
    """A dense feed-forward layer."""

    d_ff: Size
    activation: ActivationName
    bias: tuple[MlpSite, ...] = ()
    clamp: Positive | None = None
    clamp_at: ClampAt = "input"
    mid_norm: Norm | None = None  # a norm before the down projection (BitNet)
    out_scale: bool = False  # one learned factor of the output
    sparsity: Annotated[float, Meta(ge=0, lt=1)] = 0.0  # gate values below this normal quantile are zeroed (Gemma 3n)


class ExpertGroups(Strict, frozen=True, kw_only=True):
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
    hash: bool = False  # a fixed table, not learned, chooses by the token's number; the router weighs only
    normalize: bool = True  # the chosen weights divided by their sum
    route_scale: float = 1.0
    groups: ExpertGroups | None = None
    bias: tuple[ExpertSite, ...] = ()
    clamp: Positive | None = None
    clamp_at: ClampAt = "input"
    shared_clamp: Positive | None = None  # another clamp for the shared experts
    d_latent: Size | None = None  # experts work in a projection of this width
    latent_norm: Norm | None = None  # a norm of that projection
    expert_norm: Norm | None = None  # a norm of each expert's output, one weight for all experts (Muse Spark)
    n_identity: Count = 0  # further experts that return their input, without weights
    weight_at: Literal["output", "input"] = "output"  # the router's weight multiplies what comes out or what goes in
    router_scale: bool = False  # learned scales: d on the router's normed input, one an expert (Gemma 4)
    out_bias: bool = False  # one bias of width d after the experts' sum (JetMoE)
    shared_sink: bool = False  # the router weighs the shared experts too; with the chosen ones their weights sum to 1
    learned_route_scale: bool = False  # one learned factor more
    router_logit_scale: float = 1.0
    router_softcap: Positive | None = None
    jitter: float = 0.01  # sparsemixer's threshold


Mixer: TypeAlias = Attention | LatentAttention | CompressedAttention | Mlp | Experts

#: what sublayers' weights are called by: attn.q, mlp.up, moe.router; the second of a kind in a block is attn2, …
PREFIX: dict[type[Mixer], str] = {
    Attention: "attn", LatentAttention: "attn", CompressedAttention: "attn", Mlp: "mlp", Experts: "moe",
}  # fmt: skip


class Part(Strict, frozen=True, kw_only=True):
    """One residual step: a unit, or several in parallel on the same input.

    `norm` is the shared norm in front of all units; without it each has its own. `out_norm` normalises their sum.
    """

    units: tuple[Attention | LatentAttention | CompressedAttention | Mlp | Experts | Block, ...]
    norm: Norm | None = None
    out_norm: Norm | None = None
    scale: float = 1.0  # factor of the sum of several units


class Block(Strict, tag_field="sublayer", tag="block", frozen=True, kw_only=True):
    """Parts in sequence. In a layer, `name` is its expression."""

    name: str
    parts: tuple[Part, ...]


class Repeat(Strict, frozen=True, kw_only=True):
    """`count` repetitions of a sequence of blocks."""

    count: int
    body: tuple[Block | Repeat, ...]


class Embedding(Strict, frozen=True, kw_only=True):
    """How a token enters: its row (of width d unless factorised), scaled, plus a learned position, normed."""

    width: Size
    scale: float = 1.0
    position: Literal["learned", "sinusoidal", "none"] = "none"
    rows: Count = 0  # rows of the position table
    offset: Count = 0  # the row of position 0
    norm: Norm | None = None


class Head(Strict, frozen=True, kw_only=True):
    """How logits leave: the final norm, the projection back where the embedding is factorised, the output matrix."""

    tying: bool
    norm: Norm | None
    bias: bool = False
    scale: float = 1.0  # factor of the logits
    softcap: Positive | None = None
    width: Size


class MTP(Strict, frozen=True, kw_only=True):
    """Multi-token prediction (arXiv:2412.19437, §2.2): n modules of two norms, a projection 2d → d, a block, a norm."""

    n: Size
    block: Block
    norm: Norm


class PerLayerEmbedding(Strict, frozen=True, kw_only=True):
    """A second token table whose slice of width d enters every layer through a gate (Gemma 3n and 4)."""

    v: Size
    d: Size
    activation: ActivationName = "gelu_tanh"
    norm: Norm | None = None  # default: the model's


class AltUp(Strict, frozen=True, kw_only=True):
    """Alternating updates (arXiv:2301.13310): n streams, of which the blocks compute one, the active one.

    The further streams begin as projections of the embedding; before a block all are predicted as mixtures of all,
    after it corrected by what the block changed; projected back, they are averaged before the final norm. A
    per-layer embedding enters all streams but the first.
    """

    n: Annotated[int, Meta(ge=2, le=64)]
    active: Count = 0
    scale: bool = False  # learned factors of the active stream where the per-layer embedding's gate reads it
    norm: Norm | None = None  # of the router; default: the model's


class Dropout(Strict, frozen=True, kw_only=True):
    """Where training drops activations; costs memory for masks, nothing else."""

    attention: bool = True
    residual: bool = True


class Streams(Strict, frozen=True, kw_only=True):
    """Hyper-connections (arXiv:2409.19606): n parallel residual streams. Weights that depend on the streams themselves
    join them before each sublayer, spread its output over them and mix them; Sinkhorn's iterations make the mixing
    doubly stochastic. Before the final norm they are joined once more.
    """

    n: Annotated[int, Meta(ge=2, le=1_000)]
    iterations: Size = 20
    eps: Positive = 1e-6
    norm: Norm | None = None  # of the streams as the weights see them; default: the model's, without a weight


class Architecture(Strict, frozen=True, kw_only=True):
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
    streams: Streams | None = None
    altup: AltUp | None = None
    learned_frequencies: Count = 0  # learned factors of the rotation's frequencies, one set for all layers
    averaged_residuals: bool = False  # the k-th sum is √(1 − 1/k)·x + √(1/k)·y, the embedding being the first (Beam)
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


def pairs_turned(blocks: Iterable[Block]) -> set[int]:
    """How many pairs of channels the rotations of these blocks turn."""
    found = set()
    for mixer in (mixer for block in blocks for mixer in sublayers(block)):
        if isinstance(mixer, (Attention, LatentAttention, CompressedAttention)) and mixer.rope is not None:
            width = mixer.d_rope if isinstance(mixer, LatentAttention) else mixer.d_head
            found.add(rotated(mixer.rope, width) // 2)
    return found


def rotated(rope: Rope, d_head: int) -> int:
    """How many of a head's channels turn."""
    return rope.channels if rope.channels is not None else int(rope.fraction * d_head)
