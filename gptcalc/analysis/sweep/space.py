"""A grid of points: which of its keys are sizes and nothing else, what the others are, and the figures at each point.

That a key is free is tried, not taken for granted. The model is built twice with large primes in its place: where both
are accepted, no line, condition or store changes, every range is the polynomial that its symbol says, and the cache's
rows don't hang on it, figures are polynomials in that key. A size that has to divide another one refuses a prime, and
what is a condition (a window) or a default of something else shows. All free keys together are tried once more. Of
`n_layers`, how often each kind of layer stands is looked up for every value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from itertools import islice, product
from math import prod
from typing import Any

import numpy as np

from gptcalc.analysis.memory.engines import chunk_of
from gptcalc.analysis.memory.live import Work
from gptcalc.analysis.sweep import mixed
from gptcalc.analysis.sweep.activations import TOKENS, WANTED
from gptcalc.analysis.sweep.alike import alike, forms, written_alike
from gptcalc.analysis.sweep.bulk import Array, Points
from gptcalc.analysis.sweep.collected import BATCH, NotPolynomial, Placed, present, times
from gptcalc.analysis.sweep.figures import FIGURES, Figured, is_mix, is_packed
from gptcalc.analysis.sweep.piece import PIECE, Axis, Piece, Settings
from gptcalc.architecture import Architecture
from gptcalc.conventions import SweepRun
from gptcalc.document import build
from gptcalc.dtypes import DType
from gptcalc.equations import Equations, equations
from gptcalc.equations import polynomial as poly
from gptcalc.errors import Impossible, InputError
from gptcalc.sources.preset import edited

#: two for each key that is tried
PRIMES = (
    (10007, 20011), (10009, 20021), (10037, 20023), (10039, 20029), (10061, 20047), (10067, 20051), (10069, 20063),
    (10079, 20071), (10091, 20089), (10093, 20101), (10099, 20107), (10103, 20113),
)  # fmt: skip
DEPTH = "n_layers"
#: combinations of first values that are tried for one that is a model
TRIED = 10_000
#: figures that know what is held at the widest moment
HELD = {"activations_bytes", "memory"}


class Space:
    """All combinations of axes, contexts and batches. The free ones vary fastest."""

    def __init__(
        self,
        document: Settings,
        axes: Sequence[Axis],
        contexts: Sequence[int | None],
        batches: Sequence[int],
        figures: Sequence[str],
        how: SweepRun,
        base: Settings | None = None,
        words: Settings | None = None,
    ) -> None:
        """base: settings that are known to make a model; None: the first combination that does is looked for. words:
        what the document has in it besides (structures)."""
        self.document = document
        self.axes = axes
        self.contexts = contexts
        self.batches = batches
        self.figures = figures
        self.how = how
        self.words = words or {}
        self.every_symbol = False  # whether pieces have those, too, that no figure needs
        self.base = self._deepest(self._first() if base is None else dict(base))
        self.symbols: dict[str, str] = {}  # of the free keys
        self.free = self._free()
        self.bound = [axis for axis in axes if axis not in self.free]
        self.inner = prod(len(axis.values) for axis in self.free) * len(batches)
        self.combinations = prod(len(axis.values) for axis in self.bound)
        self.refused: dict[str, int] = {}  # why combinations are no models, and how many points that are
        self._depths: dict[tuple[tuple[str, int], ...], dict[str, list[int]]] = {}
        self._types: dict[Any, mixed.Columns] = {}

    def __len__(self) -> int:
        return self.combinations * len(self.contexts) * self.inner

    def build(self, settings: Settings) -> Architecture:
        return build(edited(self.document, [f"{key}={value}" for key, value in settings.items()]))

    def _first(self) -> dict[str, Any]:
        """The first combination that is a model."""
        error: InputError | None = None
        keys = [axis.key for axis in self.axes]
        for values in islice(product(*(axis.values for axis in self.axes)), TRIED):
            try:
                self.build(dict(zip(keys, values, strict=True)))
                return dict(zip(keys, values, strict=True))
            except InputError as found:
                error = error or found
        raise error or InputError("sweep: nothing to vary", "give --set n_kv_heads=1,2,4,8", "usage")

    def _deepest(self, settings: dict[str, Any]) -> dict[str, Any]:
        """With as many layers as there may be, so that every kind of layer stands."""
        for axis in self.axes:
            numbers = [value for value in axis.values if isinstance(value, int)]
            if axis.key == DEPTH and numbers:
                try:
                    self.build({**settings, DEPTH: max(numbers)})
                except InputError:
                    return settings
                return {**settings, DEPTH: max(numbers)}
        return settings

    # what is free

    def _free(self) -> list[Axis]:
        tried = [axis for axis in self.axes if self._may_be_free(axis)][: len(PRIMES)]
        found = [axis for axis in tried if self._is_free([axis])]
        if not self._is_free(found):
            found = []
            self.symbols = {}
        return found

    def _may_be_free(self, axis: Axis) -> bool:
        """`c` decides which contexts there are, an encoder's keys which source."""
        numbers = all(isinstance(value, int) for value in axis.values)
        if not numbers or len(axis.values) < 2 or axis.key == "c" or axis.key.startswith("encoder."):
            return False
        return all(self._goes_with(axis, others) for others in self._extremes(axis))

    def _goes_with(self, axis: Axis, others: Settings) -> bool:
        """Whether its least and its most value make models, with these settings both or neither."""
        works = []
        for end in (min(axis.values), max(axis.values)):
            try:
                self.build({**self.base, **others, axis.key: end})
                works.append(True)
            except InputError:
                works.append(False)
        return all(works) or (bool(others) and not any(works))

    def _extremes(self, axis: Axis) -> Iterator[Settings]:
        """As all is, and with the least and the most value of each other axis: what one key allows may hang on it."""
        yield {}
        for other in self.axes:
            if other != axis:
                yield from ({other.key: value} for value in {min(other.values), max(other.values)})

    def _is_free(self, axes: Sequence[Axis]) -> bool:
        """Whether all these together are sizes and nothing else; remembers their symbols."""
        probes = [{axis.key: primes[n] for axis, primes in zip(axes, PRIMES, strict=False)} for n in (0, 1)]
        try:
            models = [self.build({**self.base, **probe}) for probe in probes]
        except InputError:
            return False
        counted = any(axis.key == DEPTH for axis in axes)
        pairs = list(zip(forms(models[0]), forms(models[1]), strict=True))
        whole = forms(self.build(self.base))
        if not all(alike(a, b) and alike(a, base) for (a, b), base in zip(pairs, whole, strict=True)):
            return False
        if not all(written_alike(a, b) for a, b in pairs) or not self._coincide_alike(axes, whole):
            return False
        symbols: dict[str, str] = {}
        for axis in axes:
            names = [
                {name for name, size in equations(model).symbols.items() if size == probe[axis.key]}
                for model, probe in zip(models, probes, strict=True)
            ]
            if names[0] != names[1]:
                return False
            symbols |= dict.fromkeys(names[0], axis.key)
        if not all(self.is_right(model, symbols, probe) for model, probe in zip(models, probes, strict=True)):
            return False
        if is_mix(self.how.dtype) and len(set(map(mixed.experts_and_heads, models))) > 1:
            return False
        if not self._are_held_alike(models[0], symbols):
            return False
        self.symbols = symbols
        stages = [[(stage.name, stage.times) for stage in equations(model).main] for model in models]
        return stages[0] == stages[1] if not counted else not any(" (" in name for name, _ in stages[0])

    def _coincide_alike(self, axes: Sequence[Axis], whole: tuple[Equations, Equations]) -> bool:
        """Whether lines stay as they are where sizes happen to be equal: a table as wide as the stream needs no
        projection."""
        known = set(whole[0].symbols.values())
        for axis in axes:
            if axis.key == DEPTH:  # every depth is looked up
                continue
            same: list[Settings] = [{axis.key: value} for value in axis.values if value in known]
            for other in self.axes:
                if other != axis and other.key != DEPTH:
                    both = [value for value in axis.values if value in other.values]
                    same += [{axis.key: value, other.key: value} for value in both[:1] + both[1:][-1:]]
            for settings in same:
                try:
                    found = forms(self.build({**self.base, **settings}))
                except InputError:
                    if len(settings) == 1:
                        return False
                    continue
                if not all(alike(a, b) for a, b in zip(found, whole, strict=True)):
                    return False
        return True

    def _are_held_alike(self, model: Architecture, symbols: Mapping[str, str]) -> bool:
        """Whether what is held at each moment is the same polynomial wherever the free sizes may be, if it is asked."""
        values = {axis.key: axis.values for axis in self.axes}
        spans = {symbol: span(values[key]) for symbol, key in symbols.items()}
        try:
            if HELD & set(self.figures):
                collected = Figured(model, self.how, symbols, False, spans | self._spans(model))
                FIGURES["activations_bytes"].collect(collected)
        except (NotPolynomial, Impossible):  # or a table of positions that ends before a context
            return False
        return True

    def is_right(self, model: Architecture, symbols: Mapping[str, str], probe: Settings) -> bool:
        """Whether every range is what its symbol says, and no row of the cache hangs on a free one."""
        collected = Figured(model, self.how, symbols, False, {})
        try:
            ranges = {
                index: collected.range(index)
                for form in forms(model)
                for stage in form.main
                for line in stage.lines
                for index in line.ranges().values()
                if index.is_fixed
            }
            sizes = {symbol: probe[key] for symbol, key in symbols.items()}
            right = all(value(terms, sizes) == index.size for index, terms in ranges.items())
            return right and not collected.stored_freely()
        except (NotPolynomial, KeyError):
            return False

    def _spans(self, model: Architecture) -> dict[str, tuple[int, int]]:
        """Of the symbols that go by the batch, whatever the context."""
        found = [
            lengths(model, self.how if context is None else self.how.to(SweepRun, context=context), self.batches)
            for context in self.contexts
        ]
        return {symbol: (min(int(f[symbol].min()) for f in found), max(int(f[symbol].max()) for f in found))
                for symbol in found[0]}  # fmt: skip

    # the points

    def pieces(self, start: int, stop: int) -> Iterator[Piece]:
        """The points from `start` up to `stop`, a piece at a time; those that are no models are left out, and told."""
        at = start
        found: tuple[int, Combination | OneByOne | None] = (-1, None)
        while at < stop:
            number, inner = divmod(at, self.inner)
            end = min(stop, (number + 1) * self.inner, at + PIECE)
            if found[0] != number:
                found = (number, self._combination(number, min(stop, (number + 1) * self.inner) - at))
            if found[1] is None:
                at = min(stop, (number + 1) * self.inner)
                continue
            yield from found[1].pieces(inner, inner + end - at)
            at = end

    def _combination(self, number: int, points: int) -> Combination | OneByOne | None:
        outer, which = divmod(number, len(self.contexts))
        settings: dict[str, Any] = {}
        for axis in reversed(self.bound):
            outer, digit = divmod(outer, len(axis.values))
            settings[axis.key] = axis.values[digit]
        try:
            return Combination(self, settings, self.contexts[which])
        except TooManyFree:
            return OneByOne(self, settings, self.contexts[which])
        except NoModel as error:
            self.refuse(str(error), points)
            return None

    def refuse(self, problem: str, points: int) -> None:
        """Takes note of points that are no models."""
        self.refused[problem] = self.refused.get(problem, 0) + points

    def binding(self, axes: Sequence[Axis]) -> Space:
        """The same with fewer free axes; the values of these are among the settings of each combination."""
        other = copy(self)
        other.free = [axis for axis in self.free if axis not in axes]
        bound = {axis.key for axis in axes}
        other.symbols = {symbol: key for symbol, key in self.symbols.items() if key not in bound}
        return other

    def depths(self, settings: Settings, model: Equations) -> dict[str, list[int]]:
        """How often each stage runs, for every depth. InputError where a depth is none."""
        (axis,) = (axis for axis in self.free if axis.key == DEPTH)
        key = tuple((stage.name, stage.times) for stage in model.main)
        if key not in self._depths:
            found: dict[str, list[int]] = {stage.name: [] for stage in model.main}
            for depth in axis.values:
                own = {stage.name: stage.times for stage in equations(self.build({**settings, DEPTH: depth})).main}
                if own.keys() - found.keys():
                    raise InputError(f"n_layers={depth}: other kinds of layers", "sweep it apart", "usage")
                for name, column in found.items():
                    column.append(own.get(name, 0))
            self._depths[key] = found
        return self._depths[key]

    def types(self, settings: Settings, model: Architecture) -> mixed.Columns:
        """In which types the layers of a GGUF mix are, for every depth."""
        (axis,) = (axis for axis in self.free if axis.key == DEPTH)
        key = mixed.kind(model, self.how.dtype)
        if key not in self._types:
            each = [self.build({**settings, DEPTH: depth}) for depth in axis.values]
            self._types[key] = mixed.columns([mixed.counts(own, self.how.dtype) for own in each])
        return self._types[key]


