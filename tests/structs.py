"""What an architecture is made of, found by walking from `Architecture` through the types of all fields."""

from __future__ import annotations

import typing
from collections.abc import Iterator
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

from gptcalc.architecture import Architecture, Strict


def structs(root: type[Strict] = Architecture) -> list[type[Strict]]:
    """Every struct that may stand in an architecture."""
    found: dict[type[Strict], None] = {root: None}
    queue = [root]
    for kind in queue:
        for _, declared in fields(kind):
            for inner in held(declared):
                if isinstance(inner, type) and issubclass(inner, Strict) and inner not in found:
                    found[inner] = None
                    queue.append(inner)
    return list(found)


def fields(kind: type[Strict]) -> Iterator[tuple[str, Any]]:
    """A struct's fields and what they are declared as."""
    hints = get_type_hints(kind, include_extras=True)
    return ((name, hints[name]) for name in kind.__struct_fields__)


def held(declared: Any) -> Iterator[Any]:
    """The types that a field may hold, in a tuple or alone, without what is said beside them."""
    origin = get_origin(declared)
    if origin is typing.Annotated:
        yield from held(get_args(declared)[0])
    elif origin is None or origin is typing.Literal:
        yield declared
    else:
        for inner in get_args(declared):
            if inner is not NoneType and inner is not Ellipsis:
                yield from held(inner)
