"""The vocabulary in which readers of config.json files are written.

A `Reader` is a document (the keys of a preset file) with holes. A hole is a field of the config: `size("hidden_size")`
reads it, checks it and names it in errors. What has no field of its own is a constant; what data can't say is a `Hole`
around a small function. A field that is neither read nor known to be irrelevant might change the count: it is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, TypeAlias

from gptcalc.document import KINDS
from gptcalc.document.keys import DEFAULT_LAYERS
from gptcalc.errors import InputError, did_you_mean, printable
from gptcalc.sources.huggingface.defaults import class_defaults
from gptcalc.sources.huggingface.irrelevant import IRRELEVANT, WITHOUT_EFFECT
from gptcalc.sources.huggingface.published import published
from gptcalc.sources.huggingface.tensors import Names, together

LARGEST = 1_000_000_000


class Fields:
    """The fields of one config. Remembers which were asked for; what is absent has the class's default."""

    def __init__(
        self, values: Mapping[str, Any], defaults: Mapping[str, Any], model_type: str, within: str = ""
    ) -> None:
        self.values = values
        self.defaults = defaults
        self.model_type = model_type
        self.within = within
        self.asked: list[str] = []
        self.defaulted: list[str] = []
        self.origin: dict[str, str] = {}  # where in the document -> the field that decided it
        self.notes: list[str] = []

    def get(self, *names: str) -> Any:
        """The field's value, under the first of its names that is present; names that disagree contradict."""
        self.asked.extend(names)
        given = {name: self.values[name] for name in names if self.values.get(name) is not None}
        for name, value in given.items():
            first = next(iter(given))
            if name != first and value != given[first]:
                raise InputError(
                    f"{self.within}{first} = {shown(given[first])} contradicts {self.within}{name} = {shown(value)}"
                )
        if given:
            return next(iter(given.values()))
        if any(name in self.values for name in names):
            return None
        usual = next((name for name in names if name in self.defaults), None)
        if usual is None:
            return None
        self.defaulted.append(usual)
        return self.defaults[usual]

    def present(self, *names: str) -> bool:
        return any(self.values.get(name) is not None for name in names)

    def wrong(self, names: Sequence[str], expected: str, value: Any) -> NoReturn:
        name = next((n for n in names if n in self.values), names[0])
        raise InputError(f"{self.within}{name}: expected {expected}, found {shown(value)}")

    def size(self, *names: str, least: int = 1) -> int | None:
        value = self.get(*names)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            self.wrong(names, "an integer", value)
        if isinstance(value, float):
            if not value.is_integer():
                self.wrong(names, "an integer", value)
            value = int(value)
            self.notes.append(f"{self.within}{names[0]} is written {float(value)}, read as {value}")
        if not least <= value <= LARGEST:
            self.wrong(names, f"an integer from {least} to {LARGEST}", value)
        return value

    def needed(self, *names: str) -> int:
        value = self.size(*names)
        if value is None:
            raise InputError(f"{self.within}{names[0]} is missing")
        return value

    def number(self, *names: str) -> float | int | None:
        value = self.get(*names)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < float("inf"):
            self.wrong(names, "a number", value)
        return value

    def flag(self, *names: str) -> bool:
        value = self.get(*names)
        if value is not None and not isinstance(value, bool):
            self.wrong(names, "true or false", value)
        return bool(value)

    def word(self, *names: str) -> str | None:
        value = self.get(*names)
        if value is not None and not isinstance(value, str):
            self.wrong(names, "a string", value)
        return value

    def items(self, *names: str) -> list[Any] | None:
        value = self.get(*names)
        if value is not None and not isinstance(value, (list, tuple)):
            self.wrong(names, "a list", value)
        return None if value is None else list(value)

    def mapping(self, *names: str) -> Mapping[str, Any] | None:
        value = self.get(*names)
        if value is not None and not isinstance(value, Mapping):
            self.wrong(names, "an object", value)
        return value

    def unsupported(self, name: str, why: str) -> InputError:
        return InputError(f"{self.within}{name}: {why} (model_type {self.model_type!r})", kind="unsupported")


def shown(value: Any) -> str:
    """A value as JSON would write it, short and printable."""
    words = {None: "null", True: "true", False: "false"}
    if value is None or isinstance(value, bool):
        return words[value]
    return printable(str(value) if isinstance(value, (int, float)) else repr(value), 60)


@dataclass(frozen=True)
class Hole:
    """A value of the document that the config's fields decide. None leaves the key out."""

    read: Callable[[Fields], Any]


def size(*names: str, least: int = 1) -> Hole:
    """A field that must be there (or have a default in its class)."""

    def read(fields: Fields) -> int:
        value = fields.size(*names, least=least)
        if value is None:
            raise InputError(f"{fields.within}{names[0]} is missing")
        return value

    return Hole(read)


def optional(*names: str, least: int = 1) -> Hole:
    """A size that may be absent or null."""
    return Hole(lambda fields: fields.size(*names, least=least))


