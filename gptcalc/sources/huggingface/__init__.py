"""Hugging Face config.json files: one reader for each model_type, and the names of its tensors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from gptcalc.architecture import Architecture
from gptcalc.document import build
from gptcalc.errors import InputError, did_you_mean, printable
from gptcalc.sources.huggingface.families import READERS
from gptcalc.sources.huggingface.heads import DECODER_NAMES, DECODERS, class_of, purpose
from gptcalc.sources.huggingface.minimal import minimal
from gptcalc.sources.huggingface.reader import Fields, Reader, shown
from gptcalc.sources.huggingface.tensors import TensorNames
from gptcalc.sources.huggingface.unsupported import UNSUPPORTED


class Reading(NamedTuple):
    """A config as a document, what that describes, and what was assumed on the way."""

    whole: dict[str, Any]  # every key that the config's type sets, defaults included
    architecture: Architecture
    notes: tuple[str, ...]
    model_type: str

    @property
    def document(self) -> dict[str, Any]:
        """The shortest document that says the same."""
        return minimal(self.whole)


#: types of text models inside larger ones that say none
TEXT_TYPES = {
    "gemma3": "gemma3_text",
    "idefics2": "mistral",
    "idefics3": "llama",
    "kimi_k25": "kimi_k2",
    "kimi_vl": "deepseek_v3",
    "llava": "llama",
    "llava_next": "llama",
    "mistral3": "mistral",
    "paligemma": "gemma",
    "smolvlm": "llama",
    "step3_vl": "step3_text",
    "step3p7": "step3p5",
    "voxtral": "llama",
}

#: where multimodal configs keep the config of their text model
NESTED = (("text_config",), ("thinker_config", "text_config"), ("language_config",), ("llm_config",))


def read(config: Mapping[str, Any]) -> Reading:
    """The document of a config.json. Raises InputError where a field is wrong, unknown or contradicts another."""
    values, place, notes = text_model(config)
    model_type, inferred = type_of(values)
    reader = of_class(READERS[model_type], values, model_type)
    fields = reader.fields(values, model_type, within=f"{place}." if place else "")
    document = reader.fill(fields)
    try:
        architecture = build(document)
    except InputError as error:
        raise explained(error, fields) from None
    return Reading(
        document, architecture, (*notes, *inferred, *dict.fromkeys(fields.notes), *assumed(fields)), model_type
    )


def of_class(reader: Reader, values: Mapping[str, Any], model_type: str) -> Reader:
    """The reader for the class that a config names: what is on the last layer is that class's."""
    classes = DECODERS if reader.classes is None else reader.classes
    name = class_of(values.get("architectures"))
    if name is None:
        return reader.of_class(classes.get("", {}))
    found = purpose(name, classes)
    stranger = found == "Model" and plain(name) != plain(model_type) + "model"
    if found is None or stranger:
        why = f"{printable(name)} is not a class whose head is known for model_type {model_type!r}"
        raise InputError(f"architectures: {why}", f"known ends are {', '.join(filter(None, classes))}", "unsupported")
    return reader.of_class(classes[found])


def plain(name: str) -> str:
    """A name's letters and digits alone."""
    return re.sub(r"[\W_]", "", name).lower()


#: what a config is expected to say itself: a note tells where its class decided
EXPECTED = {
    "hidden_size", "n_embd", "d_model", "vocab_size", "num_hidden_layers", "n_layer", "n_layers", "num_layers",
    "num_attention_heads", "n_head", "n_heads", "num_heads", "num_key_value_heads", "head_dim", "intermediate_size",
    "max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "tie_word_embeddings",
}  # fmt: skip


def assumed(fields: Fields) -> list[str]:
    """Which sizes the config leaves to its class."""
    names = dict.fromkeys(name for name in fields.defaulted if name in EXPECTED)
    sizes = [f"{name} = {shown(fields.defaults[name])}" for name in names]
    return [f"left to the class's defaults: {', '.join(sizes)}"] if sizes else []


# --- the text model, and its type -------------------------------------------------------------------------------------


def text_model(config: Mapping[str, Any]) -> tuple[Mapping[str, Any], str, list[str]]:
    """The text model's own config, where in the whole config it stands, and what a person should know about that."""
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
            place = ".".join(path)
            notes = [f"text model of a multimodal config ({place}); the rest is left out"]
            return inside(inner, config, place, notes), place, notes
    return config, "", []


def inside(inner: Mapping[str, Any], outer: Mapping[str, Any], place: str, notes: list[str]) -> Mapping[str, Any]:
    """A text config with what the whole config says of it: the tie flag, and the type where it has none of its own."""
    merged = dict(inner)
    flag, whole = "tie_word_embeddings", outer.get("tie_word_embeddings")
    if inner.get(flag) is None and whole is not None:
        merged[flag] = whole
    elif whole is not None and inner[flag] != whole:
        notes.append(f"{flag} is {shown(whole)} for the whole model and {shown(inner[flag])} in {place}, which counts")
    kind = outer.get("model_type")
    if inner.get("model_type") is None and isinstance(kind, str):
        merged["model_type"] = TEXT_TYPES.get(kind, f"{kind}_text" if f"{kind}_text" in READERS else kind)
    return merged


def type_of(values: Mapping[str, Any]) -> tuple[str, list[str]]:
    """The model_type that decides the reader; without one, that of the class that the config names."""
    given = values.get("model_type")
    if given is None:
        found = type_of_class(values.get("architectures"))
        if found is None:
            raise InputError("model_type is missing", f"known are {len(READERS)} types, such as llama and qwen3")
        return found, [f"model_type is missing; read as {found!r}, the type of {values['architectures'][0]}"]
    if not isinstance(given, str):
        raise InputError(f"model_type: expected a string, found {shown(given)}")
    if given in UNSUPPORTED:
        why = UNSUPPORTED[given]
        raise InputError(f"model_type {printable(given)!r}: {why}", kind="unsupported")
    if given not in READERS:
        raise InputError(f"model_type {printable(given)!r} is not known", did_you_mean(given, READERS), "unsupported")
    return given, []


HEADS = ("ForConditionalGeneration", "ForCausalLM", "LMHeadModel", "Model")


def type_of_class(architectures: Any) -> str | None:
    """ChatGLMModel -> chatglm: a class is called as its type is, in other letters."""
    name = architectures[0] if isinstance(architectures, list) and architectures else None
    if not isinstance(name, str):
        return None
    for head in HEADS:
        name = name.removesuffix(head)
    return next((t for t in READERS if t.replace("_", "").replace("-", "").lower() == name.lower()), None)


WORD = re.compile(r"[a-z]\w*")


def explained(error: InputError, fields: Fields) -> InputError:
    """An error about a document, with the config's own names for the document's keys."""
    section, *words = dict.fromkeys(WORD.findall(error.message))
    names = {word: fields.origin.get(f"{section}.{word}", fields.origin.get(word)) for word in words}
    named = [f"{word} is {fields.within}{name}" for word, name in names.items() if name is not None and name != word]
    if not named:
        return error
    return InputError(f"{error.message} ({', '.join(named)})", error.hint, error.kind)


def tensor_names(model_type: str, architecture: Architecture) -> TensorNames:
    """How checkpoints of this model_type name and lay out an architecture's weights."""
    if model_type not in READERS:
        raise InputError(f"no tensor names are known for model_type {printable(model_type)!r}", kind="unsupported")
    return TensorNames({**DECODER_NAMES, **READERS[model_type].names}, architecture)
