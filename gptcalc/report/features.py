"""What is distinctive about an architecture, in one word each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from gptcalc.architecture import (
    Architecture,
    Attention,
    ChannelMixing,
    CompressedAttention,
    DeltaMixing,
    EmbeddingConvolution,
    Experts,
    GatedRecurrence,
    Hash,
    LatentAttention,
    LinearAttention,
    Mamba,
    Mamba2,
    MatrixLSTM,
    MatrixMixing,
    Mixer,
    Mlp,
    Part,
    Recurrent,
    ShortConvolution,
    Temperature,
    TimeMixing,
    is_partial,
    sublayers,
)


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
        case Mlp() | Experts() | EmbeddingConvolution():
            return None
        case LinearAttention() | Mamba() | Mamba2() | ShortConvolution() | GatedRecurrence() | MatrixLSTM():
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
        case Mamba():
            return "mamba"
        case Mamba2():
            return "mamba2"
        case ShortConvolution():
            return "short-convolution"
        case GatedRecurrence():
            return "rg-lru"
        case MatrixLSTM():
            return "mlstm"
        case TimeMixing() | MatrixMixing() | DeltaMixing() | ChannelMixing():
            return "rwkv"
        case _:
            assert_never(mixer)


def of(architecture: Architecture) -> list[str]:
    """The features of an architecture, each once."""
    return list(dict.fromkeys(_all(architecture)))


def _all(a: Architecture) -> Iterator[str]:
    for block, _ in a.groups():
        for mixer in sublayers(block):
            yield from _of_mixer(mixer, a.embedding.position == "none")
        if any(_is_parallel(part) for part in block.parts):
            yield "parallel"
        if all(len(part.units) == 1 for part in block.parts) and len(block.parts) == 1:
            yield "single-sublayer"
    found = {
        "tied": a.head.tying,
        "learned-positions": a.embedding.position == "learned",
        "sinusoidal": a.embedding.position == "sinusoidal",
        "factorised-embedding": a.embedding.width != a.d,
        "embedding-norm": a.embedding.norm is not None,
        "final-softcap": a.head.softcap is not None,
        "head-bias": a.head.bias,
        "mtp": a.mtp is not None,
        "per-layer-embedding": a.per_layer_embedding is not None,
        "hyper-connections": a.streams is not None,
        "attention-residuals": a.attention_residuals is not None,
        "altup": a.altup is not None,
        "encoder": a.sees_all and a.encoder is None,
        "encoded": a.encoded is not None,
        "encoder-decoder": a.encoder is not None,
        "draft": a.target is not None,
        "own-output-vocabulary": a.head.rows is not None,
        "audio": a.encoder is not None and a.encoder.front is not None,
        "token-types": a.embedding.types > 0,
        "pooler": a.head.pooler is not None and a.head.pooler.dense is not None,
        "labels": a.head.pooler is not None and a.head.pooler.labels > 0,
    }
    yield from (name for name, present in found.items() if present)


def _turns_in_part(mixer: Attention) -> bool:
    return mixer.rope is not None and is_partial(mixer.rope, mixer.d_head)


def _is_parallel(part: Part) -> bool:
    return len(part.units) > 1


def _temperature(mixer: Attention | LatentAttention) -> Temperature | None:
    return mixer.scores.temperature if isinstance(mixer, Attention) else mixer.temperature


def _of_mixer(mixer: Mixer, positions_in_layers: bool) -> Iterator[str]:
    found = {
        mixer.norm_at + "-norm": mixer.norm_at != "pre",
        "tied-layers": mixer.tied,
        "laurel": mixer.residual.low_rank is not None,
    }
    form = attention(mixer)
    if form is not None:
        yield form
    if isinstance(mixer, (Attention, LatentAttention)):
        found |= {
            "nope": positions_in_layers and mixer.position == "none",
            "partial-rope": isinstance(mixer, Attention) and _turns_in_part(mixer),
            "scaled-rope": mixer.rope is not None and mixer.rope.scaling is not None,
            "gate": mixer.gate is not None,
            "temperature": _temperature(mixer) is not None,
            "shared-kv": mixer.kv is not None,
        }
    if isinstance(mixer, Attention):
        found |= {
            "alibi": mixer.position == "alibi",
            "bucketed-distances": mixer.scores.buckets is not None,
            "disentangled": mixer.scores.disentangled is not None,
            "cross-attention": mixer.source,
            "window": mixer.window is not None,
            "chunk": mixer.chunk is not None,
            "qk-norm": mixer.qk_norm is not None,
            "qkv-bias": {"q", "k", "v"} <= set(mixer.bias),
            "sinks": mixer.scores.sinks or mixer.scores.token_sinks,
            "softcap": mixer.scores.softcap is not None,
            "k-eq-v": mixer.k_eq_v,
            "attention-experts": mixer.experts is not None,
            "indexer": mixer.index is not None,
            "differential": mixer.differential is not None,
            "dynamic-mask": mixer.dynamic_mask is not None,
        }
    elif isinstance(mixer, LatentAttention):
        found |= {"indexer": mixer.index is not None, "window": mixer.window is not None}
    elif isinstance(mixer, CompressedAttention):
        found |= {
            "window": True,
            "k-eq-v": True,
            "scaled-rope": mixer.rope is not None and mixer.rope.scaling is not None,
            "sinks": mixer.sinks,
            "indexer": mixer.compress is not None and mixer.compress.index is not None,
        }
    elif isinstance(mixer, Experts):
        yield "moe"
        found |= {
            "shared-experts": mixer.shared is not None,
            "selection-bias": mixer.selection_bias,
            "hash-routing": isinstance(mixer.choice, Hash),
            "expert-groups": mixer.groups is not None,
            "latent-experts": mixer.latent is not None,
            "identity-experts": mixer.n_identity > 0,
        }
    elif isinstance(mixer, Mlp):
        yield mixer.activation
    elif isinstance(mixer, EmbeddingConvolution):
        yield "embedding-convolution"
    else:
        yield recurrence(mixer)
        found |= {"delta-rule": isinstance(mixer, LinearAttention) and mixer.delta}
    yield from (name for name, present in found.items() if present)
