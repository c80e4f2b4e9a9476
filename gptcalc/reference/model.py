"""The whole transformer, from tokens to logits, with a cache.

    model = Model(architecture)                    # seeded random weights; or Model(architecture, store)
    result = model.prefill([5, 23, 7])             # result.logits (1, 3, v), result.hidden: n_layers × (1, 3, d)
    result = model.decode(11)                      # one more token, with what the cache holds
    result = model.prefill([0], source=[5, 23, 7]) # where there is an encoder, which reads the source
    model.cache.elements, model.tally.total        # numbers held, FLOPs so far

Letters: B sequences, T new tokens, d channels, v rows of the vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from numpy.typing import DTypeLike

from gptcalc.architecture import (
    Architecture,
    Block,
    Encoder,
    PerLayerEmbedding,
    TargetStates,
    is_looped,
    visits,
)
from gptcalc.errors import InputError
from gptcalc.reference.activations import activate
from gptcalc.reference.altup import corrected, merged, predicted, spread
from gptcalc.reference.block import BlockRun
from gptcalc.reference.cache import Cache
from gptcalc.reference.canvas import conditioned
from gptcalc.reference.chain import chained
from gptcalc.reference.embedding import (
    check_positions,
    embedded,
    positioned,
    positions_of_frames,
    projected_states,
)
from gptcalc.reference.head import logits, pooled
from gptcalc.reference.hyper import joined_at_the_end, spread_out
from gptcalc.reference.norms import normed, softmax
from gptcalc.reference.repeated import Repeated
from gptcalc.reference.residuals import mixture
from gptcalc.reference.source import stand_in_block, stand_ins
from gptcalc.reference.step import LatentForm, Scan, Step
from gptcalc.reference.store import RandomStore, Store, Weights
from gptcalc.reference.tally import Array, Tally


@dataclass(frozen=True)
class Result:
    """What one call computed."""

    logits: Array  # (B, T, v); of a model without logits over the vocabulary its labels, or else its final states
    hidden: list[Array]  # one (B, T, d) a block, in a loop one a pass: its output, before the final norm; with several
    # streams all of them, (n, B, T, d) for AltUp, (B, T, n, d) for hyper-connections
    embedded: Array  # the first block's input, of the same shape; one of the equal streams of hyper-connections
    attention: list[Array] | None = None  # one (B, n_heads, T, S) an attention sublayer
    predicted: list[Array] = field(default_factory=list)  # logits of the MTP modules, (B, T − k, v)
    pooled: Array | None = None  # (B, 1 or T, …): what is read off one token or each
    drafted: Array | None = None  # (B, 1 + K): what is drafted, where each token decides about the next
    confidence: Array | None = None  # (B, K, 1): how likely each of it is accepted
    encoded: Array | None = None  # (B, N, d): an encoder's output


class Model:
    """An architecture with weights, a cache and a tally of FLOPs."""

    def __init__(
        self,
        architecture: Architecture,
        weights: Store | None = None,
        *,
        dtype: DTypeLike = np.float32,
        latent: LatentForm = "auto",
        scan: Scan = "auto",
    ) -> None:
        """`latent` chooses the form of latent attention: expanded for several tokens and absorbed for one (auto), or
        one form for all. Expanded throughout caches every head's keys and values; else the latents are cached.
        `scan`: recurrent states token by token, or in chunks as long as the mixer says, or in chunks of so many tokens;
        a long sequence in chunks (auto)."""
        self.architecture = architecture
        self.weights = Weights(weights or RandomStore(), dtype)
        self.latent: LatentForm = latent
        self.scan: Scan = scan
        self.cache = Cache()
        self.tally = Tally()

    def prefill(
        self,
        tokens: Sequence[int] | Array,
        *,
        source: Sequence[int] | Array | None = None,
        states: Array | None = None,
        block: Array | None = None,
        images: Array | None = None,
        **options: bool,
    ) -> Result:
        """A sequence (T,) or a batch (B, T) from nothing, and what an encoder reads first: tokens, or frames
        (B, frames, channels); see `extend` for the options."""
        self.cache = Cache()
        return self.extend(tokens, source=source, states=states, block=block, images=images, **options)

    def decode(
        self,
        token: int | Sequence[int] | Array,
        *,
        attention: bool = False,
        last_only: bool = False,
        states: Array | None = None,
        block: Array | None = None,
    ) -> Result:
        """One more token, or one for each sequence of the batch (B,)."""
        new = token if hasattr(token, "shape") else np.array(token)
        return self.extend(
            new.reshape(-1, 1),  # type: ignore[union-attr]
            attention=attention,
            last_only=last_only,
            states=states,
            block=block,
        )

    def extend(
        self,
        tokens: Sequence[int] | Array,
        *,
        attention: bool = False,
        last_only: bool = False,
        predict: bool = False,
        source: Sequence[int] | Array | None = None,
        states: Array | None = None,
        block: Array | None = None,
        images: Array | None = None,
    ) -> Result:
        """More tokens, after those in the cache.

        attention: also give the attention weights. last_only: logits of the last token, (B, 1, v). predict: also run
        the MTP modules, on these tokens alone. states: what layers of a draft's target made of these tokens, side by
        side (B, T, layers · d); where they are not given, seeded numbers stand for them. block: the tokens (B, block)
        of a block that is drafted behind these, the known one and masks; its logits are (B, K, v), of the K slots that
        draft a token. images: which of the tokens are an image's (T,), where experts are apart for those.
        """
        a, new = self.architecture, self._checked(tokens)
        if (source is not None) != (a.d_source is not None and self.cache.length == 0):
            raise InputError("source: what is attended to, given once" if a.d_source else "source: there is no encoder")
        step = Step(new, self.cache, self.tally, a.c, self.weights, self.latent, scan=self.scan, images=images)
        self._prepare(step)
        if attention:
            step.attention = []
        if a.encoder is not None and source is not None:
            step.source = self._encode(a.encoder, source, step)
        elif a.encoded is not None and source is not None:
            given: Array = source if hasattr(source, "shape") else np.array(source)  # type: ignore[assignment]
            step.source = given.astype(self.weights.dtype)
        if a.target is not None and a.target.block is not None:
            drafted = stand_in_block(a.target, a.v, new) if block is None else self._tokens(block)
            known = self._states(a.target, states, step), step
            step = Step(drafted, self.cache, self.tally, a.c, self.weights, self.latent, context_states=known)
            step.attention = known[1].attention
        step.embedded = x = self._embed(step)
        if a.target is not None and a.target.block is None:
            x = self._states(a.target, states, step)
        if a.canvas is not None:
            w = self.weights.at("canvas")
            conditioned(a.canvas, x[:, :0], x[:, :0], w, step)
            w.passed_by_none(())
        slices = self._per_layer_slices(x, step)  # (B, T, n_layers, ple.d), or None
        altup = self.architecture.altup
        if altup is not None:
            x = spread(altup, x, self.weights.at("altup"), step)  # (n, B, T, d)
        entered, hidden = x, []
        streams = self.architecture.streams
        if streams is not None:
            x = spread_out(x, streams.n)
        repeated = Repeated(step, apart=a.attention_residuals is not None or is_looped(a))
        for number, layer, step.number_of_pass in visits(self.architecture):
            w = self.weights.at(f"layers.{number}")
            step.layer, step.n_layers = number, self.architecture.n_layers
            step.cache = self._kept(layer, step.number_of_pass)
            row = slices[:, :, number] if slices is not None else None
            x = repeated.layer(layer, x, w.prefix, partial(self._layer, layer, x, row, w, step))
            hidden.append(x)
        if a.target is not None and a.target.block is not None:
            x = x[:, a.target.block - a.target.drafted :]
        elif last_only:
            x = x[..., step.new - 1 :, :] if streams is None else x[:, step.new - 1 :]
        if altup is not None:
            x = merged(altup, x, self.weights.at("altup"), step)
        final = self._final(x, step)
        summary = self._pooled(final, step)
        if a.canvas is not None:
            step.tally = Tally()  # no pass over a prompt needs its logits; they are there for who wants to see them
        result = self._logits(final, step) if a.head.vocabulary else final
        if summary is not None and a.head.pooler is not None and a.head.pooler.labels and not a.head.vocabulary:
            result = summary
        predicted = self._predict(entered, final if streams is None else x, step) if predict else []
        held = self.cache.tokens
        self.cache.tokens = new if held is None else np.concatenate([held, new], axis=1)
        self.cache.prompt = step.prompt
        self.cache.length = step.length if step.context_states is None else step.context_states[1].length
        found = Result(result, hidden, entered, step.attention, predicted, summary, encoded=step.source)
        if a.head.markov is None and a.head.gru is None:
            return found
        chain = chained(a.head, result, final, step.tokens[:, :1], self._table(), self.weights.at("head"), step)
        return replace(found, logits=chain.logits, drafted=chain.block, confidence=chain.confidence)

    def denoise(self, tokens: Sequence[int] | Array, before: Array | None = None) -> Result:
        """A block of tokens (B, length) that is denoised at once behind those in the cache, which stays as it is;
        `before`: the logits (B, length, v) of the step before."""
        a = self.architecture
        if a.canvas is None:
            raise InputError(f"{a.name} denoises no blocks")
        cache = self.cache.of_pass(0, writes=False)
        step = Step(self._checked(tokens), cache, self.tally, a.c, self.weights, self.latent, canvas=True)
        self._prepare(step)
        x = self._embed(step)
        guessed = x * 0.0
        if before is not None:
            guessed = step.dot(softmax(before.copy()), self._table(), "values") * a.embedding.scale
        x = entered = conditioned(a.canvas, x, guessed, self.weights.at("canvas"), step)
        hidden = []
        for number, layer, _ in visits(a):
            step.layer, step.n_layers = number, a.n_layers
            x = self._layer(layer, x, None, self.weights.at(f"layers.{number}"), step)
            hidden.append(x)
        return Result(self._logits(self._final(x, step), step), hidden, entered)

    def _kept(self, block: Block, number_of_pass: int) -> Cache:
        """What a layer keeps in a pass of a loop."""
        loop = block.looped
        if loop is not None and loop.caches == "last":
            return self.cache.of_pass(0, writes=number_of_pass == loop.passes - 1)
        return self.cache.of_pass(number_of_pass) if number_of_pass else self.cache

    def _layer(self, block: Block, x: Array, row: Array | None, w: Weights, step: Step) -> Array:
        """The stream, or all streams, after a layer; `row` is its slice of the per-layer table."""
        a, altup, ple = self.architecture, self.architecture.altup, self.architecture.per_layer_embedding
        if altup is None:
            read = x = BlockRun(w, step, a.streams, a.attention_residuals).block(block, x)
        else:
            v = w.at("altup")
            guess = predicted(altup, x, v, step)
            x = corrected(altup, guess, BlockRun(w, step).block(block, guess[altup.active]), v, step)
            read = x[altup.active] * v("output_scale", a.d) if altup.scale else x[altup.active]
        if ple is not None and row is not None:
            y = _per_layer(ple, read, row, w, step)
            x = x + y if altup is None else np.concatenate([x[:1], x[1:] + y])
        if not a.layer_scalar:
            return x
        if a.canvas is not None:
            of_block = w.at("canvas")
            factor = of_block("layer_scalar", 1)
            if step.canvas:
                return x * factor
            of_block.passed_by_none(())
        return x * w("layer_scalar", 1)

    def _prepare(self, step: Step) -> None:
        """What holds for all layers of the model."""
        step.type_of = self.architecture.embedding.type_of
        if self.architecture.averaged_residuals:
            step.sums = 1
        if self.architecture.learned_frequencies:
            step.frequencies = np.exp(self.weights("rope.alpha", self.architecture.learned_frequencies))

    def _checked(self, tokens: Sequence[int] | Array) -> Array:
        """Tokens as (B, T), all in the vocabulary and within the table of positions."""
        array = self._tokens(tokens)
        check_positions(self.architecture.embedding, self.cache.length + array.shape[1])
        return array

    def _tokens(self, tokens: Sequence[int] | Array) -> Array:
        """Tokens as (B, T), all in the vocabulary."""
        array: Array = tokens if hasattr(tokens, "shape") else np.array(tokens)  # type: ignore[assignment]
        if array.ndim == 1:
            array = array.reshape(1, array.shape[0])
        if array.ndim != 2 or not all(array.shape) or array.dtype.kind not in "iu":
            raise InputError("tokens: expected integers, one sequence (T,) or a batch (B, T)")
        if isinstance(array, np.ndarray) and (array.min() < 0 or array.max() >= self.architecture.v):
            worst = array.min() if array.min() < 0 else array.max()
            raise InputError(f"tokens: {worst} is outside the vocabulary of {self.architecture.v}")
        return array

    # embedding

    def _embed(self, step: Step) -> Array:
        """The first block's input: (B, T, d)."""
        a, w = self.architecture, self.weights.at("embedding")
        return embedded(a.embedding, self._table(), a.d, w, step)

    def _table(self) -> Array:
        """The tokens' rows (v, d or the embedding's width), its own or the target's."""
        a = self.architecture
        shape, w = (a.v, a.embedding.width), self.weights
        return w.borrowed("embedding.token", *shape) if a.embedding.borrowed else w("embedding.token", *shape)

    def _states(self, target: TargetStates, states: Array | None, step: Step) -> Array:
        """What a draft makes of its target's hidden states, which its layers continue or attend to: (B, T, d)."""
        h = stand_ins(target, step.tokens, step.start) if states is None else states
        if h.shape != (*step.tokens.shape, target.layers * target.d):
            raise InputError(f"states: {h.shape} are not {target.layers} × {target.d} channels of each token")
        h = h.astype(self.weights.dtype)
        return projected_states(target, h, self.architecture.d, self.weights.at("states"), step)

    def _encode(self, e: Encoder, source: Sequence[int] | Array, step: Step) -> Array:
        """The encoder's output (B, N, d) for what it reads."""
        w = self.weights.at("encoder")
        at = w.at("embedding")
        if e.front is not None:
            frames: Array = source if hasattr(source, "shape") else np.array(source)  # type: ignore[assignment]
            part = Step(frames[:, :: e.front.frames, 0], Cache(), self.tally, e.c, w, self.latent)
            x = positions_of_frames(e.front, frames.astype(self.weights.dtype), e.d, at, part)
            x = positioned(e.embedding, x, at, part)
        else:
            part = Step(self._tokens(source), Cache(), self.tally, e.c, w, self.latent)
            table = self.weights.at("embedding") if e.tokens == "shared" else at
            x = embedded(e.embedding, table("token", e.v, e.embedding.width), e.d, at, part)
        check_positions(e.embedding, part.length)
        part.attention, part.embedded = step.attention, x
        repeated = Repeated(part)
        for number, block in enumerate(e.blocks()):
            run = BlockRun(w.at(f"layers.{number}"), part)
            x = repeated.layer(block, x, run.w.prefix, partial(run.block, block, x))
        return x if e.norm is None else normed(x, e.norm, w.at("final_norm"))

    def _per_layer_slices(self, x: Array, step: Step) -> Array | None:
        """Each layer's slice of the second table, averaged with a projection of the embedding. Where that table is
        shorter than the vocabulary, the tokens beyond its end read its first row."""
        ple = self.architecture.per_layer_embedding
        if ple is None:
            return None
        w, n = self.weights.at("ple"), self.architecture.n_layers
        tokens = step.tokens if ple.v >= self.architecture.v else np.where(step.tokens < ple.v, step.tokens, 0)
        rows = np.take(w("token", ple.v, n * ple.d), tokens, axis=0) * math.sqrt(ple.d)
        projected = step.linear(x, w, "projection", n * ple.d) * (1 / math.sqrt(x.shape[-1]))
        projected = normed(projected.reshape(*x.shape[:2], n, ple.d), ple.norm, w.at("norm"))
        slices: Array = (projected + rows.reshape(*x.shape[:2], n, ple.d)) * math.sqrt(0.5)
        return slices

    # head

    def _final(self, x: Array, step: Step) -> Array:
        """The normed stream that the head reads: (B, T, d)."""
        norm = self.architecture.head.norm
        x = self._joined(x, self.weights, step)
        if self.architecture.attention_residuals is not None:
            x = mixture(self.architecture.attention_residuals, x, self.weights.at("sums"), step)
        return x if norm is None else normed(x, norm, self.weights.at("final_norm"))

    def _logits(self, x: Array, step: Step) -> Array:
        a = self.architecture
        return logits(a.head, x, a.v, a.embedding.width, self.weights, self.weights.at("head"), step)

    def _pooled(self, x: Array, step: Step) -> Array | None:
        pooler = self.architecture.head.pooler
        return None if pooler is None else pooled(pooler, x, self.weights.at("pooler"), step)

    def _joined(self, x: Array, w: Weights, step: Step) -> Array:
        """The one stream (B, T, d) for the final norm."""
        streams = self.architecture.streams
        return x if streams is None else joined_at_the_end(streams, x, w.at("head.streams"), step)

    # multi-token prediction

    def _predict(self, entered: Array, x: Array, step: Step) -> list[Array]:
        """Logits of the MTP modules. Module k sees, at position t, the stream of t and what the token of t + k + 1
        entered the first block as."""
        a = self.architecture
        predicted: list[Array] = []
        for k in range(a.mtp.n if a.mtp is not None else 0):
            assert a.mtp is not None
            ahead = k + 1
            if step.new <= ahead:
                break
            w = self.weights.at(f"mtp.{k}")
            part = Step(step.tokens[:, ahead:], Cache(), self.tally, a.c, self.weights, self.latent, scan=self.scan)
            self._prepare(part)
            e = normed(entered[:, ahead:], a.mtp.norm, w.at("embedding_norm"))
            if a.streams is not None:
                e = spread_out(e, a.streams.n)
            h = normed(x[:, : part.new], a.mtp.norm, w.at("hidden_norm"))
            x = part.linear(np.concatenate([e, h], axis=-1), w, "projection", a.d)
            x = BlockRun(w, part, a.streams).block(a.mtp.block, x)
            final = normed(self._joined(x, w, part), a.mtp.norm, w.at("norm"))
            predicted.append(self._logits(final, part))
            x = final if a.streams is None else x
        return predicted


def _per_layer(ple: PerLayerEmbedding, x: Array, row: Array, w: Weights, step: Step) -> Array:
    """What a layer's slice of the per-layer table (B, T, ple.d) adds to the stream: (B, T, d)."""
    w = w.at("ple")
    gate = activate(ple.activation, step.linear(x, w, "gate", ple.d))
    return normed(step.linear(gate * row, w, "out", x.shape[-1]), ple.norm, w.at("post_norm"))
