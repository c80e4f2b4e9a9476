"""A JSON Schema of preset files, which editors complete and check by: made of the same declarations that read them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct
from msgspec.json import schema_components
from msgspec.structs import fields

from gptcalc.document.fields import declared, inherited
from gptcalc.document.keys import ABOUT_ORDER, KINDS, Document, EncoderKeys
from gptcalc.document.meanings import meanings, summary

DRAFT = "https://json-schema.org/draft/2020-12/schema"
PLACE = "#/$defs/"

#: what a section has of its struct that its document doesn't say: its name is its key
UNWRITTEN = ("section", "sublayer")
#: what may stand where a sublayer's norm is
NO_NORM = {"enum": ["none"]}
#: of a model beside its architecture: a text, but for these
OTHERS: dict[str, Any] = {
    "aliases": {"type": "array", "items": {"type": "string"}, "description": "hub ids that mean this preset"},
    "published": {
        "type": "object",
        "properties": {"source": {"type": "string"}},
        "additionalProperties": {"type": "integer", "minimum": 0},
        "description": "figures that the model's makers give, with their source",
    },
    "released": {"type": ["string", "integer"], "description": "year, or year and month"},
}
ABOUT = {
    "family": "models that are made alike",
    "source": "where the numbers come from",
    "unverified": "what nobody could check, and why",
    "note": "what else a person should know",
}


def schema() -> dict[str, Any]:
    """The whole schema. A section with a name of its own is like one of the kinds."""
    structs = [Document, EncoderKeys, *dict.fromkeys(KINDS.values())]
    _, raw = schema_components(structs, ref_template=PLACE + "{name}")
    found: dict[str, Any] = {}
    for struct in structs:
        _add(struct, raw, found)
    for name in set(re.findall(re.escape(PLACE) + r"(\w+)", json.dumps(found))) - set(found):  # what lists hold
        found[name] = raw[name]
    sections: dict[str, Any] = {name: {"$ref": PLACE + kind.__name__} for name, kind in KINDS.items()}
    core = found.pop(Document.__name__)
    encoder = found[EncoderKeys.__name__]
    own = {"type": "object", "required": ["like"], "properties": {"like": _LIKE}}
    for stack in (core, encoder):
        written = stack["properties"]
        stack["properties"] = {**written, **{key: _either(written, key, value) for key, value in sections.items()}}
        stack["additionalProperties"] = own
    core["properties"]["encoder"] = {
        "anyOf": [{"$ref": PLACE + EncoderKeys.__name__}, {"type": "null"}],
        "description": core["properties"]["encoder"]["description"],
    }
    about = {key: OTHERS.get(key) or {"type": "string", "description": ABOUT[key]} for key in ABOUT_ORDER[1:]}
    required = [field.encode_name for field in fields(Document) if field.required]
    core |= {"properties": {**core["properties"], **about}, "required": required}
    return {"$schema": DRAFT, "title": "preset of gptcalc", **core, "$defs": found}


_LIKE = {"type": "string", "description": "the section from which this one differs in what it says"}


def _either(written: Mapping[str, Any], key: str, section: Mapping[str, Any]) -> dict[str, Any]:
    """mlp: a word is the document's own key, a mapping the section."""
    return {"anyOf": [written[key], section]} if key in written else dict(section)


def _add(struct: type[Struct], raw: Mapping[str, Any], found: dict[str, Any]) -> None:
    """The definition of a struct, and of all that stands in it."""
    if struct.__name__ in found:
        return
    made = found[struct.__name__] = {
        "type": "object",
        "description": summary(struct),
        "properties": properties(struct, raw),
        "additionalProperties": False,
    }
    if struct in KINDS.values():
        made["properties"]["like"] = _LIKE
    for option in _inside(struct):
        _add(option, raw, found)


def _inside(struct: type[Struct]) -> Iterator[type[Struct]]:
    """The structs that have a section of their own in a struct's."""
    for field in declared(struct):
        for option in field.structs:
            yield from _inside(option) if field.flat else (option,)


def properties(struct: type[Struct], raw: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a struct as its section has them, those of flat groups among them."""
    said, own = meanings(struct), {field.key: field for field in declared(struct)}
    written = raw[struct.__name__]["properties"]
    tag = struct.__struct_config__.tag_field
    found = {key: dict(written[key]) for key in written if key == tag and key not in UNWRITTEN}
    outside = inherited(struct)
    for field in fields(struct):
        key, group = field.encode_name, own.get(field.encode_name)
        if key in UNWRITTEN:
            continue
        if group is not None and group.flat:
            for option in group.structs:
                inside = properties(option, raw)
                if option.__struct_config__.tag_field in inside and field.name in said:
                    inside[str(option.__struct_config__.tag_field)]["description"] = said[field.name]
                found = _merged(found, inside)
            continue
        made = dict(written[key])
        if group is not None:
            made |= _shorter(struct, made, key)
        if key == "bias" and "anyOf" not in made and made.get("type") == "array":
            made = {"anyOf": [{"type": "string"}, {k: v for k, v in made.items() if k != "default"}]}
        about = said.get(field.name) or " ".join(summary(option) for option in (group.structs[:1] if group else ()))
        made |= {"description": about} if about else {}
        if key in outside:
            made.pop("default", None)
        found[key] = made
    return found


def _shorter(struct: type[Struct], made: dict[str, Any], key: str) -> dict[str, Any]:
    """What may stand for a group of keys: true and false, none, one word."""
    (group,) = (field for field in declared(struct) if field.key == key)
    made = {"anyOf": list(made["anyOf"])} if "anyOf" in made else {"anyOf": [{"$ref": made["$ref"]}]}
    if group.switch:
        made["anyOf"].append({"type": "boolean"})
    if group.optional:
        made["anyOf"].append(NO_NORM)
    if group.word is not None:
        words = fields_of(group.structs[0])[group.word]
        made["anyOf"].append({"enum": list(words)})
    return made


def fields_of(struct: type[Struct]) -> dict[str, tuple[Any, ...]]:
    """The words of a struct's literals."""
    return {field.encode_name: getattr(field.type, "__args__", ()) for field in fields(struct)}


def _merged(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Keys of several groups of which one is there: a tag has the words of all."""
    found = dict(first)
    for key, value in second.items():
        words = [*found.get(key, {}).get("enum", ()), *value.get("enum", ())]
        found[key] = {**value, "enum": list(dict.fromkeys(words))} if words and key in found else value
    return found


def text(schema: Mapping[str, Any]) -> str:
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
