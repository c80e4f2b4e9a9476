"""The keys of a preset file."""

from typing import Any, Literal, TypeAlias, assert_never, get_args

from gptcalc.architecture import (
    ActivationName,
    AltUp,
    Attention,
    AttentionResiduals,
    ChannelMixing,
    CompressedAttention,
    ConvolutionalFront,
    Count,
    DeltaMixing,
    DenseFunction,
    Depth,
    Dropout,
    EmbeddingConvolution,
    Encoded,
    Experts,
    GatedRecurrence,
    LatentAttention,
    LinearAttention,
    Mamba,
    Mamba2,
    Markov,
    MatrixLSTM,
    MatrixMixing,
    Mixer,
    Mlp,
    Norm,
    NormAt,
    PerLayerEmbedding,
    Positive,
    Recurrent,
    Rope,
    ShortConvolution,
    Sinusoids,
    Size,
    Storage,
    Streams,
    Strict,
    TimeMixing,
)

#: what each kind of sublayer is called in a document
RecurrentName: TypeAlias = Literal[
    "linear", "mamba", "mamba2", "conv", "rglru", "mlstm", "timemix", "matrixmix", "deltamix", "channelmix"
]
KindName: TypeAlias = Literal["attn", "cross", "mla", "csa", "mlp", "moe", "embconv", RecurrentName]


def kind_of(name: KindName) -> type[Mixer]:
    match name:
        case "attn" | "cross":
            return Attention
        case "mla":
            return LatentAttention
        case "csa":
            return CompressedAttention
        case "mlp":
            return Mlp
        case "moe":
            return Experts
        case "embconv":
            return EmbeddingConvolution
        case _:
            return recurrent_kind(name)


def recurrent_kind(name: RecurrentName) -> type[Recurrent]:
    match name:
        case "linear":
            return LinearAttention
        case "mamba":
            return Mamba
        case "mamba2":
            return Mamba2
        case "conv":
            return ShortConvolution
        case "rglru":
            return GatedRecurrence
        case "mlstm":
            return MatrixLSTM
        case "timemix":
            return TimeMixing
        case "matrixmix":
            return MatrixMixing
        case "deltamix":
            return DeltaMixing
        case "channelmix":
            return ChannelMixing
        case _:
            assert_never(name)


KINDS: dict[str, type[Mixer]] = {name: kind_of(name) for name in get_args(KindName)}

#: keys that describe the document, not the model
ABOUT_ORDER = ("name", "family", "source", "aliases", "released", "published", "unverified", "note")
ABOUT = frozenset(ABOUT_ORDER)

Bias: TypeAlias = Literal["q", "k", "v", "out", "qkv", "mlp", "experts", "router", "head", "attn"]
ALL_BIASES = ("qkv", "out", "mlp", "experts", "router")


class NormKeys(Strict, frozen=True, kw_only=True):
    """The one key that other keys' defaults depend on: the model's norm, or its kind alone."""

    norm: Norm | Literal["rmsnorm", "layernorm"] = "rmsnorm"


class EmbeddingKeys(Strict, frozen=True, kw_only=True):
    width: Size | None = None
    borrowed: bool = False
    scale: float | Literal["sqrt(d)"] = 1.0
    rows: Size | None = None
    offset: Count = 0
    norm: bool | Norm = False
    sinusoids: Sinusoids = "interleaved"
    types: Count = 0
    affine: bool = False
    projected: Literal["token", "sum", "normed"] = "token"
    projection_bias: bool = False


class DenseKeys(Strict, frozen=True, kw_only=True):
    d: Size | None = None
    function: DenseFunction = "gelu"
    bias: bool = True
    norm: bool | Norm = True


class PoolerKeys(Strict, frozen=True, kw_only=True):
    token: Literal["first", "last", "each"] = "first"
    dense: DenseKeys | None = None
    labels: Count = 0
    bias: bool = True


class HeadKeys(Strict, frozen=True, kw_only=True):
    vocabulary: bool = True
    dense: DenseKeys | None = None
    pooler: PoolerKeys | None = None
    rows: Size | None = None
    borrowed: bool = False
    markov: Markov | None = None
    fixed_bias: bool = False


class TargetKeys(Strict, frozen=True, kw_only=True):
    layers: Size
    d: Size | None = None
    norm: bool | Norm = False
    out_norm: bool | Norm = False
    block: Size | None = None


class MTPKeys(Strict, frozen=True, kw_only=True):
    n: Count
    block: str | None = None


#: what a model consists of where a document doesn't say
DEFAULT_LAYERS = "n*attn+mlp"


class Document(Strict, frozen=True, kw_only=True):
    """The keys of a preset file that are not sections, in the order that a file has them (sections behind `layers`)."""

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
    tying: bool = False
    position: Literal["rope", "learned", "alibi", "sinusoidal", "none"] = "rope"
    rope: Rope | None = None
    norm: Norm | Literal["rmsnorm", "layernorm"] = "rmsnorm"
    norm_at: NormAt = "pre"
    final_norm: bool | Norm = True
    parallel_norm: Literal["shared", "separate"] = "shared"
    parallel_out_norm: bool = False
    parallel_scale: float = 1.0
    mlp: ActivationName = "swiglu"
    bias: Literal["none", "all", "qkv"] | tuple[Bias, ...] = "none"
    softcap: Positive | None = None
    logit_scale: float = 1.0
    residual_scale: float = 1.0
    learned_frequencies: bool = False
    averaged_residuals: bool = False
    causal: bool = True
    embedding: EmbeddingKeys = EmbeddingKeys()
    layers: str = DEFAULT_LAYERS
    head: HeadKeys = HeadKeys()
    encoder: dict[str, Any] | None = None
    encoded: Encoded | None = None
    target: TargetKeys | None = None
    mtp: Count | MTPKeys = 0
    per_layer_embedding: PerLayerEmbedding | None = None
    layer_scalar: bool = False
    streams: Streams | None = None
    attention_residuals: AttentionResiduals | None = None
    altup: AltUp | None = None
    dropout: Dropout | bool = False
    storage: Storage = Storage()


class EncoderKeys(Document, frozen=True, kw_only=True):
    """The keys of `encoder`: those of the whole document, whose values are the defaults, and its own."""

    causal: bool = False
    front: ConvolutionalFront | None = None
    tokens: Literal["shared", "own"] = "shared"


CORE = frozenset(Document.__struct_fields__)

#: what an encoder does not take over from the whole document
NOT_THE_ENCODERS = (
    "encoder", "encoded", "target", "layers", "tying", "head", "softcap", "logit_scale", "mtp", "causal",
    "attention_residuals",
)  # fmt: skip
