"""Typed decoding of plain values, its errors turned into ours: which key, what was found, what would be right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_origin

import msgspec
from msgspec import Struct, convert

from gptcalc.document.fields import declared, keys_of, options_of
from gptcalc.errors import InputError, did_you_mean, printable, whole_characters


def typed(value: Any, type_: Any, place: str) -> Any:
    """msgspec's typed decoding, with its errors turned into ours."""
    try:
        return convert(value, type_)
    except UnicodeEncodeError:  # a word of a command line in another encoding, or of Python
        return typed(whole_characters(value), type_, place)
    except msgspec.ValidationError as error:
        raise _explained(str(error), value, type_, place) from None


def _explained(text: str, value: Any, type_: Any, place: str) -> InputError:
    problem, _, path = text.partition(" - at `$")
    where = path.rstrip("`").lstrip(".")
    key = ".".join([*([place] if place else []), *_shown(type_, where)]) or "document"
    if problem.startswith("Object contains unknown field `"):
        word = problem.split("`")[1]
        known = keys_of(_struct_at(type_, where))
        place_of = f" in {key}" if key != "document" else ""
        return InputError(f"unknown key {printable(word)!r}{place_of}", did_you_mean(word, known), "unknown")
    if problem.startswith("Object missing required field `"):
        return InputError(f"{key + ': ' if key != 'document' else ''}{problem.split('`')[1]} is missing")
    if problem.startswith("Invalid ") and "value " in problem:
        word = problem.partition("value ")[2].strip("'")
        words = [str(word) for word in _words(_type_at(type_, where)) or _tags(type_, where)]
        hint = did_you_mean(word, words) or f"known are {', '.join(words)}"
        return InputError(f"{key}: unknown value {printable(word)!r}", hint, "unknown")
    found = _at(value, where)
    shown = f", found {printable(repr(found), 60)}" if found is not None else ""
    return InputError(f"{key}: {problem[0].lower()}{problem[1:].replace('`', '')}{shown}")


def _shown(type_: Any, path: str) -> list[str]:
    """The words of a path that stand in a document: not those of flat groups."""
    shown = []
    for word in path.split(".") if path else []:
        if not _is_flat(type_, word):
            shown.append(word)
        type_ = _struct_at(type_, word)
    return shown


def _is_flat(type_: Any, word: str) -> bool:
    if not (isinstance(type_, type) and issubclass(type_, Struct)):
        return False
    return any(field.flat and field.key == word for field in declared(type_))


def _at(value: Any, path: str) -> Any:
    for word in path.split(".") if path else []:
        if not isinstance(value, Mapping) or word not in value:
            return None
        value = value[word]
    return value


def _struct_at(type_: Any, path: str) -> Any:
    """The struct class at a dotted path inside a struct class (the last one known, where a union hides it)."""
    for word in path.split(".") if path else []:
        structs = [t for t in _options(_field(type_, word)) if isinstance(t, type) and issubclass(t, Struct)]
        if not structs:
            break
        type_ = structs[0]
    return type_


def _type_at(type_: Any, path: str) -> Any:
    """The type of the field at a dotted path inside a struct class."""
    above, _, name = path.rpartition(".")
    return _field(_struct_at(type_, above), name.partition("[")[0])


def _tags(type_: Any, path: str) -> list[Any]:
    """The tags of the structs of which the one at this path says which it is."""
    union = _options(_type_at(type_, path.rpartition(".")[0]))
    return [t.__struct_config__.tag for t in union if isinstance(t, type) and issubclass(t, Struct)]


def _field(type_: Any, name: str) -> Any:
    return next((f.type for f in msgspec.structs.fields(type_) if f.encode_name == name), None)


def _options(type_: Any) -> tuple[Any, ...]:
    """What a union is a union of; anything else alone."""
    return options_of(type_)[0]


def _words(type_: Any) -> list[Any]:
    """All values of the literals in a type, however deep they stand."""
    if get_origin(type_) is Literal:
        return list(type_.__args__)
    return [word for inner in getattr(type_, "__args__", ()) for word in _words(inner)]
