"""One call of the forward pass: which tokens are new, what each may see, and what the layers share on the way."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from gptcalc.architecture import Rope, Temperature, TypeOf
from gptcalc.reference.cache import Cache
from gptcalc.reference.rope import angles
from gptcalc.reference.store import Weights
from gptcalc.reference.tally import Array, Kind, Tally

LatentForm: TypeAlias = Literal["auto", "absorbed", "expanded"]
#: recurrent states: token by token, in chunks as long as the mixer says, in chunks of so many tokens, or what is faster
Scan: TypeAlias = Literal["auto", "recurrent", "chunked"] | int

LONG = 256  # tokens from which on recurrent states are computed in chunks


class Handed(NamedTuple):
    """What layers leave for those behind them, beside the stream."""

    shared: dict[str, dict[str, Array]]
    router: Array | None
    values: Array | None
    choice: Array | None


BLOCK = 128  # queries that are computed together, where there are more


class Step:
    """T new tokens at positions start … start + T − 1, after those that the cache holds."""

    def __init__(
        self,
        tokens: Array,
        cache: Cache,
        tally: Tally,
        context: int,
        weights: Weights,
        form: LatentForm,
        source: Array | None = None,
        *,
        scan: Scan = "auto",
        context_states: tuple[Array, Step] | None = None,
        images: Array | None = None,
        canvas: bool = False,
    ) -> None:
        """`weights` are those of the stack, `source` is an encoder's output that cross-attention has not seen yet,
        `context_states` what a target made of tokens that this step's stand behind, and the step of those; `images`
        says which tokens are an image's (T,), none where it isn't given; `canvas`: they are a block's that is denoised
        at once, and see each other."""
        self.cache = cache
        self.tally = tally
        self.context = context
        self.dtype = weights.dtype
        self.form = form
        self.scan: Scan = scan
        self.context_states = context_states
        self.start = cache.length if context_states is None else context_states[1].length
        self.new: int = tokens.shape[1]
        self.length: int = self.start + self.new
        self.prompt: int = cache.prompt or self.new  # tokens of the first pass
        self.tokens = tokens  # (B, T)
        self.canvas = canvas
        self.images: Array = np.zeros(self.new, bool) if images is None else images  # (T,)
        self.positions: Array = np.arange(self.start, self.length, like=tokens)  # (T,)
        self.memory = weights.memory
        self.weights = weights
        self.source = source  # (B, N, d of the encoder)
        self.frequencies: Array | None = None  # learned factors of the rotation's frequencies
        self.sums: int | None = None  # where residuals are averaged: how many summands the stream has
        self.layer, self.n_layers = 0, 1  # the number of the layer that runs, and of all
        self.place = ""  # the sublayer that runs, for who watches
        self.attention: list[Array] | None = None  # filled with (B, n_heads, T, S) per sublayer where asked for
        self.sums_aside: list[Array] = []  # with attention residuals: what the stream was, (B, T, d) each
        self.number_of_pass = 0  # of a loop, the one that runs
        self.loop_entry: tuple[Array, list[Array]]  # what its first pass began with: the stream and what it had been
        self.states: dict[str, Array] = {}  # of layers at two speeds
        self.heard: list[Array] = []  # the sums that its last pass left
        self.shared: dict[str, dict[str, Array]] = {}  # by section: its last keys and values
        self.type_of: TypeOf | None = None  # which type a token has; all the first
        self.router: Array | None = None  # what the last router of several layers began with
        self.embedded: Array | None = None  # what the tokens entered as, (B, T, d)
        self.values: Array | None = None  # those of the last mixer that gives its own to the ones behind it
        self.choice: Array | None = None  # the last indexer's choice of keys
        self._angles: dict[tuple[Rope, int], tuple[Array, Array]] = {}
        self._masks: dict[tuple[int, int | None, int | None, bool], Array] = {}

    @property
    def handed(self) -> Handed:
        return Handed(dict(self.shared), self.router, self.values, self.choice)

    @handed.setter
    def handed(self, of_another: Handed) -> None:
        shared, self.router, self.values, self.choice = of_another
        self.shared = dict(shared)

    def history(self, n: int, nothing: int) -> Array:
        """The n tokens before the new ones, `nothing` where there are none, and the new ones: (B, n + T)."""
        held = self.cache.tokens
        blank = np.broadcast_to(self.tokens[:, :1] * 0 + nothing, (self.tokens.shape[0], n))
        whole = np.concatenate([blank, self.tokens] if held is None else [blank, held, self.tokens], axis=1)
        return whole[:, whole.shape[1] - n - self.new :]

    def types(self, tokens: Array) -> Array:
        """The type of each token."""
        if self.type_of is None:
            return tokens * 0
        found: Array = np.where(tokens >= self.type_of.special, 0, self.type_of.other)
        return found

    def note(self, name: str, array: Array) -> None:
        """Something that this sublayer computes, for whoever wants to see it."""
        self.tally.noted(f"{self.place}{name}", array)

    def dot(self, a: Array, b: Array, kind: Kind = "weights") -> Array:
        return self.tally.dot(a, b, kind, self.memory.latest if kind == "weights" else f"{self.place}{kind}")

    def linear(self, x: Array, w: Weights, name: str, n: int, bias: bool = False) -> Array:
        """x · W + b, from x's last axis to n channels."""
        y = self.dot(x, w(name, x.shape[-1], n))
        if bias:
            y += w(f"{name}.bias", n)
        return y

    @property
    def at_once(self) -> bool:
        """Whether all queries are computed together: few, without data, or so that all that comes of it can be seen."""
        seen_whole = self.tally.watched or self.attention is not None or not isinstance(self.tokens, np.ndarray)
        return seen_whole or self.canvas or self.new <= BLOCK

    def blocks(self, keys: int, window: int | None, chunk: int | None, causal: bool) -> Iterator[tuple[slice, slice]]:
        """Some queries after the other, and the keys that any of them sees, of the newest so many."""
        first = self.length - keys  # the oldest key's position
        for t in range(0, self.new, BLOCK):
            rows = slice(t, min(t + BLOCK, self.new))
            oldest, newest = self.start + rows.start, self.start + rows.stop - 1
            begin, end = first, self.length
            if window is not None:
                begin, end = oldest - window + 1, min(newest + window, end)
            if causal:
                begin = begin if chunk is None else oldest // chunk * chunk
                end = newest + 1
            yield rows, slice(max(begin - first, 0), end - first)

    def chunk(self, own: int) -> int | None:
        """Tokens of a chunk of recurrent states, of a mixer whose own are so many; None: token by token."""
        if self.scan == "auto":
            return own if self.new > LONG else None
        if self.scan == "recurrent" or self.new == 1:
            return None
        return own if self.scan == "chunked" else self.scan

    def own(self) -> Weights:
        """What the layer that runs has for itself of a sublayer whose other weights layers share."""
        return self.weights.root.at(self.place.rstrip("."))

    def joined(self, x: Array, y: Array) -> Array:
        """The stream x with one more summand; where residuals are averaged, all summands weigh the same."""
        if self.sums is None:
            return x + y
        self.sums += 1
        both: Array = x * math.sqrt(1 - 1 / self.sums) + y * math.sqrt(1 / self.sums)
        return both

    def angles(self, rope: Rope, r: int) -> tuple[Array, Array]:
        """cos and sin (T, r/2) for this step's positions, computed once for all layers that turn alike."""
        if (rope, r) not in self._angles:
            own, length = r // rope.axes, self.length
            axes = [angles(at, rope, own, length, self.context, self.frequencies) for at in self.places(rope)]
            cos, sin = (np.concatenate(parts, axis=-1) for parts in zip(*axes, strict=True))
            self._angles[rope, r] = cos.astype(self.dtype), sin.astype(self.dtype)
        return self._angles[rope, r]

    def places(self, rope: Rope) -> list[Array]:
        """What turns the channels of each axis: positions; or those in the prompt, and those behind it."""
        if rope.axes == 1:
            return [self.positions]
        last = self.prompt - 1
        return [np.minimum(self.positions, last), np.maximum(self.positions - last, 0)]

    def temperature(self, t: Temperature) -> Array:
        """The factor of each position's query, (T, 1, 1)."""
        steps = (self.positions + t.shift) / t.floor
        if t.form == "beyond":
            beyond: Array = np.log(np.maximum(steps, 1.0)) * t.scale + 1.0
            return beyond.astype(self.dtype)[:, None, None]
        factor: Array = (steps + 1.0) ** t.scale if t.form == "power" else np.log(np.floor(steps) + 1.0) * t.scale + 1.0
        return factor.astype(self.dtype)[:, None, None]

    def ssmax(self, w: Weights, n_heads: int) -> Array:
        """Scalable softmax (arXiv:2501.19399): s·ln(position + 1) + b for every head, (T, n_heads, 1)."""
        growth = np.log(self.positions + 1.0).astype(self.dtype)[:, None, None]
        scale, bias = w("scale", n_heads), w("bias", n_heads)
        factor: Array = growth * scale.reshape(n_heads, 1) + bias.reshape(n_heads, 1)
        return factor

    def log_growth(self, length: int) -> Array:
        """ln(position) / ln(length) beyond `length`, 1 before: (T, 1, 1)."""
        factor: Array = (np.log(np.maximum(self.positions, length)) * (1 / math.log(length))).astype(self.dtype)
        return factor[:, None, None]

    def reach(self, window: int | None, chunk: int | None) -> int:
        """How many positions back from the newest, itself included, the newest token sees."""
        if chunk is not None:
            return (self.length - 1) % chunk + 1
        return self.length if window is None else min(window, self.length)

    def needed(self, window: int | None, chunk: int | None) -> int:
        """How many of the newest positions any of the new tokens sees: the first one's reach and all after it."""
        if chunk is not None:
            return self.start % chunk + self.new
        return self.length if window is None else min(window - 1 + self.new, self.length)

    def mask(self, keys: int, window: int | None, chunk: int | None, causal: bool = True) -> Array | None:
        """0 where query t may see key s, else −∞: (T, S) for the newest S positions; None where all may be seen."""
        if (causal and self.new == 1) or (not causal and window is None) or self.canvas:
            return None
        if (keys, window, chunk, causal) not in self._masks:
            visible = self.visible(self.distance(keys), window, causal)
            if chunk is not None:
                k = np.arange(self.length - keys, self.length, like=self.tokens)[None, :]
                visible &= k // chunk == self.positions[:, None] // chunk
            mask: Array = np.where(visible, 0.0, -math.inf).astype(self.dtype)
            self._masks[keys, window, chunk, causal] = mask
        return self._masks[keys, window, chunk, causal]

    @staticmethod
    def visible(distance: Array, window: int | None, causal: bool) -> Array:
        """Which keys a query sees that lie so far before it, or behind it where that is negative."""
        seen: Array = distance >= 0 if causal else distance > -(window or 0)
        return seen if window is None else seen & (distance < window)

    def distance(self, keys: int) -> Array:
        """How far each of the newest keys lies before each query, (T, S)."""
        k = np.arange(self.length - keys, self.length, like=self.tokens)
        far: Array = self.positions[:, None] - k[None, :]
        return far

    def alibi(self, n_heads: int, keys: int) -> Array:
        """Attention with linear biases (arXiv:2108.12409): −slope · distance, (n_heads, 1 or T, S)."""
        distance = self.distance(keys)
        slopes = np.array(alibi_slopes(n_heads))[:, None, None]
        bias: Array = (distance * -slopes).astype(self.dtype)
        return bias


def alibi_slopes(n_heads: int) -> list[float]:
    """2^(−8/n), 2^(−16/n), …; where n is no power of two, the rest are every other slope of twice as many heads."""
    n = 2 ** int(math.log2(n_heads))
    slopes = [2 ** (-8 * (i + 1) / n) for i in range(n)]
    between = [2 ** (-4 * (i + 1) / n) for i in range(0, 2 * (n_heads - n), 2)]
    return slopes + between
