"""A section of attention, every default filled in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gptcalc.architecture import Attention
from gptcalc.document.around import Around, sites
from gptcalc.errors import InputError


def attention(of: Around, name: str, keys: dict[str, Any]) -> Attention:
    doc, top = of.doc, of.biases()
    keys = of.common(name, keys)
    n_heads = keys.setdefault("n_heads", doc.n_heads)
    if n_heads is None:
        raise InputError(f"{name}: n_heads is missing")
    keys.setdefault("n_kv_heads", doc.n_kv_heads or n_heads)
    if keys.setdefault("d_head", doc.d_head) is None:
        keys["d_head"] = of.equal_share(name, n_heads)
    keys.setdefault("d_v", doc.d_v or keys["d_head"])
    places = {"q": {"qkv", "attn"}, "k": {"qkv", "attn"}, "v": {"qkv", "attn"}, "out": {"attn"}}
    default = [site for site, also in places.items() if site in top or also & set(top)]
    keys["bias"] = sites(keys.get("bias", default), ("q", "k", "v", "out"), {"qkv": ("q", "k", "v")})
    of.positions(name, keys, ("rope", "alibi"))
    if isinstance(keys.get("qk_norm"), str):
        keys["qk_norm"] = {"over": keys["qk_norm"]}
    if isinstance(keys.get("qk_norm"), Mapping):
        keys["qk_norm"] = of.like_model_norm(keys["qk_norm"])
    return of.typed(keys, Attention, name)
