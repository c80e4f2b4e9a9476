"""What each kind of sublayer is in equations. The lines of a kind are loaded when a model has it."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from msgspec import Struct

from gptcalc.architecture import (
    Architecture,
    Attention,
    ChannelMixing,
    CompressedAttention,
    DeltaMixing,
    EmbeddingConvolution,
    Engram,
    Experts,
    GatedRecurrence,
    HierarchicalRecurrence,
    LatentAttention,
    LinearAttention,
    Mamba,
    Mamba2,
    MatrixLSTM,
    MatrixMixing,
    Mixer,
    Mlp,
    Rope,
    ShortConvolution,
    SlotAttention,
    TimeMixing,
)
from gptcalc.equations.language import Index
from gptcalc.equations.lines import Lines
from gptcalc.equations.rope import Rotation, turning
from gptcalc.equations.symbols import Symbols

if TYPE_CHECKING:
    from gptcalc.conventions import CacheForm, Chunks, Form


class Around(Struct, frozen=True):
    """What a sublayer's lines depend on beside it."""

    model: Architecture
    form: Form
    cache: CacheForm
    d: Index
    symbols: Symbols
    chunks: Chunks = None

    def chunk(self, own: int) -> int | None:
        """Tokens of a chunk of a mixer whose own are so many; None where it is walked token by token."""
        return None if self.chunks is None else self.chunks or own

    @property
    def dropout(self) -> bool:
        return self.model.dropout is not None and self.model.dropout.attention

    def rotation(self, rope: Rope | None, width: Index, section: str) -> Rotation | None:
        """How channels of this width turn."""
        if rope is None:
            return None
        turned = turning(rope, width, self.symbols, section)
        return Rotation(rope, turned, self.model.c, bool(self.model.learned_frequencies))


def component(mixer: Mixer) -> str:
    """Under which component a sublayer's own weights count."""
    match mixer:
        case Attention() | LatentAttention() | CompressedAttention():
            return "attention"
        case Mlp() | ChannelMixing():
            return "mlp"
        case Experts():
            return "experts"
        case LinearAttention() | SlotAttention() | Mamba() | Mamba2() | ShortConvolution():
            return "recurrent"
        case GatedRecurrence() | HierarchicalRecurrence() | MatrixLSTM():
            return "recurrent"
        case TimeMixing() | MatrixMixing() | DeltaMixing():
            return "recurrent"
        case EmbeddingConvolution() | Engram():
            return "other"
        case _:
            assert_never(mixer)


def scope(mixer: Mixer, of: Around) -> dict[str, Index]:
    """What the index letters of a sublayer run over."""
    d, symbols = of.d, of.symbols
    match mixer:
        case Attention():
            from gptcalc.equations import attention_heads

            return attention_heads.scope(mixer, d, symbols, of.model.d_source)
        case Mlp():
            from gptcalc.equations import mlp

            return mlp.scope(mixer, d, symbols)
        case Experts():
            from gptcalc.equations import experts

            return experts.scope(mixer, d, symbols)
        case EmbeddingConvolution():
            from gptcalc.equations import blend

            return blend.scope(mixer, d, symbols)
        case Engram():
            from gptcalc.equations import engram

            return engram.scope(mixer, d, of.model.streams, symbols)
        case LatentAttention():
            from gptcalc.equations import latent

            return latent.scope(mixer, d, symbols)
        case CompressedAttention():
            from gptcalc.equations import compressed

            return compressed.scope(mixer, d, symbols)
        case LinearAttention():
            from gptcalc.equations import linear

            return linear.scope(mixer, d, symbols, of.model.n_layers)
        case SlotAttention():
            from gptcalc.equations import slots

            return slots.scope(mixer, d, symbols)
        case Mamba():
            from gptcalc.equations import mamba

            return mamba.mamba_scope(mixer, d, symbols)
        case Mamba2():
            from gptcalc.equations import mamba

            return mamba.mamba2_scope(mixer, d, symbols)
        case ShortConvolution():
            from gptcalc.equations import recurrent

            return recurrent.short_scope(mixer, d, symbols)
        case GatedRecurrence():
            from gptcalc.equations import recurrent

            return recurrent.rnn_scope(mixer, d, symbols)
        case HierarchicalRecurrence():
            from gptcalc.equations import hierarchical

            return hierarchical.scope(mixer, d, symbols, of.model.n_layers)
        case MatrixLSTM():
            from gptcalc.equations import recurrent

            return recurrent.lstm_scope(mixer, d, symbols)
        case TimeMixing():
            from gptcalc.equations import rwkv

            return rwkv.time_scope(mixer, d, symbols)
        case MatrixMixing() | DeltaMixing():
            from gptcalc.equations import rwkv_matrix

            return rwkv_matrix.scope(mixer, d, symbols)
        case ChannelMixing():
            from gptcalc.equations import rwkv

            return rwkv.channel_scope(mixer, d, symbols)
        case _ as never:
            assert_never(never)


