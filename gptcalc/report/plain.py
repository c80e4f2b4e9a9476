"""Text for people: aligned columns, with colour and bars on a terminal only.

A terminal's width is kept by leaving out bars, then the exact form of what has a short one with its unit, by turning
rows into columns where rows are things of their own, by folding long texts, by leaving out the last columns, which are
named, and in the end by one field a line. Text that goes elsewhere is never cut or folded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from unicodedata import combining, east_asian_width

from msgspec.structs import replace

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
    if width is None or _width(columns) <= width:
        return "\n".join([*title, *_lines(columns, table.heading, colour)])
    short = _short(columns)
    forms = [_without_bars(columns), short, *([_turned(short)] if table.turns else [])]
    fitting = next((form for form in forms if _width(form) <= width), None)
    for out in _droppable(short):
        fitting = fitting or _folded([column for column in short if column not in out], width)
        if fitting is not None:
            note = [_styled(line, DIM, colour) for line in _text(_left_out(out), width).splitlines()] if out else []
            return "\n".join([*title, *_lines(fitting, table.heading, colour), *note])
    return "\n".join([*title, *_records(short, table.heading, width)])


def _droppable(columns: list[Cells]) -> Iterator[list[Cells]]:
    """What may be left out, less of it first: the last columns, but no figure that has a unit, none that is needed, and
    at most half."""
    others = [column for column in columns[1:] if column.role != "short" and not column.needed]
    for kept in range(len(others), max(len(others) - len(columns) // 2, 0) - 1, -1):
        yield others[kept:]


def _left_out(columns: Sequence[Cells]) -> str:
    return f"no room for {', '.join(column.title for column in columns)}: a wider terminal has them, or --format csv"


def _without_bars(columns: list[Cells]) -> list[Cells]:
    return [column for column in columns if column.role != "bar"]


def _short(columns: list[Cells]) -> list[Cells]:
    """What has a short form has it alone, under its title."""
    found: list[Cells] = []
    for column in _without_bars(columns):
        if column.role == "short":
            column = Cells(found.pop().title, True, column.texts, "short")
        elif column.role == "figure":
            column = replace(column, texts=[text.rpartition(" = ")[2] for text in column.texts])
        found.append(column)
    return found


def _turned(columns: list[Cells]) -> list[Cells]:
    """Each row as a column, under the text of its first field."""
    first, *rest = columns
    turned = [Cells(first.title, False, [column.title for column in rest])]
    turned += [Cells(name, True, [column.texts[row] for column in rest]) for row, name in enumerate(first.texts)]
    return turned


#: what a column of text is not made narrower than
LEAST = 16


def _folded(columns: list[Cells], width: int) -> list[Cells] | None:
    """The widest texts on several lines, as far as that makes the table fit; None where it doesn't."""
    from textwrap import wrap

    widths = [_column_width(column) for column in columns]
    texts = [n for n, column in enumerate(columns) if not column.right]
    excess = _width(columns) - width
    while excess > 0 and texts:
        widest = max(texts, key=lambda n: (n > 0, widths[n]) if widths[n] > LEAST else (False, 0))  # names last
        if widths[widest] <= LEAST:
            return None
        widths[widest] -= 1
        excess -= 1
    if excess > 0:
        return None
    rows: list[list[list[str]]] = [
        [
            wrap(column.texts[row], own) if displayed(column.texts[row]) > own else [column.texts[row]]
            for column, own in zip(columns, widths, strict=True)
        ]
        for row in range(len(columns[0].texts))
    ]
    found = [Cells(column.title, column.right, [], column.role) for column in columns]
    for row in rows:
        for line in range(max(map(len, row))):
            for column, own in zip(found, row, strict=True):
                column.texts.append(own[line] if line < len(own) else "")
    return found


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
