"""Stacked bars: in a terminal by shades, or as SVG. What they show are numbers of the answers, summed nowhere else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from html import escape
from typing import Literal

from msgspec import Struct

from gptcalc.errors import printable
from gptcalc.report.table import SHORT, Column, Picture, Table, View

SHADES = "█▓▒░▚▞▤▥"
#: Okabe and Ito's colours, which most people tell apart
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#56b4e9", "#cc79a7", "#f0e442", "#999999")


class Bars(Struct, frozen=True):
    """Rows by name, each the sum of its parts."""

    title: str
    kind: Literal["count", "bytes"]
    rows: Mapping[str, Mapping[str, int]]

    @property
    def parts(self) -> list[str]:
        """Every part that some row has."""
        return list(dict.fromkeys(part for row in self.rows.values() for part, n in row.items() if n))

    @property
    def largest(self) -> int:
        return max((sum(row.values()) for row in self.rows.values()), default=0)

    def ends(self, row: Mapping[str, int], length: int) -> Iterator[tuple[int, str, int, int]]:
        """Each part of a row: its place among all parts, its name, where it begins and ends, the largest row being
        `length` long. Rounded where parts meet, so that a row is as long as its sum."""
        before = 0
        for place, part in enumerate(self.parts):
            n = row.get(part, 0)
            start, end = (round(x * length / self.largest) for x in (before, before + n))
            before += n
            if n:
                yield place, part, start, end


def view(bars: Bars) -> View:
    """A line a row, and which shade is which part; every part of it as a table."""
    wide = max(map(len, bars.rows), default=0)
    sums = {name: SHORT[bars.kind](sum(row.values())) for name, row in bars.rows.items()}

    def draw(cells: int) -> str:
        lines = []
        for name, row in bars.rows.items():
            drawn = "".join(SHADES[p % len(SHADES)] * (end - start) for p, _, start, end in bars.ends(row, cells))
            lines.append(f"{name:>{wide}} {drawn} {sums[name]}")
        return "\n".join(lines)

    picture = Picture(draw, wide + 2 + max(map(len, sums.values()), default=0))
    key = "  ".join(f"{SHADES[place % len(SHADES)]} {part}" for place, part in enumerate(bars.parts))
    columns = (Column("row", "row"), Column("part", "part"), Column(bars.kind, bars.kind, bars.kind))
    numbers = [(name, part, n) for name, row in bars.rows.items() for part, n in row.items()]
    return View([bars.title, picture, key], Table(columns, numbers))


HEIGHT, GAP, LEFT, WIDTH = 22, 8, 170, 620


def document(bars: Bars) -> str:
    """An SVG image; each bar says its number where it is pointed at."""
    step = HEIGHT + GAP
    shapes = []
    for number, (name, row) in enumerate(bars.rows.items()):
        y = 40 + number * step
        shapes.append(
            f'<text x="{LEFT - 8}" y="{y + 16}" text-anchor="end"{fitted(name, LEFT - 12)}>{quoted(name)}</text>'
        )
        for place, part, start, end in bars.ends(row, WIDTH):
            says = quoted(f"{name}, {part}: {row[part]:,} = {SHORT[bars.kind](row[part])}")
            shapes.append(
                f'<rect x="{LEFT + start}" y="{y}" width="{end - start}" height="{HEIGHT}" '
                f'fill="{COLOURS[place % len(COLOURS)]}"><title>{says}</title></rect>'
            )
        x = LEFT + round(sum(row.values()) * WIDTH / bars.largest) + 6 if bars.largest else LEFT
        shapes.append(f'<text x="{x}" y="{y + 16}">{quoted(SHORT[bars.kind](sum(row.values())))}</text>')
    below = 40 + len(bars.rows) * step + 10
    for place, part in enumerate(bars.parts):
        y = below + place * 20
        colour = COLOURS[place % len(COLOURS)]
        shapes.append(f'<rect x="{LEFT}" y="{y}" width="12" height="12" fill="{colour}"/>')
        shapes.append(f'<text x="{LEFT + 20}" y="{y + 11}">{quoted(part)}</text>')
    height = below + 20 * len(bars.parts) + 10
    return svg(bars.title, LEFT + WIDTH + 110, height, shapes)


def quoted(text: str) -> str:
    """Text within an image: what XML has no place for, as a control character in a file's name, is spelled out."""
    return escape(printable(text, 1000))


#: sizes of letters: of a title, and of all else; and how wide one is in these
LARGE, SMALL, LETTER = 15, 13, 0.575


def fitted(text: str, width: int, usual: int = SMALL) -> str:
    """Smaller letters where a text would be wider than its room."""
    size = min(usual, round(width / (LETTER * max(len(text), 1)), 1))
    return "" if size == SMALL else f' font-size="{size:g}"'


def svg(title: str, width: int, height: int, shapes: Iterable[str]) -> str:
    """An image on white under its title."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'font-family="sans-serif" font-size="{SMALL}"><title>{quoted(title)}</title>'
        f'<rect width="100%" height="100%" fill="white"/>'
        f'<text x="10" y="22"{fitted(title, width - 20, LARGE)}>{quoted(title)}</text>'
        f"{''.join(shapes)}</svg>\n"
    )
