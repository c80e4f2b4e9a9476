"""Bytes by length, a line a name: in a terminal by letters, or as SVG. The points are numbers of the answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from msgspec import Struct

from gptcalc.report.axes import RADIUS, Axis, colour, frame, legend, point, size
from gptcalc.report.plot import quoted, svg
from gptcalc.report.table import SHORT, Column, Picture, Table, View
from gptcalc.units import grouped

ROWS = 16
MARKS = "ox+*#@%&"


class Line(Struct, frozen=True):
    """A name's points, from left to right: a length in tokens, and the bytes at it."""

    name: str
    points: Sequence[tuple[int, int]]


class Lines(Struct, frozen=True):
    """Bytes by length."""

    title: str
    x: str
    y: str
    lines: Sequence[Line]

    def axes(self) -> tuple[Axis, Axis]:
        points = [each for line in self.lines for each in line.points]
        across = Axis(self.x, [0, *(x for x, _ in points)], grouped, binary=True)
        return across, Axis(self.y, [0, *(y for _, y in points)], SHORT["bytes"], binary=True)


def view(lines: Lines) -> View:
    """A mark in each column that a line crosses, the last in front; every point of it as a table."""
    across, up = lines.axes()
    said = {ROWS - round(up.place(tick) * ROWS): up.short(tick) for tick in up.ticks}
    wide = max(map(len, said.values()))

    def draw(cells: int) -> str:
        canvas = [[" "] * (cells + 1) for _ in range(ROWS + 1)]
        for number, line in enumerate(lines.lines):
            for column, row in _crossed(line, lambda x: across.place(x) * cells, lambda y: up.place(y) * ROWS):
                canvas[ROWS - row][column] = MARKS[number % len(MARKS)]
        rows = [f"{said.get(n, ''):>{wide}} {'┤' if n in said else '│'}{''.join(row)}" for n, row in enumerate(canvas)]
        ends = f"{across.short(across.low)}{across.short(across.high):>{cells}}"
        rows += [f"{'':{wide}} └{'─' * (cells + 1)}", f"{'':{wide}}  {ends}  {across.title}"]
        return "\n".join(row.rstrip() for row in rows)

    picture = Picture(draw, wide + 5 + len(across.title))
    key = "\n".join(
        f"{MARKS[number % len(MARKS)]} {line.name}: {SHORT['bytes'](y)} at {grouped(x)}"
        for number, line in enumerate(lines.lines)
        for x, y in line.points[-1:]
    )
    columns = (Column("model", "model"), Column("context", lines.x, "number"), Column("bytes", "bytes", "bytes"))
    return View(
        [lines.title, picture, key],
        Table(columns, [(line.name, x, y) for line in lines.lines for x, y in line.points]),
    )


def _crossed(line: Line, x: Callable[[int], float], y: Callable[[int], float]) -> list[tuple[int, int]]:
    """The cells of straight lines between points."""
    places = [(x(a), y(b)) for a, b in line.points]
    found = [(round(a), round(b)) for a, b in places]
    for (left, low), (right, high) in pairwise(places):
        for column in range(round(left), round(right)):
            share = (column - left) / (right - left)
            found.append((column, round(low + min(max(share, 0), 1) * (high - low))))
    return found


def document(lines: Lines) -> str:
    """An SVG image; each point says its number where it is pointed at."""
    across, up = lines.axes()
    shapes = [*frame(across, up), *legend("model", [line.name for line in lines.lines])]
    for number, line in enumerate(lines.lines):
        places = [point(across, up, x, y) for x, y in line.points]
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
        shapes.append(f'<path d="M{path}" stroke="{colour(number)}" fill="none"/>')
        for (x, y), (left, above) in zip(line.points, places, strict=True):
            says = quoted(f"{line.name}, {grouped(x)}: {grouped(y)} = {SHORT['bytes'](y)}")
            dot = f'<circle cx="{left:.1f}" cy="{above:.1f}" r="{RADIUS}" fill="{colour(number)}">'
            shapes.append(f"{dot}<title>{says}</title></circle>")
    return svg(lines.title, *size(len(lines.lines)), shapes)
