"""References: the keys of preset files and of the JSON of each command, as they are declared."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from numbers import Number
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from msgspec import Struct
from msgspec.structs import fields, replace

from gptcalc.document.keys import KINDS, Document, EncoderKeys
from gptcalc.document.meanings import meanings
from gptcalc.document.schema import PLACE, schema
from gptcalc.report.figures import FIGURES
from gptcalc.report.table import Column, Kind, Table, View


class Key(Struct, frozen=True):
    """One key: where it stands, what it may be, what it is where nothing is said, and what it means."""

    place: str
    key: str
    type: str
    default: Any
    meaning: str


COLUMNS = (
    Column("place", "in"),
    Column("key", "key"),
    Column("type", "type"),
    Column("default", "default"),
    Column("meaning", "meaning", needed=True),
)
#: where a preset's own keys stand
TOP = "preset"


#: what sections are called whose struct has another name
PLACES = {EncoderKeys.__name__: "encoder"} | {struct.__name__: name for name, struct in reversed(KINDS.items())}


def place_of(name: str) -> str:
    """Where the keys of a section stand; cross has those of attn."""
    return PLACES[KINDS[name].__name__] if name in KINDS else name


def of_documents() -> list[Key]:
    """The keys of preset files: the document's own, then section by section."""
    whole = schema()
    own = [Key(TOP, *row) for row in _rows(whole["properties"])]
    own = [replace(key, default="must be said") if key.key in whole["required"] else key for key in own]
    inside = [
        Key(PLACES.get(place, place), *row)
        for place, section in whole["$defs"].items()
        for row in _rows(section["properties"])
    ]
    order = [*KINDS, "encoder"]
    inside = [key for key in inside if key.place != "encoder" or key.key not in Document.__struct_encode_fields__]
    return [*own, *sorted(inside, key=lambda key: order.index(key.place) if key.place in order else len(order))]


def of_answer(struct: type[Struct], prefix: str = "") -> Iterator[Key]:
    """The keys of a command's JSON, dotted; N stands for a number in a list, NAME for a name."""
    said = meanings(struct)
    for field in fields(struct):
        place = prefix + field.encode_name
        yield Key("", place, " | ".join(dict.fromkeys(_words(field.type))), None, said.get(field.name, ""))
        for inner, way in _within(field.type):
            yield from of_answer(inner, f"{place}.{way}")


def of_rows() -> Iterator[Key]:
    """The keys of the rows of compare and presets, which are those that --columns names."""
    for key, figure in FIGURES.items():
        yield Key("", key, HELD[figure.kind], None, figure.meaning or figure.title)


def of_grid() -> Iterator[Key]:
    """The columns of a grid's rows, besides the keys that vary."""
    from gptcalc.analysis.sweep.figures import FIGURES as figures  # as slow to import as only a grid needs

    yield Key("", "KEY", "whole number | text", None, "of each key that varies, by its name")
    yield Key("", "context", HELD["number"], None, "tokens of a sequence, the newest among them")
    yield Key("", "batch", HELD["number"], None, "sequences")
    for key, figure in figures.items():
        yield Key("", key, HELD[figure.kind], None, figure.meaning)


#: whose rows have columns that are chosen, and what lists them
ROWS: Mapping[str, Callable[[], Iterator[Key]]] = {
    "compare": of_rows, "presets": of_rows, "sweep": of_grid, "design": of_grid,
}  # fmt: skip


def _within(kind: Any) -> Iterator[tuple[type[Struct], str]]:
    """The structs in a type, and what stands in front of their keys."""
    if isinstance(kind, type) and issubclass(kind, Struct):
        yield kind, ""
        return
    step = "N." if get_origin(kind) in LISTS else "NAME." if get_origin(kind) is dict else ""
    for inner in get_args(kind):
        yield from ((struct, step + way) for struct, way in _within(inner))


def _rows(properties: Mapping[str, Any]) -> Iterator[tuple[str, str, Any, str]]:
    for key, described in properties.items():
        default = described.get("default")
        options = described.get("anyOf", (described,))
        if default is None:  # a key of the document that may be a section, too
            default = next((option["default"] for option in options if "default" in option), None)
        meaning = described.get("description") or next((o["description"] for o in options if "description" in o), "")
        yield key, " | ".join(dict.fromkeys(types(described))), None if isinstance(default, dict) else default, meaning


def view(found: Sequence[Key]) -> View:
    """One row a key."""
    several = len({key.place for key in found}) > 1
    columns: Sequence[Column] = COLUMNS if several else COLUMNS[1:]
    if all(key.default is None for key in found):
        columns = [column for column in columns if column.key != "default"]
    rows = [[_shown(key, column.key) for column in columns] for key in found]
    title = "" if several or not found[0].place else found[0].place
    main = Table(columns, rows, title=title)
    return View([main], main)


def _shown(key: Key, column: str) -> str:
    value = getattr(key, column)
    if column == "default":
        return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    return str(value)


# --- types in words ---------------------------------------------------------------------------------------------------

WORDS = {
    "integer": "whole number",
    "number": "number",
    "string": "text",
    "boolean": "true | false",
    "null": "none",
    "object": "section",
}
SIGNS = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
#: a bound beyond this is only there so that numbers stay small enough to compute with
FAR = 10**6


LISTS = (tuple, list)
PLAIN: dict[Any, str] = {int: "whole number", str: "text", bool: "true | false", NoneType: "none", Any: "anything"}
#: what a column's kind holds
HELD: dict[Kind, str] = {
    "text": "text",
    "date": "date",
    "figure": "text",
    "number": "whole number",
    "count": "whole number",
    "bytes": "bytes",
    "flops": "FLOPs",
    "seconds": "seconds",
    "share": "share",
}


def _words(kind: Any) -> Iterator[str]:
    """What a field of an answer may be, in words."""
    origin, inside = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        for option in inside:
            yield from _words(option)
    elif origin is Literal:
        yield from map(str, inside)
    elif origin in LISTS:
        yield f"[{' | '.join(dict.fromkeys(w for one in inside if one is not ... for w in _words(one)))}, …]"
    elif origin is dict:
        yield f"{{NAME: {' | '.join(_words(inside[1]))}}}"
    elif kind in PLAIN:
        yield PLAIN[kind]
    elif isinstance(kind, type) and issubclass(kind, Number | float):
        yield "number"
    else:
        yield getattr(kind, "__name__", str(kind))


def types(described: Mapping[str, Any]) -> Iterable[str]:
    """What a value may be, in words."""
    if "anyOf" in described:
        for option in described["anyOf"]:
            yield from types(option)
    elif "$ref" in described:
        yield described["$ref"].removeprefix(PLACE)
    elif "enum" in described:
        yield from map(str, described["enum"])
    elif described.get("type") == "array":
        items = described.get("items") or (described.get("prefixItems") or [{}])[0]
        yield f"[{' | '.join(types(items))}, …]"
    elif isinstance(described.get("additionalProperties"), Mapping):
        yield f"{{NAME: {' | '.join(types(described['additionalProperties']))}}}"
    else:
        yield _plain(described)


def _plain(described: Mapping[str, Any]) -> str:
    kinds = described.get("type", ())
    word = " | ".join(WORDS[kind] for kind in ([kinds] if isinstance(kinds, str) else kinds)) or "anything"
    bounds = [f"{sign} {described[key]:,}" for key, sign in SIGNS.items() if key in described and described[key] < FAR]
    return " ".join([word, *bounds])
