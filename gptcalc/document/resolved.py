"""A document with every default filled in: what each key and section is where nothing was said."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct, to_builtins

from gptcalc.architecture import Architecture, Mixer, Norm
from gptcalc.document import ABOUT, CORE, KINDS, build, split
from gptcalc.document.builder import Builder
from gptcalc.document.fields import declared
from gptcalc.errors import InputError

#: of a sublayer: its section and its kind, which its name and `like` say
UNSAID = ("section", "sublayer")


def resolved(document: Mapping[str, Any]) -> dict[str, Any]:
    """The same model with all its keys. What a key's absence alone can say (a section without a norm of its own, say,
    beside another with one) stays absent."""
    whole = build(document)
    full = dict(document)
    for place, keys in _candidates(document, whole):
        full = _filled(full, place, keys, whole)
    return full


def _filled(document: dict[str, Any], place: str, keys: dict[str, Any], whole: Architecture) -> dict[str, Any]:
    """The document with keys at a place; one by one where not all of them say what holds anyway."""
    full = _with(document, place, keys)
    if _says(full, whole):
        return full
    for key, value in keys.items():
        full = _with(document, place, {key: value})
        if _says(full, whole):
            document = full
    return document


def _with(document: dict[str, Any], place: str, keys: dict[str, Any]) -> dict[str, Any]:
    if not place:
        return {**document, **keys}
    inner = document.get(place)
    return {**document, place: {**inner, **keys} if isinstance(inner, Mapping) else keys}


def _says(document: Mapping[str, Any], whole: Architecture) -> bool:
    try:
        return build(document) == whole
    except InputError:
        return False


def _candidates(document: Mapping[str, Any], whole: Architecture) -> Iterator[tuple[str, dict[str, Any]]]:
    """What is filled in where: the document's keys, its embedding and head as the model has them, its sections."""
    keys, sections = split({key: document[key] for key in document if key not in ABOUT or key == "name"}, CORE)
    builder = Builder(keys, sections)
    yield "", {**_keys(builder.doc), "norm": _value(builder.norm)}
    yield "embedding", _keys(whole.embedding)
    yield "head", _keys(whole.head)
    for mixer in _mixers(whole):
        if mixer.section in KINDS or mixer.section in sections:
            yield mixer.section, {key: value for key, value in _keys(mixer).items() if key not in UNSAID}


def _mixers(whole: Architecture) -> Iterator[Mixer]:
    """A sublayer of each section of the layers."""
    found: dict[str, Mixer] = {}
    for mixer in whole.mixers():
        found.setdefault(mixer.section, mixer)
    yield from found.values()


def _keys(struct: Struct) -> dict[str, Any]:
    """A struct's keys as a document has them, those of flat groups beside its own; without those that say nothing."""
    config = struct.__struct_config__
    found: dict[str, Any] = {} if config.tag_field is None else {config.tag_field: config.tag}
    flat = {field.key for field in declared(type(struct)) if field.flat}
    for name, key in zip(struct.__struct_fields__, struct.__struct_encode_fields__, strict=True):
        value = getattr(struct, name)
        if key in flat and isinstance(value, Struct):
            found |= _keys(value)
        elif value is not None:
            found[key] = _value(value)
    return found


def _value(value: Any) -> Any:
    if isinstance(value, Norm) or not isinstance(value, Struct):
        return to_builtins(value)
    return _keys(value)
