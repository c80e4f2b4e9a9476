"""A section of a recurrent mixer, every default filled in."""

from __future__ import annotations

from typing import Any

from gptcalc.architecture import Recurrent
from gptcalc.document.around import Around
from gptcalc.document.keys import RecurrentName, recurrent_kind


def recurrent(of: Around, name: str, kind: RecurrentName, keys: dict[str, Any]) -> Recurrent:
    struct = recurrent_kind(kind)
    keys = of.common(name, keys, struct)
    if kind == "linear":
        keys.setdefault("n_k_heads", keys.get("n_heads"))
    if kind == "slots":
        keys.setdefault("n_kv_heads", keys.get("n_heads"))
    return of.typed(keys, struct, name)
