"""What transformers' class of a type reads of a config.json, its other names for fields, and its defaults.

Facts, in classes.json: tests/sources/make_classes.py takes them from the classes themselves.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Any

import msgspec


class ConfigClass(msgspec.Struct, frozen=True):
    """The class of one model_type.

    classes: the names of its model classes.
    reads: every field that they or the config class mention; what isn't among them can't change a count.
    names: other names of fields -> the field.
    defaults: what is assumed for absent fields.
    partial: whether unscaled rotations read the share of channels that turn.
    parts: where a multimodal config has others inside -> the type of one that says none.
    inside: of such a part what the larger class assumes and the part's own class doesn't: `absent` where the part is
        missing, `given` where it is there and leaves a field out.
    ties: whether a multimodal model's output shares the embedding's table, see `wrappers`.
    divides: whether the class refuses a width that its heads don't divide; others leave the remainder out.
    """

    classes: tuple[str, ...]
    reads: frozenset[str]
    names: dict[str, str] = {}
    defaults: dict[str, Any] = {}
    partial: bool = True
    parts: dict[str, str] = {}
    inside: dict[str, dict[str, dict[str, Any]]] = {}
    ties: str | None = None
    divides: bool = False

    def own(self, name: str) -> str:
        """A field by the class's own name."""
        return self.names.get(name, name)

    def spellings(self, name: str) -> list[str]:
        """A field's name and all others that mean the same, the class's own behind the given one."""
        own = self.own(name)
        return list(dict.fromkeys((name, own, *(other for other, meant in self.names.items() if meant == own))))


@cache
def _lines() -> bytes:
    with open(os.path.splitext(__file__)[0] + ".json", "rb") as file:
        return file.read()


@cache
def class_of(model_type: str) -> ConfigClass | None:
    """The class of a type; None where transformers has none. Only the type's own line is decoded."""
    start = f"\n{msgspec.json.encode(model_type).decode()}: ".encode()
    at = _lines().find(start)
    if at < 0:
        return None
    line = _lines()[at + len(start) : _lines().index(b"\n", at + 1)].rstrip(b",")
    return msgspec.json.decode(line, type=ConfigClass)


@cache
def every_class() -> dict[str, ConfigClass]:
    """All of them, for the rare questions that one type's class doesn't answer."""
    return msgspec.json.decode(_lines(), type=dict[str, ConfigClass])
