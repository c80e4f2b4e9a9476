"""No field moves logits behind the lines' back: a field of the architecture, changed or switched on or off, that gives
other logits with the same weights gives other lines, constants, ranges or counts.

Every field of every struct that an architecture may hold is changed in small models that between them have every kind
of block. By default each change of a field is tried in two models; with `-m heavy` in all that have it.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterator
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, TypeAlias, get_args, get_origin

import numpy as np
import pytest
from msgspec import NODEFAULT, Struct
from msgspec.structs import fields as declared_fields
from msgspec.structs import replace

from gptcalc.architecture import Architecture, Strict, visits
from gptcalc.document import build
from gptcalc.equations import equations
from gptcalc.errors import InputError
from gptcalc.reference.model import Model
from gptcalc.reference.source import random_source
from tests.reference_cases import DOCUMENTS, ENCODERS
from tests.structs import fields, held, structs

Path: TypeAlias = tuple[type[Strict], str]

#: fields of which no change can be made and compared, and why
UNTRIED = {
    "name": "a name; no number depends on it",
    "section": "a name; no number depends on it",
    "from_": "another section: the names of all that exist stand in the document, not in the field's type",
    "encoder": "there where a layer reads it, so that it can't be left out alone",
    "encoded": "there where a layer reads it, so that it can't be left out alone",
    "q_norm": "an indexer's: there where the queries have no bottleneck, so that it can't be left out alone",
    "body": "what else layers may hold are other documents",
    "units": "what else a part may hold are other documents",
    "Storage": "how weights lie in files: stands outside the forward pass",
    "Modules": "how weights lie in files: stands outside the forward pass",
    "Dropout": "of training alone: what it costs is in the activations that are kept",
}

#: wrong combinations that are not refused when they are made, but where a document is read or the lines are
REFUSED_LATER = (InputError, AssertionError, KeyError, ValueError)

TIMES = 2  # models in which each change is tried


class Change(NamedTuple):
    """A field changed to another value somewhere in a model."""

    field: Path
    value: str
    make: Callable[[], Any]


def others(kind: Any, value: Any) -> Iterator[Any]:
    """Other values that a field of this type may have; what stands for nothing is switched on with its defaults."""
    origin = get_origin(kind)
    if origin in (typing.Union, UnionType):
        for part in get_args(kind):
            yield from others(part, value)
    elif origin is typing.Annotated:
        yield from others(get_args(kind)[0], value)
    elif origin is Literal:
        yield from (choice for choice in get_args(kind) if choice != value)
    elif origin is tuple:
        yield from other_tuples(get_args(kind)[0], value)
    elif kind is NoneType:
        yield from (None,) * (value is not None)
    elif kind is bool:
        yield not value
    elif kind is float:
        yield value * 0.73 + 0.11 if isinstance(value, float) else 0.5
    elif kind is int:
        yield from (value + 1, value - 1, value + 2, 2 * value) if isinstance(value, int) else (3,)
    elif isinstance(kind, type) and issubclass(kind, Strict) and type(value) is not kind:
        yield from made(kind)


def other_tuples(item: Any, value: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """One site more or less; one number of several changed."""
    item = get_args(item)[0] if get_origin(item) is typing.Annotated else item
    if get_origin(item) is Literal:
        sites = get_args(item)
        yield from (tuple(s for s in sites if (s in value) != (s == site)) for site in sites)
    elif item is float:
        yield from ((*value[:at], number * 0.73 + 0.11, *value[at + 1 :]) for at, number in enumerate(value))
    elif item is int:
        yield from ((*value[:at], number + 1, *value[at + 1 :]) for at, number in enumerate(value))


def made(kind: type[Strict]) -> Iterator[Strict]:
    """The struct with its defaults, and something for what has none."""
    needed = [field for field in declared_fields(kind) if field.default is NODEFAULT and field.required]
    hints = dict(fields(kind))
    try:
        yield kind(**{field.name: next(others(hints[field.name], None)) for field in needed})
    except (InputError, ValueError, StopIteration, TypeError):
        return


@cache
def fields_of(kind: type[Strict]) -> list[tuple[Path, str, Any]]:
    """A struct's fields, each with the class that declares it: what all sublayers have is one field."""
    owners = {name: base for base in kind.__mro__[:-2] for name in getattr(base, "__annotations__", {})}
    return [((owners[name], name), name, declared) for name, declared in fields(kind)]


