"""What the architecture's structs declare about how their fields are written and what they are by default."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from msgspec import NODEFAULT, Struct
from msgspec.structs import fields, replace

from gptcalc.architecture import Norm


class Field(NamedTuple):
    """One field, by the key that it has in a document."""

    key: str
    structs: tuple[type[Struct], ...]  # what it may hold: one struct, or several that differ by a tag
    required: bool
    default: str | None  # which norm it is where the document doesn't say: the model's, or that without a weight


@cache
def declared(struct: type[Struct]) -> tuple[Field, ...]:
    """The fields of a struct that hold structs."""
    found = []
    for field in fields(struct):
        options, default = _options(field.type)
        structs = tuple(option for option in options if isinstance(option, type) and issubclass(option, Struct))
        if structs:
            required = field.default is NODEFAULT and field.default_factory is NODEFAULT
            found.append(Field(field.encode_name, structs, required, default))
    return tuple(found)


def _options(declared_type: Any) -> tuple[tuple[Any, ...], str | None]:
    """What a type is a union of (or it alone), and the default that stands beside it."""
    default = None
    for meta in getattr(declared_type, "__metadata__", ()):
        default = (meta.extra or {}).get("default", default)
        declared_type = declared_type.__origin__
    return getattr(declared_type, "__args__", None) or (declared_type,), default


def with_norms(keys: Mapping[str, Any], struct: type[Struct], norm: Norm) -> dict[str, Any]:
    """A struct's keys with all norms that they leave to the model, in the structs inside, too."""
    whole = dict(keys)
    for field in declared(struct):
        value = whole.get(field.key)
        if value is None and field.default is not None and field.required:
            whole[field.key] = norm if field.default == "model" else replace(norm, weight=False, bias=False, offset=0)
        elif isinstance(value, Mapping) and len(field.structs) == 1:
            whole[field.key] = with_norms(value, field.structs[0], norm)
    return whole
