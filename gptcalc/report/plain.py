"""Text for people: aligned columns, with colour and bars on a terminal only.

A terminal's width is kept by leaving out what repeats (bars, then short forms) and then by one field a line; text that
goes elsewhere is never cut or folded.
"""

from __future__ import annotations

from collections.abc import Sequence
from unicodedata import combining, east_asian_width

from gptcalc.errors import printable
from gptcalc.report.table import Cells, Table, cells

GAP = "  "
EMPTY = ("", "–")
BOLD, DIM, BLUE, RESET = "\x1b[1m", "\x1b[2m", "\x1b[34m", "\x1b[0m"


def render(parts: Sequence[Table | str], width: int | None = None, colour: bool = False) -> str:
    """The parts one below the other, a blank line between. `width` is a terminal's, None anything else's."""
    blocks = [_text(_safe(part), width) if isinstance(part, str) else _table(part, width, colour) for part in parts]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _safe(part: str) -> str:
    """Names come from files: what would steer a terminal is written out."""
    return "\n".join(printable(line, 100_000) for line in part.split("\n"))


def _text(part: str, width: int | None) -> str:
    if width is None:
        return part
    from textwrap import fill

    return "\n".join(
        line if displayed(line) <= width else fill(line, width, subsequent_indent=GAP) for line in part.split("\n")
    )


def _table(table: Table, width: int | None, colour: bool) -> str:
    if not table.rows:
        return ""
    title = [_styled(line, BOLD, colour) for line in _text(_safe(table.title), width).splitlines()]
    terminal = width is not None
    columns = cells(table, bars=terminal)
    for role in ("bar", "short"):
        if width is not None and _width(columns) > width:
            columns = [column for column in columns if column.role != role]
    if width is not None and _width(columns) > width:
        return "\n".join([*title, *_records(columns, table.heading, width)])
    return "\n".join([*title, *_lines(columns, table.heading, colour)])


def _width(columns: list[Cells]) -> int:
    return sum(_column_width(column) for column in columns) + len(GAP) * (len(columns) - 1)


def _column_width(column: Cells) -> int:
    return max(map(displayed, [column.title, *column.texts]))


def _lines(columns: list[Cells], heading: bool, colour: bool) -> list[str]:
    widths = [_column_width(column) for column in columns]
    lines = []
    if heading:
        titles = [_padded(c.title, w, c.right) for c, w in zip(columns, widths, strict=True)]
        lines.append(_styled(GAP.join(titles).rstrip(), DIM, colour))
    for row in range(len(columns[0].texts)):
        texts = []
        for column, width in zip(columns, widths, strict=True):
            padded = _padded(column.texts[row], width, column.right)
            texts.append(_styled(padded, BLUE, colour and column.role == "bar"))
        lines.append(GAP.join(texts).rstrip())
    return lines


def _records(columns: list[Cells], heading: bool, width: int) -> list[str]:
    """For what is too wide for the terminal: each row's first field, and the others that say something below it."""
    first, *rest = columns
    lines = []
    for row, text in enumerate(first.texts):
        fields = [f"{c.title} {c.texts[row]}" if heading else c.texts[row] for c in rest if c.texts[row] not in EMPTY]
        lines += [text, *_packed(fields, width)]
    return lines


def _packed(fields: list[str], width: int) -> list[str]:
    """As many fields on a line as fit, each whole."""
    lines: list[str] = []
    for field in fields:
        if lines and displayed(lines[-1] + GAP + field) <= width:
            lines[-1] += GAP + field
        else:
            lines.append(GAP + field)
    return lines


def _padded(text: str, width: int, right: bool) -> str:
    space = " " * (width - displayed(text))
    return space + text if right else text + space


def displayed(text: str) -> int:
    """How many cells of a terminal a text takes."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(ch) else 2 if east_asian_width(ch) in "WF" else 1 for ch in text)


def _styled(text: str, style: str, colour: bool) -> str:
    return f"{style}{text}{RESET}" if colour and text.strip() else text