def changed(struct: Strict) -> Iterator[Change]:
    """The struct with one field changed, at any depth."""
    for path, name, declared in fields_of(type(struct)):
        value = getattr(struct, name)
        for other in others(declared, value):
            yield Change(path, repr(other), lambda name=name, other=other: replace(struct, **{name: other}))  # type: ignore[misc]
        for at, item in enumerate(value if isinstance(value, tuple) else (value,)):
            if isinstance(item, Strict):
                for change in changed(item):
                    yield change._replace(make=lambda n=name, at=at, make=change.make: put(struct, n, at, make()))  # type: ignore[misc]


def put(struct: Strict, name: str, at: int, item: Any) -> Strict:
    value = getattr(struct, name)
    return replace(struct, **{name: (*value[:at], item, *value[at + 1 :]) if isinstance(value, tuple) else item})


@cache
def models() -> dict[str, Architecture]:
    return {name: build({"name": name, **document}) for name, document in {**DOCUMENTS, **ENCODERS}.items()}


@cache
def trials() -> dict[str, list[tuple[Path, str, Architecture]]]:
    """All models that differ from one of the small ones in one field."""
    found: dict[str, list[tuple[Path, str, Architecture]]] = {}
    for name, model in models().items():
        seen = {model}
        found[name] = []
        for change in changed(model):
            try:
                other = change.make()
            except (InputError, ValueError):
                continue
            if other not in seen:
                seen.add(other)
                found[name].append((change.field, change.value, other))
    return found


@cache
def chosen() -> dict[str, list[tuple[Path, str, Architecture]]]:
    """Of all trials so many of each change, from models that are not neighbours."""
    times: dict[tuple[Path, str], int] = {}
    found: dict[str, list[tuple[Path, str, Architecture]]] = {name: [] for name in trials()}
    order = sorted(trials(), key=lambda name: (len(trials()[name]), name))
    for name in order:
        for field, value, other in trials()[name]:
            kind = value if len(value) < 20 else value.partition("(")[0]
            if times.setdefault((field, kind), 0) < TIMES:
                times[field, kind] += 1
                found[name].append((field, value, other))
    return found


def written(model: Architecture) -> list[Any]:
    """All that the lines say, and in which order layers run them."""
    return [[number for number, _, _ in visits(model)]] + [
        (
            stage.times,
            stage.passes,
            line.passes,
            line.text,
            dict(line.constants),
            line.ranges(),
            line.weights,
            line.condition,
            line.kept,
        )
        for stage in equations(model).stages
        for line in stage.lines
    ]


def computed(model: Architecture) -> list[Any]:
    """All that comes out of the witness, with the same weights and tokens each time."""
    tokens = np.random.default_rng(3).integers(0, 50, 11)
    with np.errstate(all="ignore"):
        result = Model(model, dtype=np.float64).prefill(tokens, source=random_source(model, 9, 7), predict=True)
    return [result.logits, *result.predicted, *([] if result.pooled is None else [result.pooled])]


def hidden(name: str, tried: list[tuple[Path, str, Architecture]]) -> list[str]:
    """The changes that move logits and no line."""
    model = models()[name]
    lines, before = written(model), computed(model)
    found = []
    for (owner, field), value, other in tried:
        try:
            if written(other) != lines:
                continue
            after = computed(other)
        except REFUSED_LATER:
            continue
        if not all(np.array_equal(x, y, equal_nan=True) for x, y in zip(before, after, strict=True)):
            found.append(f"{owner.__name__}.{field} = {value}")
    return found


def is_one_struct(declared: Any) -> bool:
    """Whether a field holds a struct of one kind, or such structs: whose fields are tried instead."""
    kinds = {*held(declared)} if NoneType not in get_args(declared) else set()
    return len(kinds) == 1 and all(isinstance(kind, type) and issubclass(kind, Struct) for kind in kinds)


def test_every_field_is_tried() -> None:
    tried = {field for trial in trials().values() for field, _, _ in trial}
    every = {path: declared for kind in structs() for path, _, declared in fields_of(kind)}
    untried = {path for path, declared in every.items() if not is_one_struct(declared)} - tried
    missed = [f"{owner.__name__}.{field}" for owner, field in untried if not {field, owner.__name__} & set(UNTRIED)]
    assert not missed, ", ".join(missed)


@pytest.mark.parametrize("name", [*DOCUMENTS, *ENCODERS])
def test_what_moves_logits_is_in_a_line(name: str) -> None:
    assert hidden(name, chosen()[name]) == []


@pytest.mark.heavy
@pytest.mark.parametrize("name", [*DOCUMENTS, *ENCODERS])
def test_what_moves_logits_is_in_a_line_of_every_model(name: str) -> None:
    assert hidden(name, trials()[name]) == []
