"""Layers: sublayers side by side and one behind the other, and how often each stands in a model."""

from collections.abc import Iterable, Iterator
from typing import Annotated, Literal, TypeAlias, assert_never

from gptcalc.architecture.attention import Attention
from gptcalc.architecture.base import Count, Depth, Kept, Strict
from gptcalc.architecture.compressed import CompressedAttention
from gptcalc.architecture.convolution import EmbeddingConvolution
from gptcalc.architecture.engram import Engram
from gptcalc.architecture.experts import Experts
from gptcalc.architecture.hierarchical import HierarchicalRecurrence
from gptcalc.architecture.latent import LatentAttention
from gptcalc.architecture.linear import LinearAttention
from gptcalc.architecture.loop import Looped
from gptcalc.architecture.mamba import Mamba, Mamba2
from gptcalc.architecture.mlp import Mlp
from gptcalc.architecture.norms import Norm
from gptcalc.architecture.prefix import Prefixes
from gptcalc.architecture.recurrent import GatedRecurrence, MatrixLSTM, ShortConvolution
from gptcalc.architecture.rope import pairs, rotated
from gptcalc.architecture.rwkv import ChannelMixing, DeltaMixing, MatrixMixing, TimeMixing
from gptcalc.architecture.slots import SlotAttention
from gptcalc.errors import InputError

#: sublayers whose memory of the past does not grow
Recurrent: TypeAlias = (
    LinearAttention
    | SlotAttention
    | Mamba
    | Mamba2
    | ShortConvolution
    | GatedRecurrence
    | HierarchicalRecurrence
    | MatrixLSTM
    | TimeMixing
    | MatrixMixing
    | DeltaMixing
    | ChannelMixing
)

#: those of them whose published kernels compute a prompt in chunks, as products of matrices
InChunks: TypeAlias = LinearAttention | SlotAttention | Mamba2 | MatrixLSTM | MatrixMixing | DeltaMixing
#: those whose published kernels scan it: each channel of a state decays at a rate of its own, which no product has
Scanned: TypeAlias = Mamba | GatedRecurrence | HierarchicalRecurrence | TimeMixing

Mixer: TypeAlias = (
    Attention | LatentAttention | CompressedAttention | Mlp | Experts | EmbeddingConvolution | Engram | Recurrent
)

Stem: TypeAlias = Literal[
    "attn", "cross", "mlp", "moe", "linear", "slots", "mamba", "mamba2", "conv", "rglru", "hgru", "mlstm", "timemix",
    "matrixmix", "deltamix", "channelmix", "embconv", "engram",
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
        case Engram():
            return "engram"
        case LinearAttention():
            return "linear"
        case SlotAttention():
            return "slots"
        case Mamba():
            return "mamba"
        case Mamba2():
            return "mamba2"
        case ShortConvolution():
            return "conv"
        case GatedRecurrence():
            return "rglru"
        case HierarchicalRecurrence():
            return "hgru"
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


def by_prefix(block: Block) -> dict[str, Mixer]:
    """A block's sublayers by the prefix of their weights: attn, mlp, moe; the second of a kind attn2."""
    prefixes = Prefixes()
    return {str(prefixes.next(stem(mixer))): mixer for mixer in sublayers(block)}


def pairs_turned(blocks: Iterable[Block]) -> set[int]:
    """How many pairs of channels the rotations of these blocks turn."""
    found = set()
    for mixer in (mixer for block in blocks for mixer in sublayers(block)):
        if isinstance(mixer, (Attention, LatentAttention, CompressedAttention)) and mixer.rope is not None:
            width = mixer.d_rope if isinstance(mixer, LatentAttention) else mixer.d_head
            found.add(pairs(mixer.rope, rotated(mixer.rope, width)))
    return found
