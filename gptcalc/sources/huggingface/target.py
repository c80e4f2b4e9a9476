"""Which class a config.json is for: the language model of its type, a bare or a classifying one, a draft, another's.

`architectures` names the class that the weights were saved from. A config whose class isn't of the type's own family
was written for other code, which may read what the type's class ignores.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from msgspec import Struct

from gptcalc.errors import InputError, printable
from gptcalc.sources.huggingface.classes import class_of, every_class

#: what stands behind a model's own name in the names of its classes
ENDING = r"(For[A-Z]\w*|LMHeadModel|DoubleHeadsModel|(Text|Thinker(Text)?|Language)?Model|PreTrainedModel)$"

#: small models that guess ahead for a large one: words in the names of their classes, in small letters, $ at the end
DRAFT = ("eagle", "draft", "dflash", "medusa", "specul", "nextn", "hydra", "mlpspec", "mtpmodel", "mtpfor", "mtp$")
NO_DRAFT = "hydralora"
#: fields that only they have
OF_DRAFTS = (
    "draft_vocab_size",
    "eagle_config",
    "dflash_config",
    "num_target_layers",
    "speculators_config",
    "medusa_num_heads",
)

#: what drafts have that no document can say, by words in the name of their class or of a field of theirs
MISSING = {
    "peagle": "hidden states of its own for tokens drafted in parallel (P-EAGLE)",
    "eagle3|draft_vocab": "a class other than LlamaForCausalLMEagle3, which alone is read (EAGLE-3)",
    "dflash|dspark|domino": "a class other than DFlashDraftModel, DSparkDraftModel and DominoDraftModel (DFlash)",
    "medusa|hydra": "heads for further tokens behind another model's last hidden state",
}
MISSING_ELSE = "layers that read hidden states of another model"

#: words in names of fields that mean structure
STRUCTURE = (
    "expert", "rank", "head", "window", "vocab", "layer", "hidden", "intermediate", "dim", "width", "size",
)  # fmt: skip


class Target(Struct, frozen=True):
    """What a config is for.

    name: the class that it names, if any.
    known: whether that is one of the type's own classes, or could be; else it may read what these ignore.
    listed: whether transformers has it for this type.
    """

    name: str | None
    known: bool
    listed: bool = False


def target(config: Mapping[str, Any], types: Iterable[str], others: Collection[str] = ()) -> Target:
    """The class of a config whose own type, and that of the model inside, are given; `others` are further classes.

    Raises InputError for a draft model, and where the class belongs to another type.
    """
    types = tuple(dict.fromkeys(types))
    name = first_class(config)
    draft = next((field for field in OF_DRAFTS if config.get(field) is not None), None)
    if draft is not None or (name is not None and is_draft(name)):
        what = f"architectures names {printable(name)}" if name and is_draft(name) else f"it has {draft}"
        problem = f"a draft model, not the class that model_type {printable(types[0])!r} names ({what})"
        raise InputError(problem, f"not supported yet: {missing(f'{name} {draft}')}", "unsupported")
    if name is None:
        return Target(None, True)
    if name in others or any(is_of(name, model_type) for model_type in types):
        classes = [known.classes for known in map(class_of, types) if known is not None]
        return Target(name, True, any(name in own for own in classes))
    owners = [model_type for model_type, known in every_class().items() if name in known.classes]
    owners.sort(key=lambda model_type: letters(model_type) != stem(name))
    if owners:
        problem = f"model_type {printable(types[0])!r} contradicts architectures {name}, a class of {owners[0]}"
        raise InputError(problem, "a draft head, or a wrong model_type?", "unsupported")
    return Target(name, all(class_of(model_type) is None for model_type in types))


def is_draft(name: str) -> bool:
    """Whether a class is called as drafts are."""
    plain = f"{name.lower()}$".replace(NO_DRAFT, "")
    return any(word in plain for word in DRAFT)


def missing(names: str) -> str:
    """The concept that a draft model needs, by its class and its field."""
    return next((concept for words, concept in MISSING.items() if re.search(words, names.lower())), MISSING_ELSE)


def first_class(config: Mapping[str, Any]) -> str | None:
    names = config.get("architectures")
    return names[0] if isinstance(names, list) and names and isinstance(names[0], str) else None


def is_of(name: str, model_type: str) -> bool:
    """Whether a class is one of a type's: by the list of its classes, or because it is called as the type is."""
    known = class_of(model_type)
    listed = known.classes if known else ()
    if name in listed:
        return True
    stems = {letters(model_type), letters(model_type).removesuffix("text"), *(stem(own) for own in listed)}
    return stem(name) in stems


def stem(name: str) -> str:
    """Kimi_K25ForConditionalGeneration -> kimik25"""
    return letters(re.sub(ENDING, "", name))


def letters(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isascii() and letter.isalnum())


def structural(names: Iterable[str]) -> list[str]:
    """Those of some fields whose names mean structure."""
    return [name for name in names if any(word in name for word in STRUCTURE)]


def may_be_read(names: Iterable[str]) -> list[str]:
    """Of some unread fields those that mean structure for the class of another type."""
    known = set().union(*(found.reads | set(found.names) for found in every_class().values()))
    return [name for name in structural(names) if name in known]
