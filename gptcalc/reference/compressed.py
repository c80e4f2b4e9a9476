"""Attention over compressed entries (DeepSeek-V4): a token sees a window of tokens, and entries that each stand for
`every` tokens of the whole past. One latent a token is both key and value, for all heads.

Letters: B sequences, T new tokens, S keys of the window, n heads, h = d_head, g groups of heads, m = every,
W entries, L tokens that an entry takes in (m, or 2m where entries overlap), C complete entries made in this step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gptcalc.architecture import CompressedAttention, Compression, EntryIndexer
from gptcalc.reference.experts import top
from gptcalc.reference.norms import normed, softmax
from gptcalc.reference.rope import angles, rotate, turned_channels
from gptcalc.reference.step import Step
from gptcalc.reference.store import Weights
from gptcalc.reference.tally import Array


def compressed_attention(a: CompressedAttention, x: Array, w: Weights, step: Step) -> Array:
    """x (B, T, d) -> (B, T, d)."""
    source, q = _queries(a, x, w, step)  # (B, T, q_rank), (B, T, n, h)
    keys = _window(a, x, w, step)  # (B, S, h)
    mask = step.mask(keys.shape[1], a.window, None)
    if a.compress is not None:
        entries, seen = _entries(a, a.compress, x, source, w, step)  # (B, W, h), (B or 1, T, W)
        mask = None if mask is None else _side_by_side(mask, seen, x.shape[0])
        keys = np.concatenate([keys, entries], axis=1)
    o = _attend(a, q, keys, mask, w, step)  # (B, T, n, h)
    return _leave(a, _turned_back(a, o, step), x.shape[-1], w, step)


def _queries(a: CompressedAttention, x: Array, w: Weights, step: Step) -> tuple[Array, Array]:
    """The normed bottleneck (B, T, q_rank), and the queries (B, T, n, h) made of it: normed, turned, scaled."""
    source = normed(step.linear(x, w, "q_a", a.q_rank), a.latent_norm, w.at("q_a_norm"))
    q = step.linear(source, w, "q_b", a.n_heads * a.d_head).reshape(*x.shape[:2], a.n_heads, a.d_head)
    q = normed(q, a.q_norm, w)
    return source, _turned(a, q, step) * (1 / math.sqrt(a.d_head))


def _window(a: CompressedAttention, x: Array, w: Weights, step: Step) -> Array:
    """The latents of all tokens that a new one may see in its window: (B, S, h)."""
    new = normed(step.linear(x, w, "kv", a.d_head), a.latent_norm, w.at("kv_norm"))  # (B, T, h)
    new = _turned(a, new[:, :, None], step)[:, :, 0]
    key = w.prefix.rstrip(".")
    held = step.cache.append(key, "kv", new)
    step.cache.keep(key, step.reach(a.window, None))
    return held[:, max(held.shape[1] - step.needed(a.window, None), 0) :]


def _attend(a: CompressedAttention, q: Array, keys: Array, mask: Array | None, w: Weights, step: Step) -> Array:
    """softmax(q kᵀ) k for all heads over the same keys: (B, T, n, h)."""
    shared = keys[:, None]  # (B, 1, S + W, h)
    s = step.dot(q.swapaxes(1, 2), shared.swapaxes(-1, -2), "scores")  # (B, n, T, S + W)
    if mask is not None:
        s += mask if mask.ndim == 2 else mask[:, None]
    sinks = w("sinks", a.n_heads).reshape(a.n_heads, 1, 1) if a.sinks else None
    p = softmax(s, sinks)
    if step.attention is not None:
        step.attention.append(p)
    return step.dot(p, shared, "values").swapaxes(1, 2)


def _leave(a: CompressedAttention, o: Array, d: int, w: Weights, step: Step) -> Array:
    """Each group of heads to a narrow width of its own, all of them to the stream: (B, T, d)."""
    width = a.n_heads // a.n_groups * a.d_head
    grouped = o.reshape(*o.shape[:2], a.n_groups, 1, width)  # (B, T, g, 1, heads of a group · h)
    narrow = step.dot(grouped, w("out_a", a.n_groups, width, a.out_rank))  # (B, T, g, 1, out_rank)
    return step.linear(narrow.reshape(*o.shape[:2], a.n_groups * a.out_rank), w, "out_b", d)


# --- rotation: of the last channels -----------------------------------------------------------------------------------


def _turned(a: CompressedAttention, x: Array, step: Step, positions: Array | None = None, back: bool = False) -> Array:
    """x (B, T, heads, width) with its last channels turned by the positions (default: the tokens'), or back by them."""
    if a.rope is None:
        return x
    r = turned_channels(a.rope, a.d_head)
    cos, sin = step.angles(a.rope, r)
    if positions is not None:
        of_entries = angles(positions, a.rope, r, step.length, step.context, step.frequencies)
        cos, sin = (table.astype(step.dtype) for table in of_entries)
    still = x.shape[-1] - r
    last = rotate(x[..., still:], cos, sin * -1.0 if back else sin, a.rope.pairing)
    both: Array = np.concatenate([x[..., :still], last], axis=-1)
    return both


def _turned_back(a: CompressedAttention, o: Array, step: Step) -> Array:
    """Values were turned with the keys; turned back by the query's position, they depend on the distance alone."""
    return _turned(a, o, step, back=True)


# --- entries ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Mixtures:
    """Mixes entries of width h from tokens, `every` to one, under one prefix of weights."""

    every: int
    h: int
    overlap: bool = False

    @property
    def both(self) -> int:
        """What a token contributes: to its own entry, and where entries overlap to the next one, which stands first."""
        return 2 * self.h if self.overlap else self.h

    def completed(self, content: Array, x: Array, w: Weights, step: Step) -> Array:
        """The entries that this step completes, of the content (B, T, both) of tokens x: (B, C, h)."""
        m, key = self.every, w.prefix.rstrip(".")
        weight = step.linear(x, w, "gate", self.both)  # (B, T, both)
        position = w("position", m, self.both)
        first = step.start // m  # the entry that is open as the step begins
        made = step.length // m - first
        content, weight = self._kept(content, "kv", key, step), self._kept(weight, "gate", key, step)
        whole = made * m
        parts = (x.shape[0], made, m, self.both)
        closed = [content[:, :whole].reshape(*parts), weight[:, :whole].reshape(*parts) + position]
        if self.overlap:
            before = (("kv before", 0.0), ("gate before", -math.inf))  # before the first entry there is nothing
            closed = [
                self._with_the_entry_before(array, nothing, name, key, step)
                for array, (name, nothing) in zip(closed, before, strict=True)
            ]
        return self._mixed(closed[0], closed[1], step)

    def _kept(self, new: Array, name: str, key: str, step: Step) -> Array:
        """The open entry's tokens, then the new ones; the cache has room for those of one entry."""
        m = self.every
        held = step.cache.state(key, name, np.zeros((new.shape[0], m, new.shape[-1]), step.dtype))
        joined: Array = np.concatenate([held, new], axis=1)
        step.cache.put(key, name, joined[:, joined.shape[1] - m :])
        return joined[:, m - step.start % m :]

    def _with_the_entry_before(self, tokens: Array, nothing: float, name: str, key: str, step: Step) -> Array:
        """(C, m, 2h) of the entries made -> (C, 2m, h): the first halves of the entry before, then their own second."""
        batch, made, m, _ = tokens.shape
        held = step.cache.state(key, name, np.full((batch, m, self.h), nothing, step.dtype))
        firsts = np.concatenate([held[:, None], tokens[..., : self.h]], axis=1)  # (B, 1 + C, m, h)
        step.cache.put(key, name, firsts[:, made])
        both: Array = np.concatenate([firsts[:, :made], tokens[..., self.h :]], axis=2)
        return both

    def _mixed(self, content: Array, weight: Array, step: Step) -> Array:
        """(B, C, L, h) each -> (B, C, h): every channel its own mixture of the L tokens."""
        share = softmax(weight.swapaxes(-1, -2))  # (B, C, h, L)
        content = content.swapaxes(-1, -2)[..., None]  # (B, C, h, L, 1)
        mixture: Array = step.dot(share[..., None, :], content, "values")[..., 0, 0]  # (B, C, h)
        return mixture


def _compressed(a: CompressedAttention, c: Compression, h: int, x: Array, w: Weights, step: Step) -> Array:
    """All complete entries so far, normed, and turned as their first tokens: (B, W, h)."""
    mixtures = Mixtures(c.every, h, c.overlap)
    new = mixtures.completed(step.linear(x, w, "kv", mixtures.both), x, w, step)
    new = normed(new, a.latent_norm, w.at("norm"))
    first = np.arange(0, new.shape[1], like=step.tokens) + step.start // c.every
    new = _turned(a, new[:, :, None], step, first * c.every)[:, :, 0]
    return step.cache.append(w.prefix.rstrip("."), "entries", new)


def _entries(
    a: CompressedAttention, c: Compression, x: Array, source: Array, w: Weights, step: Step
) -> tuple[Array, Array]:
    """The entries (B, W, h), and what is added to a token's scores: 0 where it may see one, else −∞, (B or 1, T, W)."""
    entries = _compressed(a, c, a.d_head, x, w.at("compress"), step)
    n = entries.shape[1]
    complete = ((step.positions + 1) // c.every)[:, None]  # (T, 1)
    seen = np.arange(0, n, like=step.tokens)[None, :] < complete  # (T, W)
    mask = np.where(seen, 0.0, -math.inf).astype(step.dtype)
    if c.index is None:
        return entries, mask[None]
    choice = _choice(a, c, c.index, x, source, mask, w.at("index"), step)  # (B, T, k)
    if step.new == 1:
        return np.take_along_axis(entries, choice[:, 0, :, None], axis=1), mask[None]
    listed = (choice[..., None] == np.arange(0, n, like=step.tokens)).any(axis=-2)  # (B, T, W)
    return entries, np.where(listed, mask, -math.inf).astype(step.dtype)


def _choice(
    a: CompressedAttention,
    c: Compression,
    index: EntryIndexer,
    x: Array,
    source: Array,
    mask: Array,
    w: Weights,
    step: Step,
) -> Array:
    """The top_k entries by Σ over the indexer's heads of weight · relu(q · entry): (B, T, k). Its entries are its own;
    positive factors of the scores change nothing about the order."""
    q = step.linear(source, w, "q", index.n_heads * index.d).reshape(*x.shape[:2], index.n_heads, index.d)
    q = _turned(a, q, step)
    entries = _compressed(a, c, index.d, x, w.at("compress"), step)  # (B, W, index.d)
    s = np.maximum(step.dot(q, entries[:, None].swapaxes(-1, -2), "scores"), 0.0)  # (B, T, heads, W)
    weight = step.linear(x, w, "weights", index.n_heads)[:, :, None]  # (B, T, 1, heads)
    score = step.dot(weight, s, "scores")[:, :, 0] + mask  # (B, T, W)
    return top(score, min(index.top_k, entries.shape[1]))


def _side_by_side(window: Array, entries: Array, batch: int) -> Array:
    """The masks of the window (T, S) and of the entries (B or 1, T, W) as one: (B, T, S + W)."""
    both = [np.broadcast_to(mask, (batch, *mask.shape[-2:])) for mask in (window, entries)]
    joined: Array = np.concatenate(both, axis=-1)
    return joined
