"""Grids whose points differ in more than sizes: words of the preset (`layers`, `mlp`), and variants by a written rule.

Each combination of words is a structure: a grid of its own, in which it is found out anew which keys are free, and
whose figures are collected once for all of its sizes. They follow each other in the order of the words.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import Any

from gptcalc.analysis.sweep.piece import Axis, Piece, Settings
from gptcalc.analysis.sweep.space import Space
from gptcalc.conventions import SweepRun
from gptcalc.document.variant import varied
from gptcalc.errors import InputError
from gptcalc.sources.preset import edited

#: the key whose values are switches of --with; AS_IS: none of them
WITH = "with"
AS_IS = "as-is"


def is_of_words(axis: Axis) -> bool:
    return not all(isinstance(value, int) for value in axis.values)


class Structures:
    """All combinations of axes, contexts and batches, structure by structure."""

    def __init__(
        self,
        document: Settings,
        axes: Sequence[Axis],
        contexts: Sequence[int | None],
        batches: Sequence[int],
        figures: Sequence[str],
        how: SweepRun,
    ) -> None:
        """InputError where no combination of words is a model."""
        words = [axis for axis in axes if is_of_words(axis)]
        sizes = [axis for axis in axes if not is_of_words(axis)]
        self.refused: dict[str, int] = {}
        #: where a structure has no model at all: why
        self.spaces: list[Space | InputError] = []
        self.size = prod(len(axis.values) for axis in sizes) * len(contexts) * len(batches)
        for values in product(*(axis.values for axis in words)):
            named = dict(zip((axis.key for axis in words), values, strict=True))
            try:
                own = _changed(document, named)
                space = Space(own, sizes, contexts, batches, figures, how, {} if not sizes else None, named)
                if not sizes:
                    space.build({})
                space.refused = self.refused
                self.spaces.append(space)
            except InputError as error:
                self.spaces.append(error)
        failed = [space for space in self.spaces if isinstance(space, InputError)]
        if len(failed) == len(self.spaces):
            raise failed[0]

    def __len__(self) -> int:
        return len(self.spaces) * self.size

    def pieces(self, start: int, stop: int) -> Iterator[Piece]:
        """The points from `start` up to `stop`, a piece at a time; those that are no models are left out, and told."""
        for number in range(start // self.size, -(-stop // self.size)):
            before, space = number * self.size, self.spaces[number]
            first, last = max(start - before, 0), min(stop - before, self.size)
            if isinstance(space, InputError):
                self.refused[space.message] = self.refused.get(space.message, 0) + last - first
            else:
                yield from space.pieces(first, last)


def _changed(document: Settings, words: Mapping[str, Any]) -> dict[str, Any]:
    """A document with these words in it; the variant comes first, as --with does."""
    switch = words.get(WITH, AS_IS)
    own = dict(document) if switch == AS_IS else varied(document, [str(switch)])
    return edited(own, [f"{key}={value}" for key, value in words.items() if key != WITH])
