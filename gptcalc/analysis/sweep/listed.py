"""Points that somebody lists, in place of all combinations: those of one combination of bound keys and context are
evaluated together, at their places on the axes that all listed values span."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from gptcalc.analysis.sweep.figures import FIGURES
from gptcalc.analysis.sweep.piece import PIECE, Axis, Piece
from gptcalc.analysis.sweep.space import Combination, NoModel, OneByOne, Space, TooManyFree
from gptcalc.conventions import SweepRun
from gptcalc.errors import InputError, file_name
from gptcalc.sources.points import PointsFile

#: columns that are no keys of the preset
CONTEXT, BATCH = "context", "batch"
#: points at a time, and combinations whose figures are held
STRETCH, MOST_HELD = 16 * PIECE, 4096


class Listed:
    """The points of a file. Those of a combination follow each other within a stretch of them."""

    def __init__(
        self,
        document: Mapping[str, Any],
        file: PointsFile,
        part: tuple[int, int],
        figures: Sequence[str],
        how: SweepRun,
    ) -> None:
        """part: the first of so many, whose values alone are looked at."""
        self.file = file
        self.names = tuple(key for key in file.keys if key not in FIGURES)  # an earlier sweep's figures are made anew
        number, parts = part
        spans = self._spans((number - 1) * file.number // parts, number * file.number // parts)
        self.contexts: tuple[int | None, ...] = tuple(spans.pop(CONTEXT, (None,)))
        self.batches = tuple(spans.pop(BATCH, (1,)))
        self.axes = tuple(Axis(key, tuple(values)) for key, values in spans.items())
        if min(self.batches) < 1 or min(n or 1 for n in self.contexts) < 1:
            raise InputError("--points: a context or a batch is less than 1", kind="usage")
        try:
            self.space = Space(document, self.axes, self.contexts, self.batches, figures, how)
        except InputError as error:
            raise error.within(file_name(file.path)) if error.kind == "unknown" else error from None
        self.refused = self.space.refused
        self.found: dict[tuple[int, ...], Combination | OneByOne | str] = {}

    def __len__(self) -> int:
        return self.file.number

    def _spans(self, start: int, stop: int) -> dict[str, list[int]]:
        """The values of each column."""
        spans: dict[str, set[int]] = {key: set() for key in self.names}
        for at in range(start, stop, STRETCH):
            for key, column in self.file.rows(at, min(at + STRETCH, stop), self.names).items():
                spans[key] |= set(np.unique(column).tolist())
        return {key: sorted(values) for key, values in spans.items()}

    def pieces(self, start: int, stop: int) -> Iterator[Piece]:
        """The points from `start` up to `stop`, a piece at a time; those that are no models are left out, and told."""
        for at in range(start, stop, STRETCH):
            yield from self._pieces(self.file.rows(at, min(at + STRETCH, stop), self.names))

    def _pieces(self, columns: Mapping[str, Any]) -> Iterator[Piece]:
        number = len(next(iter(columns.values())))
        nothing = np.zeros(number, dtype=np.int64)

        def places(key: str, values: Sequence[int | str | None]) -> Any:
            return np.searchsorted(np.array(values, dtype=np.int64), columns[key]) if key in columns else nothing

        free = [places(axis.key, axis.values) for axis in self.space.free] + [places(BATCH, self.batches)]
        bound = [places(axis.key, axis.values) for axis in self.space.bound] + [places(CONTEXT, self.contexts)]
        kinds, of_kind = np.unique(np.array(bound), axis=1, return_inverse=True)
        of_kind = of_kind.reshape(number)  # which NumPy 2.0 gives an axis more
        order = np.argsort(of_kind, kind="stable")
        ends = np.searchsorted(of_kind[order], np.arange(kinds.shape[1] + 1))
        for kind, (first, last) in enumerate(pairwise(ends.tolist())):
            combination = self._combination(tuple(kinds[:, kind].tolist()))
            if isinstance(combination, str):
                self.refused[combination] = self.refused.get(combination, 0) + last - first
                continue
            for at in range(first, last, PIECE):
                chosen = order[at : min(at + PIECE, last)]
                digits = [places[chosen] for places in free]
                yield from [combination.at(digits)] if isinstance(combination, Combination) else combination.at(digits)

    def _combination(self, places: tuple[int, ...]) -> Combination | OneByOne | str:
        """The points with these places on the bound axes and that of the context; or why there are none."""
        if places not in self.found:
            if len(self.found) >= MOST_HELD:
                self.found.clear()
            settings = {axis.key: axis.values[place] for axis, place in zip(self.space.bound, places, strict=False)}
            context = self.contexts[places[-1]]
            try:
                self.found[places] = Combination(self.space, settings, context)
            except TooManyFree:
                self.found[places] = OneByOne(self.space, settings, context)
            except NoModel as error:
                self.found[places] = str(error)
        return self.found[places]
