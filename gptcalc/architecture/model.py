"""A whole model: blocks, embedding, head, and what stands beside the layers."""

from collections.abc import Iterator
from functools import cached_property
from typing import Annotated, Literal, get_args

from gptcalc.architecture.altup import AltUp
from gptcalc.architecture.attention import Attention
from gptcalc.architecture.base import (
    AtMost,
    Count,
    Kept,
    Length,
    Size,
    Small,
    Stream,
    Strict,
    Times,
    Vocabulary,
    exclude,
)
from gptcalc.architecture.canvas import Canvas
from gptcalc.architecture.compressed import CompressedAttention
from gptcalc.architecture.convolution import EmbeddingConvolution
from gptcalc.architecture.embedding import Embedding
from gptcalc.architecture.encoded import Encoded
from gptcalc.architecture.experts import Experts
from gptcalc.architecture.front import ConvolutionalFront
from gptcalc.architecture.head import Head
from gptcalc.architecture.hierarchical import HierarchicalRecurrence
from gptcalc.architecture.hyper import Streams
from gptcalc.architecture.latent import LatentAttention
from gptcalc.architecture.layers import Block, Mixer, Recurrent, Repeat, depth, grouped, sublayers, walk
from gptcalc.architecture.linear import LinearAttention
from gptcalc.architecture.loop import Looped
from gptcalc.architecture.mlp import ActivationName, Mlp
from gptcalc.architecture.norms import ModelNorm, Norm
from gptcalc.architecture.residuals import AttentionResiduals
from gptcalc.architecture.storage import Storage
from gptcalc.architecture.target import TargetStates
from gptcalc.errors import InputError


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


class Architecture(Strict, frozen=True, kw_only=True, dict=True):
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
    canvas: Canvas | None = None
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
        _check(self)

    def groups(self) -> list[tuple[Block, int]]:
        """The distinct blocks in order of first appearance, each with how often it stands in the model."""
        return list(self._groups)

    @cached_property
    def _groups(self) -> list[tuple[Block, int]]:
        return grouped(self.layers)

    def mixers(self) -> list[Mixer]:
        """The sublayers of the distinct blocks, in order of first appearance."""
        return list(self._mixers)

    @cached_property
    def _mixers(self) -> list[Mixer]:
        return [mixer for block, _ in self._groups for mixer in sublayers(block)]

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
        return any(
            (isinstance(mixer, Attention) and mixer.with_embedding) or isinstance(mixer, EmbeddingConvolution)
            for mixer in self.mixers()
        )

    @property
    def sees_all(self) -> bool:
        """Whether tokens see what comes behind them, so that no token can come later: an encoder."""
        return any(
            isinstance(mixer, EmbeddingConvolution)
            or (isinstance(mixer, Attention) and not mixer.causal and not mixer.source and not mixer.with_target)
            for mixer in self.mixers()
        )

    @property
    def continues(self) -> bool:
        """Whether further tokens come one by one behind a prompt."""
        return not self.sees_all and self.canvas is None

    @property
    def bounded(self) -> LinearAttention | HierarchicalRecurrence | None:
        """A mixer whose decays have bounds that all layers learn together, where there is one."""
        return next(_bounded(self), None)

    @property
    def whole_prompt(self) -> bool:
        """Whether a prompt's tokens see all of it, so that a pass over all tokens differs from one by one."""
        return any(isinstance(mixer, Attention) and mixer.whole_prompt and mixer.causal for mixer in self.mixers())

    @property
    def block(self) -> int | None:
        """How many tokens are drafted at once, where it is more than one."""
        return None if self.target is None else self.target.block


# --- what must hold of a model as a whole ----------------------------------------------------------------------------


def _check(a: Architecture) -> None:
    """InputError where parts of a model don't go together."""
    _check_averaged(a)
    _check_altup(a)
    _check_streams(a)
    _check_target(a)
    _check_source(a)
    _check_head(a)
    _check_mixing(a)
    _check_loops(a)
    _check_types(a)
    _check_bounds(a)
    _check_canvas(a)


def _check_canvas(a: Architecture) -> None:
    """A block that is denoised at once reads keys and values that a prompt leaves, layer by layer."""
    if a.canvas is None:
        return
    others = {"encoder": a.encoder is not None, "target": a.target is not None, "causal": a.sees_all}
    beside = {key: used for key, used in _beside_layers(a).items() if key != "layer_scalar"}
    loops = {"loop": bool(_loops(a)), "attention_residuals": a.attention_residuals is not None}
    exclude("canvas", {**beside, **others, **loops, "head": not a.head.vocabulary})
    for m in a.mixers():
        if not isinstance(m, (Attention, Mlp, Experts)) or (isinstance(m, Attention) and m.index is not None):
            raise InputError(f"canvas: {m.section} looks back in a way that is not defined for a block at once")


