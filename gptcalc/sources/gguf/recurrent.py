"""Recurrent mixers of a GGUF file's layers: state spaces, delta rules, short convolutions, told by their tensors."""

from __future__ import annotations

from typing import Any

from gptcalc.errors import InputError
from gptcalc.sources.gguf.metadata import Facts
from gptcalc.sources.gguf.rwkv import time_mixing
from gptcalc.sources.gguf.styles import Style


def mixer(facts: Facts, style: Style, layer: int) -> dict[str, Any] | None:
    """The recurrent mixer of a layer, where it has one."""
    has = facts.has
    if (mixing := time_mixing(facts, layer)) is not None:
        return mixing
    if has(layer, "shortconv.conv"):
        return short_convolution(facts, layer)
    if has(layer, "ssm_conv1d_q"):
        return kimi_delta(facts, layer)
    if has(layer, "ssm_ba") or has(layer, "ssm_beta"):
        return gated_delta(facts)
    if has(layer, "ssm_x"):
        return mamba(facts, layer)
    if has(layer, "ssm_in"):
        return mamba2(facts, style, layer)
    return None


def short_convolution(facts: Facts, layer: int) -> dict[str, Any]:
    bias = facts.has(layer, "shortconv.conv", "bias")
    return {"kind": "conv", "word": "conv", "kernel": facts.size("shortconv.l_cache"), "bias": bias}


def mamba(facts: Facts, layer: int) -> dict[str, Any]:
    weights = {} if facts.has(layer, "ssm_dt_norm") else {"weight": False}
    normed = not weights or facts.flag("ssm.dt_b_c_rms")
    return {
        "kind": "mamba",
        "word": "mamba",
        "d_inner": facts.size("ssm.inner_size"),
        "d_state": facts.size("ssm.state_size"),
        "dt_rank": facts.size("ssm.time_step_rank"),
        "kernel": facts.size("ssm.conv_kernel"),
        "bias": biases(facts, layer),
        "inner_norm": weights if normed else None,
    }


def mamba2(facts: Facts, style: Style, layer: int) -> dict[str, Any]:
    """The metadata's rank of time steps is the number of heads."""
    inner, heads = facts.size("ssm.inner_size"), facts.size("ssm.time_step_rank")
    return {
        "kind": "mamba2",
        "word": "mamba2",
        "n_heads": heads,
        "d_head": whole(facts, inner, heads),
        "d_state": facts.size("ssm.state_size"),
        "kernel": facts.size("ssm.conv_kernel"),
        "n_groups": facts.size("ssm.group_count", 1),
        "bias": biases(facts, layer),
        "out_norm": {} if facts.has(layer, "ssm_norm") else None,
        "dt_min": style.dt_min,
    }


def gated_delta(facts: Facts) -> dict[str, Any]:
    """Qwen3-Next: the state's size is a key head's width, groups are key heads, the rank of time steps value heads."""
    heads = facts.size("ssm.time_step_rank")
    return {
        "kind": "linear",
        "word": "gdn",
        "n_heads": heads,
        "n_k_heads": facts.size("ssm.group_count"),
        "d_k": facts.size("ssm.state_size"),
        "d_v": whole(facts, facts.size("ssm.inner_size"), heads),
        "delta": True,
        "decay": "head",
        "kernel": facts.size("ssm.conv_kernel"),
        "gate": "silu",
        "out_norm": {"over": "head", "offset": 0},
    }


def kimi_delta(facts: Facts, layer: int) -> dict[str, Any]:
    """Kimi Linear: decays channel by channel; decay and gate through a bottleneck of a head's width. Kimi K3: decays
    that are bounded, a gate of full rank."""
    width, floor = facts.size("kda.head_dim"), facts.number("kda.gate_lower_bound")
    bounded = {} if not floor else {"form": "bounded", "floor": floor}
    rank = {} if facts.has(layer, "ssm_g") else {"rank": width}
    return {
        "kind": "linear",
        "word": "kda",
        "n_heads": max(facts.each("attention.head_count")),
        "d_k": width,
        "d_v": width,
        "delta": True,
        "decay": {"over": "channel", "rank": width, **bounded},
        "kernel": facts.size("ssm.conv_kernel"),
        "gate": {"function": "sigmoid", **rank},
        "out_norm": {"over": "head"},
    }


def biases(facts: Facts, layer: int) -> list[str]:
    stems = {"in": "ssm_in", "conv": "ssm_conv1d", "out": "ssm_out"}
    return [site for site, stem in stems.items() if facts.has(layer, stem, "bias")]


def whole(facts: Facts, inner: int, heads: int) -> int:
    """A head's share of the inner width."""
    if inner % heads:
        problem = f"{facts.architecture}.ssm.inner_size = {inner} is not a multiple of the {heads} heads"
        raise InputError(f"{problem} (ssm.time_step_rank)")
    return inner // heads
