"""What a document says of a model beside its architecture, and what no document may hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gptcalc.document.keys import ABOUT_ORDER
from gptcalc.errors import InputError, printable

#: what is no text
LISTS, MAPPINGS = ("aliases",), ("published",)


def check_about(document: Mapping[str, Any]) -> None:
    """Texts are texts, aliases a list of them, and a published total a whole number with its source."""
    for key in ABOUT_ORDER:
        value = document.get(key)
        if value is None:
            continue
        if key in LISTS:
            if not isinstance(value, (list, tuple)) or not all(isinstance(item, str) for item in value):
                raise _wrong(key, "a list of texts", value)
        elif key in MAPPINGS:
            _check_published(key, value)
        elif key == "released" and isinstance(value, int) and not isinstance(value, bool):
            continue  # a year
        elif not isinstance(value, str):
            raise _wrong(key, "a text", value)


def _check_published(key: str, value: Any) -> None:
    if not isinstance(value, Mapping):
        raise _wrong(key, "total and source", value)
    for name, item in value.items():
        is_number = isinstance(item, int) and not isinstance(item, bool) and item >= 0
        if name == "source" and not isinstance(item, str):
            raise _wrong(f"{key}.{printable(str(name))}", "a text", item)
        if name != "source" and not is_number:
            raise _wrong(f"{key}.{printable(str(name))}", "a whole number", item)


def check_finite(value: Any, place: str = "") -> None:
    """JSON can write Infinity and NaN, YAML and the architecture can't."""
    if isinstance(value, float) and not abs(value) < float("inf"):
        raise _wrong(place, "a finite number", value)
    if isinstance(value, Mapping):
        for key, item in value.items():
            if isinstance(item, (float, Mapping)):
                check_finite(item, f"{place}.{key}" if place else str(key))


def _wrong(key: str, expected: str, found: Any) -> InputError:
    return InputError(f"{key}: expected {expected}, found {printable(repr(found), 60)}")
