"""Numbers: what each may be and what it is in a small copy of a model, declared once, at the field; and the struct that
every part of an architecture is."""

from collections.abc import Mapping
from functools import cache
from types import NoneType
from typing import Annotated, Any, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

from msgspec import Meta, Struct

from gptcalc.errors import InputError


class Small(Struct, frozen=True):
    """How large a number is in a small copy: at least `least`, a multiple of `step`, another number than those of other
    fields; as it was where it was less. Fields with the same `word` that are equally large stay so."""

    least: int
    step: int = 1
    word: str = ""


class AtMost(Struct, frozen=True):
    """What a number is in a small copy where it was more."""

    most: float


class Multiple(Struct, frozen=True):
    """A number that is a multiple of another field of its struct, in a small copy, too: so many times `least`, or as
    often as it was where that was less."""

    of: str
    least: int = 2


class Kept(Struct, frozen=True):
    """A number that a small copy has as it was: it is bounded, or nothing is so large."""


Size: TypeAlias = Annotated[int, Meta(ge=1, le=1_000_000_000)]
#: a size of an optional group that says with 0 that the group is not there
OrNone: TypeAlias = Annotated[int, Meta(ge=1, le=1_000_000_000, extra={"zero": "none"})]
Count: TypeAlias = Annotated[int, Meta(ge=0, le=1_000_000_000)]
Several: TypeAlias = Annotated[int, Meta(ge=2, le=1_000_000_000)]
Depth: TypeAlias = Annotated[int, Meta(ge=1, le=1_000_000), Kept()]  # as many as there are kinds of layers
Few: TypeAlias = Annotated[int, Meta(ge=2, le=64)]
Times: TypeAlias = Annotated[int, Meta(ge=1, le=1_000)]  # of what is done again and again
Kernel: TypeAlias = Annotated[Few, Kept()]
Width: TypeAlias = Annotated[int, Meta(ge=1, le=64), Kept()]  # of a convolution that may see its own token alone
Positive: TypeAlias = Annotated[float, Meta(gt=0)]
Fraction: TypeAlias = Annotated[float, Meta(gt=0, le=1)]
Quantile: TypeAlias = Annotated[float, Meta(ge=0, lt=1), AtMost(0.75)]  # so that some of few values lie above it

Stream: TypeAlias = Annotated[Size, Small(11, word="d")]  # channels of a stream, or of what is read and written beside
Vocabulary: TypeAlias = Annotated[Size, Small(61, word="v")]
Length: TypeAlias = Annotated[Size, AtMost(48)]  # of a whole text
Heads: TypeAlias = Annotated[Size, Small(2)]
Paired: TypeAlias = Annotated[Size, Small(8, step=2)]  # channels of a head, of which pairs may turn
Turned: TypeAlias = Annotated[Size, Small(40)]  # of an indexer's head: no fewer than of another head turn, if need be
Narrow: TypeAlias = Annotated[Size, Small(3)]  # channels of a head or of a bottleneck
Inner: TypeAlias = Annotated[Size, Small(5)]  # channels inside a layer
Window: TypeAlias = Annotated[Size, AtMost(3)]
Chunk: TypeAlias = Annotated[Size, AtMost(4)]
Choices: TypeAlias = Annotated[Size, AtMost(2)]  # how many of several are chosen

Group = TypeVar("Group")
#: a struct whose keys stand beside its owner's in a document, as papers list them
Flat: TypeAlias = Annotated[Group, Meta(extra={"flat": True})]
#: what a section doesn't say of a field is what the document says of all, under the same key
Inherited: TypeAlias = Annotated[Group, Meta(extra={"inherited": ""})]


class Strict(Struct, frozen=True, forbid_unknown_fields=True):
    """A struct that refuses keys that it doesn't have, and numbers out of their range, however it is made.

    Raises InputError, and so do its subclasses where fields contradict each other.
    """

    def __post_init__(self) -> None:
        for name, number in numbers(type(self)).items():
            value = getattr(self, name)
            if value is None:
                continue
            if not number.bounds.hold(value):
                raise InputError(f"{type(self).__name__}.{name}: expected {number.bounds}, found {value!r}")
            if isinstance(number.small, Multiple):
                of = getattr(self, number.small.of)
                if of and value % of:  # 0 is out of its own bounds
                    place = getattr(self, "section", type(self).__name__)
                    raise InputError(f"{place}: {name} = {value} is not a multiple of {number.small.of} = {of}")


def exclude(place: str, others: Mapping[str, object]) -> None:
    """InputError where something is used that is not defined together with what stands at `place`."""
    for key, used in others.items():
        if used:
            raise InputError(f"{place}: not defined together with {key}")


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


class Number(Struct, frozen=True):
    """What is declared of a field that holds a number, or that or nothing."""

    bounds: Bounds
    small: Small | AtMost | Multiple | Kept | None  # None: of a real number that is no size


NO_BOUNDS = Bounds(None, None, None, None)


@cache
def types_of(kind: type[Struct]) -> dict[str, Any]:
    """The types of a struct's fields, those it inherits in front. They are evaluated where they are declared, but for
    a few that name a struct which comes later."""
    found: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        found |= getattr(base, "__annotations__", {})  # its own alone
    return get_type_hints(kind, include_extras=True) if any(isinstance(one, str) for one in found.values()) else found


@cache
def numbers(kind: type[Strict]) -> dict[str, Number]:
    """The fields of a struct that hold a number with bounds."""
    found: dict[str, Number] = {}
    for name, declared in types_of(kind).items():
        origin: object = get_origin(declared)
        options = get_args(declared) if origin is Union else (declared,)
        held = [option for option in options if option is not NoneType]
        said = getattr(held[0], "__metadata__", ()) if len(held) == 1 else ()
        bounds = [Bounds(meta.ge, meta.gt, meta.le, meta.lt) for meta in said if isinstance(meta, Meta)]
        if bounds and bounds[0] != NO_BOUNDS:
            found[name] = Number(bounds[0], next((m for m in reversed(said) if not isinstance(m, Meta)), None))
    return found
