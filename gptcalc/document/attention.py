"""A section of attention, every default filled in."""

from __future__ import annotations

from typing import Any

from gptcalc.architecture import Attention
from gptcalc.document.around import Around, sites
from gptcalc.errors import InputError


def attention(of: Around, name: str, keys: dict[str, Any]) -> Attention:
    top, keys = of.biases(), of.common(name, keys, Attention)
    n_heads = keys.get("n_heads")
    if n_heads is None:
        raise InputError(f"{name}: n_heads is missing")
    keys.setdefault("n_kv_heads", n_heads)
    if keys.get("d_head") is None:
        keys["d_head"] = of.equal_share(name, n_heads)
    keys.setdefault("d_v", keys["d_head"])
    places = {"q": {"qkv", "attn"}, "k": {"qkv", "attn"}, "v": {"qkv", "attn"}, "out": {"attn"}}
    default = [site for site, also in places.items() if site in top or also & set(top)]
    keys["bias"] = sites(keys.get("bias", default), ("q", "k", "v", "out"), {"qkv": ("q", "k", "v")})
    of.positions(name, keys, ("rope", "alibi"))
    return of.typed(keys, Attention, name)
