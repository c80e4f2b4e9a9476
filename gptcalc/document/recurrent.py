"""A section of a recurrent mixer, every default filled in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gptcalc.architecture import Recurrent
from gptcalc.document.around import Around
from gptcalc.document.keys import RecurrentName, recurrent_kind


def recurrent(of: Around, name: str, kind: RecurrentName, keys: dict[str, Any]) -> Recurrent:
    keys = of.common(name, keys)
    if kind == "linear":
        keys.setdefault("n_k_heads", keys.get("n_heads"))
    for key, first in (("decay", "over"), ("gate", "function")):
        if isinstance(keys.get(key), str):
            keys[key] = {first: keys[key]}
    for key in ("out_norm", "inner_norm"):
        if isinstance(keys.get(key), Mapping):
            keys[key] = of.like_model_norm(keys[key])
    return of.typed(keys, recurrent_kind(kind), name)
