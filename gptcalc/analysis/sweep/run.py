"""A sweep: the wanted rows of a grid, in pieces, over several processes and in parts that together are the whole."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any, TypeVar

from msgspec import Struct

from gptcalc.analysis.sweep.figures import FIGURES
from gptcalc.analysis.sweep.listed import Listed
from gptcalc.analysis.sweep.piece import Axis, Piece
from gptcalc.analysis.sweep.space import Space
from gptcalc.analysis.sweep.structures import Structures, is_of_words
from gptcalc.analysis.sweep.wanted import Order, best, first, fronted, held, ordered
from gptcalc.conventions import SweepRun
from gptcalc.errors import InputError
from gptcalc.sources.points import opened
from gptcalc.where import check, parsed

#: points of one task of a process
TASK = 1 << 20
#: rows that are held where all of them have to be sorted
MOST_SORTED = 2_000_000

DEFAULT = ("total", "kv_bytes", "decode_flops")
LENGTHS = ("context", "batch")

T = TypeVar("T")


class Grid(Struct, frozen=True, kw_only=True):
    """What is swept, and what of it is wanted."""

    document: dict[str, Any]
    axes: tuple[Axis, ...]
    contexts: tuple[int | None, ...] = (None,)
    batches: tuple[int, ...] = (1,)
    columns: tuple[str, ...] | None = None
    where: tuple[str, ...] = ()
    sort: str | None = None
    top: int | None = None
    pareto: tuple[str, ...] = ()
    points: str | None = None  # a file that lists the points, in place of axes, contexts and batches
    part: tuple[int, int] = (1, 1)  # the first of so many
    jobs: int = 1
    how: SweepRun = SweepRun()


def kinds(known: Sequence[str]) -> dict[str, str]:
    """What each column holds: figures their own, keys and lengths numbers."""
    return {key: FIGURES[key].kind if key in FIGURES else "number" for key in known}


class Sweep:
    """One grid, ready to be read."""

    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        file = None if grid.points is None else opened(grid.points)
        numbers = [axis.key for axis in grid.axes if all(isinstance(v, int) for v in axis.values)]
        keys = [axis.key for axis in grid.axes]
        if file is not None:
            keys = numbers = [key for key in file.keys if key not in (*LENGTHS, *FIGURES)]
        known = [*numbers, *LENGTHS, *FIGURES]
        self.where = parsed(grid.where, kinds(known))
        self.order = None if grid.sort is None else Order.of(grid.sort, known, "--sort")
        self.front = [Order.of(word, known, "--pareto") for word in grid.pareto]
        shown = [
            *keys,
            *(
                name
                for name, own in zip(LENGTHS, (grid.contexts, grid.batches), strict=True)
                if len(own) > 1 or own[0] not in (None, 1) or (file is not None and name in file.keys)
            ),
        ]
        self.columns = self._columns([*shown, *DEFAULT], [*keys, *LENGTHS, *FIGURES])
        if len(self.front) == 1:
            raise InputError("--pareto: one column alone has a best point, and no front", "name two or more", "usage")
        if grid.top is not None and self.front:
            raise InputError("both --top and --pareto", "leave one of them out", "usage")
        asked = {*self.columns, *self.where.keys, *(o.key for o in self.front)}
        figures = [key for key in FIGURES if key in asked | ({self.order.key} if self.order else set())]
        self.space: Space | Structures | Listed
        if file is not None:
            self.space = Listed(grid.document, file, grid.part, figures, grid.how)
        else:
            kind = Structures if any(map(is_of_words, grid.axes)) else Space
            self.space = kind(grid.document, grid.axes, grid.contexts, grid.batches, figures, grid.how)
        number, parts = grid.part
        self.range = ((number - 1) * len(self.space) // parts, number * len(self.space) // parts)

    def _columns(self, default: Sequence[str], known: Sequence[str]) -> list[str]:
        if self.grid.columns is None:
            return list(dict.fromkeys(default))
        for key in self.grid.columns:
            check(key, known, "--columns")
        return list(self.grid.columns)

    @property
    def streams(self) -> bool:
        """Whether rows come as the points do, none waiting for another."""
        return self.order is None and not self.front

    # what is wanted

    def rows(self) -> list[dict[str, Any]]:
        """All wanted rows, ordered."""
        grid = self.grid
        hidden = [o.key for o in (*self.front, *([self.order] if self.order else ())) if o.key not in self.columns]
        found: list[dict[str, Any]] = []
        for own, refused in self._tasks(_chosen, [*self.columns, *hidden]):
            self._tell(refused)
            found += own
            if self.front:
                found = best(found, self.front)
            elif self.order is not None and grid.top is not None:
                found = ordered(found, self.order)[: grid.top]
            elif grid.top is not None and len(found) >= grid.top:
                found = found[: grid.top]
                break
            if len(found) > MOST_SORTED:
                raise InputError(
                    f"sweep: more than {MOST_SORTED:,} rows to hold", "--top or --where leave fewer", "usage"
                )
        return [{key: row[key] for key in self.columns} for row in ordered(found, self.order)]

    def lists(self) -> Iterator[list[list[Any]]]:
        """The wanted rows as they come, columns of values at a time; never more than a few pieces are held."""
        left = self.grid.top
        for blocks, refused in self._tasks(_listed, self.columns):
            self._tell(refused)
            for block in blocks:
                number = len(block[0])
                yield [column[:left] for column in block] if left is not None and left < number else block
                if left is not None:
                    left -= number
                    if left <= 0:
                        return

    def _tell(self, refused: Mapping[str, int]) -> None:
        if self.grid.jobs > 1:
            for message, number in refused.items():
                self.space.refused[message] = self.space.refused.get(message, 0) + number

    def _tasks(
        self, work: Callable[[Sweep, int, int, list[str]], T], columns: list[str]
    ) -> Iterator[tuple[T, dict[str, int]]]:
        """Each stretch of points, worked on by this process or by others, in the order of the points."""
        start, stop = self.range
        stretches = [(at, min(at + TASK, stop)) for at in range(start, stop, TASK)]
        if self.grid.jobs == 1 or len(stretches) < 2:
            for stretch in stretches:
                yield work(self, *stretch, columns), {}
            return
        context = get_context("spawn")
        with ProcessPoolExecutor(self.grid.jobs, context, _begin, (self.grid,)) as pool:
            waiting: deque[Future[tuple[T, dict[str, int]]]] = deque()
            left = iter(stretches)
            for stretch in left:
                waiting.append(pool.submit(_work, work, *stretch, columns))
                if len(waiting) > 2 * self.grid.jobs:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()

    def pieces(self, start: int, stop: int) -> Iterator[Piece]:
        """The pieces of a stretch, of each the points that are wanted."""
        for piece in self.space.pieces(start, stop):
            if not self.where.alternatives:
                yield piece
                continue
            wanted = held(self.where, piece)
            if wanted.all():
                yield piece
            elif wanted.any():
                yield piece.take(wanted.nonzero()[0])


def _chosen(sweep: Sweep, start: int, stop: int, columns: list[str]) -> list[dict[str, Any]]:
    """The rows of a stretch that may be wanted."""
    found: list[dict[str, Any]] = []
    top, order = sweep.grid.top, sweep.order
    for piece in sweep.pieces(start, stop):
        if sweep.front:
            piece = piece.take(fronted(piece, sweep.front))
        elif order is not None and top is not None and piece.number > top:
            piece = piece.take(first(piece, order, top))
        found += [dict(zip(columns, row, strict=True)) for row in zip(*piece.columns(columns), strict=True)]
        if sweep.front:
            found = best(found, sweep.front)
        elif order is not None and top is not None:
            found = ordered(found, order)[:top]
        elif top is not None and len(found) >= top:
            return found[:top]
    return found


def _listed(
    sweep: Sweep, start: int, stop: int, columns: list[str]
) -> Iterator[list[list[Any]]] | list[list[list[Any]]]:
    blocks = (piece.columns(columns) for piece in sweep.pieces(start, stop))
    return blocks if sweep.grid.jobs == 1 else list(blocks)


_OWN: list[Sweep] = []  # of a process that works for another


def _begin(grid: Grid) -> None:
    _OWN.append(Sweep(grid))


def _work(
    work: Callable[[Sweep, int, int, list[str]], Any], start: int, stop: int, columns: list[str]
) -> tuple[Any, dict[str, int]]:
    sweep = _OWN[0]
    sweep.space.refused.clear()
    return work(sweep, start, stop, columns), dict(sweep.space.refused)
