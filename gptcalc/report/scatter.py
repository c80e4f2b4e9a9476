"""Points of a grid in the plane, as SVG: one column against another, coloured by a third."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from msgspec import Struct

from gptcalc import units
from gptcalc.errors import InputError, did_you_mean, printable
from gptcalc.report.axes import RADIUS, Axis, colour, frame, legend, point, size
from gptcalc.report.plot import quoted, svg
from gptcalc.report.sweep import KINDS, TITLES
from gptcalc.report.table import SHORT

#: more than these are no picture
MOST = 20_000


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
    across, up = (
        Axis(_title(key), [row[key] for row in found.rows], partial(_short, key), KINDS.get(key) == "bytes")
        for key in (found.x, found.y)
    )
    groups = list(dict.fromkeys(row[found.by] for row in found.rows)) if found.by is not None else [None]
    shapes = [*frame(across, up)]
    for row in found.rows:
        group = groups.index(row[found.by]) if found.by is not None else 0
        x, y = point(across, up, row[found.x], row[found.y])
        says = quoted(", ".join(f"{key} {_written(key, value)}" for key, value in row.items()))
        dot = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{RADIUS}" fill="{colour(group)}">'
        shapes.append(f"{dot}<title>{says}</title></circle>")
    if found.by is not None:
        shapes += legend(_title(found.by), [_short(found.by, group) for group in groups])
    return svg(found.title, *size(len(groups)), shapes)


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
