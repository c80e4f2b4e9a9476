"""Tables as data: what a column holds decides how every format shows it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, Literal

from msgspec import Struct

from gptcalc import units
from gptcalc.errors import printable

#: count, bytes and flops have a short form beside the exact one; share is a part of a whole, shown with a bar;
#: figure is text that stands to the right, as numbers do, and may be an exact form, " = " and a short one
Kind = Literal["text", "date", "figure", "number", "count", "bytes", "flops", "seconds", "share"]

#: kinds of what is no number
WORDS: tuple[Kind, ...] = ("text", "date")
SHORT: dict[str, Callable[[Any], str]] = {
    "count": units.short_count,
    "bytes": units.short_bytes,
    "flops": lambda value: units.short_si(value, "FLOP"),
}
BAR_CELLS = 24
_EIGHTHS = " ▏▎▍▌▋▊▉█"


class Column(Struct, frozen=True):
    """One column: its key (the name in CSV), the title for people, what it holds, and whether a table without it would
    say nothing."""

    key: str
    title: str
    kind: Kind = "text"
    needed: bool = False


class Table(Struct, frozen=True):
    """Rows of raw values under columns. A `title` of "" is not shown; a share column holds parts of `whole`.

    `turns`: each row is a thing of its own, which may stand as a column where a terminal is narrow.
    """

    columns: Sequence[Column]
    rows: Sequence[Sequence[Any]]
    title: str = ""
    whole: int | Fraction = 0
    heading: bool = True  # whether the columns' titles are worth a line
    turns: bool = False


#: cells of a picture where there is room for them, and where there is not
PICTURE_CELLS, FEWEST_CELLS = 60, 16


class Picture(Struct, frozen=True):
    """Drawn in so many cells, with what a line has `beside` them: labels and figures."""

    draw: Callable[[int], str]
    beside: int

    def drawn(self, width: int | None) -> str:
        """As wide as a terminal lets it be; None: anything else."""
        room = PICTURE_CELLS if width is None else width - self.beside
        return self.draw(max(FEWEST_CELLS, min(PICTURE_CELLS, room)))


class View(Struct, frozen=True):
    """What a person sees of an answer: tables, lines of text and pictures, in order. `main` is the table that CSV
    writes."""

    parts: Sequence[Table | str | Picture]
    main: Table

    def drawn(self, width: int | None = None) -> list[Table | str]:
        """The parts, pictures drawn for a terminal's width."""
        return [part.drawn(width) if isinstance(part, Picture) else part for part in self.parts]


class Cells(Struct, frozen=True):
    """A column of text, ready to be laid out."""

    title: str
    right: bool
    texts: list[str]
    role: Literal["plain", "exact", "short", "figure", "bar"] = "plain"
    needed: bool = False


def cells(table: Table, bars: bool = False) -> list[Cells]:
    """The columns of a table as text: exact figures, their short forms beside them, shares in percent and as bars."""
    found: list[Cells] = []
    for position, column in enumerate(table.columns):
        values = [row[position] for row in table.rows]
        texts = [text(value, column.kind, table.whole) for value in values]
        role: Literal["plain", "exact", "figure"] = "plain"
        if column.kind in SHORT:
            role = "exact"
        elif column.kind == "figure":
            role = "figure"
        found.append(Cells(printable(column.title, 500), column.kind not in WORDS, texts, role, column.needed))
        if column.kind in SHORT:
            found.append(Cells("", True, ["" if v is None else SHORT[column.kind](v) for v in values], "short"))
        if column.kind == "share" and bars:
            found.append(Cells("", False, [bar(v, max(values, default=0)) for v in values], "bar"))
    return found


def text(value: Any, kind: Kind, whole: int | Fraction = 0) -> str:
    """One value for people; – where there is none."""
    if value is None:
        return "–"
    if kind == "share":
        return units.percent(value, whole)
    if kind == "seconds":
        return units.duration(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return units.grouped(value) if kind not in WORDS else str(value)
    if isinstance(value, float):
        return f"{value:,.12g}"
    if isinstance(value, (list, tuple)):
        return printable(joined(value, " × "), 500)
    return printable(str(value), 500)


def joined(items: Sequence[Any], times: str) -> str:
    """A shape with its sign between the numbers, words with a space."""
    return (times if all(isinstance(item, int) for item in items) else " ").join(map(str, items))


def bar(part: int, largest: int) -> str:
    """A bar in eighths of a cell; the largest part fills it."""
    eighths = round(part * 8 * BAR_CELLS / largest) if largest else 0
    whole, rest = divmod(eighths, 8)
    return "█" * whole + (_EIGHTHS[rest] if rest else "")
