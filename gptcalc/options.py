"""What a field of a struct is to a user: an option of the command line, a keyword argument of a function, and the check
that both share.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Concatenate, Literal, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

from msgspec import Struct

from gptcalc.errors import InputError, did_you_mean, printable

KINDS = {str: "a word", bool: "true or false"}
UNIONS = (Union, UnionType)  # one is of types, the other of what typing adds
FIELDS, DEFAULTS = "__struct_fields__", "__struct_defaults__"

P = ParamSpec("P")
A = TypeVar("A")
H = TypeVar("H", bound=Struct)
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


class Option(Struct, frozen=True):
    """How a field is spelled and explained on the command line."""

    help: str
    metavar: str = "N"
    also: tuple[str, ...] = ()  # further spellings
    least: int = 1  # of a whole number
    is_size: bool = False  # bytes, written with their unit
    words: tuple[tuple[str, int], ...] = ()  # numbers that have a name
    name: str = ""  # its first spelling, where that is not the field's
    read: Callable[[Any], Any] | None = None  # makes a value of a word, or raises InputError; None: as its type says
    positional: bool = False  # an argument: its place says what it is


def spelled(name: str) -> str:
    """A field as an option: kv_dtype is --kv-dtype."""
    return "--" + name.replace("_", "-")


@cache
def declared(kind: type[Struct]) -> dict[str, Any]:
    """A struct's fields with their annotations."""
    return get_type_hints(kind, include_extras=True)


@cache
def defaults(kind: type[Struct]) -> dict[str, Any]:
    """A struct's fields, which all have one, with their defaults."""
    return dict(zip(getattr(kind, FIELDS), getattr(kind, DEFAULTS), strict=True))


@cache
def plain(annotation: Any) -> tuple[Any, bool, Option]:
    """What a field may be beside None, whether it may be None, and its option."""
    option = next((mark for mark in getattr(annotation, "__metadata__", ()) if isinstance(mark, Option)), Option(""))
    kind = get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
    kinds = [part for part in get_args(kind) if part is not NoneType] if get_origin(kind) in UNIONS else [kind]
    return kinds[0] if len(kinds) == 1 else kind, kind != kinds[0] and len(kinds) == 1, option


def choices(kind: Any) -> tuple[Any, ...]:
    """The values of a Literal; of anything else none."""
    return get_args(kind) if get_origin(kind) is Literal else ()


def check(place: str, annotation: Any, value: Any) -> None:
    """InputError where a value is not what the field may be."""
    kind, optional, option = plain(annotation)
    if value is None and optional:
        return
    problem, hint = _problem(kind, option, value)
    if problem:
        raise InputError(f"{place}: {printable(str(value))!r} {problem}", hint, "usage")


def _problem(kind: Any, option: Option, value: Any) -> tuple[str, str | None]:
    known = choices(kind)
    if known:
        words = ", ".join(map(str, known))
        is_one = any(value == choice and type(value) is type(choice) for choice in known)
        return ("", None) if is_one else (f"is not one of {words}", did_you_mean(str(value), map(str, known)))
    if kind is int:
        if isinstance(value, bool) or not isinstance(value, int):
            return "is not a whole number", None
        if value >= option.least:
            return "", None
        from gptcalc import units

        return ("is less than 1", None) if value == 0 else ("is not a whole number", units.WHOLE)
    if not isinstance(value, kind):
        return f"is not {KINDS.get(kind, 'a number')}", None
    return ("says nothing", None) if isinstance(value, str) and not value.strip() else ("", None)


def check_fields(struct: Struct) -> None:
    """InputError where a field is not what it may be. What is the default is: most are."""
    kind = type(struct)
    for name, default in defaults(kind).items():
        value = getattr(struct, name)
        if value is not default:
            check(spelled(name), declared(kind)[name], value)


def keywords(how: Callable[P, H], function: Callable[[A, H], T]) -> Callable[Concatenate[A, P], T]:
    """An analysis that takes the fields of its conventions as keyword arguments. The type checker sees each of them."""

    def by_keyword(model: A, /, *args: P.args, **options: P.kwargs) -> T:
        return function(model, how(*args, **options))

    by_keyword.__name__ = by_keyword.__qualname__ = function.__name__
    by_keyword.__doc__ = function.__doc__
    return by_keyword


def documented(function: F, how: Callable[..., Struct]) -> F:
    """A function that takes fields as keyword arguments, with a signature that names them, for `help`."""
    import inspect

    kinds: dict[str, Any] = {}
    for base in reversed(getattr(how, "__mro__", ())):
        kinds |= getattr(base, "__annotations__", {})  # its own alone
    given = inspect.signature(function).parameters.values()
    own = [p.replace(annotation=p.empty) for p in given if p.kind is p.POSITIONAL_ONLY]
    shared = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kinds[name])
        for name, default in zip(getattr(how, FIELDS), getattr(how, DEFAULTS), strict=True)
    ]
    function.__signature__ = inspect.Signature([*own, *shared])  # type: ignore[attr-defined]
    return function
