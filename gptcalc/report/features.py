"""What is distinctive about an architecture, in one word each."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import assert_never

from gptcalc.architecture import (
    Architecture,
    Attention,
    Best,
    ChannelMixing,
    CompressedAttention,
    DeltaMixing,
    Embedding,
    EmbeddingConvolution,
    Engram,
    Experts,
    GatedRecurrence,
    Hash,
    Head,
    HierarchicalRecurrence,
    LatentAttention,
    LinearAttention,
    Mamba,
    Mamba2,
    MatrixLSTM,
    MatrixMixing,
    Mixer,
    Mlp,
    Recurrent,
    Scores,
    ShortConvolution,
    SlotAttention,
    Strict,
    Sublayer,
    TimeMixing,
    is_looped,
    is_partial,
    sublayers,
)
from gptcalc.document.fields import flat


def attention(mixer: Mixer) -> str | None:
    """mha, gqa, mqa, mla or csa; None for what doesn't mix tokens."""
    match mixer:
        case CompressedAttention():
            return "csa" if mixer.compress is not None else "mqa"
        case LatentAttention():
            return "mla"
        case Attention():
            if mixer.n_kv_heads == mixer.n_heads:
                return "mha"
            return "mqa" if mixer.n_kv_heads == 1 else "gqa"
        case Mlp() | Experts() | EmbeddingConvolution() | Engram():
            return None
        case LinearAttention() | SlotAttention() | Mamba() | Mamba2() | ShortConvolution():
            return None
        case GatedRecurrence() | HierarchicalRecurrence() | MatrixLSTM():
            return None
        case TimeMixing() | MatrixMixing() | DeltaMixing() | ChannelMixing():
            return None
        case _:
            assert_never(mixer)


def recurrence(mixer: Recurrent) -> str:
    """Which kind of memory that doesn't grow."""
    match mixer:
        case LinearAttention():
            return "linear-attention"
        case SlotAttention():
            return "slot-attention"
        case Mamba():
            return "mamba"
        case Mamba2():
            return "mamba2"
        case ShortConvolution():
            return "short-convolution"
        case GatedRecurrence():
            return "rg-lru"
        case HierarchicalRecurrence():
            return "hgru"
        case MatrixLSTM():
            return "mlstm"
        case TimeMixing() | MatrixMixing() | DeltaMixing() | ChannelMixing():
            return "rwkv"
        case _:
            assert_never(mixer)


#: fields that are there or not, and have a word of their own; any other is called as its key
WORDS: dict[tuple[type[Strict], str], str] = {
    (Sublayer, "tied"): "tied-layers",
    (Attention, "source"): "cross-attention",
    (Attention, "kv"): "shared-kv",
    (Attention, "experts"): "attention-experts",
    (Attention, "index"): "indexer",
    (Attention, "cca"): "convolved-heads",
    (Attention, "filter"): "local-filter",
    (Scores, "buckets"): "bucketed-distances",
    (Scores, "token_sinks"): "sinks",
    (LatentAttention, "kv"): "shared-kv",
    (LatentAttention, "index"): "indexer",
    (Experts, "shared"): "shared-experts",
    (Experts, "latent"): "latent-experts",
    (Experts, "n_identity"): "identity-experts",
    (Best, "groups"): "expert-groups",
    (LinearAttention, "delta"): "delta-rule",
    (Architecture, "streams"): "hyper-connections",
    (Architecture, "encoder"): "encoder-decoder",
    (Architecture, "target"): "draft",
    (Embedding, "norm"): "embedding-norm",
    (Embedding, "types"): "token-types",
    (Head, "softcap"): "final-softcap",
    (Head, "bias"): "head-bias",
    (Head, "dense"): "head-dense",
    (Head, "rows"): "own-output-vocabulary",
}

