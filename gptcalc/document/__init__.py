"""How a model is WRITTEN: the keys of a preset file, their defaults, and the architecture that they stand for.

A document is a mapping: the keys of `Document`, and sections (attn, mla, mlp, moe, or a name of one's own with `like:`)
whose keys are the fields of the architecture's classes. `build` turns it into an Architecture.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gptcalc.architecture import Architecture, Encoder
from gptcalc.document.about import check_about, check_finite
from gptcalc.document.builder import Builder
from gptcalc.document.keys import ABOUT, ABOUT_ORDER, CORE, KINDS, NOT_THE_ENCODERS, Document, EncoderKeys
from gptcalc.errors import InputError, did_you_mean, printable


def build(document: Mapping[str, Any]) -> Architecture:
    """The architecture that a document describes.

    Raises InputError naming the key, what was found and what would be right.
    """
    check_about(document)
    check_finite(document)
    plain = {key: value for key, value in document.items() if key not in ABOUT or key == "name"}
    keys, sections = split(plain, CORE)
    builder = Builder(keys, sections)
    if builder.doc.encoder is None:
        return builder.architecture()
    encoder, used = encoder_of(builder.doc.encoder, keys, sections)
    builder.others |= used
    return builder.architecture(encoder)


def without_unread(document: Mapping[str, Any]) -> dict[str, Any]:
    """The same document without sizes of sublayers that it has none of. Raises InputError where layers are wrong."""
    plain = {key: value for key, value in document.items() if key not in ABOUT or key == "name"}
    builder = Builder(*split(plain, CORE))
    layers = builder.stack()
    builder.mtp(layers)
    return {key: value for key, value in document.items() if key not in builder.unread()}


def split(plain: Mapping[str, Any], known: frozenset[str]) -> tuple[dict[str, Any], dict[str, Mapping[str, Any]]]:
    """A document's keys, and its sections."""
    sections = {key: value for key, value in plain.items() if isinstance(value, Mapping) and _is_section(key, value)}
    keys = {key: value for key, value in plain.items() if key not in sections}
    for key in keys:
        if key in KINDS and key not in known:
            raise InputError(f"{key}: expected a section with keys of its own, found {printable(repr(keys[key]), 60)}")
        if key not in known:
            hint = did_you_mean(str(key), [*known, *KINDS, *ABOUT])
            raise InputError(f"unknown key {printable(str(key))!r}", hint, "unknown")
    return keys, sections


def encoder_of(
    own: Mapping[str, Any], keys: dict[str, Any], sections: dict[str, Mapping[str, Any]]
) -> tuple[Encoder, set[str]]:
    """The encoder, in which all is as in the whole document that it doesn't say, and the sections that it uses."""
    try:
        own_keys, own_sections = split(own, frozenset(EncoderKeys.__struct_fields__))
        common = {key: value for key, value in keys.items() if key not in NOT_THE_ENCODERS}
        merged = {name: {**sections.get(name, {}), **section} for name, section in own_sections.items()}
        builder = Builder({**common, **own_keys}, {**sections, **merged}, EncoderKeys, set(sections) - set(merged))
        return builder.encoder(), builder.used
    except InputError as error:
        raise error.within("encoder") from None


def _is_section(key: str, value: Mapping[str, Any]) -> bool:
    return key in KINDS or "like" in value


__all__ = ["ABOUT", "ABOUT_ORDER", "CORE", "KINDS", "Document", "build", "without_unread"]
