"""One block: its sublayers, each with its norms and its way back into the residual stream."""

from __future__ import annotations

import math
from typing import assert_never

import numpy as np

from gptcalc.architecture import (
    Attention,
    AttentionResiduals,
    Block,
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
    Norm,
    Part,
    Prefixes,
    ShortConvolution,
    SlotAttention,
    Streams,
    TimeMixing,
    stem,
)
from gptcalc.errors import InputError
from gptcalc.reference.activations import activate, sigmoid
from gptcalc.reference.attention import attention
from gptcalc.reference.compressed import compressed_attention
from gptcalc.reference.convolution import convolved
from gptcalc.reference.embedding import embedding_convolution
from gptcalc.reference.engram import engram
from gptcalc.reference.experts import experts
from gptcalc.reference.hierarchical import hierarchical_recurrence
from gptcalc.reference.hyper import Connection
from gptcalc.reference.latent import latent_attention
from gptcalc.reference.linear import linear_attention
from gptcalc.reference.loops import begin, end, hear
from gptcalc.reference.mamba import mamba, mamba2
from gptcalc.reference.mlp import mlp
from gptcalc.reference.norms import normed
from gptcalc.reference.recurrent import gated_recurrence, matrix_lstm, short_convolution
from gptcalc.reference.residuals import mixture
from gptcalc.reference.rwkv import channel_mixing, delta_mixing, matrix_mixing, time_mixing
from gptcalc.reference.slots import slot_attention
from gptcalc.reference.step import Step
from gptcalc.reference.store import Weights
from gptcalc.reference.sublayer import adapted, low_rank, mixed, moved, multiplied
from gptcalc.reference.tally import Array

#: of attention whose queries, keys and values have an input each
INPUTS = 3


