"""The shortest document that says the same: what a preset file would say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gptcalc.architecture import Architecture
from gptcalc.document import Document, build
from gptcalc.errors import InputError

ORDER = ("name", *(key for key in Document.__struct_fields__ if key != "name"))
#: a nested mapping may be replaced by one of its values, where that alone says the same: `norm: layernorm`
SHORTHANDS = ("kind", "over", "n")


def minimal(document: Mapping[str, Any]) -> dict[str, Any]:
    """Leaves out every key without which the same architecture is built; writes shorthands where they say the same."""
    whole = build(document)
    short = _copy(document)
    for path in list(_paths(short)):
        _shorten(short, path, whole)
    ordered = _ordered(short, document)
    return {key: ordered[key] for key in sorted(ordered, key=_rank)}


def _ordered(value: Any, like: Any) -> Any:
    """A mapping's keys in the order in which another one has them."""
    if not isinstance(value, Mapping) or not isinstance(like, Mapping):
        return value
    return {key: _ordered(value[key], like[key]) for key in like if key in value}


def _rank(key: str) -> tuple[int, str]:
    return (ORDER.index(key), "") if key in ORDER else (len(ORDER), "")


def _copy(value: Any) -> Any:
    return {key: _copy(item) for key, item in value.items()} if isinstance(value, Mapping) else value


def _paths(value: Mapping[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """All keys: inner before outer, so that whole mappings may go, and the last first, so that a first key stays."""
    for key, item in reversed(list(value.items())):
        if isinstance(item, Mapping):
            yield from _paths(item, (*above, key))
        yield (*above, key)


#: an emptied mapping would say nothing to a reader: the last key stays until the mapping goes as a whole
def _shorten(document: dict[str, Any], path: tuple[str, ...], whole: Architecture) -> None:
    *above, key = path
    place = document
    for word in above:
        place = place[word]
    value = place.pop(key)
    if (place or not above) and _says(document, whole):
        return
    for word in _shorthands(key, value):
        place[key] = word
        if _says(document, whole):
            return
    place[key] = value


def _shorthands(key: str, value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [value[word] for word in SHORTHANDS if word in value]
    return ["qkv", "all"] if key == "bias" else []


def _says(document: dict[str, Any], whole: Architecture) -> bool:
    try:
        return build(document) == whole
    except InputError:
        return False
