"""Two axes with round ticks, their frame and their legend, as SVG."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import floor, log10

from gptcalc.report.plot import COLOURS, fitted, quoted

WIDTH, HEIGHT, LEFT, ABOVE, BELOW, RIGHT = 620, 400, 90, 50, 50, 170
TICKS = 6
#: of a point
RADIUS = 3.5


class Axis:
    """Where numbers stand between 0, or a round number below them, and a round number above.

    short: what a tick says. binary: whether round numbers are powers of two, as of bytes and of lengths.
    """

    def __init__(self, title: str, values: Sequence[int], short: Callable[[int], str], binary: bool = False) -> None:
        self.title, self.short = title, short
        low, high = min(values), max(values)
        if low > (high - low) // 2:  # far from zero: its distance is no news
            span = max(high - low, 1)
        else:
            low, span = 0, max(high, 1)
        self.step = 1 << max(-(-span // TICKS) - 1, 0).bit_length() if binary else _round(span / TICKS)
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


def point(across: Axis, up: Axis, x: int, y: int) -> tuple[float, float]:
    """Where two numbers meet, from the left and from above."""
    return LEFT + across.place(x) * WIDTH, ABOVE + (1 - up.place(y)) * HEIGHT


def frame(across: Axis, up: Axis) -> Iterator[str]:
    right, below = LEFT + WIDTH, ABOVE + HEIGHT
    for tick in up.ticks:
        _, y = point(across, up, across.low, tick)
        yield f'<path d="M{LEFT} {y:.1f}H{right}" stroke="#ddd"/>'
        yield f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{quoted(up.short(tick))}</text>'
    for tick in across.ticks:
        x, _ = point(across, up, tick, up.low)
        yield f'<path d="M{x:.1f} {ABOVE}V{below}" stroke="#ddd"/>'
        yield f'<text x="{x:.1f}" y="{below + 18}" text-anchor="middle">{quoted(across.short(tick))}</text>'
    yield f'<path d="M{LEFT} {ABOVE}V{below}H{right}" stroke="#333" fill="none"/>'
    middle = LEFT + WIDTH // 2
    yield f'<text x="{middle}" y="{below + 40}" text-anchor="middle">{quoted(across.title)}</text>'
    yield f'<text x="{LEFT}" y="{ABOVE - 6}">{quoted(up.title)}</text>'


def legend(title: str, names: Sequence[str]) -> Iterator[str]:
    """A colour each, right of the frame."""
    left = LEFT + WIDTH + 20
    yield f'<text x="{left}" y="{ABOVE + 10}">{quoted(title)}</text>'
    for number, name in enumerate(names):
        y = ABOVE + 30 + 20 * number
        yield f'<circle cx="{left + 6}" cy="{y - 4}" r="5" fill="{colour(number)}"/>'
        yield f'<text x="{left + 18}" y="{y}"{fitted(name, RIGHT - 42)}>{quoted(name)}</text>'


def colour(number: int) -> str:
    return COLOURS[number % len(COLOURS)]


def size(names: int) -> tuple[int, int]:
    """Width and height of an image with so many names in its legend."""
    return LEFT + WIDTH + RIGHT, max(ABOVE + HEIGHT + BELOW, ABOVE + 20 * names + 40)
