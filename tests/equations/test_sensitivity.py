"""No field moves logits behind the lines' back: a field of the architecture, changed or switched on or off, that gives
other logits with the same weights gives other lines, constants, ranges or counts."""

from __future__ import annotations

import typing
from collections.abc import Iterator
from types import UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np
import pytest
from msgspec import Struct
from msgspec.structs import replace

from gptcalc.architecture import Architecture
from gptcalc.equations import equations
from gptcalc.errors import InputError
from gptcalc.reference.model import Model
from tests.reference_cases import architecture

#: small models that have most of what a decoder has
MODELS = ("grouped", "latent", "sinks")

#: what no document says: a shared norm in front of one unit, a head that reads other channels than the embedding has
UNWRITTEN = ("parts.norm", "head.width")

TOKENS = np.random.default_rng(3).integers(0, 53, 11)


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
    elif kind is type(None):
        yield from (None,) * (value is not None)
    elif kind is bool:
        yield not value
    elif kind is float:
        yield from (0.5,) if value is None else (value * 0.73 + 0.11,)
    elif kind is int:
        yield from (3,) if value is None else (value + 1,)
    elif isinstance(kind, type) and issubclass(kind, Struct) and (value is None or type(value) is not kind):
        try:
            yield kind()
        except (TypeError, InputError):  # what it must be told
            return


def changed(struct: Any) -> Iterator[tuple[str, Any]]:
    """The struct with one field changed, at any depth."""
    hints = get_type_hints(type(struct), include_extras=True)
    for name in struct.__struct_fields__:
        value = getattr(struct, name)
        inner: list[tuple[str, Any]] = [("", other) for other in others(hints[name], value)]
        if isinstance(value, Struct):
            inner += changed(value)
        elif isinstance(value, tuple) and value and isinstance(value[0], Struct):
            inner += [(where, (other, *value[1:])) for where, other in changed(value[0])]
        for where, other in inner:
            try:
                yield f"{name}.{where}".rstrip("."), replace(struct, **{name: other})
            except (InputError, ValueError):
                continue


def written(model: Architecture) -> list[Any]:
    """All that the lines say."""
    return [
        (stage.times, line.text, dict(line.constants), line.ranges(), line.weights, line.condition, line.kept)
        for stage in equations(model).stages
        for line in stage.lines
    ]


@pytest.mark.parametrize("name", MODELS)
def test_what_moves_logits_is_in_a_line(name: str) -> None:
    model = architecture(name)
    lines = written(model)
    with np.errstate(all="ignore"):
        logits = Model(model, dtype=np.float64).prefill(TOKENS).logits
        for field, other in changed(model):
            try:
                if written(other) != lines:
                    continue
                moved = Model(other, dtype=np.float64).prefill(TOKENS).logits
            except (InputError, AssertionError, ValueError, KeyError):  # what no document says
                continue
            assert field.endswith(UNWRITTEN) or np.array_equal(moved, logits, equal_nan=True), field
