"""Sizes and the struct that every part of an architecture is."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from msgspec import Meta, Struct

Size: TypeAlias = Annotated[int, Meta(ge=1, le=1_000_000_000)]

Count: TypeAlias = Annotated[int, Meta(ge=0, le=1_000_000_000)]

Depth: TypeAlias = Annotated[int, Meta(ge=1, le=1_000_000)]

Positive: TypeAlias = Annotated[float, Meta(gt=0)]

Kernel: TypeAlias = Annotated[int, Meta(ge=2, le=64)]


class Strict(Struct, frozen=True, forbid_unknown_fields=True):
    """A struct that refuses keys that it doesn't have."""
