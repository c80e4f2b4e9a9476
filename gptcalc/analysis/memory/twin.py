"""A run beside another one that differs from it in a few things."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


def twin(run: T) -> T:
    """A shallow copy. The module `copy` would import weak references, which a start does without."""
    other: T = object.__new__(type(run))
    vars(other).update(vars(run))
    return other
