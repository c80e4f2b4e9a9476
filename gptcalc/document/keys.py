"""The keys of a preset file."""

from typing import Annotated, Any, Literal, TypeAlias, assert_never, get_args

from msgspec import Meta

from gptcalc.architecture import (
    ActivationName,
    AltUp,
    Attention,
    AttentionResiduals,
    Beside,
    Canvas,
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
    Engram,
    Experts,
    Factors,
    GatedRecurrence,
    Gru,
    HierarchicalRecurrence,
    LatentAttention,
    LinearAttention,
    Loop,
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
    SlotAttention,
    Speeds,
    Storage,
    Streams,
    Strict,
    TimeMixing,
    TypeOf,
)

#: what each kind of sublayer is called in a document
RwkvName: TypeAlias = Literal["timemix", "matrixmix", "deltamix", "channelmix"]
RecurrentName: TypeAlias = Literal["linear", "slots", "mamba", "mamba2", "conv", "rglru", "hgru", "mlstm", RwkvName]
KindName: TypeAlias = Literal["attn", "cross", "mla", "csa", "mlp", "moe", "embconv", "engram", RecurrentName]


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
        case "engram":
            return Engram
        case _:
            return recurrent_kind(name)


def recurrent_kind(name: RecurrentName) -> type[Recurrent]:
    match name:
        case "linear":
            return LinearAttention
        case "slots":
            return SlotAttention
        case "mamba":
            return Mamba
        case "mamba2":
            return Mamba2
        case "conv":
            return ShortConvolution
        case "rglru":
            return GatedRecurrence
        case "hgru":
            return HierarchicalRecurrence
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

    norm: Norm | Literal["rmsnorm", "layernorm", "l2norm"] = "rmsnorm"


class EmbeddingKeys(Strict, frozen=True, kw_only=True):
    """How a token enters."""

    width: Size | None = None  # channels of a row, where they are fewer than d; default d
    borrowed: bool = False  # the token table is the target's
    scale: float | Literal["sqrt(d)"] = 1.0  # factor of the rows
    rows: Size | None = None  # rows of the position table; default c + offset
    offset: Count = 0  # the row of position 0
    norm: bool | Norm = False  # of what enters
    normed: Literal["sum", "token"] = "sum"  # what that norm is of
    sinusoids: Sinusoids = "interleaved"  # how sines and cosines are laid out
    types: Count = 0  # rows of the table of token types (segments)
    type_of: TypeOf | None = None
    affine: bool = False  # rows are moved and multiplied, channel by channel
    projected: Literal["token", "sum", "normed"] = "token"  # what a projection widens to d channels
    projection_bias: bool = False  # that projection has a bias
    beside: Annotated[tuple[Beside, ...], Meta(max_length=2)] = ()  # tables of what else is given with each token


class DenseKeys(Strict, frozen=True, kw_only=True):
    """A layer in front of an output matrix."""

    d: Size | None = None  # channels that the layer makes; default as many as it reads
    function: DenseFunction = "gelu"  # between the projection and the norm
    bias: bool = True  # the projection has a bias
    norm: bool | Norm = True


class PoolerKeys(Strict, frozen=True, kw_only=True):
    """What is read off a token or each of them."""

    token: Literal["first", "last", "each"] = "first"  # which token's state is read
    dense: DenseKeys | None = None
    labels: Count = 0  # rows of the output matrix over labels; 0: none
    bias: bool = True  # of the labels


class HeadKeys(Strict, frozen=True, kw_only=True):
    """How logits leave."""

    vocabulary: bool = True  # has logits over the vocabulary
    dense: DenseKeys | None = None
    pooler: PoolerKeys | None = None
    rows: Size | None = None  # of its own vocabulary, where that isn't the one that is read
    factors: Factors | None = None  # of the logits, one a row of the vocabulary
    borrowed: bool = False  # the output matrix is the target's
    markov: Markov | None = None
    gru: Gru | None = None
    fixed_bias: bool = False  # an offset of the logits that checkpoints hold as a buffer, not learned (BART)


class TargetKeys(Strict, frozen=True, kw_only=True):
    """What a draft model reads of the model that it guesses tokens for."""

    layers: Size  # of the target, whose states are read
    d: Size | None = None  # channels of the target's states; default d
    norm: bool | Norm = False
    out_norm: bool | Norm = False
    block: Size | None = None  # tokens that are drafted at once; default one by one
    shifted: bool = False  # each slot drafts the token behind its own, the known token's, too