def write(lines: Lines, mixer: Mixer, of: Around, token: str) -> None:
    """n[t,i] → y[t,i]; `token` is the one that is read at position t."""
    match mixer:
        case Attention():
            from gptcalc.equations import attention

            attention.attention(lines, mixer, of.rotation(mixer.rope, lines.scope["a"], mixer.section), of.dropout)
        case Mlp():
            from gptcalc.equations import mlp

            mlp.mlp(lines, mixer)
        case Experts():
            from gptcalc.equations import experts

            experts.experts(lines, mixer, token)
        case LatentAttention():
            from gptcalc.equations import latent

            rotation = of.rotation(mixer.rope, lines.scope["p"], mixer.section)
            latent.latent_attention(lines, mixer, rotation, of.form, of.cache, of.dropout)
        case EmbeddingConvolution():
            from gptcalc.equations import blend

            blend.embedding_convolution(lines, mixer)
        case Engram():
            from gptcalc.equations import engram

            engram.engram(lines, mixer, of.model.streams is not None)
        case CompressedAttention():
            from gptcalc.equations import compressed

            compressed.compressed_attention(
                lines, mixer, of.rotation(mixer.rope, lines.scope["a"], mixer.section), of.dropout
            )
        case LinearAttention():
            from gptcalc.equations import linear

            linear.linear_attention(lines, mixer, of.chunk(mixer.chunk))
        case SlotAttention():
            from gptcalc.equations import slots

            slots.slot_attention(lines, mixer, of.chunk(mixer.chunk))
        case Mamba():
            from gptcalc.equations import mamba

            mamba.mamba(lines, mixer)
        case Mamba2():
            from gptcalc.equations import mamba

            mamba.mamba2(lines, mixer, of.chunk(mixer.chunk))
        case ShortConvolution():
            from gptcalc.equations import recurrent

            recurrent.short_convolution(lines, mixer)
        case GatedRecurrence():
            from gptcalc.equations import recurrent

            recurrent.gated_recurrence(lines, mixer)
        case HierarchicalRecurrence():
            from gptcalc.equations import hierarchical

            hierarchical.hierarchical_recurrence(lines, mixer)
        case MatrixLSTM():
            from gptcalc.equations import recurrent

            recurrent.matrix_lstm(lines, mixer, of.chunk(mixer.chunk))
        case TimeMixing():
            from gptcalc.equations import rwkv

            rwkv.time_mixing(lines)
        case MatrixMixing():
            from gptcalc.equations import rwkv_matrix

            rwkv_matrix.matrix_mixing(lines, mixer, of.chunk(mixer.chunk))
        case DeltaMixing():
            from gptcalc.equations import rwkv_matrix

            rwkv_matrix.delta_mixing(lines, mixer, of.chunk(mixer.chunk))
        case ChannelMixing():
            from gptcalc.equations import rwkv

            rwkv.channel_mixing(lines, mixer)
        case _ as never:
            assert_never(never)
