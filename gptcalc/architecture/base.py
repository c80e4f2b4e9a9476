"""Numbers and their ranges, and the struct that every part of an architecture is."""

from functools import cache
from inspect import get_annotations
from types import NoneType
from typing import Annotated, TypeAlias, TypeVar, Union, get_args, get_origin

from msgspec import Meta, Struct

from gptcalc.errors import InputError

Size: TypeAlias = Annotated[int, Meta(ge=1, le=1_000_000_000)]
#: a size of an optional group that says with 0 that the group is not there
OrNone: TypeAlias = Annotated[int, Meta(ge=1, le=1_000_000_000, extra={"zero": "none"})]
Count: TypeAlias = Annotated[int, Meta(ge=0, le=1_000_000_000)]
Several: TypeAlias = Annotated[int, Meta(ge=2, le=1_000_000_000)]
Depth: TypeAlias = Annotated[int, Meta(ge=1, le=1_000_000)]
Few: TypeAlias = Annotated[int, Meta(ge=2, le=64)]
Times: TypeAlias = Annotated[int, Meta(ge=1, le=1_000)]  # of what is done again and again
Kernel: TypeAlias = Few
Width: TypeAlias = Annotated[int, Meta(ge=1, le=64)]  # of a convolution that may see its own token alone
Positive: TypeAlias = Annotated[float, Meta(gt=0)]
Fraction: TypeAlias = Annotated[float, Meta(gt=0, le=1)]
Quantile: TypeAlias = Annotated[float, Meta(ge=0, lt=1)]

Group = TypeVar("Group")
#: a struct whose keys stand beside its owner's in a document, as papers list them
Flat: TypeAlias = Annotated[Group, Meta(extra={"flat": True})]


class Strict(Struct, frozen=True, forbid_unknown_fields=True):
    """A struct that refuses keys that it doesn't have, and numbers out of their range, however it is made.

    Raises InputError, and so do its subclasses where fields contradict each other.
    """

    def __post_init__(self) -> None:
        for name, bounds in _bounded(type(self)):
            value = getattr(self, name)
            if value is not None and not bounds.hold(value):
                raise InputError(f"{type(self).__name__}.{name}: expected {bounds}, found {value!r}")


class Bounds(Struct, frozen=True):
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
    """The fields that hold a number with bounds, or that or nothing."""
    found: dict[str, Bounds] = {}
    for base in reversed(kind.__mro__):
        for name, declared in get_annotations(base).items():
            origin: object = get_origin(declared)
            options = get_args(declared) if origin is Union else (declared,)
            numbers = [option for option in options if option is not NoneType]
            for meta in getattr(numbers[0], "__metadata__", ()) if len(numbers) == 1 else ():
                if meta.extra is None:
                    found[name] = Bounds(meta.ge, meta.gt, meta.le, meta.lt)
    return list(found.items())
