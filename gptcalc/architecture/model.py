"""A whole model: blocks, embedding, head, and what stands beside the layers."""

from collections.abc import Iterable, Iterator
from typing import Annotated, Literal, TypeAlias, assert_never

from gptcalc.architecture.altup import AltUp
from gptcalc.architecture.attention import Attention
from gptcalc.architecture.base import AtMost, Count, Depth, Kept, Length, Size, Small, Stream, Strict, Times, Vocabulary
from gptcalc.architecture.compressed import CompressedAttention
from gptcalc.architecture.convolution import EmbeddingConvolution
from gptcalc.architecture.encoded import Encoded
from gptcalc.architecture.experts import Experts
from gptcalc.architecture.front import ConvolutionalFront
from gptcalc.architecture.head import Head
from gptcalc.architecture.hyper import Streams
from gptcalc.architecture.latent import LatentAttention
from gptcalc.architecture.linear import LinearAttention
from gptcalc.architecture.loop import Looped
from gptcalc.architecture.mamba import Mamba, Mamba2
from gptcalc.architecture.mlp import ActivationName, Mlp
from gptcalc.architecture.norms import ModelNorm, Norm
from gptcalc.architecture.recurrent import GatedRecurrence, MatrixLSTM, ShortConvolution
from gptcalc.architecture.residuals import AttentionResiduals
from gptcalc.architecture.rope import rotated
from gptcalc.architecture.rwkv import ChannelMixing, DeltaMixing, MatrixMixing, TimeMixing
from gptcalc.architecture.storage import Storage
from gptcalc.architecture.target import TargetStates
from gptcalc.errors import InputError

#: sublayers whose memory of the past does not grow
Recurrent: TypeAlias = (
    LinearAttention
    | Mamba
    | Mamba2
    | ShortConvolution
    | GatedRecurrence
    | MatrixLSTM
    | TimeMixing
    | MatrixMixing
    | DeltaMixing
    | ChannelMixing
)

Mixer: TypeAlias = Attention | LatentAttention | CompressedAttention | Mlp | Experts | EmbeddingConvolution | Recurrent

Stem: TypeAlias = Literal[
    "attn", "cross", "mlp", "moe", "linear", "mamba", "mamba2", "conv", "rglru", "mlstm", "timemix", "matrixmix",
    "deltamix", "channelmix", "embconv",
]  # fmt: skip


def stem(mixer: Mixer) -> Stem:
    """What a sublayer's weights are called by: attn.q, mlp.up; the second of a kind in a block is attn2, …"""
    match mixer:
        case Attention(source=True):
            return "cross"
        case Attention() | LatentAttention() | CompressedAttention():
            return "attn"
        case Mlp():
            return "mlp"
        case Experts():
            return "moe"
        case EmbeddingConvolution():
            return "embconv"
        case LinearAttention():
            return "linear"
        case Mamba():
            return "mamba"
        case Mamba2():
            return "mamba2"
        case ShortConvolution():
            return "conv"
        case GatedRecurrence():
            return "rglru"
        case MatrixLSTM():
            return "mlstm"
        case TimeMixing():
            return "timemix"
        case MatrixMixing():
            return "matrixmix"
        case DeltaMixing():
            return "deltamix"
        case ChannelMixing():
            return "channelmix"
        case _:
            assert_never(mixer)


#: sin and cos of position / 10000^(2i/d): in turn; all sines in front of all cosines; the same, with the exponent
#: i/(d/2 − 1), as tensor2tensor spaces them
Sinusoids: TypeAlias = Literal["interleaved", "halves", "tensor2tensor"]


class Part(Strict, frozen=True, kw_only=True):
    """One residual step: a unit, or several in parallel on the same input.

    `norm` is the shared norm in front of all units; without it each has its own. `out_norm` normalises their sum. With
    attention residuals, `sums` is how many sums the unit reads a mixture of, the stream the last of them (0: it reads
    the stream); `begins` says that the stream is set aside and begins anew with the unit's output.
    """

    units: "tuple[Mixer | Block, ...]"
    norm: Norm | None = None
    out_norm: Norm | None = None
    scale: float = 1.0  # factor of the sum of several units
    sums: Annotated[Count, Kept()] = 0
    begins: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.units) == 1 and (self.norm is not None or self.out_norm is not None or self.scale != 1.0):
            raise InputError("a part of one unit has no norm and no factor beside the unit's own")


