"""The stages of a forward pass, each a list of lines and how often it runs."""

from __future__ import annotations

from typing import Literal, Self, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from gptcalc.architecture import Block
from gptcalc.equations.conditions import Workload
from gptcalc.equations.language import Line, Passes

#: when a stage runs: once a pass, in every layer of its kind, in every multi-token-prediction module, or once for the
#: source sequence
Runs: TypeAlias = Literal["once", "layer", "mtp", "encoder"]


def in_passes(n: int) -> dict[Passes, int]:
    """How often lines run in a layer that runs n times, by which of its passes they are for."""
    return {"all": n, "first": 1, "later": n - 1, "earlier": n - 1, "last": 1}


class Stage(Struct, frozen=True, eq=False, kw_only=True):
    """Lines that run `times` times: the embedding, one kind of block, the output, the MTP modules."""

    name: str
    times: int = 1
    passes: int = 1  # of a loop: how often each of them runs
    lines: tuple[Line, ...]
    runs: Runs = "once"

    def often(self, line: Line) -> int:
        """How often a line runs: in every layer of its kind, there in every pass of a loop or in some."""
        return self.times * self.runs_in_passes(line)

    def runs_in_passes(self, line: Line) -> int:
        """How often a line runs in one layer."""
        return in_passes(self.passes)[line.passes]

    def in_pass(self, number: int) -> tuple[Line, ...]:
        """The lines that run in a pass of a loop, counted from 0."""
        out = {"later" if number == 0 else "first", "earlier" if number == self.passes - 1 else "last"}
        return tuple(line for line in self.lines if line.passes not in out)

    def by_pass(self) -> list[tuple[Self, int]]:
        """The stage as it runs in the passes of a loop, each form with how many passes have it; where there is no loop,
        itself."""
        found: dict[tuple[Line, ...], int] = {}
        between = ((1, self.passes - 2), (self.passes - 1, 1)) if self.passes > 1 else ()
        for number, times in ((0, 1), *between):
            if times:
                own = self.in_pass(number)
                found[own] = found.get(own, 0) + times
        return [(self if own == self.lines else replace(self, lines=own), times) for own, times in found.items()]

    def workload(self, work: Workload) -> Workload:
        """What the stage works on in a pass."""
        return work.encoder if self.runs == "encoder" else work


class Layer(Stage, frozen=True, eq=False, kw_only=True):
    """The lines of one kind of block."""

    block: Block


class Equations(Struct, frozen=True, eq=False, kw_only=True):
    """A model's forward pass, and the values of its symbols."""

    encoder: tuple[Stage, ...] = ()  # a stack of its own, over the source
    embedding: Stage
    layers: tuple[Layer, ...]  # one for each kind of block
    output: Stage
    mtp: Layer | None = None
    symbols: dict[str, int]

    @property
    def main(self) -> tuple[Stage, ...]:
        """What every pass runs."""
        return (*self.encoder, self.embedding, *self.layers, self.output)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """All of it, multi-token prediction included."""
        return self.main if self.mtp is None else (*self.main, self.mtp)
