"""In which form weights are stored: the names of all forms, and the one in which a model is published."""

from __future__ import annotations

from gptcalc.analysis.memory import mixes
from gptcalc.architecture import Architecture
from gptcalc.dtypes import BF16, FORMATS, unknown, weight_format


def names() -> list[str]:
    """Every name that --dtype knows, without the groups of int4."""
    return [*FORMATS, *mixes.MIXES]


def checked(dtype: str) -> str:
    """A data type's name as it is shown; InputError where there is none."""
    mix = mixes.named(dtype)
    if mix is not None:
        return str(mix)
    found = weight_format(dtype)
    if found is None:
        raise unknown(dtype, names())
    return found.name


def published(architecture: Architecture, engine: str = "ideal") -> str:
    """The format in which a model is published; of llama.cpp, what its converter makes of that."""
    stored = architecture.storage.weights or BF16.name
    converted = engine == "llama.cpp" and architecture.storage.files is None
    return mixes.converted(stored) if converted else stored


def is_published(architecture: Architecture, dtype: str | None, engine: str) -> bool:
    """Whether weights in the format that is asked for (None: none) are those of the published files."""
    stored = published(architecture)
    return dtype is None and (stored in mixes.AS_THEY_ARE or published(architecture, engine) == stored)
