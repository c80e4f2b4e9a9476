"""What must hold between an architecture's fields; an InputError names those that contradict each other."""

from __future__ import annotations

from gptcalc.architecture import (
    NTK,
    Attention,
    AttentionExperts,
    Dynamic,
    Experts,
    LongRope,
    Rope,
    rotated,
)
from gptcalc.errors import InputError


def check_attention(name: str, a: Attention) -> None:
    if a.n_heads % a.n_kv_heads:
        raise InputError(f"{name}: n_heads = {a.n_heads} is not a multiple of n_kv_heads = {a.n_kv_heads}")
    if a.window is not None and a.chunk is not None:
        raise InputError(f"{name}: window and chunk exclude each other")
    if a.k_eq_v and a.d_v != a.d_head:
        raise InputError(f"{name}.k_eq_v: d_v = {a.d_v} differs from d_head = {a.d_head}")
    if a.rope is not None:
        check_rope(name, a.rope, a.d_head)
    if a.experts is not None:
        _attention_experts(name, a, a.experts)


def _attention_experts(name: str, a: Attention, experts: AttentionExperts) -> None:
    if experts.top_k > experts.n_experts:
        raise InputError(f"{name}.experts: top_k = {experts.top_k} exceeds n_experts = {experts.n_experts}")
    if "q" in a.bias:
        raise InputError(f"{name}.bias: q has no bias where attn.experts choose the query projection")
    heads_of_their_own = {
        "q_rank": a.q_rank is not None,
        "qk_norm": a.qk_norm is not None and a.qk_norm.over != "head",
        "sinks": a.sinks,
        "gate": a.gate is not None,
        "out_norm": a.out_norm is not None,
        "position: alibi": a.position == "alibi",
    }
    for key, used in heads_of_their_own.items():
        if used:
            raise InputError(f"{name}: {key} is not defined for attention experts")


def check_rope(name: str, rope: Rope, width: int) -> None:
    channels = rotated(rope, width)
    if channels % 2 or not 0 < channels <= width:
        raise InputError(f"{name}.rope: {channels} rotated channels of {width}; must be even, from 2 to {width}")
    if isinstance(rope.scaling, (NTK, Dynamic)) and channels == 2:
        raise InputError(f"{name}.rope.scaling: {channels} rotated channels are too few for r / (r − 2)")
    if isinstance(rope.scaling, LongRope):
        for key, factors in (("short", rope.scaling.short), ("long", rope.scaling.long)):
            if len(factors) != channels // 2:
                raise InputError(f"{name}.rope.scaling.{key}: {len(factors)} factors for {channels // 2} frequencies")


def check_experts(name: str, m: Experts) -> None:
    choices = m.n_experts + m.n_identity
    if m.top_k > choices:
        raise InputError(f"{name}: top_k = {m.top_k} exceeds n_experts = {choices}")
    if m.shared_gate and not m.n_shared:
        raise InputError(f"{name}.shared_gate: there is no shared expert (n_shared)")
    if m.groups is not None:
        if choices % m.groups.n:
            raise InputError(f"{name}.groups.n: {m.groups.n} groups do not divide {choices} experts")
        if m.groups.top_k > m.groups.n:
            raise InputError(f"{name}.groups: top_k = {m.groups.top_k} exceeds n = {m.groups.n}")
        if m.groups.top_k * (choices // m.groups.n) < m.top_k:
            raise InputError(f"{name}.groups: {m.groups.top_k} groups hold fewer than top_k = {m.top_k} experts")
