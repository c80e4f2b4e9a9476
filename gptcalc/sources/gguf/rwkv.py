"""RWKV-6 and 7 in GGUF files (src/models/rwkv6.cpp, rwkv7.cpp): their mixing, told by tensors."""

from __future__ import annotations

from typing import Any

from gptcalc.errors import InputError
from gptcalc.sources.gguf.metadata import Facts

SHARES = 5  # of an input's mixtures with the one before, which RWKV-6 makes side by side


def time_mixing(facts: Facts, layer: int) -> dict[str, Any] | None:
    """The time mixing of a layer, where it has one."""
    if facts.has(layer, "time_mix_r_k"):
        return _seventh(facts, layer)
    if facts.has(layer, "time_mix_first"):
        return _sixth(facts, layer)
    return None


def channel_mixing(facts: Facts, layer: int) -> dict[str, Any]:
    return {
        "kind": "channelmix",
        "word": "channelmix",
        "d_ff": facts.width(layer, "channel_mix_key", 0),
        "gated": facts.has(layer, "channel_mix_receptance"),
        "share": "before",
    }


def _heads(facts: Facts) -> dict[str, int]:
    d, width = facts.size("embedding_length"), facts.size("wkv.head_size")
    if d % width:
        raise InputError(f"{facts.architecture}.wkv.head_size: {width} channels do not divide a width of {d}")
    return {"n_heads": d // width, "d_k": width, "d_v": width}


def _sixth(facts: Facts, layer: int) -> dict[str, Any]:
    return {
        "kind": "matrixmix",
        "word": "matrixmix",
        **_heads(facts),
        "shift_rank": facts.width(layer, "time_mix_w1", 0) // SHARES,
        "decay_rank": facts.width(layer, "time_mix_decay_w1", 0),
    }


def _seventh(facts: Facts, layer: int) -> dict[str, Any]:
    """The first layer mixes its values with none, whatever its file has in their place."""
    return {
        "kind": "deltamix",
        "word": "mixed" if layer else "deltamix",
        **_heads(facts),
        "decay_rank": facts.width(layer, "time_mix_w1", 0),
        "rate_rank": facts.width(layer, "time_mix_a1", 0),
        "gate_rank": facts.width(layer, "time_mix_g1", 0),
        **({"value_rank": facts.width(layer, "time_mix_v1", 0)} if layer else {}),
    }
