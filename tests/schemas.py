"""As much of JSON Schema as the schema of preset files uses, held against values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

KINDS: dict[str, tuple[type, ...]] = {
    "integer": (int,), "number": (int, float), "string": (str,), "boolean": (bool,), "null": (type(None),),
    "object": (dict,), "array": (list, tuple),
}  # fmt: skip
KNOWN = {
    "$schema", "$defs", "$ref", "title", "description", "default", "discriminator", "type", "enum", "anyOf", "minimum",
    "exclusiveMinimum", "maximum", "exclusiveMaximum", "properties", "required", "additionalProperties", "items",
    "prefixItems", "minItems", "maxItems",
}  # fmt: skip


def problems(value: Any, schema: dict[str, Any], whole: dict[str, Any], place: str = "") -> Iterator[str]:
    """What is wrong with a value, each with its place."""
    assert set(schema) <= KNOWN, set(schema) - KNOWN
    if "$ref" in schema:
        yield from problems(value, whole["$defs"][schema["$ref"].removeprefix("#/$defs/")], whole, place)
    if "anyOf" in schema and all(list(problems(value, option, whole, place)) for option in schema["anyOf"]):
        yield f"{place}: {value!r} is none of {len(schema['anyOf'])}"
    if "enum" in schema and not any(value == word and type(value) is type(word) for word in schema["enum"]):
        yield f"{place}: {value!r} is not one of {schema['enum']}"
    kinds = schema.get("type", ())
    kinds = (kinds,) if isinstance(kinds, str) else kinds
    if kinds and not any(is_a(value, kind) for kind in kinds):
        yield f"{place}: {value!r} is no {' or '.join(kinds)}"
    elif isinstance(value, dict):
        yield from _members(value, schema, whole, place)
    elif isinstance(value, (list, tuple)) and "items" in schema and "prefixItems" not in schema:
        for number, item in enumerate(value):
            yield from problems(item, schema["items"], whole, f"{place}.{number}")
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield from _bounds(value, schema, place)


def is_a(value: Any, kind: str) -> bool:
    return isinstance(value, KINDS[kind]) and (kind == "boolean" or not isinstance(value, bool))


def _bounds(value: float, schema: dict[str, Any], place: str) -> Iterator[str]:
    holds = (
        value >= schema.get("minimum", value)
        and value <= schema.get("maximum", value)
        and ("exclusiveMinimum" not in schema or value > schema["exclusiveMinimum"])
        and ("exclusiveMaximum" not in schema or value < schema["exclusiveMaximum"])
    )
    if not holds:
        yield f"{place}: {value} is out of bounds"


def _members(value: dict[str, Any], schema: dict[str, Any], whole: dict[str, Any], place: str) -> Iterator[str]:
    for key in schema.get("required", ()):
        if key not in value:
            yield f"{place}: {key} is missing"
    for key, item in value.items():
        inside = schema.get("properties", {}).get(key, schema.get("additionalProperties", {}))
        if inside is False:
            yield f"{place}: unknown key {key}"
        elif isinstance(inside, dict):
            yield from problems(item, inside, whole, f"{place}.{key}")