def _check_bounds(a: Architecture) -> None:
    """Bounds that layers learn together are of as many channels in each."""
    first = a.bounded
    for m in _bounded(a):
        if first is not None and m.bound_channels != first.bound_channels:
            channels, place = " × ".join(map(str, m.bound_channels)), "decay." if isinstance(m, LinearAttention) else ""
            raise InputError(f"{m.section}.{place}bounds: {channels} channels, in {first.section} others")


def _bounded(a: Architecture) -> Iterator[LinearAttention | HierarchicalRecurrence]:
    mixers = (m for m in a.mixers() if isinstance(m, (LinearAttention, HierarchicalRecurrence)))
    return (m for m in mixers if m.bound_channels)


def _check_types(a: Architecture) -> None:
    """Types of tokens are there where something asks for them."""
    e = a.embedding
    if e.type_of is not None and e.type_of.other >= e.types:
        raise InputError(f"embedding.type_of.other: type {e.type_of.other}, of {e.types} (embedding.types)")
    buckets = [m.scores.buckets for m in a.mixers() if isinstance(m, Attention) and m.scores.buckets is not None]
    for b in buckets:
        if b.segments is not None and (e.type_of is None or b.segments != e.types or not b.shared):
            raise InputError("buckets.segments: needs as many embedding.types, a type_of, and one table for all layers")


def _check_averaged(a: Architecture) -> None:
    """What does not go with residuals that are averaged over all sums so far."""
    if not a.averaged_residuals:
        return
    if a.mtp is not None:
        raise InputError("averaged_residuals: not defined for multi-token prediction")
    for block, _ in a.groups():
        for unit in (unit for part in block.parts for unit in part.units):
            if isinstance(unit, Block):
                raise InputError(f"averaged_residuals: {block.name!r} has a block inside a parallel part")
            if unit.norms_stream or not unit.residual.is_sum:
                raise InputError(f"averaged_residuals: {unit.section} has a residual of another form")


def _check_altup(a: Architecture) -> None:
    """What alternating updates need, and what is not defined with several streams."""
    if a.altup is None:
        return
    if a.altup.scale and a.per_layer_embedding is None:
        raise InputError("altup.scale: there is no per_layer_embedding whose gate would read what it scales")
    if a.averaged_residuals:
        raise InputError("averaged_residuals: not defined for the streams of altup")
    if a.mtp is not None:
        raise InputError("mtp: not defined for the streams of altup")


def _check_streams(a: Architecture) -> None:
    """Where there are several residual streams, every sublayer has a residual of its own."""
    if a.streams is None:
        return
    others = {"averaged_residuals": a.averaged_residuals, "altup": a.altup is not None}
    exclude("streams", {"per_layer_embedding": a.per_layer_embedding is not None, **others})
    blocks = [block for block, _ in a.groups()] + ([a.mtp.block] if a.mtp is not None else [])
    for part in (part for block in blocks for part in block.parts):
        unit = part.units[0]
        if len(part.units) > 1 or isinstance(unit, Block):
            raise InputError("streams: not defined for parallel sublayers")
        if unit.norms_stream or not unit.residual.is_sum or unit.goal != "stream":
            raise InputError(f"streams: {unit.section} has a residual of another form")


def _check_target(a: Architecture) -> None:
    """What goes with hidden states of a target: its tables, if they have its channels; and what reads the tokens."""
    e, head, target = a.embedding, a.head, a.target
    for key, used in {"embedding.borrowed": e.borrowed, "head.borrowed": head.borrowed}.items():
        if used and target is None:
            raise InputError(f"{key}: there is no target")
        if used and target is not None and target.d != e.width:
            raise InputError(f"{key}: the target's table has {target.d} channels, here there are {e.width}")
    for key in ("markov", "gru"):
        if getattr(head, key) is None:
            continue
        if target is None or target.block is None or head.rows is not None:
            raise InputError(f"head.{key}: needs a target.block, of the vocabulary that is read")
    if head.gru is not None and target is not None:
        if e.width != a.d or e.scale != 1.0 or e.affine:
            raise InputError("head.gru: reads the token table's rows as they are, d channels each")
        if head.gru.first >= target.drafted:
            raise InputError(f"head.gru.first: leaves none of {target.drafted} tokens")
    if (target is None or target.block is None) and any(getattr(m, "with_target", False) for m in a.mixers()):
        raise InputError("with_target: there is no target with a block")
    if target is None:
        return
    exclude(
        "target",
        {
            "encoder": a.encoder is not None,
            "mtp": a.mtp is not None,
            "per_layer_embedding": a.per_layer_embedding is not None,
            "averaged_residuals": a.averaged_residuals,
            "streams": a.streams is not None,
            "altup": a.altup is not None,
            "causal": a.sees_all,
        },
    )
    attending = [m.with_target for m in a.mixers() if isinstance(m, Attention)]
    if target.block is None:
        if not a.keeps_embedding:
            raise InputError("target: its states are the stream, so no layer reads the tokens", "set with_embedding")
    elif not all(attending) or not attending:
        raise InputError("target.block: every attention must be with_target")
    elif a.embedding.position != "none" or any(isinstance(m, NOT_IN_BLOCKS) or m.residual.conv for m in a.mixers()):
        raise InputError("target.block: tables of positions, convolutions and states are not defined in a block")