class NoModel(Exception):
    """Why a combination of settings is none."""


class TooManyFree(InputError):
    """No polynomials hold for all of a combination's points."""


class Combination:
    """The points that differ in free keys and the batch alone."""

    def __init__(self, space: Space, settings: dict[str, Any], context: int | None) -> None:
        """NoModel where there is none with these settings; InputError where no settings have what is asked for."""
        try:
            self._collect(space, settings, context)
        except NotPolynomial as error:
            problem = f"sweep: {', '.join(f'{k}={v}' for k, v in settings.items()) or 'a point'}: {error}"
            raise TooManyFree(problem, "sweep fewer keys at once", "unsupported") from None
        except InputError as error:
            if error.kind in ("usage", "unsupported") and not isinstance(error, Impossible):
                raise
            raise NoModel(error.message) from None

    def _collect(self, space: Space, settings: dict[str, Any], context: int | None) -> None:
        self.space = space
        probe = {axis.key: primes[0] for axis, primes in zip(space.free, PRIMES, strict=False)}
        architecture = space.build({**settings, **probe})
        if space.free and not space.is_right(architecture, space.symbols, probe):
            raise NotPolynomial("the sizes of the layers are other ones here")
        how = space.how if context is None else space.how.to(SweepRun, context=context)
        counted = any(axis.key == DEPTH for axis in space.free)
        self.same = {**space.words, **settings, "context": how.length(architecture)}
        placed: Placed = mixed.numbers(architecture, how.dtype) if is_mix(how.dtype) and not counted else {}
        self.tables: dict[str, tuple[int, Array]] = {}  # symbol: the place of its axis, its values
        for place, axis in enumerate(space.free):
            for symbol, key in space.symbols.items():
                if key == axis.key:
                    self.tables[symbol] = place, np.array(axis.values, dtype=np.int64)
            if axis.key == DEPTH:
                shallow = {**settings, **{a.key: a.values[0] for a in space.free if a.key != DEPTH}}
                for stage, depths in space.depths(shallow, equations(architecture)).items():
                    self.tables[times(stage)] = place, np.array(depths, dtype=np.int64)
                    self.tables[present(stage)] = place, np.minimum(self.tables[times(stage)][1], 1)
                if is_mix(how.dtype):
                    placed = self._placed(place, space.types(shallow, architecture))
        for symbol, column in lengths(architecture, how, space.batches).items():
            self.tables[symbol] = len(space.free), column
        steps = {}
        if is_mix(how.dtype) or is_packed(how.dtype):  # blocks may divide sizes in steps
            steps = {s: int(np.gcd.reduce(self.tables[s][1])) for s in space.symbols if s in self.tables}
            steps = {s: step for s, step in steps.items() if step > 1}
            self.tables |= {s: (self.tables[s][0], self.tables[s][1] // step) for s, step in steps.items()}
        ranges = {symbol: (int(column.min()), int(column.max())) for symbol, (_, column) in self.tables.items()}
        self.collected = Figured(architecture, how, space.symbols, counted, ranges, steps, placed)
        self.figures = {key: FIGURES[key].collect(self.collected) for key in space.figures}
        used = {s for every in self.figures.values() for terms in every for monomial in terms for s, _ in monomial}
        if space.every_symbol:
            used |= self.tables.keys()
        self.tables = {symbol: table for symbol, table in self.tables.items() if symbol in used}
        self.largest = {symbol: ranges[symbol][1] for symbol in self.tables}

    def _placed(self, place: int, types: mixed.Columns) -> Placed:
        """In how many layers a tensor has which type of a GGUF mix, as symbols that go by the depth."""
        found: dict[mixed.Tensors, dict[DType, poly.Polynomial]] = {}
        for symbol, column, counted in mixed.symbols(types):
            self.tables[symbol] = place, np.array(column, dtype=np.int64)
            for tensor, type_ in counted:
                found.setdefault(tensor, {})[type_] = {((symbol, 1),): 1}
        return found

    def pieces(self, start: int, stop: int) -> Iterator[Piece]:
        yield self.at(digits(self.space, start, stop))

    def at(self, digits: Sequence[Array]) -> Piece:
        """Some points, by their places on each free axis and that of the batch."""
        number = len(digits[-1])
        values = {symbol: column[digits[place]] for symbol, (place, column) in self.tables.items()}
        keys = {
            axis.key: np.array(axis.values, dtype=np.int64)[digits[place]] for place, axis in enumerate(self.space.free)
        }
        keys["batch"] = np.array(self.space.batches, dtype=np.int64)[digits[-1]]
        return Piece(number, self.same, Points(values, self.largest, number), keys, self.figures)


class OneByOne:
    """The points of a combination for all of which no polynomials hold: each is one of its own."""

    def __init__(self, space: Space, settings: Settings, context: int | None) -> None:
        self.space, self.settings, self.context = space, settings, context

    def pieces(self, start: int, stop: int) -> Iterator[Piece]:
        yield from self.at(digits(self.space, start, stop))

    def at(self, chosen: Sequence[Array]) -> Iterator[Piece]:
        """Some points, by their places on each free axis and that of the batch: those that are models; the others are
        told."""
        *places, batches = chosen
        alone = self.space.binding(self.space.free)
        for point in range(len(batches)):
            own = {axis.key: axis.values[place[point]] for axis, place in zip(self.space.free, places, strict=True)}
            alone.batches = (self.space.batches[batches[point]],)
            try:
                yield from Combination(alone, {**self.settings, **own}, self.context).pieces(0, 1)
            except NoModel as error:
                self.space.refuse(str(error), 1)


def digits(space: Space, start: int, stop: int) -> list[Array]:
    """The places of a combination's points on each free axis, and that of the batch."""
    index = np.arange(start, stop, dtype=np.int64)
    found: list[Array] = []
    for size in reversed([*(len(axis.values) for axis in space.free), len(space.batches)]):
        index, digit = np.divmod(index, size) if size > 1 else (index, np.zeros_like(index))
        found.insert(0, digit)
    return found


def lengths(architecture: Architecture, how: SweepRun, batches: Sequence[int]) -> dict[str, Array]:
    """The symbols that go by the batch, at every batch."""
    context, source = how.length(architecture), how.source_length(architecture)
    works = [Work.prompt(batch, batch * context, source, chunk_of("ideal", None)) for batch in batches]
    try:
        return {
            BATCH: np.array(batches, dtype=np.int64),
            TOKENS: np.array([work.tokens for work in works], dtype=np.int64),
            WANTED: np.array([work.wanted for work in works], dtype=np.int64),
        }
    except OverflowError:
        problem = f"--batch {max(batches)}: a grid has fewer than 2⁶³ tokens at once"
        raise InputError(problem, "fewer sequences, or gptcalc memory", "usage") from None


def span(values: Sequence[Any]) -> tuple[int, int]:
    return min(values), max(values)


def value(terms: poly.Polynomial, sizes: Mapping[str, int]) -> int:
    """A polynomial's value at one point."""
    return sum(n * prod(sizes[symbol] ** power for symbol, power in monomial) for monomial, n in terms.items())