#: what is no feature by itself: a size, a factor, what a word above or below says already
NO_FEATURES = {
    "rope",
    "scale",
    "kernel",
    "rows",
    "offset",
    "dropout",
    "pooler",
    "vocabulary",
    "bias",
    "post_norm",
    "clamp",
    "rank",
    "q_rank",
    "dt_min",
    "dt_max",
}


@cache
def switches(kind: type[Strict]) -> dict[str, str]:
    """The fields of a struct that are off by default, and what they are called where they are on."""
    words = {name: word for (owner, name), word in WORDS.items() if issubclass(kind, owner)}
    keys = dict(zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True))
    optional = [*keys][len(keys) - len(kind.__struct_defaults__) :]
    off = [
        name for name, default in zip(optional, kind.__struct_defaults__, strict=True) if default in (None, False, 0)
    ]
    own = {name: keys[name].replace("_", "-") for name in off if name not in NO_FEATURES}
    return own | words


def on(part: Strict) -> Iterator[str]:
    """What is on in a struct, and in its groups whose keys stand beside its own."""
    words = switches(type(part))
    beside = flat(type(part))
    for name in part.__struct_fields__:
        value = getattr(part, name)
        if name in words and value is not None and value is not False and value != 0:
            yield words[name]
        if name in beside and isinstance(value, Strict):
            yield from on(value)


def of(architecture: Architecture) -> list[str]:
    """The features of an architecture, each once."""
    return list(dict.fromkeys(_all(architecture)))


def _all(a: Architecture) -> Iterator[str]:
    for block, _ in a.groups():
        for mixer in sublayers(block):
            yield from _of_mixer(mixer, a.embedding.position == "none")
        if any(len(part.units) > 1 for part in block.parts):
            yield "parallel"
        elif len(block.parts) == 1:
            yield "single-sublayer"
    pooler = a.head.pooler
    found = {
        "tied": a.head.tying,
        "learned-positions": a.embedding.position == "learned",
        "sinusoidal": a.embedding.position == "sinusoidal",
        "factorised-embedding": a.embedding.width != a.d,
        "encoder": a.sees_all and a.encoder is None,
        "audio": a.encoder is not None and a.encoder.front is not None,
        "pooler": pooler is not None and pooler.dense is not None,
        "looped": is_looped(a),
        "labels": pooler is not None and pooler.labels > 0,
    }
    yield from (name for name, present in found.items() if present)
    for part in (a, a.embedding, a.head):
        yield from on(part)


def _of_mixer(mixer: Mixer, positions_in_layers: bool) -> Iterator[str]:
    if mixer.norm_at != "pre":
        yield f"{mixer.norm_at}-norm"
    found: dict[str, bool] = {}
    match mixer:
        case Attention():
            rope = mixer.rope
            found = {
                "nope": positions_in_layers and mixer.position == "none",
                "alibi": mixer.position == "alibi",
                "qkv-bias": {"q", "k", "v"} <= set(mixer.bias),
                "partial-rope": rope is not None and is_partial(rope, mixer.d_head),
                "scaled-rope": rope is not None and rope.scaling is not None,
            }
        case LatentAttention():
            found = {
                "nope": positions_in_layers and mixer.position == "none",
                "scaled-rope": mixer.rope is not None and mixer.rope.scaling is not None,
            }
        case CompressedAttention():
            found = {
                "window": True,
                "k-eq-v": True,
                "scaled-rope": mixer.rope is not None and mixer.rope.scaling is not None,
                "indexer": mixer.compress is not None and mixer.compress.index is not None,
            }
        case Experts():
            yield "moe"
            found = {"hash-routing": isinstance(mixer.choice, Hash)}
        case Mlp():
            yield mixer.activation
        case EmbeddingConvolution():
            yield "embedding-convolution"
        case Engram():
            yield "n-grams"
        case _:
            yield recurrence(mixer)
    form = attention(mixer)
    if form is not None:
        yield form
    yield from (name for name, present in found.items() if present)
    yield from on(mixer)