def preferred(*names: str) -> Hole:
    """The first of several sizes that is there; they need not agree."""

    def read(fields: Fields) -> int:
        found = [fields.size(name) for name in names]
        return next((value for value in found if value is not None), None) or fields.needed(names[0])

    return Hole(read)


def number(*names: str) -> Hole:
    return Hole(lambda fields: fields.number(*names))


def flag(*names: str) -> Hole:
    return Hole(lambda fields: fields.flag(*names))


def choice(*names: str, **meanings: Any) -> Hole:
    """A field with named values: what each stands for in a document. Other values are refused."""

    def read(fields: Fields) -> Any:
        word = fields.get(*names)
        key = shown(word) if isinstance(word, bool) or word is None else word
        if not isinstance(key, str) or key not in meanings:
            hint = did_you_mean(key, meanings) if isinstance(key, str) else None
            why = f"{shown(word)} is not understood; known are {', '.join(meanings)}"
            error = fields.unsupported(next((n for n in names if n in fields.values), names[0]), why)
            raise InputError(error.message, hint, error.kind)
        return meanings[key]

    return Hole(read)


def when(condition: str | Hole, then: Any, otherwise: Any = None) -> Hole:
    """One value where a flag is true, another where it isn't. The fields of the other count as known, no more."""
    test = flag(condition) if isinstance(condition, str) else condition

    def read(fields: Fields) -> Any:
        chosen, other = (then, otherwise) if test.read(fields) else (otherwise, then)
        with suppress(InputError):
            fill(other, fields)
        return chosen

    return Hole(read)


def fill(template: Any, fields: Fields, path: str = "") -> Any:
    """A template with its holes filled; keys whose value is None are left out. `path` is its place in the document."""
    if isinstance(template, Hole):
        before = len(fields.asked)
        value = template.read(fields)
        given = [name for name in fields.asked[before:] if name in fields.values]
        if path and given:
            fields.origin.setdefault(path, given[0])
        return fill(value, fields, path)
    if isinstance(template, Mapping):
        filled = {key: fill(value, fields, f"{path}.{key}" if path else key) for key, value in template.items()}
        return {key: value for key, value in filled.items() if value is not None}
    return template


# --- holes that many readers share ------------------------------------------------------------------------------------

#: a config's activation -> the function's name in a document; the gate is the class's, not the field's
FUNCTIONS = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_accurate": "gelu_tanh",
    "relu": "relu",
    "relu2": "relu2",
    "relu_squared": "relu2",
    "silu": "silu",
    "swish": "silu",
    "swiglu": "silu",
    "geglu": "gelu",
    "xielu": "xielu",
}
GATED = {"silu": "swiglu", "gelu": "geglu", "gelu_tanh": "geglu_tanh", "relu": "reglu", "relu2": "relu2glu"}


def activation(*names: str, gated: bool) -> Hole:
    """The MLP's activation: the field names the function, the class decides whether it gates."""

    def read(fields: Fields) -> str:
        word = fields.word(*names)
        function = FUNCTIONS.get(word or "")
        if function is None or (gated and function not in GATED):
            raise fields.unsupported(names[0], f"activation {shown(word)} is not understood")
        return GATED[function] if gated else function

    return Hole(read)


def rmsnorm(eps: str | float = "rms_norm_eps", **more: Any) -> dict[str, Any]:
    return {"kind": "rmsnorm", "eps": number(eps) if isinstance(eps, str) else eps, **more}


def layernorm(eps: str | float = "layer_norm_eps", **more: Any) -> dict[str, Any]:
    return {"kind": "layernorm", "bias": True, "eps": number(eps) if isinstance(eps, str) else eps, **more}


def sites(**which: str | Hole | bool) -> Hole:
    """Bias sites, each switched by a flag of the config (or always there): `sites(attn="attention_bias")`."""

    def read(fields: Fields) -> list[str] | str:
        tests = {site: flag(test) if isinstance(test, str) else test for site, test in which.items()}
        chosen = [s for s, test in tests.items() if (test.read(fields) if isinstance(test, Hole) else test)]
        words = [word for site in chosen for word in site.split("__")]
        return words if len(words) != 1 or words[0] != "qkv" else "qkv"

    return Hole(read)


# --- readers ----------------------------------------------------------------------------------------------------------


def is_irrelevant(name: str) -> bool:
    last = name.rpartition(".")[2]
    return last in IRRELEVANT or last.startswith("_")


#: a key of a template whose value is several keys of the document: sections that only the config knows
SEARCHED = "searched"
WORD = re.compile(r"[A-Za-z_]\w*")


