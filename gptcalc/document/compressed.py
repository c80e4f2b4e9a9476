"""A section of attention over compressed entries, every default filled in."""

from __future__ import annotations

from typing import Any

from gptcalc.architecture import CompressedAttention
from gptcalc.document.around import Around


def compressed(of: Around, name: str, keys: dict[str, Any]) -> CompressedAttention:
    keys = of.common(name, keys, CompressedAttention)
    if of.doc.position == "rope":
        keys.setdefault("rope", of.rope)
    return of.typed(keys, CompressedAttention, name)
