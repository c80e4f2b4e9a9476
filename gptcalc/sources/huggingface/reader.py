"""The vocabulary in which readers of config.json files are written.

A `Reader` is a document (the keys of a preset file) with holes. A hole is a field of the config: `size("hidden_size")`
reads it, checks it and names it in errors. What has no field of its own is a constant; what data can't say is a `Hole`
around a small function. A field that is neither read nor known to be irrelevant might change the count: it is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from gptcalc.document import KINDS
from gptcalc.document.expression import words
from gptcalc.document.keys import DEFAULT_LAYERS
from gptcalc.errors import InputError, did_you_mean, printable
from gptcalc.sources.huggingface.classes import class_of
from gptcalc.sources.huggingface.fields import Fields, shown
from gptcalc.sources.huggingface.published import published
from gptcalc.sources.huggingface.tensors import Names, modules, together
from gptcalc.sources.huggingface.unread import check


class Hole(Struct, frozen=True):
    """A value of the document that the config's fields decide. None leaves the key out."""

    read: Callable[[Fields], Any]


def size(*names: str, least: int = 1) -> Hole:
    """A field that must be there (or have a default in its class)."""

    def read(fields: Fields) -> int:
        value = fields.size(*names, least=least)
        if value is None:
            raise fields.missing(names[0])
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


def tied(otherwise: str) -> Hole:
    """Whether output and embedding are one table. Where a config says that they aren't, a note: what transformers does
    then, that no publisher's checkpoint has."""

    def read(fields: Fields) -> bool | None:
        found = fields.flag("tie_word_embeddings")
        if not found and "tie_word_embeddings" in fields.values:
            said = shown(fields.values["tie_word_embeddings"])
            fields.notes.append(f"{fields.within}tie_word_embeddings is {said}: {otherwise}")
        return found

    return Hole(read)


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


#: a key of a template whose value is several keys of the document: sections that only the config knows
SEARCHED = "searched"


#: what a class's purpose (the end of its name, such as ForMaskedLM) changes in a document; None takes a key away
Classes: TypeAlias = Mapping[str, Mapping[str, Any]]


class Reader(Struct, frozen=True):
    """How the config.json files of one model_type are read, and what their tensors are called.

    document: a document with holes, of which sections that no layer uses are left out.
    defaults: what holds for absent fields where the type's class has no default, or null.
    instead: defaults in place of the class's, where one class reads files of several layouts.
    called: other names of the type's model classes, of code before or beside transformers.
    classes: what stands on the last layer, by what the class named in `architectures` is for; None: a language model's.
    aside: templates that the class has no use for, whose fields are known all the same.
    like: the model_type whose class has the defaults, where it isn't the model_type itself.
    only: fields with one understood value; another value is refused.
    irrelevant: fields beyond the common ones that change neither the architecture nor a count, or that say again what
        a field says that was read.
    vendor: fields that the code of a vendor reads and the type's class in transformers doesn't -> whose code. The class
        is counted; where the config brings the vendor's code, a value beyond `only` is refused.
    beyond: fields that count although the type's class in transformers doesn't read them, as its vendor's code does.
    nested: objects inside the config whose fields are written with a dot: attn_config.kv_n_heads.
    several: those of them that may be lists of objects; the second one's fields are attn.1.layers.
    """

    document: Mapping[str, Any]
    names: Names
    defaults: Mapping[str, Any] = {}
    instead: Mapping[str, Any] = {}
    only: Mapping[str, Any] = {}
    irrelevant: frozenset[str] = frozenset()
    vendor: Mapping[str, str] = {}
    beyond: frozenset[str] = frozenset()
    called: tuple[str, ...] = ()
    nested: tuple[str, ...] = ()
    several: tuple[str, ...] = ()
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
        vendor: Mapping[str, str] | None = None,
        beyond: Iterable[str] = (),
        instead: Mapping[str, Any] | None = None,
        called: tuple[str, ...] = (),
        like: str | None = None,
        classes: Classes | None = None,
    ) -> Reader:
        """This reader with differences; a document key set to None goes away, and so does a field of `only`."""
        merged = {**self.document, **(document or {})}
        return Reader(
            document={key: value for key, value in merged.items() if value is not None},
            names={**self.names, **(names or {})},
            defaults={**self.defaults, **(defaults or {})},
            instead={**self.instead, **(instead or {})},
            only={**self.only, **(only or {})},
            irrelevant=self.irrelevant | frozenset(irrelevant),
            vendor={**self.vendor, **(vendor or {})},
            beyond=self.beyond | frozenset(beyond),
            called=self.called + called,
            nested=self.nested,
            several=self.several,
            like=like,
            classes=classes if classes is not None else self.classes,
        )

    def fields(self, config: Mapping[str, Any], model_type: str, within: str = "") -> Fields:
        """The fields of a config, those of nested objects under dotted names."""
        flat = dict(config)
        for key in self.nested:
            value = flat.pop(key, None)
            objects = value if isinstance(value, list) and key in self.several else [value]
            if value is not None and all(isinstance(one, Mapping) for one in objects):
                for n, one in enumerate(objects):
                    flat |= {f"{key}.{n}.{inner}" if n else f"{key}.{inner}": item for inner, item in one.items()}
            elif value is not None:
                raise InputError(f"{within}{key}: expected an object, found {shown(value)}")
        known = class_of(self.like or model_type)
        said = {} if known is None else {name: value for name, value in known.defaults.items() if value is not None}
        silent = {} if known is None else known.defaults
        defaults = {**silent, **self.defaults, **said, **self.instead}
        return Fields(flat, defaults, model_type, within, known, self.beyond)

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
        if "d_head" in self.document and (width := whole_channels(document, fields)):
            document["d_head"] = width
        own = published(fields.model_type)
        document["storage"] = {"fused": together(self.names), "modules": modules(self.names), **own}
        check(fields, self.only, self.irrelevant, self.vendor)
        return document

    def unused_sections(self, fields: Fields) -> set[str]:
        """Sections that neither the layers nor a used section refers to. Their fields count as known, no more."""
        nested = {key: value for key, value in self.document.items() if isinstance(value, Mapping)}
        sections = {key: value for key, value in nested.items() if key in KINDS or "like" in value}
        mtp = fill(self.document.get("mtp"), fields)
        block = mtp.get("block", "") if isinstance(mtp, Mapping) and mtp.get("n") != 0 else ""
        layers = fill(self.document.get("layers", self.document.get(SEARCHED, DEFAULT_LAYERS)), fields)
        used: set[Any] = set(words(f"{layers} {block}"))
        while True:
            refers = {sections[name].get("like") for name in used & set(sections)}
            refers |= {sections[name].get("kv", {}).get("from") for name in used & set(sections)}
            if refers <= used | {None}:
                return set(sections) - used
            used |= refers


def whole_channels(document: Mapping[str, Any], fields: Fields) -> int | None:
    """The width of a head where the config says none and the heads don't divide the model's: as the class rounds."""
    d, n_heads = document.get("d"), document.get("n_heads")
    if document.get("d_head") is not None or fields.known is None or fields.known.divides or not (d and n_heads):
        return None
    if d % n_heads == 0 or d < n_heads:
        return None
    text = f"{n_heads} heads do not divide a width of {d}: transformers' class of {printable(fields.model_type)} gives"
    fields.notes.append(f"{text} each {d // n_heads} channels")
    return int(d // n_heads)
