"""Where weights come from. They are discovered, not declared: they exist because the forward pass asks for them.

w = Weights(RandomStore(seed=0)).at("layers.0.attn")
w("q", d, n_heads * d_head)          # the matrix layers.0.attn.q, of exactly that shape
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from math import prod, sqrt
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike

from gptcalc.errors import InputError
from gptcalc.reference.shapes import shape_only
from gptcalc.reference.tally import Array

Shape = tuple[int, ...]

#: a large prime: numbers of tokens times it are spread well over any number of places
SPREAD = 2_654_435_761


#: tables whose rows are looked up: no matrix sums over their first index
ROWS = ("embedding.token", "embedding.position", "embedding.types", "ple.token", "relative.table")


class Store(Protocol):
    """Anything that gives the array of a key, in the layout (inputs..., outputs...)."""

    def get(self, key: str, shape: Shape) -> Array: ...


class ShapeStore:
    """Weights without data."""

    def __init__(self, dtype: DTypeLike = np.float32) -> None:
        self.dtype = dtype

    def get(self, key: str, shape: Shape) -> Array:  # noqa: ARG002
        return shape_only(shape, self.dtype)


class RandomStore:
    """Seeded weights of a size that keeps activations near 1; each depends on the seed and its own key only."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def get(self, key: str, shape: Shape) -> Array:
        random = np.random.Generator(np.random.PCG64([self.seed, zlib.crc32(key.encode())]))
        noise = random.standard_normal(shape, dtype=np.float32)
        if key.removeprefix("encoder.").startswith(ROWS):
            return noise
        if _is_vector(key, shape):
            noise *= np.float32(0.2)
            if "norm.weight" in key or key.endswith(("_scale", "layer_scalar")):
                noise += np.float32(1)
            return noise
        noise *= np.float32(1 / sqrt(shape[-2]))
        return noise


def _is_vector(key: str, shape: Shape) -> bool:
    return len(shape) < 2 or key.endswith(".bias") or "norm.weight" in key


class MappingStore:
    """Weights from a mapping of key -> array."""

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        self.arrays = arrays

    def get(self, key: str, shape: Shape) -> Array:
        if key not in self.arrays:
            raise InputError(f"there is no weight {key} of shape {shape}", kind="checkpoint")
        array = self.arrays[key]
        if array.shape != shape:
            raise InputError(f"weight {key} has shape {array.shape}, the model needs {shape}", kind="checkpoint")
        return array


@dataclass
class Memory:
    """What all the weights of one model share: everything that was asked for."""

    asked: dict[str, Shape] = field(default_factory=dict)
    arrays: dict[str, Array] = field(default_factory=dict)
    picked: dict[str, int] = field(default_factory=dict)  # of a stack of experts, how many a token uses
    idle: set[str] = field(default_factory=set)  # what no token passed
    latest: str = ""


class Weights:
    """The weights under one prefix of a store; remembers the shape of everything that was asked for, and the array."""

    def __init__(
        self, store: Store, dtype: DTypeLike = np.float32, prefix: str = "", memory: Memory | None = None
    ) -> None:
        self.store = store
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self.prefix = prefix
        self.memory = memory or Memory()

    @property
    def asked(self) -> dict[str, Shape]:
        """Every key that was asked for, with its shape."""
        return self.memory.asked

    @property
    def arrays(self) -> dict[str, Array]:
        """Every array that was asked for."""
        return self.memory.arrays

    def borrowed(self, name: str, *shape: int) -> Array:
        """A table of another model, the target of a draft: not among what this one asks for."""
        key = f"target.{name}"
        self.memory.latest = key
        if key not in self.arrays:
            self.arrays[key] = self.store.get(key, shape).astype(self.dtype, copy=False)
        return self.arrays[key]

    def at(self, name: str) -> Weights:
        """The weights whose keys start with `name.`"""
        return Weights(self.store, self.dtype, f"{self.prefix}{name}.", self.memory)

    def __call__(self, name: str, *shape: int) -> Array:
        key, memory = self.prefix + name, self.memory
        memory.latest = key
        array = memory.arrays.get(key)
        if array is None:
            array = memory.arrays[key] = self.store.get(key, shape).astype(self.dtype, copy=False)
            memory.asked[key] = shape
        elif memory.asked[key] != shape:
            raise ValueError(f"{key} was asked for as {memory.asked[key]} and as {shape}")
        return array

    def chosen(self, name: str, index: Array, *shape: int) -> Array:
        """The chosen experts' share of a stack: (n_experts, …) and index (B, T, k) -> (B, T, k, …)."""
        stack = self(name, *shape)
        self.memory.picked[self.prefix + name] = index.shape[-1]
        picked: Array = np.take(stack, index, axis=0)
        return picked

    def passed_by_none(self, known: Collection[str]) -> None:
        """What has been asked for here, and wasn't known before, was for no token."""
        self.memory.idle |= {key for key in self.asked if key.startswith(self.prefix) and key not in known}

    def listed(self, name: str, tokens: Array, k: int, n: int) -> Array:
        """For each token (B, T) the k of n numbers that a fixed table has for it: (B, T, k).

        The table is no weight: a checkpoint has it, any other store stands for k neighbours at the token's place.
        """
        table = self.fixed(name)
        if table is not None:
            return np.take(table, tokens, axis=0)
        place = tokens[..., None] * SPREAD + np.arange(k)
        listed: Array = place - place // n * n
        return listed

    def fixed(self, name: str) -> Array | None:
        """A buffer that a checkpoint has and that is no weight; None where there is none."""
        find = getattr(self.store, "buffer", None)
        found: Array | None = find(self.prefix + name) if find is not None else None
        return found

    @property
    def root(self) -> Weights:
        """All weights, without a prefix."""
        return Weights(self.store, self.dtype, "", self.memory)

    @property
    def touched(self) -> int:
        """How many parameters one token's forward pass touched: of every stack of experts those chosen."""
        return sum(
            prod(shape) if key not in self.memory.picked else prod(shape[1:]) * self.memory.picked[key]
            for key, shape in self.asked.items()
            if key not in self.memory.idle
        )

    @property
    def count(self) -> int:
        """How many parameters were asked for so far."""
        return sum(map(prod, self.asked.values()))