class BlockRun:
    """One block on one step; hands out its sublayers' prefixes (attn, mlp, attn2, …) in order of execution."""

    def __init__(
        self, w: Weights, step: Step, streams: Streams | None = None, residuals: AttentionResiduals | None = None
    ) -> None:
        self.w = w
        self.step = step
        self.streams = streams
        self.residuals = residuals
        self.prefixes = Prefixes()
        self.given: Array | None = None  # what the next sublayer reads in place of the stream

    def named(self, name: str) -> Weights:
        return self.w.at(str(self.prefixes.next(name)))

    def block(self, block: Block, x: Array, normed_input: Array | None = None) -> Array:
        """The stream after the block; `normed_input` is what the first part reads where a shared norm stands before."""
        if block.looped is not None and block.looped.begins:
            x = begin(block.looped, x, self.w.at("loop"), self.step)
        for part in block.parts:
            if self.streams is not None:
                x = self.streamed(part, self.streams, x)
                continue
            x = self.part(part, x, normed_input)
            normed_input = None
        if block.looped is not None and block.looped.ends:
            x = end(block.looped, x, self.w.at("loop"), self.step)
        return x

    def streamed(self, part: Part, s: Streams, x: Array) -> Array:
        """Several streams (B, T, n, d) after a part: a sublayer that reads one joined stream."""
        (mixer,) = part.units
        assert not isinstance(mixer, Block)
        if isinstance(mixer, Engram):
            w = self.step_into(mixer)
            assert mixer.norm is not None
            return x + engram(mixer, normed(x, mixer.norm, w.at("norm"), *x.shape[2:]), w, self.step)
        own = self.named("streams")
        self.step.place = own.prefix
        connection = Connection(s, x, own, self.step)
        y, _ = self.branch(mixer, connection.joined, connection.joined)
        return connection.after(y)

    def part(self, part: Part, x: Array, normed_input: Array | None = None) -> Array:
        """x (B, T, d) plus what the part's units make of it."""
        w = self.named("parallel") if part.norm or part.out_norm else self.w
        read = x if normed_input is None else normed_input
        if part.norm is not None:
            read = normed(read, part.norm, w.at("norm"))
        if len(part.units) == 1 and not isinstance(part.units[0], Block):
            return self.sublayer(part.units[0], x, read, part)
        sum_of_units: Array | None = None
        for unit in part.units:
            if isinstance(unit, Block):
                y = self.block(unit, x, None if read is x else read) - x
            else:
                if unit.norm_at == "post":
                    raise InputError(f"{unit.section}: norm_at post needs a residual of its own, not a parallel one")
                y, _ = self.branch(unit, x, read)
            sum_of_units = y if sum_of_units is None else sum_of_units + y
        assert sum_of_units is not None
        if part.scale != 1.0:
            sum_of_units = sum_of_units * part.scale
        if part.out_norm is not None:
            sum_of_units = normed(sum_of_units, part.out_norm, w.at("out_norm"))
        self.step.tally.added(f"{self.w.prefix}residual", x, sum_of_units)
        return self.step.joined(x, sum_of_units)

    def sublayer(self, mixer: Mixer, x: Array, read: Array, part: Part) -> Array:
        """The stream after a sublayer with a residual of its own."""
        if self.residuals is not None and part.sums:
            read = self.mixture(self.residuals, mixer, x)
        if self.residuals is not None and mixer.messages is not None:
            own = self.w.at(str(self.prefixes.coming(stem(mixer)))).at("messages")
            read = hear(mixer.messages, mixer, self.residuals, read, own, self.step)
        read, self.given = read if self.given is None else self.given, None
        y, w = self.branch(mixer, x, read)
        if mixer.goal != "stream":
            self.given = y if mixer.goal == "next" else x + y
            return x
        if self.residuals is not None and part.begins:
            self.step.sums_aside.append(x)
            return y
        self.step.tally.added(f"{self.step.place}residual", x, y)
        if mixer.residual.gate is not None:
            return mixed(mixer.residual.gate, x, y, w)
        if mixer.residual.factors is not None:
            return multiplied(mixer.residual.factors, self.joined(mixer, x, read, w), y, w.at("residual"))
        if mixer.residual.rate is not None:
            return moved(mixer.residual.rate, self.joined(mixer, x, read, w), y, w)
        if mixer.residual.low_rank is not None:
            n = self.front(mixer, read, w)
            x = (x + y + n + low_rank(mixer.residual.low_rank, n, w.at("laurel"), self.step)) * math.sqrt(0.5)
        else:
            x = self.step.joined(self.joined(mixer, x, read, w), y)
        return normed(x, mixer.norm_behind, w.at("post_norm")) if mixer.norm_behind and mixer.norm_at == "post" else x

    def joined(self, mixer: Mixer, x: Array, read: Array, w: Weights) -> Array:
        """What a sublayer's output joins: the stream x, or what was normed in front."""
        return self.front(mixer, read, w) * mixer.stream_scale if mixer.keeps_normed else x

    def mixture(self, residuals: AttentionResiduals, mixer: Mixer, x: Array) -> Array:
        """What the next sublayer reads of all sums; (B, T, d), or (B, T, 3, d) where attention has three inputs."""
        several = isinstance(mixer, Attention) and mixer.own_inputs
        own = self.w.at(str(self.prefixes.coming(stem(mixer))))
        return mixture(residuals, x, self.weights_of(mixer, own).at("sums"), self.step, INPUTS if several else 1)

    def branch(self, mixer: Mixer, x: Array, read: Array) -> tuple[Array, Weights]:
        """What a sublayer adds to the stream x, given what it reads, and its weights."""
        y, w = self.mix(mixer, read, x)
        if mixer.projected:
            y = self.step.linear(y, self.step.own(), "projection", y.shape[-1])
        if mixer.residual.conv is not None:
            y = convolved(y, "conv", mixer.residual.conv, w, self.step, mixer.residual.conv_scaled)
        if mixer.norm_behind is not None and mixer.norm_at != "post":
            y = normed(y, mixer.norm_behind, w.at("post_norm"))
        return y if mixer.residual.scale == 1.0 else y * mixer.residual.scale, w

    def mix(self, mixer: Mixer, read: Array, stream: Array) -> tuple[Array, Weights]:
        """The sublayer's function after the norm in front, and its weights."""
        w = self.step_into(mixer)
        match mixer:
            case Attention():
                return attention(mixer, self.front(mixer, read, w), w, self.step), w
            case LatentAttention():
                return latent_attention(mixer, self.front(mixer, read, w), w, self.step), w
            case CompressedAttention():
                return compressed_attention(mixer, self.front(mixer, read, w), w, self.step), w
            case Engram():
                return engram(mixer, self.front(mixer, read, w)[:, :, None], w, self.step)[:, :, 0], w
            case EmbeddingConvolution():
                return embedding_convolution(mixer, w, self.step), w
            case LinearAttention():
                return linear_attention(mixer, self.front(mixer, read, w), w, self.step), w
            case SlotAttention():
                return slot_attention(mixer, self.front(mixer, read, w), w, self.step), w
            case Mamba():
                return mamba(mixer, self.front(mixer, read, w), w, self.step), w
            case Mamba2():
                return mamba2(mixer, self.front(mixer, read, w), w, self.step), w
            case ShortConvolution():
                return short_convolution(mixer, self.front(mixer, read, w), w, self.step), w
            case GatedRecurrence():
                return gated_recurrence(mixer, self.front(mixer, read, w), w, self.step), w
            case HierarchicalRecurrence():
                return hierarchical_recurrence(mixer, self.front(mixer, read, w), w, self.step), w
            case MatrixLSTM():
                return matrix_lstm(mixer, self.front(mixer, read, w), w, self.step), w
            case TimeMixing():
                return time_mixing(mixer, self.front(mixer, read, w), w, self.step), w
            case MatrixMixing():
                return matrix_mixing(mixer, self.front(mixer, read, w), w, self.step), w
            case DeltaMixing():
                return delta_mixing(mixer, self.front(mixer, read, w), w, self.step), w
            case ChannelMixing():
                return channel_mixing(mixer, self.front(mixer, read, w), w, self.step), w
            case Mlp():
                return mlp(mixer, self.front(mixer, read, w), w, self.step), w
            case Experts():
                return experts(mixer, self.front(mixer, read, w), stream, w, self.step), w
            case _:
                assert_never(mixer)

    def step_into(self, mixer: Mixer) -> Weights:
        """The weights of the next sublayer, whose name the step takes note of."""
        w = self.named(stem(mixer))
        self.step.place = w.prefix
        return self.weights_of(mixer, w)

    def weights_of(self, mixer: Mixer, own: Weights) -> Weights:
        """Those under the sublayer's own name, or what layers share."""
        return self.step.weights.at("shared").at(mixer.section) if mixer.tied else own

    def front(self, mixer: Mixer, read: Array, w: Weights) -> Array:
        if mixer.norm is None or not mixer.norms_input:
            return read
        if isinstance(mixer, Attention) and mixer.with_embedding:
            assert self.step.embedded is not None
            if mixer.with_embedding == "apart":
                both = [
                    normed(self.step.embedded, mixer.norm, w.at("embedding_norm")),
                    normed(read, mixer.norm, w.at("norm")),
                ]
                return np.concatenate(both, axis=-1)
            read = np.concatenate([read, self.step.embedded], axis=-1)
        if isinstance(mixer, Attention) and mixer.inputs > 1:
            return self.own_inputs(mixer, mixer.norm, read, w)
        n = normed(read, mixer.norm, w.at("norm"))
        if mixer.adaptive_norm is not None:
            n = adapted(mixer.adaptive_norm, n, w.at("norm"), self.step)
        if mixer.norm_gate is None:
            return n
        inner = activate("silu", self.step.linear(n, w, "norm.gate_a", mixer.norm_gate.rank))
        return n * sigmoid(self.step.linear(inner, w, "norm.gate_b", n.shape[-1]))

    @staticmethod
    def own_inputs(mixer: Attention, norm: Norm, read: Array, w: Weights) -> Array:
        """The inputs of queries, keys and values, normed, with a norm each or one for all: of one (B, T, d) or
        of three (B, T, 3, d) as many."""
        inputs = [read[:, :, n] if read.ndim == 4 else read for n in range(INPUTS)]
        places = ("norm", "k_input_norm", "v_input_norm") if mixer.own_inputs else ("norm",) * INPUTS
        apart = [normed(x, norm, w.at(place))[:, :, None] for x, place in zip(inputs, places, strict=True)]
        return np.concatenate(apart, axis=2)
