"""The fields of one config.json: read, checked, and named in errors."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NoReturn

from gptcalc.errors import InputError, printable
from gptcalc.sources.huggingface.classes import ConfigClass

LARGEST = 1_000_000_000

#: what counts whether or not a class reads it: the length that a model is made for, its labels, and modules for further
#: tokens, which transformers leaves out of its classes and checkpoints hold
BEYOND = frozenset({
    "num_nextn_predict_layers", "num_mtp_layers", "num_mtp_modules", "mtp_transformer_layers", "use_mtp",
    "mtp_num_hidden_layers", "mtp_layer_types", "mtp_mlp_layer_types", "max_position_embeddings", "num_labels",
    "id2label",
})  # fmt: skip


class Fields:
    """The fields of one config. Remembers which were asked for; what is absent has the class's default."""

    def __init__(
        self,
        values: Mapping[str, Any],
        defaults: Mapping[str, Any],
        model_type: str,
        within: str = "",
        known: ConfigClass | None = None,
        beyond: Collection[str] = (),
    ) -> None:
        self.values = values
        self.defaults = defaults
        self.model_type = model_type
        self.within = within
        self.known = known
        self.beyond = beyond
        self.asked: list[str] = []
        self.defaulted: list[str] = []
        self.origin: dict[str, str] = {}  # where in the document -> the field that decided it
        self.notes: list[str] = []

    def reads(self, name: str) -> bool:
        """Whether a field can mean anything: the type's class reads it, or it says what no class of transformers builds
        (multi-token-prediction modules), or there is no class to ask."""
        if self.known is None or "." in name or name in BEYOND or name in self.beyond:
            return True
        return self.known.own(name) in self.known.reads

    def is_absent(self, name: str) -> bool:
        """Whether null says no more than nothing: it is what the class declares, and makes something of."""
        known = self.known
        return known is not None and known.own(name) in known.defaults and known.defaults[known.own(name)] is None

    def is_unread(self, name: str) -> bool:
        """Whether there is a class to ask, and it doesn't read the field."""
        return self.known is not None and "." not in name and self.known.own(name) not in self.known.reads

    def assumes(self, name: str) -> bool:
        """Whether a default stands for an absent field; what a class declares and never reads stands for nothing."""
        return name in self.defaults and (self.reads(name) or self.known is None or name not in self.known.defaults)

    def spellings(self, names: Iterable[str]) -> list[str]:
        """These names and the class's others for the same fields, without those that the class doesn't read."""
        known = self.known
        every = [other for name in names for other in (known.spellings(name) if known else [name])]
        return [name for name in dict.fromkeys(every) if self.reads(name)]

    def get(self, *names: str) -> Any:
        """The field's value, under the first of its names that is present; names that disagree contradict."""
        self.asked.extend(names)
        spellings = self.spellings(names)
        self.asked.extend(spellings)
        given = {name: self.values[name] for name in spellings if self.values.get(name) is not None}
        for name, value in given.items():
            first = next(iter(given))
            if name != first and value != given[first]:
                raise InputError(
                    f"{self.within}{first} = {shown(given[first])} contradicts {self.within}{name} = {shown(value)}"
                )
        if given:
            return next(iter(given.values()))
        if any(name in self.values and not self.is_absent(name) for name in spellings):
            return None
        assumed = [name for name in dict.fromkeys((*spellings, *names)) if self.assumes(name)]
        usual = next((name for name in assumed if self.defaults[name] is not None), next(iter(assumed), None))
        if usual is None:
            return None
        self.defaulted.append(usual)
        return self.defaults[usual]

    def present(self, *names: str) -> bool:
        return any(self.values.get(name) is not None for name in self.spellings(names))

    def wrong(self, names: Sequence[str], expected: str, value: Any) -> NoReturn:
        name = next((n for n in self.spellings(names) if n in self.values), names[0])
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
            raise self.missing(names[0])
        return value

    def missing(self, name: str) -> InputError:
        from difflib import get_close_matches

        strange = [given for given in self.values if not self.reads(given)] if self.known else list(self.values)
        near = get_close_matches(name, strange, n=1, cutoff=0.9)
        return InputError(f"{self.within}{name} is missing", f"did you mean it by {near[0]}?" if near else None)

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
