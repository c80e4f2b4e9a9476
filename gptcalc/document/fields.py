"""How the fields of the architecture's structs are written in a document, and what they are by default: both as the
fields declare it. The keys of a flat group stand beside its owner's; a norm that is not said is the model's.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from msgspec import NODEFAULT, Struct, to_builtins
from msgspec.structs import fields, replace

from gptcalc.architecture import Decay, Norm, QKNorm, StateGate
from gptcalc.architecture.base import types_of
from gptcalc.errors import InputError

#: groups that one word may stand for, and whose it is
WORDS: dict[type[Struct], str] = {QKNorm: "over", Decay: "over", StateGate: "function"}


class Field(Struct, frozen=True):
    """One field that holds structs."""

    key: str
    structs: tuple[type[Struct], ...]  # one, or several that differ by a tag
    usual: type[Struct] | None  # which of them it is by default
    optional: bool  # it may be None
    switch: bool  # true and false say whether it is there
    flat: frozenset[str]  # keys that stand beside the owner's
    word: str | None  # of these keys the one that may stand for all: qk_norm: head
    norm: str | None  # which norm it is by default: the model's, or that without a weight; or like the model's


@cache
def declared(struct: type[Struct]) -> tuple[Field, ...]:
    """The fields of a struct that hold structs."""
    found = []
    types, names, defaults = types_of(struct), struct.__struct_fields__, struct.__struct_defaults__
    defaults = (NODEFAULT,) * (len(names) - len(defaults)) + defaults
    for name, key, default in zip(names, struct.__struct_encode_fields__, defaults, strict=True):
        options, extra = options_of(types[name])
        structs = tuple(option for option in options if isinstance(option, type) and issubclass(option, Struct))
        if not structs:
            continue
        optional = type(None) in options
        usual = structs[0] if len(structs) == 1 else type(default)
        norm = extra.get("norm") if default is NODEFAULT or extra.get("norm") == "like" else None
        switch = optional and bool not in options
        word = WORDS.get(structs[0])
        beside = {key for option in structs for key in keys_of(option)} if extra.get("flat") else ()
        found.append(Field(key, structs, usual, optional, switch, frozenset(beside), word, norm))
    return tuple(found)


def options_of(declared_type: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What a type is a union of (or it alone), and what stands beside it."""
    extra: dict[str, Any] = {}
    for meta in getattr(declared_type, "__metadata__", ()):
        extra |= getattr(meta, "extra", None) or {}
    declared_type = getattr(declared_type, "__origin__", declared_type) if extra else declared_type
    return getattr(declared_type, "__args__", None) or (declared_type,), extra


@cache
def flat(struct: type[Struct]) -> frozenset[str]:
    """The fields whose keys stand beside the struct's own."""
    names = zip(struct.__struct_fields__, struct.__struct_encode_fields__, strict=True)
    keys = {field.key for field in declared(struct) if field.flat}
    return frozenset(name for name, key in names if key in keys)


@cache
def inherited(struct: type[Struct]) -> dict[str, str]:
    """The keys of a section that are the document's where the section doesn't say them, and what the document calls
    them; those of flat groups too."""
    found: dict[str, str] = {}
    for name, key in zip(struct.__struct_fields__, struct.__struct_encode_fields__, strict=True):
        _, extra = options_of(types_of(struct)[name])
        if "inherited" in extra:
            found[key] = extra["inherited"] or key
    for field in declared(struct):
        if field.flat:
            for option in field.structs:
                found |= inherited(option)
    return found


@cache
def keys_of(struct: type[Struct]) -> tuple[str, ...]:
    """All keys that a struct's section may have: its own and those of its flat groups."""
    flat = {field.key: field for field in declared(struct) if field.flat}
    own = [key for key in struct.__struct_encode_fields__ if key not in flat]
    inside = [key for field in flat.values() for option in field.structs for key in keys_of(option)]
    tag = struct.__struct_config__.tag_field
    return tuple(dict.fromkeys([*([tag] if tag else []), *own, *inside]))


def complete(keys: Mapping[str, Any], struct: type[Struct], norm: Norm, place: str) -> dict[str, Any]:
    """A section's keys as its struct has them: flat groups put together, norms that are not said filled in."""
    whole = dict(keys)
    for field in declared(struct):
        if field.flat:
            given = {key: whole.pop(key) for key in keys if key in field.flat}
            if field.optional and all(_says_nothing(field, key, value) for key, value in given.items()):
                continue
            whole[field.key] = _group(given, field, norm, place)
            continue
        value = whole.get(field.key)
        if value is None and field.norm is None:
            continue
        if field.optional and value == "none":  # of a section that is like one that has it
            value = whole[field.key] = None
        elif field.word is not None and isinstance(value, str):
            value = whole[field.key] = {field.word: value}
        if field.switch and isinstance(value, bool):
            value = whole[field.key] = {} if value else None
        if isinstance(value, Mapping) and field.norm == "like":
            value = whole[field.key] = _like(norm, value)
        if value is None and field.norm in ("model", "bare"):
            whole[field.key] = norm if field.norm == "model" else replace(norm, weight=False, bias=False, offset=0)
        elif isinstance(value, Mapping) and len(field.structs) == 1:
            inside = f"{place}.{field.key}" if place else field.key
            whole[field.key] = complete(value, field.structs[0], norm, inside)
    return whole


def _like(norm: Norm, keys: Mapping[str, Any]) -> dict[str, Any]:
    """A norm of the model's kind takes what it doesn't say from the model's norm, another kind only eps."""
    if keys.get("kind", norm.kind) != norm.kind or keys.get("weight", norm.weight) != norm.weight:
        return {"eps": norm.eps, "kind": norm.kind, **keys}
    return {**to_builtins(norm), **keys}


def _group(given: Mapping[str, Any], field: Field, norm: Norm, place: str) -> Mapping[str, Any]:
    """A flat group's keys, of the kind that its tag says; keys of another kind must say nothing."""
    usual = field.usual
    assert usual is not None
    config = usual.__struct_config__
    if len(field.structs) == 1 or config.tag_field is None:
        return complete(given, usual, norm, place)
    tag = given.get(config.tag_field, config.tag)
    kind = next((option for option in field.structs if option.__struct_config__.tag == tag), None)
    if kind is None:
        return {config.tag_field: tag}  # which the types refuse, with the words that they know
    others = [key for key in given if key not in keys_of(kind) and _says(given[key])]
    if others:
        raise InputError(f"{place}.{others[0]}: not a key of {config.tag_field}: {tag}")
    own = {key: value for key, value in given.items() if key in keys_of(kind)}
    return complete({config.tag_field: tag, **own}, kind, norm, place)


def _says_nothing(field: Field, key: str, value: Any) -> bool:
    """Whether a value leaves an optional group out: false of a switch, 0 of a size that may say so, none of any."""
    if value is None or value == "none":
        return True
    if value not in (False, 0):
        return False
    types = [options_of(own.type) for option in field.structs for own in fields(option) if own.encode_name == key]
    if isinstance(value, bool):
        return any(bool in options for options, _ in types)
    return any("zero" in extra for _, extra in types)


def _says(value: Any) -> bool:
    return value not in (None, False, 0, "none")
