"""Options made from the structs of `gptcalc.conventions`: a command that takes one has an option for each field."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer
from msgspec import Struct

from gptcalc.cli.options import byte_size, number
from gptcalc.errors import InputError
from gptcalc.options import Option, check, choices, declared, plain, spelled

if TYPE_CHECKING:
    from gptcalc.conventions import InferenceRun, TrainingRun

#: behind the last option of a command that does both
TRAINING = Annotated[
    bool, typer.Option("--training", help="A training step: gradients, optimiser states, what the backward pass keeps.")
]


def expanded(parameters: Iterable[inspect.Parameter]) -> list[inspect.Parameter]:
    """A command's parameters, each struct replaced by its fields' options, and each field's marks by an option."""
    found: dict[str, inspect.Parameter] = {}
    for parameter in parameters:
        kinds = structs(parameter.annotation)
        if not kinds:
            found[parameter.name] = parameter.replace(annotation=_typed(parameter.name, parameter.annotation))
            continue
        for kind in kinds:
            for name, annotation in declared(kind).items():
                default = _default(kinds, name)
                found.setdefault(name, _parameter(name, _annotation(kinds, name, annotation), default))
        if len(kinds) > 1:
            found["training"] = _parameter("training", TRAINING, False)
    return list(found.values())


def gathered(parameters: Iterable[inspect.Parameter], values: Mapping[str, Any]) -> dict[str, Any]:
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
    return made


def structs(annotation: Any) -> tuple[type[Struct], ...]:
    """The conventions that a parameter stands for: one struct, or a served model's and a trained one's."""
    kinds = get_args(annotation) or (annotation,)
    return tuple(kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Struct))


def _default(kinds: tuple[type[Struct], ...], name: str) -> Any:
    """A field's default where all structs that are asked for agree; None where it depends on which of them is meant."""
    from gptcalc.conventions import InferenceRun, TrainingRun

    own = [getattr(kind(), name) for kind in kinds if name in declared(kind)]
    if len(kinds) == 1 or own[0] is False or (len(own) == len(kinds) and own.count(own[0]) == len(own)):
        return own[0]
    return own[0] if name in declared(InferenceRun) and name not in declared(TrainingRun) else None


def _annotation(kinds: tuple[type[Struct], ...], name: str, annotation: Any) -> Any:
    """Where both are meant, a phase says which, and the batch is explained for both."""
    if len(kinds) > 1 and name == "phase":
        from gptcalc.conventions import PhaseOption

        return PhaseOption
    return declared(kinds[-1]).get(name, annotation)


def _parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Parameter(name, kind, default=default, annotation=_typed(name, annotation))


def _typed(name: str, annotation: Any) -> Any:
    """An annotation of `gptcalc.conventions` as one of Typer's; any other as it is."""
    kind, optional, option = plain(annotation)
    if not option.help:
        return annotation
    words, known = [spelled(name), *option.also], choices(kind)
    settings: dict[str, Any] = {"help": option.help, "show_default": not optional}
    type_: Any = kind
    if known and all(isinstance(word, str) for word in known):
        settings |= {"metavar": f"[{'|'.join(known)}]", "autocompletion": _completion(known)}
        type_ = str
    elif known:
        settings |= {"metavar": option.metavar}
        type_ = int
    elif kind is int:
        settings |= {"metavar": option.metavar, "parser": _parser(option, words[0])}
    elif kind is not bool:
        settings |= {"metavar": option.metavar}
    return Annotated[type_ | None if optional else type_, typer.Option(*words, **settings)]


def _parser(option: Option, word: str) -> Callable[[Any], int]:
    return byte_size(word) if option.is_size else number(word, dict(option.words))


def _completion(known: tuple[str, ...]) -> Callable[[str], list[str]]:
    def complete(incomplete: str) -> list[str]:
        return [word for word in known if word.startswith(incomplete)]

    return complete


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
