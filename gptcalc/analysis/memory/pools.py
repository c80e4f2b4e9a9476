"""What a cache keeps: equal stores of the layers of one stage."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

#: what kind of cache a store line needs; of `cross` there is one share for every source token
Kind = Literal[
    "full", "window", "chunk", "latent", "index", "compressed", "cross", "state", "conv", "shift", "open", "padding"
]

#: kinds that don't grow with the context
CONSTANT: frozenset[Kind] = frozenset({"cross", "state", "conv", "shift", "open"})
#: of these, what recurrent layers have
RECURRENT: frozenset[Kind] = frozenset({"state", "conv", "shift"})


class Pool(Struct, frozen=True):
    """Equal stores of one stage: the same layers, the same kind, the same part of the past kept."""

    name: str
    layers: int
    kind: Kind
    limit: int | None  # tokens kept; None keeps all
    elements: int  # per token and layer (of a state: per layer)
    bytes: int  # per token and layer (of a state: per layer)
    every: int = 1  # tokens that share one entry; elements and bytes are then an entry's
    taps: int = 0  # tokens that are kept before a convolution

    @property
    def grows(self) -> bool:
        return self.kind not in CONSTANT

    def has_room(self, context: int) -> bool:
        """Whether one token more than `context` adds an entry."""
        return self.limit is None or context < self.limit

    def tokens(self, context: int) -> int:
        """What the mathematics needs of `context` tokens: the last ones, or those whose entries are complete."""
        if self.every > 1:
            return context // self.every * self.every
        return context if self.limit is None else min(context, self.limit)
