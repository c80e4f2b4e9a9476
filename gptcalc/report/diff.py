"""Two models line by line: the fields that differ, the figures with their ratio, the equations that only one has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct, to_builtins

from gptcalc import units
from gptcalc.analysis.customs import CUSTOMS, customs
from gptcalc.answers import Outcome, plain
from gptcalc.architecture import Architecture, Mixer, Norm, sublayers
from gptcalc.document.fields import declared
from gptcalc.equations import Line, equations
from gptcalc.report.customs import table
from gptcalc.report.figures import FIGURES, Facts
from gptcalc.report.legend import number_in_words, shown
from gptcalc.report.table import SHORT, Column, Table, View, text

FIGURE_KEYS = (
    "total", "active", "embedding", "non_embedding", "mtp",
    "kv_bytes", "kv_bytes_per_token", "kv_full_bytes", "prefill_flops", "decode_flops",
)  # fmt: skip
#: values that say nothing about a sublayer that only one model has
ABSENT: tuple[Any, ...] = (None, False, (), [], 0, 1.0)


class Field(Struct, frozen=True):
    field: str
    a: Any
    b: Any


class Difference(Struct, frozen=True):
    figure: str
    a: int | None  # None: the model has no such figure, as an encoder has no decode step
    b: int | None
    ratio: float | None  # b / a


class Letter(Struct, frozen=True):
    """A letter that both models' equations have, where it stands for other numbers in each."""

    letter: str
    meaning: str
    a: tuple[float, ...]
    b: tuple[float, ...]


class Custom(Struct, frozen=True):
    """A figure that people quote, and what it counts."""

    custom: str
    counts: str
    a: int
    b: int


class Diff(Outcome, frozen=True, omit_defaults=True):
    """The keys of `gptcalc diff --json`."""

    a: str
    b: str
    context: int
    batch: int
    fields: tuple[Field, ...]
    figures: tuple[Difference, ...]
    equations: dict[str, tuple[str, ...]]  # those of a alone, those of b alone, with their conditions
    letters: tuple[Letter, ...] = ()
    customs: tuple[Custom, ...] = ()  # where asked for: figures by the ways that people count


def diff(a: Facts, b: Facts, conventions: bool = False) -> Diff:
    """What differs between two models at the same batch and context; with `conventions` what people quote, too."""
    return Diff(
        a.architecture.name,
        b.architecture.name,
        a.kv.context,
        a.how.batch,
        tuple(_fields(a.architecture, b.architecture)),
        tuple(_figures(a, b)),
        _equations(a.architecture, b.architecture),
        tuple(_letters(a.architecture, b.architecture)),
        tuple(_customs(a, b)) if conventions else (),
    )


def _customs(a: Facts, b: Facts) -> Iterator[Custom]:
    left, right = customs(a.architecture), customs(b.architecture)
    for key, (_, counts) in CUSTOMS.items():
        yield Custom(key, counts, left[key], right[key])


def _fields(a: Architecture, b: Architecture) -> Iterator[Field]:
    left, right = dict(described(a)), dict(described(b))
    for key in dict.fromkeys([*left, *right]):
        values = left.get(key), right.get(key)
        one_sided = key not in left or key not in right
        if values[0] != values[1] and not (one_sided and all(value in ABSENT for value in values)):
            yield Field(key, *values)


def described(architecture: Architecture) -> Iterator[tuple[str, Any]]:
    """Dotted keys and values of an architecture, one set of keys a section."""
    yield from _keys(architecture, "", ("name", "layers", "mtp"))
    yield "n_layers", architecture.n_layers
    if architecture.mtp is not None:
        yield "mtp.n", architecture.mtp.n
    groups = architecture.groups()
    yield "layers", " ".join(block.name if n == 1 else f"{n}*{block.name}" for block, n in groups)
    seen: dict[str, Mixer] = {}
    for block, _ in groups:
        for mixer in sublayers(block):
            seen.setdefault(mixer.section, mixer)
    for section, mixer in seen.items():
        yield from _keys(mixer, f"{section}.", ("section",))