def _check_source(a: Architecture) -> None:
    """Another sequence is there where layers attend to one, and once."""
    crossed = any(isinstance(m, Attention) and m.source for m in a.mixers())
    if a.encoder is not None and a.encoded is not None:
        raise InputError("encoded: the model has an encoder of its own")
    if a.encoded is not None and not crossed:
        raise InputError("encoded: no layer attends to it (cross)")
    if crossed and a.d_source is None:
        raise InputError("layers: cross attends to another sequence", "say encoder, or encoded: {d: …, c: …}")


def _check_head(a: Architecture) -> None:
    """A table of others is as wide as theirs is."""
    own = a.head.dense
    if own is not None and own.d != a.embedding.width and (a.head.tying or a.head.borrowed):
        raise InputError(
            f"head.dense.d: the table that is the output matrix has {a.embedding.width} channels, not {own.d}"
        )


def _check_mixing(a: Architecture) -> None:
    """Sums that are mixed are those of one stream, one behind the other."""
    if a.attention_residuals is None:
        return
    where = "attention_residuals"
    exclude(where, {**_beside_layers(a), "target": a.target is not None})
    for block, _ in a.groups():
        for unit in (unit for part in block.parts for unit in part.units):
            if isinstance(unit, Block):
                raise InputError(f"{where}: {block.name!r} has parallel sublayers")
            if unit.norms_stream or not unit.residual.is_sum or unit.goal != "stream":
                raise InputError(f"{where}: {unit.section} has a residual of another form")
        if any(len(part.units) > 1 for part in block.parts):
            raise InputError(f"{where}: {block.name!r} has parallel sublayers")


def _check_loops(a: Architecture) -> None:
    """What layers that run several times don't go with. A loop goes on only behind a layer that it has begun with; fast
    layers stand in front of slow ones that hear them, and the other way round."""
    loops = _loops(a)
    if not loops:
        return
    others = {"target": a.target is not None, "encoder": a.encoder is not None, "causal": a.sees_all}
    anew = loops[0].entry == "anew"
    mixing = {"attention_residuals, unless it begins anew": a.attention_residuals is not None and not anew}
    where = "speeds" if loops[0].entry in ("fast", "slow") else "loop"
    exclude(where, {**_beside_layers(a), **others, **mixing})
    if any(loop.caches == "last" for loop in loops):
        _check_kept_by_the_last(a)
    if not loops[0].begins:
        raise InputError(f"{where}: a layer goes on with a loop that none begins")
    ends = [loop.entry for loop in loops if loop.begins and loop.entry in ("fast", "slow")]
    if ends != ["fast", "slow"] * (len(ends) // 2):
        raise InputError("speeds: fast layers need slow ones behind them, and slow ones fast ones in front")


def _check_kept_by_the_last(a: Architecture) -> None:
    """What passes before the last see of its past are keys and values alone."""
    for m in (m for block, _ in a.groups() if block.looped is not None for m in sublayers(block)):
        if not isinstance(m, (Attention, Mlp, Experts)):
            raise InputError(f"loop.caches: {m.section} keeps more than keys and values")
        others = {"out_conv": m.residual.conv is not None}
        if isinstance(m, Attention):
            others |= {"index": m.index is not None, "kv_conv": m.kv_conv is not None, "cca": m.cca is not None}
            others |= {"filter": m.filter is not None}
        exclude(f"loop.caches: last, {m.section}", others)


def _beside_layers(a: Architecture) -> dict[str, bool]:
    """What changes the stream between layers, or comes behind them."""
    return {
        "per_layer_embedding": a.per_layer_embedding is not None,
        "averaged_residuals": a.averaged_residuals,
        "altup": a.altup is not None,
        "streams": a.streams is not None,
        "mtp": a.mtp is not None,
        "layer_scalar": a.layer_scalar,
    }


def _loops(a: Architecture) -> list[Looped]:
    """What each looped layer knows of its loop, in order."""
    if all(block.looped is None for block, _ in a.groups()):
        return []
    return [block.looped for block in a.blocks() if block.looped is not None]


#: sublayers that look back on tokens in a way that is not defined for a block drafted at once
NOT_IN_BLOCKS = (LatentAttention, CompressedAttention, *get_args(Recurrent))
