"""Points of a grid in the plane, as SVG: one column against another, coloured by a third."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from math import floor, log10
from typing import Any

from msgspec import Struct

from gptcalc import units
from gptcalc.errors import InputError, did_you_mean, printable
from gptcalc.report.plot import COLOURS, svg
from gptcalc.report.sweep import KINDS, TITLES
from gptcalc.report.table import SHORT

WIDTH, HEIGHT, LEFT, ABOVE, BELOW, RIGHT = 620, 400, 90, 40, 50, 170
TICKS = 6
#: more than these are no picture
MOST = 20_000
RADIUS = 3.5


class Scatter(Struct, frozen=True):
    """Which columns: from left to right, upwards, and by which points are told apart."""

    title: str
    x: str
    y: str
    by: str | None
    rows: Sequence[Mapping[str, Any]]


def chosen(plot: str | None, columns: Sequence[str], keys: Sequence[str]) -> tuple[str, str, str | None]:
    """The columns that --plot names, by default the first key, the first figure and the second key. InputError where
    they are none of the table's."""
    figures = [column for column in columns if column not in keys]
    if plot is None:
        own = [column for column in columns if column in keys]
        words = [*own[:1], *figures[: 2 - len(own[:1])], *own[1:2]]
    else:
        words = [word.strip() for word in plot.split(",")]
    if not 2 <= len(words) <= 3:
        raise InputError("--plot: a picture has two columns, or three", "write --plot kv_bytes,total,n_layers", "usage")
    for word in words:
        if word not in columns:
            hint = did_you_mean(word, columns) or "there are " + ", ".join(columns)
            raise InputError(f"--plot: no column {printable(word)!r} in the table", hint, "usage")
    return words[0], words[1], words[2] if len(words) == 3 else None


def document(found: Scatter) -> str:
    """An SVG image; each point says its row where it is pointed at. InputError where there are too many, or none."""
    if not 0 < len(found.rows) <= MOST:
        hint = "--where, --top and --pareto leave fewer" if found.rows else "no row fulfils --where"
        raise InputError(f"--format svg: {len(found.rows):,} points are no picture", hint, "usage")
    for key in (found.x, found.y):
        if not isinstance(found.rows[0][key], int):
            raise InputError(f"--plot: {key} is a word", "it can be the third column", "usage")
    across, up = (Axis([row[key] for row in found.rows]) for key in (found.x, found.y))
    groups = list(dict.fromkeys(row[found.by] for row in found.rows)) if found.by is not None else [None]
    shapes = [*_frame(found, across, up)]
    for row in found.rows:
        group = groups.index(row[found.by]) if found.by is not None else 0
        x, y = LEFT + across.place(row[found.x]) * WIDTH, ABOVE + (1 - up.place(row[found.y])) * HEIGHT
        says = escape(", ".join(f"{key} {_written(key, value)}" for key, value in row.items()))
        colour = COLOURS[group % len(COLOURS)]
        shapes.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{RADIUS}" fill="{colour}"><title>{says}</title></circle>')
    if found.by is not None:
        shapes += _legend(found.by, groups)
    width, height = LEFT + WIDTH + RIGHT, max(ABOVE + HEIGHT + BELOW, ABOVE + 20 * len(groups) + 40)
    return svg(found.title, width, height, shapes)


class Axis:
    """Where numbers stand between 0, or a round number below them, and a round number above."""

    def __init__(self, values: Sequence[int]) -> None:
        low, high = min(values), max(values)
        if low > (high - low) // 2:  # far from zero: its distance is no news
            span = max(high - low, 1)
        else:
            low, span = 0, max(high, 1)
        self.step = _round(span / TICKS)
        self.low = low // self.step * self.step
        self.high = max(-(-high // self.step) * self.step, self.low + self.step)

    def place(self, value: int) -> float:
        """From 0 to 1."""
        return (value - self.low) / (self.high - self.low)

    @property
    def ticks(self) -> range:
        return range(self.low, self.high + 1, self.step)


def _round(step: float) -> int:
    """1, 2 or 5 times a power of ten, not below a step."""
    power: int = 10 ** max(floor(log10(max(step, 1))), 0)
    return next(n * power for n in (1, 2, 5, 10) if n * power >= step)


def _frame(found: Scatter, across: Axis, up: Axis) -> Iterator[str]:
    right, below = LEFT + WIDTH, ABOVE + HEIGHT
    for tick in up.ticks:
        y = ABOVE + (1 - up.place(tick)) * HEIGHT
        yield f'<path d="M{LEFT} {y:.1f}H{right}" stroke="#ddd"/>'
        yield f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{escape(_short(found.y, tick))}</text>'
    for tick in across.ticks:
        x = LEFT + across.place(tick) * WIDTH
        yield f'<path d="M{x:.1f} {ABOVE}V{below}" stroke="#ddd"/>'
        yield f'<text x="{x:.1f}" y="{below + 18}" text-anchor="middle">{escape(_short(found.x, tick))}</text>'
    yield f'<path d="M{LEFT} {ABOVE}V{below}H{right}" stroke="#333" fill="none"/>'
    middle = LEFT + WIDTH // 2
    yield f'<text x="{middle}" y="{below + 40}" text-anchor="middle">{escape(_title(found.x))}</text>'
    yield f'<text x="{LEFT}" y="{ABOVE - 6}">{escape(_title(found.y))}</text>'


def _legend(by: str, groups: Sequence[Any]) -> Iterator[str]:
    left = LEFT + WIDTH + 20
    yield f'<text x="{left}" y="{ABOVE + 10}">{escape(_title(by))}</text>'
    for number, group in enumerate(groups):
        y = ABOVE + 30 + 20 * number
        yield f'<circle cx="{left + 6}" cy="{y - 4}" r="5" fill="{COLOURS[number % len(COLOURS)]}"/>'
        yield f'<text x="{left + 18}" y="{y}">{escape(_short(by, group))}</text>'


def _title(key: str) -> str:
    return TITLES.get(key, key)


def _short(key: str, value: Any) -> str:
    """As a tick says it."""
    kind = KINDS.get(key)
    if kind in SHORT:
        return SHORT[kind](value)
    return units.grouped(value) if isinstance(value, int) else str(value)


def _written(key: str, value: Any) -> str:
    """Every digit, and the short form where there is one."""
    exact = units.grouped(value) if isinstance(value, int) else str(value)
    return f"{exact} = {_short(key, value)}" if KINDS.get(key) in SHORT else exact
