"""Hugging Face config.json files: one reader for each model_type, and the names of its tensors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from gptcalc.architecture import Architecture
from gptcalc.errors import InputError, did_you_mean, printable
from gptcalc.sources.huggingface import (
    deepseek,
    gemma,
    gpt,
    llama,
    mixtures,
    olmo,
    qwen,
    routed,
    vendors,
)
from gptcalc.sources.huggingface.minimal import minimal
from gptcalc.sources.huggingface.reader import Reader, shown
from gptcalc.sources.huggingface.tensors import TensorNames

READERS: dict[str, Reader] = {
    model_type: reader
    for family in (llama, mixtures, qwen, gemma, gpt, deepseek, olmo, vendors, routed)
    for model_type, reader in family.READERS.items()
}


class Reading(NamedTuple):
    """A config as a document, with what was assumed on the way."""

    document: dict[str, Any]
    notes: tuple[str, ...]
    model_type: str


#: where multimodal configs keep the config of their text model
NESTED = (
    ("text_config",),
    ("thinker_config", "text_config"),
    ("language_config",),
    ("llm_config",),
)


def read(config: Mapping[str, Any]) -> Reading:
    """The document of a config.json. Raises InputError where a field is wrong, unknown or contradicts another."""
    values, place = text_model(config)
    model_type, notes = type_of(values)
    if place:
        notes.append(f"text model of a multimodal config ({place}); the rest is left out")
    reader = READERS[model_type]
    fields = reader.fields(values, model_type, within=f"{place}." if place else "")
    document, origin = reader.fill(fields)
    try:
        short = minimal(document)
    except InputError as error:
        raise explained(error, origin, fields.within) from None
    return Reading(short, (*notes, *fields.notes), model_type)


def text_model(config: Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
    """The text model's own config, and where in the whole config it stands."""
    for path in NESTED:
        inner: Any = config
        for depth, key in enumerate(path):
            if key not in inner or inner[key] is None:
                break
            inner = inner[key]
            if not isinstance(inner, Mapping):
                place = ".".join(path[: depth + 1])
                raise InputError(f"{place}: expected an object, found {printable(type(inner).__name__)}")
        else:
            return with_outer_fields(inner, config), ".".join(path)
    return config, ""


def with_outer_fields(inner: Mapping[str, Any], outer: Mapping[str, Any]) -> Mapping[str, Any]:
    """The tie flag counts where the text config says nothing."""
    flag = "tie_word_embeddings"
    return {**inner, flag: outer[flag]} if flag in outer and inner.get(flag) is None else inner


def type_of(values: Mapping[str, Any]) -> tuple[str, list[str]]:
    """The model_type that decides the reader."""
    given = values.get("model_type")
    if given is None:
        raise InputError("model_type is missing")
    if not isinstance(given, str):
        raise InputError(f"model_type: expected a string, found {shown(given)}")
    if given not in READERS:
        raise InputError(
            f"model_type {printable(given)!r} is not known",
            did_you_mean(given, READERS),
            "unsupported",
        )
    return given, []


WORD = re.compile(r"\b[a-z]\w*\b")


def explained(error: InputError, origin: Mapping[str, tuple[str, ...]], within: str) -> InputError:
    """An error about a document, with the config's own names for the document's keys."""
    words = dict.fromkeys(WORD.findall(error.message))
    named = [f"{word} is {within}{origin[word][0]}" for word in words if origin.get(word) and origin[word][0] != word]
    if not named:
        return error
    return InputError(f"{error.message} ({', '.join(named)})", error.hint, error.kind)


def tensor_names(model_type: str, architecture: Architecture) -> TensorNames:
    """How checkpoints of this model_type name and lay out an architecture's weights."""
    if model_type not in READERS:
        raise InputError(
            f"no tensor names are known for model_type {printable(model_type)!r}",
            kind="unsupported",
        )
    return TensorNames(READERS[model_type].names, architecture)