class MTPKeys(Strict, frozen=True, kw_only=True):
    """Multi-token-prediction modules."""

    n: Count  # modules
    block: str | None = None  # which block a module has; default that of the last layer


#: what a model consists of where a document doesn't say
DEFAULT_LAYERS = "n*attn+mlp"


class Document(Strict, frozen=True, kw_only=True):
    """The keys of a preset file that are not sections, in the order that a file has them (sections behind `layers`)."""

    name: str = "model"  # what the model is called
    d: Size  # channels of the residual stream: hidden_size, n_embd, d_model
    v: Size  # rows of the token table: vocab_size
    c: Size  # tokens of the longest sequence it is made for: max_position_embeddings
    n_heads: Size | None = None  # heads of queries: num_attention_heads
    n_layers: Depth  # num_hidden_layers
    n_kv_heads: Size | None = None  # heads of keys and values: num_key_value_heads; default n_heads
    d_head: Size | None = None  # channels of a head's queries and keys; default d / n_heads
    d_v: Size | None = None  # channels of a head's values; default d_head
    d_ff: Size | None = None  # channels inside an MLP: intermediate_size; default 4·d where the activation has no gate
    tying: bool = False  # the output matrix is the token table: tie_word_embeddings
    position: Literal["rope", "learned", "alibi", "sinusoidal", "none"] = "rope"  # how tokens know where they stand
    rope: Rope | None = None  # how positions turn
    norm: Norm | Literal["rmsnorm", "layernorm", "l2norm"] = "rmsnorm"
    # where norms stand: in front of a sublayer, behind the sum, behind its output, both, or in the stream
    norm_at: NormAt = "pre"
    final_norm: bool | Norm = True  # behind the last layer
    parallel_norm: Literal["shared", "separate"] = "shared"  # sublayers side by side read one norm, or each its own
    parallel_out_norm: bool = False  # a norm of the sum of sublayers side by side
    parallel_scale: float = 1.0  # factor of that sum
    mlp: ActivationName = "swiglu"  # activation of MLPs and experts: hidden_act
    bias: Literal["none", "all", "qkv"] | tuple[Bias, ...] = "none"  # which projections have a bias
    softcap: Positive | None = None  # logits x become softcap·tanh(x / softcap)
    logit_scale: float = 1.0  # factor of the logits
    residual_scale: float = 1.0  # factor of what sublayers add to the stream
    learned_frequencies: bool = False  # rotations turn by frequencies that are learned
    averaged_residuals: bool = False  # the k-th sum is √(1 − 1/k)·x + √(1/k)·y (Beam)
    causal: bool = True  # a token sees none behind it
    whole_prompt: bool = False  # a prompt's tokens see all of it; what comes later sees all before it
    embedding: EmbeddingKeys = EmbeddingKeys()  # how a token enters
    # which sublayers each layer has, in one expression: sections joined by + (attn+mlp), blocks by spaces, each so
    # often (3*mla+mlp), [ ] around what repeats together, n* for what fills n_layers: 3*mla+mlp n*mla+moe
    layers: str = DEFAULT_LAYERS
    head: HeadKeys = HeadKeys()  # how logits leave
    encoder: dict[str, Any] | None = None  # an encoder's keys, where they differ from the whole document's
    encoded: Encoded | None = None
    target: TargetKeys | None = None  # what a draft model reads of another
    mtp: Count | MTPKeys = 0  # multi-token-prediction modules
    per_layer_embedding: PerLayerEmbedding | None = None
    layer_scalar: bool = False  # one learned factor of each layer's output
    canvas: Canvas | None = None
    streams: Streams | None = None
    attention_residuals: AttentionResiduals | None = None
    loop: Loop | None = None
    speeds: Speeds | None = None
    altup: AltUp | None = None
    dropout: Dropout | bool = False  # where training drops activations
    storage: Storage = Storage()  # how weights are published


class EncoderKeys(Document, frozen=True, kw_only=True):
    """The keys of `encoder`: those of the whole document, whose values are the defaults, and its own."""

    causal: bool = False
    front: ConvolutionalFront | None = None
    tokens: Literal["shared", "own"] = "shared"  # the decoder's token table, or one of its own


CORE = frozenset(Document.__struct_fields__)

#: what an encoder does not take over from the whole document
NOT_THE_ENCODERS = (
    "encoder", "encoded", "target", "layers", "tying", "head", "softcap", "logit_scale", "mtp", "causal",
    "whole_prompt", "attention_residuals", "loop", "speeds", "canvas",
)  # fmt: skip
