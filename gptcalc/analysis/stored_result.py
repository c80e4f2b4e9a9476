"""What a checkpoint holds, as it is answered."""

from __future__ import annotations

from msgspec import Struct

from gptcalc.analysis.params import Params


class Held(Struct, frozen=True):
    """The tensors of one role: weights count in parameters, anything else in elements."""

    role: str
    tensors: int
    params: int
    bytes: int


class Difference(Struct, frozen=True):
    """A tensor that config and file see differently; None where one of them has none."""

    tensor: str
    config: int | None
    file: int | None


class Stored(Struct, frozen=True):
    """What a checkpoint holds."""

    main: int  # parameters of the main model
    stored: int  # all weights in the file: unused ones, copies and multi-token modules included
    held: tuple[Held, ...]
    differ: tuple[Difference, ...]
    rows: int | None = None  # of the token table, where nothing but its length differs from the config

    @property
    def mtp(self) -> int:
        return next((held.params for held in self.held if held.role == "mtp"), 0)


class StoredParams(Params, frozen=True):
    """The keys of `gptcalc params --json` for a model with its tensors beside it."""

    stored: int
    held: tuple[Held, ...]
    differ: tuple[Difference, ...]


def with_stored(params: Params, found: Stored) -> StoredParams:
    own = {key: getattr(params, key) for key in Params.__struct_fields__}
    return StoredParams(**own, stored=found.stored, held=found.held, differ=found.differ)