#: what a class's purpose (the end of its name, such as ForMaskedLM) changes in a document; None takes a key away
Classes: TypeAlias = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Reader:
    """How the config.json files of one model_type are read, and what their tensors are called.

    document: a document with holes, of which sections that no layer uses are left out.
    defaults: what holds for absent fields beyond the defaults of the class.
    like: the model_type whose class has the defaults, where it isn't the model_type itself.
    only: fields with one understood value; another value is refused.
    irrelevant: fields beyond the common ones that change neither the architecture nor a count, or that say again what
        a field says that was read.
    nested: objects inside the config whose fields are written with a dot: attn_config.kv_n_heads.
    classes: what stands on the last layer, by what the class named in `architectures` is for; None: a language model's.
    aside: templates that the class has no use for, whose fields are known all the same.
    """

    document: Mapping[str, Any]
    names: Names
    defaults: Mapping[str, Any] = field(default_factory=dict)
    only: Mapping[str, Any] = field(default_factory=dict)
    irrelevant: frozenset[str] = frozenset()
    nested: tuple[str, ...] = ()
    like: str | None = None
    classes: Classes | None = None
    aside: tuple[Any, ...] = ()

    def of_class(self, change: Mapping[str, Any]) -> Reader:
        """This reader for a class with another head."""
        aside = tuple(self.document[key] for key in change if key in self.document)
        return replace(self.but(document=change, like=self.like), aside=aside)

    def but(
        self,
        document: Mapping[str, Any] | None = None,
        defaults: Mapping[str, Any] | None = None,
        names: Names | None = None,
        only: Mapping[str, Any] | None = None,
        irrelevant: Iterable[str] = (),
        like: str | None = None,
        classes: Classes | None = None,
    ) -> Reader:
        """This reader with differences; a document key set to None goes away, and so does a field of `only`."""
        merged = {**self.document, **(document or {})}
        return Reader(
            document={key: value for key, value in merged.items() if value is not None},
            names={**self.names, **(names or {})},
            defaults={**self.defaults, **(defaults or {})},
            only={**self.only, **(only or {})},
            irrelevant=self.irrelevant | frozenset(irrelevant),
            nested=self.nested,
            like=like,
            classes=classes if classes is not None else self.classes,
        )

    def fields(self, config: Mapping[str, Any], model_type: str, within: str = "") -> Fields:
        """The fields of a config, those of nested objects under dotted names."""
        flat = dict(config)
        for key in self.nested:
            value = flat.pop(key, None)
            if isinstance(value, Mapping):
                flat |= {f"{key}.{inner}": item for inner, item in value.items()}
            elif value is not None:
                raise InputError(f"{within}{key}: expected an object, found {shown(value)}")
        return Fields(flat, {**class_defaults(self.like or model_type), **self.defaults}, model_type, within)

    def fill(self, fields: Fields) -> dict[str, Any]:
        """The document of a config."""
        document: dict[str, Any] = {}
        unused = self.unused_sections(fields)
        for key, template in self.document.items():
            try:
                value = fill(template, fields, key)
            except InputError:
                if key not in unused:
                    raise
            if key == SEARCHED:
                document |= value
            elif value is not None and key not in unused:
                document[key] = value
        for template in self.aside:
            with suppress(InputError):
                fill(template, fields)
        document["storage"] = {"fused": together(self.names), **published(fields.model_type)}
        self.check(fields)
        return document

    def unused_sections(self, fields: Fields) -> set[str]:
        """Sections that neither the layers nor a used section refers to. Their fields count as known, no more."""
        nested = {key: value for key, value in self.document.items() if isinstance(value, Mapping)}
        sections = {key: value for key, value in nested.items() if key in KINDS or "like" in value}
        mtp = fill(self.document.get("mtp"), fields)
        block = mtp.get("block", "") if isinstance(mtp, Mapping) else ""
        layers = fill(self.document.get("layers", self.document.get(SEARCHED, DEFAULT_LAYERS)), fields)
        used = set(WORD.findall(f"{layers} {block}"))
        while True:
            refers = {sections[name].get("like") for name in used & set(sections)}
            refers |= {sections[name].get("kv", {}).get("from") for name in used & set(sections)}
            if refers <= used | {None}:
                return set(sections) - used
            used |= refers

    def check(self, fields: Fields) -> None:
        """Every field must be read, have its one understood value, or be known to be irrelevant."""
        asked = set(fields.asked)
        for name, value in fields.values.items():
            if name in asked or value is None or name in self.irrelevant or is_irrelevant(name):
                continue
            last = name.rpartition(".")[2]
            if name in self.only or last in WITHOUT_EFFECT:
                understood = self.only.get(name, WITHOUT_EFFECT.get(last))
                options = understood if isinstance(understood, tuple) else (understood,)
                if shown(value) not in [shown(option) for option in options]:
                    likely = " or ".join(shown(option) for option in options)
                    raise fields.unsupported(name, f"only {likely} is understood, found {shown(value)}")
                continue
            known = [*asked, *self.only]
            raise InputError(
                f"{fields.within}field {printable(name)!r} of model_type {fields.model_type!r} is not understood "
                "and may change the count",
                did_you_mean(name, known),
                "unsupported",
            )