class Block(Strict, tag_field="sublayer", tag="block", frozen=True, kw_only=True):
    """Parts in sequence. In a layer, `name` is its expression; `looped` says that it runs several times."""

    name: str
    parts: tuple[Part, ...]
    looped: Looped | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for part, behind in zip(self.parts, (*self.parts[1:], None), strict=True):
            for unit in part.units:
                if isinstance(unit, Block) or unit.goal == "stream":
                    continue
                if len(part.units) > 1 or behind is None or len(behind.units) > 1 or isinstance(behind.units[0], Block):
                    raise InputError(
                        f"{unit.section}.goal: {unit.goal!r} needs one next sublayer, behind a + in layers"
                    )


class Repeat(Strict, frozen=True, kw_only=True):
    """`count` repetitions of a sequence of blocks."""

    count: Depth
    body: "tuple[Block | Repeat, ...]"


class Embedding(Strict, frozen=True, kw_only=True):
    """How a token enters: its row, scaled, plus rows of its position and its type, normed. Where rows are narrower than
    the model (factorised), a projection widens the token's row, the sum, or the normed sum."""

    width: Stream
    borrowed: bool = False  # the token table is the target's
    scale: float = 1.0
    position: Literal["learned", "sinusoidal", "none"] = "none"
    rows: Annotated[Count, AtMost(50)] = 0  # rows of the position table
    offset: Annotated[Count, AtMost(2)] = 0  # the row of position 0
    sinusoids: Sinusoids = "interleaved"
    types: Annotated[Count, Small(2)] = 0  # rows of the table of token types (segments)
    affine: bool = False  # rows are moved and multiplied, channel by channel: f·(x + b)
    norm: Norm | None = None
    projected: Literal["token", "sum", "normed"] = "token"
    projection_bias: bool = False


class Encoder(Strict, frozen=True, kw_only=True):
    """A stack that reads the source, for a decoder's cross-attention. It has the decoder's token table or one of its
    own, or convolutions over frames in its place; its output is normed."""

    d: Stream
    v: Vocabulary
    c: Length
    embedding: Embedding
    front: ConvolutionalFront | None = None
    tokens: Literal["shared", "own"] = "shared"
    layers: tuple[Repeat, ...]
    norm: Norm | None

    def alone(self, name: str) -> "Architecture":
        """The encoder as a model of its own, whose output is its last layer's, normed."""
        return Architecture(
            name=name,
            d=self.d,
            v=self.v,
            c=self.c,
            embedding=self.embedding,
            layers=self.layers,
            head=Head(tying=False, norm=self.norm, vocabulary=False),
        )

    def groups(self) -> list[tuple[Block, int]]:
        """The distinct blocks in order of first appearance, each with how often it stands in the encoder."""
        return grouped(self.layers)

    @property
    def n_layers(self) -> int:
        return depth(self.layers)

    def blocks(self) -> Iterator[Block]:
        """All n_layers blocks in order."""
        return walk(self.layers)


class MTP(Strict, frozen=True, kw_only=True):
    """Multi-token prediction (arXiv:2412.19437, §2.2): n modules of two norms, a projection 2d → d, a block, a norm."""

    n: Annotated[Times, AtMost(1)]
    block: Block
    norm: Norm


class PerLayerEmbedding(Strict, frozen=True, kw_only=True):
    """A second token table whose slice of width d enters every layer through a gate (Gemma 3n and 4)."""

    v: Vocabulary  # rows of the table
    d: Annotated[Size, Small(4)]  # channels of one layer's slice
    activation: ActivationName = "gelu_tanh"  # of the gate
    norm: ModelNorm


