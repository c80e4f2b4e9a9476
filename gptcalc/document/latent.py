"""A section of latent attention, every default filled in."""

from __future__ import annotations

from typing import Any

from gptcalc.architecture import LatentAttention
from gptcalc.document.around import Around, sites


def latent(of: Around, name: str, keys: dict[str, Any]) -> LatentAttention:
    keys = of.common(name, keys, LatentAttention)
    of.positions(name, keys, ("rope",))
    places = ("q_a", "q_b", "kv_a", "kv_b", "out")
    keys["bias"] = sites(keys.get("bias", ()), places, {})
    return of.typed(keys, LatentAttention, name)
