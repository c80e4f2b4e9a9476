"""What a command takes: its function's parameters, each struct of `gptcalc.conventions` among them spread out into an
option for each field.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import FunctionType
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

from msgspec import NODEFAULT, Struct

from gptcalc.cli.options import byte_size, number
from gptcalc.errors import InputError
from gptcalc.options import Option, check, choices, declared, defaults, plain, spelled

if TYPE_CHECKING:
    from gptcalc.conventions import InferenceRun, TrainingRun

#: behind the last option of a command that does both
TRAINING = Annotated[
    bool, Option("A training step: gradients, optimiser states, what the backward pass keeps.", name="--training")
]


class Parameter(Struct, frozen=True):
    """One parameter of a command's function. Without a default it must be given."""

    name: str
    annotation: Any
    default: Any = NODEFAULT

    @property
    def required(self) -> bool:
        return self.default is NODEFAULT

    @property
    def words(self) -> tuple[str, ...]:
        """How it is spelled."""
        option = plain(self.annotation)[2]
        return (option.name or spelled(self.name), *option.also)


def parameters_of(function: Callable[..., Any]) -> tuple[Parameter, ...]:
    """A function's parameters. `inspect` would do, but takes long to import."""
    assert isinstance(function, FunctionType)
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    defaults = function.__defaults__ or ()
    hints = get_type_hints(function, include_extras=True)
    whole = (NODEFAULT,) * (len(names) - len(defaults)) + defaults
    return tuple(Parameter(name, hints[name], default) for name, default in zip(names, whole, strict=True))


def expanded(parameters: Iterable[Parameter]) -> list[Parameter]:
    """A command's parameters, each struct replaced by its fields."""
    found: dict[str, Parameter] = {}
    for parameter in parameters:
        kinds = structs(parameter.annotation)
        if not kinds:
            found[parameter.name] = parameter
            continue
        for kind in kinds:
            for name, annotation in declared(kind).items():
                own = Parameter(name, _annotation(kinds, name, annotation), _default(kinds, name))
                found.setdefault(name, own)
        if len(kinds) > 1:
            found["training"] = Parameter("training", TRAINING, False)
    return list(found.values())


def gathered(parameters: Iterable[Parameter], values: Mapping[str, Any]) -> dict[str, Any]:
    """What a command is called with: its own values, and the structs that the others make."""
    made: dict[str, Any] = {}
    for parameter in parameters:
        kinds = structs(parameter.annotation)
        if len(kinds) > 1:
            made[parameter.name] = _either(values)
        elif kinds:
            made[parameter.name] = kinds[0](**{name: values[name] for name in declared(kinds[0])})
        else:
            made[parameter.name] = values[parameter.name]
            if choices(plain(parameter.annotation)[0]):
                check(parameter.words[0], parameter.annotation, values[parameter.name])
    return made


def structs(annotation: Any) -> tuple[type[Struct], ...]:
    """The conventions that a parameter stands for: one struct, or a served model's and a trained one's."""
    kinds = get_args(annotation) or (annotation,)
    return tuple(kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Struct))


def parser(parameter: Parameter) -> Callable[[Any], Any] | None:
    """What makes a value of a word, where it isn't the word itself; its errors name the option."""
    kind, _, option = plain(parameter.annotation)
    if option.read is not None:
        return option.read
    if kind is not int:
        return None
    if option.is_size:
        return byte_size(parameter.words[0])
    return number(parameter.words[0], dict(option.words), option.least)


def _default(kinds: tuple[type[Struct], ...], name: str) -> Any:
    """A field's default where all structs that are asked for agree; None where it depends on which of them is meant."""
    from gptcalc.conventions import InferenceRun, TrainingRun

    own = [defaults(kind)[name] for kind in kinds if name in defaults(kind)]
    if len(kinds) == 1 or own[0] is False or (len(own) == len(kinds) and own.count(own[0]) == len(own)):
        return own[0]
    return own[0] if name in defaults(InferenceRun) and name not in defaults(TrainingRun) else None


def _annotation(kinds: tuple[type[Struct], ...], name: str, annotation: Any) -> Any:
    """Where both are meant, a phase says which, and the batch is explained for both."""
    if len(kinds) > 1 and name == "phase":
        from gptcalc.conventions import PhaseOption

        return PhaseOption
    return declared(kinds[-1]).get(name, annotation)


def _either(values: Mapping[str, Any]) -> InferenceRun | TrainingRun:
    """The kind of run that --training or --phase train ask for; InputError where an option is of the other kind."""
    from gptcalc.conventions import InferenceRun, PhaseOption, TrainingRun

    check("--phase", PhaseOption, values["phase"])
    served, trained = declared(InferenceRun), declared(TrainingRun)
    if not (values["training"] or values["phase"] == "train"):
        for name in trained:
            if name not in served and values[name] not in (None, False):
                raise InputError(f"{spelled(name)} is about training", "add --training", "usage")
        return InferenceRun(**{name: values[name] for name in served if values[name] is not None})
    plain_run = InferenceRun()
    for name in served:
        if name not in trained and values[name] not in (getattr(plain_run, name), "train"):
            raise InputError(f"{spelled(name)} is about inference, not --training", "leave it out", "usage")
    return TrainingRun(**{name: values[name] for name in trained if values[name] is not None})