class Dropout(Strict, frozen=True, kw_only=True):
    """Where training drops activations; costs memory for masks, nothing else."""

    attention: bool = True  # of attention weights
    residual: bool = True  # of what joins the stream


class Architecture(Strict, frozen=True, kw_only=True):
    """A model, complete and checked. Equal blocks are counted: cost never grows with depth."""

    name: str
    d: Stream
    v: Vocabulary
    c: Length
    embedding: Embedding
    layers: tuple[Repeat, ...]
    head: Head
    encoder: Encoder | None = None
    encoded: Encoded | None = None
    target: TargetStates | None = None  # of a draft: what it reads of the model that it guesses for
    mtp: MTP | None = None
    per_layer_embedding: PerLayerEmbedding | None = None
    layer_scalar: bool = False  # one learned factor a block (Gemma 4)
    streams: Streams | None = None
    attention_residuals: AttentionResiduals | None = None
    altup: AltUp | None = None
    learned_frequencies: Annotated[Count, Kept()] = (
        0  # learned factors of the rotation's frequencies, one set for all layers
    )
    averaged_residuals: bool = False  # the k-th sum is √(1 − 1/k)·x + √(1/k)·y, the embedding being the first (Beam)
    dropout: Dropout | None = None
    storage: Storage = Storage()

    def __post_init__(self) -> None:
        super().__post_init__()
        from gptcalc.architecture import whole  # which knows what an architecture is

        whole.check(self)

    def groups(self) -> list[tuple[Block, int]]:
        """The distinct blocks in order of first appearance, each with how often it stands in the model."""
        return grouped(self.layers)

    @property
    def n_layers(self) -> int:
        return depth(self.layers)

    def blocks(self) -> Iterator[Block]:
        """All n_layers blocks in order."""
        return walk(self.layers)

    @property
    def d_source(self) -> int | None:
        """The width of what cross-attention reads, an encoder's output in this model or of another one; None where
        there is nothing."""
        read = self.encoder or self.encoded
        return None if read is None else read.d

    @property
    def sums(self) -> int:
        """With attention residuals: how many sums of the stream there are behind the last layer."""
        residuals = self.attention_residuals
        return 0 if residuals is None else -(-self.n_layers // residuals.every) + 1

    @property
    def keeps_embedding(self) -> bool:
        """Whether layers read what the tokens entered as."""
        mixers = (mixer for block, _ in self.groups() for mixer in sublayers(block))
        return any(
            (isinstance(mixer, Attention) and mixer.with_embedding) or isinstance(mixer, EmbeddingConvolution)
            for mixer in mixers
        )

    @property
    def sees_all(self) -> bool:
        """Whether tokens see what comes behind them, so that no token can come later: an encoder."""
        mixers = (mixer for block, _ in self.groups() for mixer in sublayers(block))
        return any(
            isinstance(mixer, EmbeddingConvolution)
            or (isinstance(mixer, Attention) and not mixer.causal and not mixer.source and not mixer.with_target)
            for mixer in mixers
        )

    @property
    def block(self) -> int | None:
        """How many tokens are drafted at once, where it is more than one."""
        return None if self.target is None else self.target.block


def grouped(layers: tuple[Repeat, ...]) -> list[tuple[Block, int]]:
    """The distinct blocks of some layers in order of first appearance, each with its count."""
    counts: dict[Block, int] = {}
    _count(layers, 1, counts)
    return list(counts.items())


def depth(items: "tuple[Block | Repeat, ...]") -> int:
    """How many blocks some layers are."""
    return sum(item.count * depth(item.body) if isinstance(item, Repeat) else 1 for item in items)


def _count(items: tuple[Block | Repeat, ...], times: int, counts: dict[Block, int]) -> None:
    for item in items:
        if isinstance(item, Repeat):
            _count(item.body, times * item.count, counts)
        else:
            counts[item] = counts.get(item, 0) + times


def walk(items: tuple[Block | Repeat, ...]) -> Iterator[Block]:
    """All blocks in order."""
    for item in items:
        if isinstance(item, Repeat):
            for _ in range(item.count):
                yield from walk(item.body)
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
