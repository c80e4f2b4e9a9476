"""A section of attention over compressed entries, every default filled in."""

from __future__ import annotations

from typing import Any

from gptcalc.architecture import CompressedAttention, Rope
from gptcalc.document.around import Around
from gptcalc.errors import InputError


def compressed(of: Around, name: str, keys: dict[str, Any]) -> CompressedAttention:
    keys = of.common(name, keys)
    if keys.setdefault("n_heads", of.doc.n_heads) is None:
        raise InputError(f"{name}: n_heads is missing")
    if of.doc.position == "rope":
        keys.setdefault("rope", of.doc.rope or Rope())
    if keys.get("compress") == "none":
        keys["compress"] = None
    return of.typed(keys, CompressedAttention, name)
