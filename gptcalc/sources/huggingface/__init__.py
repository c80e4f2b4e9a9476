"""Hugging Face config.json files: one reader for each model_type, and the names of its tensors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from gptcalc.architecture import Architecture
from gptcalc.document import build, without_unread
from gptcalc.errors import InputError, did_you_mean, printable
from gptcalc.sources.huggingface.families import DRAFTS, READERS
from gptcalc.sources.huggingface.fields import Fields, shown
from gptcalc.sources.huggingface.heads import BARE, DECODER_NAMES, DECODERS, alike, is_small, purpose
from gptcalc.sources.huggingface.minimal import minimal
from gptcalc.sources.huggingface.reader import Reader
from gptcalc.sources.huggingface.target import Target, first_class, letters, may_be_read, stem, structural, target
from gptcalc.sources.huggingface.tensors import TensorNames
from gptcalc.sources.huggingface.unread import Ignored, restates, tolerance
from gptcalc.sources.huggingface.unsupported import UNSUPPORTED
from gptcalc.sources.huggingface.wrappers import text_model


class Reading(Struct, frozen=True):
    """A config as a document, what that describes, and what was assumed on the way."""

    whole: dict[str, Any]  # every key that the config's type sets, defaults included
    architecture: Architecture
    notes: tuple[str, ...]
    model_type: str

    @property
    def document(self) -> dict[str, Any]:
        """The shortest document that says the same."""
        return minimal(self.whole)


def _filled(reader: Reader, fields: Fields) -> dict[str, Any]:
    """The reader's document; a value of a kind that its arithmetic can't take is named."""
    try:
        return reader.fill(fields)
    except (TypeError, ZeroDivisionError, OverflowError):
        name = fields.asked[-1] if fields.asked else "the config"
        raise InputError(f"{fields.within}{name}: {shown(fields.values.get(name))} is nothing that it may be") from None


def read(config: Mapping[str, Any]) -> Reading:
    """The document of a config.json. Raises InputError where a field is wrong, unknown or contradicts another."""
    refuse(config.get("model_type"))
    text = text_model(config)
    values, place, around, notes = text.values, text.place, text.around, text.notes
    model_type, inferred = type_of(values)
    reader = READERS[model_type]
    aim, headless = Target(model_type, True, True), False
    if model_type not in DRAFTS:
        aim = target(config, (*around, model_type, *([reader.like] if reader.like else [])), reader.called)
        reader, headless = of_class(reader, aim, model_type, inside=bool(place) or around[-1:] != (model_type,))
    fields = reader.fields(values, model_type, within=f"{place}." if place else "")
    document = _filled(reader, fields)
    notes += [*inferred, *dict.fromkeys(fields.notes)]
    if headless or not aim.known:
        notes.append(assumed_class(aim, fields, headless))
    try:
        document, architecture = built(document)
    except InputError as error:
        raise explained(error, fields) from None
    return Reading(document, architecture, (*notes, *assumed(fields)), model_type)


def built(document: dict[str, Any]) -> tuple[dict[str, Any], Architecture]:
    """What a document describes; of copies that are cut to a few layers without sizes that none of these reads."""
    try:
        return document, build(document)
    except InputError:
        shorter = without_unread(document)
        if shorter == document:
            raise
        return shorter, build(shorter)


ARCHITECTURES = "architectures"


def of_class(reader: Reader, aim: Target, model_type: str, inside: bool) -> tuple[Reader, bool]:
    """The reader for the class that a config names: what is on the last layer is that class's. With whether a head
    that is not known is left out: one that makes scores or an embedding, or any by --ignore.

    inside: the text model of a larger one, whose class may be called anything and is a language model by default.
    """
    classes = DECODERS if reader.classes is None else reader.classes
    if aim.name is None:
        return reader.of_class(classes.get("", {})), False
    found = purpose(aim.name, classes)
    if found == "Model" and not aim.listed and letters(aim.name) != letters(model_type) + "model":
        found = "ForCausalLM" if inside else None
    if found is None and not inside:
        by_hand = ARCHITECTURES in tolerance().ignore
        if by_hand or (is_small(aim.name, model_type) and not tolerance().strict):
            return reader.of_class(BARE), True
        why = f"{printable(aim.name)} is not a class whose head is known for model_type {model_type!r}"
        ends = f"known ends are {', '.join(filter(None, classes))}"
        hint = f"{ends}; --ignore {ARCHITECTURES} counts what is below the head"
        raise InputError(f"{ARCHITECTURES}: {why}", hint, "unsupported")
    return reader.of_class(classes.get(found or "", {})), False


def assumed_class(aim: Target, fields: Fields, headless: bool) -> str:
    """A config for a class of which nothing is known, counted as a class of its type: only where nothing that it
    says beyond that class means structure elsewhere, or could be a size of a head that is not known."""
    name = aim.name or ""
    classes = fields.known.classes if fields.known else ()
    usual = alike(name, classes, ("Model",) if headless else ("ForCausalLM", "LMHeadModel")) or fields.model_type
    of = f"architectures names {printable(name)}, which is not a class of {fields.model_type}"
    unread = [name for note in fields.notes if isinstance(note, Ignored) for name in note.names]
    own = [name.removeprefix(fields.within) for name in unread]
    risky = structural(own) if headless else may_be_read(own)
    accepted = {*tolerance().ignore, *(own if ARCHITECTURES in tolerance().ignore else ())}
    risky = [n for n in risky if n not in accepted and not restates(n, fields)]
    if risky:
        field = f"{fields.within}{printable(risky[0])}"
        hint = f"--ignore {printable(risky[0])} counts it as {usual}"
        raise InputError(f"{of}, and may read {field} = {shown(fields.values[risky[0]])}", hint, "unsupported")
    return f"{of}; counted as {usual}" + (": what it has on the last layer is left out" if headless else "")


#: what a config is expected to say itself: a note tells where its class decided
EXPECTED = {
    "hidden_size", "n_embd", "d_model", "vocab_size", "num_hidden_layers", "n_layer", "n_layers", "num_layers",
    "num_attention_heads", "n_head", "n_heads", "num_heads", "num_key_value_heads", "head_dim", "intermediate_size",
    "max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "tie_word_embeddings",
}  # fmt: skip


def assumed(fields: Fields) -> list[str]:
    """Which sizes the config leaves to its class."""
    names = dict.fromkeys(name for name in fields.defaulted if name in EXPECTED and fields.defaults[name] is not None)
    sizes = [f"{name} = {shown(fields.defaults[name])}" for name in names]
    return [f"left to the class's defaults: {', '.join(sizes)}"] if sizes else []


# --- the text model, and its type -------------------------------------------------------------------------------------


def refuse(model_type: Any) -> None:
    """Types that are known and not read, whether they are the whole config's or its text model's."""
    if isinstance(model_type, str) and model_type in UNSUPPORTED:
        raise InputError(f"model_type {printable(model_type)!r}: {UNSUPPORTED[model_type]}", kind="unsupported")


#: what Meta's and Mistral's own code keeps in a params.json, which says no type
PARAMS = {"dim", "n_layers", "n_heads"}
OTHER_FILE = "this is a params.json of its publisher's own code: give the config.json beside it"


def type_of(values: Mapping[str, Any]) -> tuple[str, list[str]]:
    """The model_type that decides the reader; without one, that of the class that the config names. A draft's is its
    class."""
    draft = first_class(values)
    if draft in DRAFTS:
        return draft, []
    given = values.get("model_type")
    if given is None:
        found = type_of_class(values.get("architectures"))
        if found is None:
            known = f"known are {len(READERS)} types, such as llama and qwen3"
            raise InputError("model_type is missing", known if not values.keys() >= PARAMS else OTHER_FILE)
        return found, [f"model_type is missing; read as {found!r}, the type of {values['architectures'][0]}"]
    if not isinstance(given, str):
        raise InputError(f"model_type: expected a string, found {shown(given)}")
    refuse(given)
    if given not in READERS:
        raise InputError(f"model_type {printable(given)!r} is not known", did_you_mean(given, READERS), "unsupported")
    return given, []


def type_of_class(architectures: Any) -> str | None:
    """ChatGLMModel -> chatglm: a class is called as its type is, in other letters."""
    name = first_class({"architectures": architectures})
    return None if name is None else next((t for t in READERS if letters(t) == stem(name)), None)


WORD = r"[a-z]\w*"


def explained(error: InputError, fields: Fields) -> InputError:
    """An error about a document, with the config's own names for the document's keys."""
    section, *words = dict.fromkeys(re.findall(WORD, error.message))
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