def _keys(struct: Struct, prefix: str, but: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """A struct's keys as a document has them, those of flat groups beside its own."""
    config = struct.__struct_config__
    if config.tag_field is not None and not but:
        yield f"{prefix}{config.tag_field}", config.tag
    flat = {field.key for field in declared(type(struct)) if field.flat}
    for name, key in zip(struct.__struct_fields__, struct.__struct_encode_fields__, strict=True):
        value = getattr(struct, name)
        if name in but:
            continue
        if type(value) is Norm:
            yield f"{prefix}{key}", _norm(value)
        elif isinstance(value, Struct):
            yield from _keys(value, prefix if key in flat else f"{prefix}{key}.")
        elif value is not None or key not in flat:
            yield f"{prefix}{key}", to_builtins(value, enc_hook=plain)


def _norm(norm: Norm) -> str:
    marks = {"no weight": not norm.weight, "bias": norm.bias, "weight + 1": norm.offset == 1}
    return ", ".join([norm.kind, *(word for word, present in marks.items() if present), f"eps {norm.eps:g}"])


def _figures(a: Facts, b: Facts) -> Iterator[Difference]:
    for key in FIGURE_KEYS:
        left, right = FIGURES[key].value(a), FIGURES[key].value(b)
        if left or right:
            yield Difference(key, left, right, right / left if left and right is not None else None)


def _equations(a: Architecture, b: Architecture) -> dict[str, tuple[str, ...]]:
    left, right = (
        dict.fromkeys(_with_condition(line) for stage in equations(model).stages for line in stage.lines)
        for model in (a, b)
    )
    return {
        "a": tuple(equation for equation in left if equation not in right),
        "b": tuple(equation for equation in right if equation not in left),
    }


def _with_condition(line: Line) -> str:
    """A window changes no sum, but what it runs over."""
    return line.text if line.condition is None else f"{line.text}, {line.condition}"


def _letters(a: Architecture, b: Architecture) -> Iterator[Letter]:
    """Numbers alone: a table's entries, such as LongRoPE's divisors, have no place in a line."""
    left, right = dict[str, dict[float, None]](), dict[str, dict[float, None]]()
    for known, model in ((left, a), (right, b)):
        for line in (line for stage in equations(model).stages for line in stage.lines):
            for letter, value in line.constants.items():
                if isinstance(value, int | float):
                    known.setdefault(letter, dict[float, None]())[value] = None
    for letter, values in left.items():
        if letter in right and set(values) != set(right[letter]):
            yield Letter(letter, number_in_words(letter), tuple(values), tuple(right[letter]))


def view(found: Diff) -> View:
    """Three tables. CSV gets all of them as one, with the two names in its first row."""
    names = (Column("a", found.a, needed=True), Column("b", found.b, needed=True))
    fields = Table((Column("field", "field"), *names), [(f.field, _shown(f.a), _shown(f.b)) for f in found.fields])
    title = f"batch {units.grouped(found.batch)}, context {units.grouped(found.context)}"
    figures = Table(
        (
            Column("figure", "figure"),
            Column("a", found.a, "figure", needed=True),
            Column("b", found.b, "figure", needed=True),
            Column("ratio", "ratio", "figure", needed=True),
        ),
        [_row(figure) for figure in found.figures],
        title=title,
    )
    equations = Table(
        (Column("model", "only in"), Column("equation", "equation")),
        [(name, line) for side, name in (("a", found.a), ("b", found.b)) for line in found.equations[side]],
    )
    letters = Table(
        (Column("letter", "letter"), *names, Column("meaning", "meaning")),
        [(each.letter, _numbers(each.a), _numbers(each.b), each.meaning) for each in found.letters],
    )
    if found.customs:
        return View([_counted(found)], Table(RAW, list(_raw(found))))
    return View([fields, figures, equations, letters], Table(RAW, list(_raw(found))))


def _counted(found: Diff) -> Table:
    """The figures that people quote, named."""
    return table(
        [
            (Column("a", found.a, "count"), {custom.custom: custom.a for custom in found.customs}),
            (Column("b", found.b, "count"), {custom.custom: custom.b for custom in found.customs}),
        ]
    )


RAW = (Column("kind", ""), Column("name", ""), Column("a", ""), Column("b", ""), Column("ratio", ""))


def _raw(found: Diff) -> Iterator[tuple[str, str, Any, Any, float | None]]:
    yield "model", "name", found.a, found.b, None
    yield from (("field", f.field, f.a, f.b, None) for f in found.fields)
    yield from (("figure", f.figure, f.a, f.b, f.ratio) for f in found.figures)
    yield from (("custom", c.custom, c.a, c.b, None) for c in found.customs)
    yield from (("letter", each.letter, _numbers(each.a), _numbers(each.b), None) for each in found.letters)
    yield from (("equation", "", line, None, None) for line in found.equations["a"])
    yield from (("equation", "", None, line, None) for line in found.equations["b"])


def _row(found: Difference) -> tuple[str, str, str, str]:
    figure = FIGURES[found.figure]
    a, b = (
        "–" if value is None else f"{units.grouped(value)} = {SHORT[figure.kind](value)}"
        for value in (found.a, found.b)
    )
    both = found.a is not None and found.b is not None
    return figure.title, a, b, units.ratio(found.a or 0, found.b or 0) if both else "–"


def _numbers(values: tuple[float, ...]) -> str:
    return " or ".join(map(shown, values))


def _shown(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return " ".join(map(str, value)) or "none"
    return text(value, "number" if isinstance(value, int) else "text")
