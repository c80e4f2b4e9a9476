"""Numbers and their ranges, and the struct that every part of an architecture is."""

from __future__ import annotations

from functools import cache
from inspect import get_annotations
from typing import Annotated, Any, NamedTuple, TypeAlias

from msgspec import Meta, Struct

from gptcalc.errors import InputError

Size: TypeAlias = Annotated[int, Meta(ge=1, le=1_000_000_000)]
Count: TypeAlias = Annotated[int, Meta(ge=0, le=1_000_000_000)]
Several: TypeAlias = Annotated[int, Meta(ge=2, le=1_000_000_000)]
Depth: TypeAlias = Annotated[int, Meta(ge=1, le=1_000_000)]
Few: TypeAlias = Annotated[int, Meta(ge=2, le=64)]
Kernel: TypeAlias = Few
Positive: TypeAlias = Annotated[float, Meta(gt=0)]
Fraction: TypeAlias = Annotated[float, Meta(gt=0, le=1)]
Quantile: TypeAlias = Annotated[float, Meta(ge=0, lt=1)]

NUMBERS: dict[str, Any] = {
    "Size": Size,
    "Count": Count,
    "Several": Several,
    "Depth": Depth,
    "Few": Few,
    "Kernel": Kernel,
    "Positive": Positive,
    "Fraction": Fraction,
    "Quantile": Quantile,
}


class Strict(Struct, frozen=True, forbid_unknown_fields=True):
    """A struct that refuses keys that it doesn't have, and numbers out of their range, however it is made.

    Raises InputError, and so do its subclasses where fields contradict each other.
    """

    def __post_init__(self) -> None:
        for name, bounds in _bounded(type(self)):
            value = getattr(self, name)
            if value is not None and not bounds.hold(value):
                raise InputError(f"{type(self).__name__}.{name}: expected {bounds}, found {value!r}")


class Bounds(NamedTuple):
    """What a number may be: from `ge` or above `gt`, up to `le` or below `lt`."""

    ge: float | None
    gt: float | None
    le: float | None
    lt: float | None

    def hold(self, value: float) -> bool:
        return (
            (self.ge is None or value >= self.ge)
            and (self.gt is None or value > self.gt)
            and (self.le is None or value <= self.le)
            and (self.lt is None or value < self.lt)
        )

    def __str__(self) -> str:
        signs = {">=": self.ge, ">": self.gt, "<=": self.le, "<": self.lt}
        return " and ".join(f"{sign} {bound:,}" for sign, bound in signs.items() if bound is not None)


@cache
def _bounded(kind: type[Strict]) -> list[tuple[str, Bounds]]:
    """The fields declared as one of NUMBERS, by that name: typing's own resolution costs start-up a millisecond."""
    found: dict[str, Bounds] = {}
    for base in reversed(kind.__mro__):
        for name, declared in get_annotations(base).items():
            number = NUMBERS.get(declared.removesuffix(" | None"))
            if number is not None:
                (meta,) = number.__metadata__
                found[name] = Bounds(meta.ge, meta.gt, meta.le, meta.lt)
    return list(found.items())
