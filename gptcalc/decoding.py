"""Typed decoding of plain values, its errors turned into ours: which key, what was found, what would be right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct, convert

from gptcalc.errors import InputError, did_you_mean, printable


def typed(value: Any, type_: Any, place: str) -> Any:
    """msgspec's typed decoding, with its errors turned into ours."""
    try:
        return convert(value, type_)
    except msgspec.ValidationError as error:
        raise _explained(str(error), value, type_, place) from None


def _explained(text: str, value: Any, type_: Any, place: str) -> InputError:
    problem, _, path = text.partition(" - at `$")
    where = path.rstrip("`").lstrip(".")
    key = ".".join(word for word in (place, where) if word) or "document"
    if problem.startswith("Object contains unknown field `"):
        word = problem.split("`")[1]
        known = [f.encode_name for f in msgspec.structs.fields(_struct_at(type_, where))]
        place_of = f" in {key}" if key != "document" else ""
        return InputError(f"unknown key {printable(word)!r}{place_of}", did_you_mean(word, known), "unknown")
    if problem.startswith("Object missing required field `"):
        return InputError(f"{key + ': ' if key != 'document' else ''}{problem.split('`')[1]} is missing")
    found = _at(value, where)
    shown = f", found {printable(repr(found), 60)}" if found is not None else ""
    return InputError(f"{key}: {problem[0].lower()}{problem[1:].replace('`', '')}{shown}")


def _at(value: Any, path: str) -> Any:
    for word in path.split(".") if path else []:
        if not isinstance(value, Mapping) or word not in value:
            return None
        value = value[word]
    return value


def _struct_at(type_: Any, path: str) -> Any:
    """The struct class at a dotted path inside a struct class (the last one known, where a union hides it)."""
    for word in path.split(".") if path else []:
        fields = {f.encode_name: f.type for f in msgspec.structs.fields(type_)}
        options = getattr(fields.get(word), "__args__", (fields.get(word),))
        structs = [t for t in options if isinstance(t, type) and issubclass(t, Struct)]
        if not structs:
            break
        type_ = structs[0]
    return type_
