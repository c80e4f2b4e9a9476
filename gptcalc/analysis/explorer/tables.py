"""What a page's tables hold: sizes, indices, tensors, lines, stages and variants, all left open."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeAlias, TypeVar

from msgspec import Struct

from gptcalc.analysis.explorer.moments import Parts
from gptcalc.analysis.explorer.sizes import Key, Terms
from gptcalc.conventions import Pass
from gptcalc.equations import Index, Line

V = TypeVar("V", bound=Hashable)
Places: TypeAlias = tuple[int, ...]


class Table(Generic[V]):
    """Values by their places, each once."""

    def __init__(self) -> None:
        self.places: dict[V, int] = {}

    def place(self, value: V) -> int:
        return self.places.setdefault(value, len(self.places))


class OpenSize(Struct, frozen=True):
    """A size as it is written, and as terms in the keys."""

    text: str
    terms: Terms


class OpenIndex(Struct, frozen=True):
    """A letter of a line: what it runs over, of a fixed size or of a length that hangs on the pass."""

    letter: str
    index: Index  # as the model has it
    size: int | None
    length: int | None


class OpenTensor(Struct, frozen=True):
    """A learned tensor of a line: its sizes, those that one token uses, and its bytes by type: a share of an element
    for each (above, below), and a size that comes on top."""

    name: str
    key: str
    component: str
    sizes: Places
    active: Places
    counted: bool
    shared: bool  # one for all layers
    bytes: tuple[tuple[str, tuple[int, int, int]], ...]


class OpenStore(Struct, frozen=True):
    """What a line keeps: so many rows, each of so many bytes by type."""

    kind: str
    rows: int
    bytes: tuple[tuple[str, int], ...]
    grows: bool


class OpenLine(Struct, frozen=True):
    line: Line
    indices: tuple[OpenIndex, ...]
    tensors: tuple[OpenTensor, ...]
    terms: tuple[int, Places] | None  # of a sum: a count of the length, and sizes
    attends: bool
    store: OpenStore | None

    def __hash__(self) -> int:
        return hash((self.line.text, self.indices, self.tensors, self.terms))

    def __eq__(self, other: object) -> bool:
        """Equal lines of several variants are one."""
        return isinstance(other, OpenLine) and _seen(self) == _seen(other)


def what(line: Line) -> tuple[Hashable, ...]:
    numbers = tuple(line.constants.items())
    return line.text, line.kind, line.component, line.part, line.condition, line.passes, line.stored, line.kept, numbers


def _seen(line: OpenLine) -> tuple[object, ...]:
    return (*what(line.line), line.indices, line.tensors, line.terms, line.store)


class Body(Struct, frozen=True):
    """The lines of a stage, and the moments of its pass; None where these are no products."""

    lines: Places
    moments: tuple[Parts, ...] | None


class OpenStage(Struct, frozen=True):
    """A body, and how often it stands: so often, and so many times more for each layer."""

    name: str
    runs: str
    passes: int
    times: tuple[int, int, int]  # constant, by layer, below both
    body: int


class Structure(Struct, frozen=True):
    """One variant: its stages in each phase, and the keys that may move."""

    words: tuple[str, ...]
    keys: tuple[Key, ...]
    deeper: int  # in what steps layers may be added
    step: int  # in what steps the context counts
    stages: dict[Pass, tuple[OpenStage, ...]]
    dtypes: tuple[str, ...]  # the published one first
    longest: int | None  # positions end with a learned table
    source: int  # a count: tokens of the other sequence
