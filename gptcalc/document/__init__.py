"""How a model is WRITTEN: the keys of a preset file, their defaults, and the architecture that they stand for.

A document is a mapping: the keys of `Document`, and sections (attn, mla, mlp, moe, or a name of one's own with `like:`)
whose keys are the fields of the architecture's classes. `build` turns it into an Architecture.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gptcalc.architecture import Architecture
from gptcalc.document.builder import Builder
from gptcalc.document.keys import ABOUT, ABOUT_ORDER, CORE, KINDS, Document
from gptcalc.errors import InputError, did_you_mean, printable


def build(document: Mapping[str, Any]) -> Architecture:
    """The architecture that a document describes.

    Raises InputError naming the key, what was found and what would be right.
    """
    plain = {key: value for key, value in document.items() if key not in ABOUT or key == "name"}
    sections = {key: value for key, value in plain.items() if isinstance(value, Mapping) and _is_section(key, value)}
    keys = {key: value for key, value in plain.items() if key not in sections}
    for key in keys:
        if key in KINDS and key not in CORE:
            raise InputError(f"{key}: expected a section with keys of its own, found {printable(repr(keys[key]), 60)}")
        if key not in CORE:
            known = [*CORE, *KINDS, *ABOUT]
            raise InputError(f"unknown key {printable(str(key))!r}", did_you_mean(str(key), known), "unknown")
    return Builder(keys, sections).architecture()


def _is_section(key: str, value: Mapping[str, Any]) -> bool:
    return key in KINDS or "like" in value


__all__ = ["ABOUT", "ABOUT_ORDER", "CORE", "KINDS", "Document", "build"]
