"""What lists show of every preset, computed when the wheel is built: a cache, and no home of any fact.

Its rows are what `figures.row` makes of the presets, at the defaults. A row counts only for the file that it was made
of, byte for byte; whatever is not there (a checkout has no index, nor have one's own presets) is read and computed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any
from zlib import crc32

from gptcalc.conventions import CompareRun, DiffRun
from gptcalc.errors import InputError
from gptcalc.report.figures import FIGURES, Facts, row
from gptcalc.sources import load
from gptcalc.sources.preset import SUFFIX, folder, names, own

if TYPE_CHECKING:
    from gptcalc.architecture import Architecture
    from gptcalc.sources import Model

NAME = "index.json"


def path() -> str:
    """Beside the presets, where a wheel has them."""
    return os.path.join(folder(), NAME)


def made() -> str:
    """The index of the presets that come with the program, as the file that `path` names."""
    import json

    from gptcalc.report.data import builtins

    found = {}
    for name in names(folder()):
        model = load(name)
        found[name] = [_sum(name), builtins(row(Facts(model.architecture, model.written, CompareRun()), FIGURES))]
    return json.dumps({"columns": list(FIGURES), "presets": found}, separators=(",", ":"), ensure_ascii=False)


class Index:
    """The rows that are there."""

    def __init__(self) -> None:
        self.rows: dict[str, list[Any]] = {}
        try:
            import json

            with open(path(), encoding="utf-8") as file:
                found = json.load(file)
        except (OSError, ValueError):
            return
        if found["columns"] == list(FIGURES):
            self.rows = found["presets"]

    def known(self, name: str) -> dict[str, Any] | None:
        """The figures of a preset that is as it was when they were computed."""
        entry = self.rows.get(name)
        return entry[1] if entry is not None and entry[0] == _sum(name) else None

    def facts(self, name: str, how: DiffRun, budget: int | None = None, devices: int = 1) -> Facts:
        """A preset's facts: those that are known, and what computes the others."""
        known = self.known(name)
        if known is None:
            model = load(name)
            return Facts(model.architecture, model.written, how, budget, devices)
        alike = how.to(CompareRun) == CompareRun() and budget is None and devices == 1
        return Indexed(name, {k: v for k, v in known.items() if alike or not FIGURES[k].of_run}, how, budget, devices)

    def each(
        self,
        listed: Iterable[str],
        how: DiffRun,
        usable: Sequence[int] = (),
        left: list[str] | None = None,
    ) -> Iterator[Facts]:
        """Facts of many presets. One's own that are no models are left out where `left` takes the reasons."""
        for name in listed:
            try:
                yield self.facts(name, how, *usable)
            except InputError as error:
                if left is None or own(name) is None:
                    raise
                left.append(f"left out, of your own: {error.message}")


class Indexed(Facts):
    """A preset that is read only where something is asked that isn't known."""

    def __init__(self, name: str, known: Mapping[str, Any], how: DiffRun, budget: int | None, devices: int) -> None:
        self.name = name
        self.known = known
        self.how = how
        self.budget = budget
        self.devices = devices

    @cached_property
    def _model(self) -> Model:
        return load(self.name)

    @property
    def architecture(self) -> Architecture:
        return self._model.architecture

    @property
    def document(self) -> Mapping[str, Any]:
        return self._model.written


def _sum(name: str) -> int | None:
    """What changes where a preset's file does."""
    try:
        with open(os.path.join(folder(), name + SUFFIX), "rb") as file:
            return crc32(file.read())
    except OSError:
        return None
