"""The stages of a forward pass, each a list of lines and how often it runs."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from gptcalc.architecture import Block
from gptcalc.equations.conditions import Workload
from gptcalc.equations.language import Line

#: when a stage runs: once a pass, in every layer of its kind, in every multi-token-prediction module, or once for the
#: source sequence
Runs: TypeAlias = Literal["once", "layer", "mtp", "encoder"]


class Stage(Struct, frozen=True, eq=False, kw_only=True):
    """Lines that run `times` times: the embedding, one kind of block, the output, the MTP modules."""

    name: str
    times: int = 1
    lines: tuple[Line, ...]
    runs: Runs = "once"

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
