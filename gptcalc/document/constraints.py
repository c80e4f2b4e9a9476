"""What must hold between an architecture's fields; an InputError names those that contradict each other."""

from __future__ import annotations

from collections.abc import Iterable

from gptcalc.architecture import (
    MTP,
    NTK,
    AltUp,
    Architecture,
    Attention,
    AttentionExperts,
    Block,
    BlockIndexer,
    CompressedAttention,
    Dynamic,
    Experts,
    LatentAttention,
    LongRope,
    PerLayerEmbedding,
    Proportional,
    Rope,
    Sublayer,
    rotated,
)
from gptcalc.errors import InputError


def check_sublayer(name: str, s: Sublayer) -> None:
    if s.post_norm is not None and s.norm_at == "pre":
        raise InputError(f"{name}.post_norm: norm_at is 'pre', so there is no norm behind")
    if s.residual_gate is not None and s.norm_at == "post":
        raise InputError(f"{name}.residual_gate: norm_at 'post' normalises a sum, not a gated mixture")
    if s.residual_gate is not None and s.laurel is not None:
        raise InputError(f"{name}.laurel: a residual is gated or has a learned part, not both")


def check_averaged(blocks: Iterable[Block]) -> None:
    """What does not go with residuals that are averaged over all sums so far."""
    for block in blocks:
        for unit in (unit for part in block.parts for unit in part.units):
            if isinstance(unit, Block):
                raise InputError(f"averaged_residuals: {block.name!r} has a block inside a parallel part")
            if unit.norm_at == "post" or unit.residual_gate is not None or unit.laurel is not None:
                raise InputError(f"averaged_residuals: {unit.section} has a residual of another form")


def check_altup(a: AltUp, averaged: bool, mtp: MTP | None, ple: PerLayerEmbedding | None) -> None:
    """What alternating updates need, and what is not defined with several streams."""
    if a.active >= a.n:
        raise InputError(f"altup.active: there is no stream {a.active} among {a.n}; they are numbered from 0")
    if a.scale and ple is None:
        raise InputError("altup.scale: there is no per_layer_embedding whose gate would read what it scales")
    if averaged:
        raise InputError("averaged_residuals: not defined for the streams of altup")
    if mtp is not None:
        raise InputError("mtp: not defined for the streams of altup")


def check_parallel(s: Sublayer) -> None:
    """What a sublayer must not have that shares its residual with others."""
    if s.norm_at == "post":
        raise InputError(f"{s.section}: norm_at 'post' needs a residual of its own, not a parallel one")
    for key, given in (("residual_gate", s.residual_gate), ("laurel", s.laurel)):
        if given is not None:
            raise InputError(f"{s.section}: {key} needs a residual of its own, not a parallel one")


def check_streams(a: Architecture) -> None:
    """Where there are several residual streams, every sublayer has a residual of its own."""
    if a.streams is None:
        return
    for key, used in {
        "per_layer_embedding": a.per_layer_embedding is not None,
        "averaged_residuals": a.averaged_residuals,
        "altup": a.altup is not None,
    }.items():
        if used:
            raise InputError(f"streams: not defined together with {key}")
    blocks = [block for block, _ in a.groups()] + ([a.mtp.block] if a.mtp is not None else [])
    for part in (part for block in blocks for part in block.parts):
        unit = part.units[0]
        if len(part.units) > 1 or isinstance(unit, Block):
            raise InputError("streams: not defined for parallel sublayers")
        if unit.norm_at == "post" or unit.residual_gate is not None or unit.laurel is not None:
            raise InputError(f"streams: {unit.section} has a residual of another form")


def check_compressed(name: str, a: CompressedAttention) -> None:
    check_sublayer(name, a)
    if a.n_heads % a.n_groups:
        raise InputError(f"{name}: n_heads = {a.n_heads} is not a multiple of n_groups = {a.n_groups}")
    if a.rope is not None:
        check_rope(name, a.rope, a.d_head)
        channels, index = rotated(a.rope, a.d_head), a.compress.index if a.compress is not None else None
        if index is not None and index.d < channels:
            raise InputError(f"{name}.compress.index.d: {index.d} channels, of which {channels} are to turn (rope)")


def check_attention(name: str, a: Attention) -> None:
    check_sublayer(name, a)
    if a.qk_norm is not None and a.qk_norm.at_read and not a.qk_norm.after_rope:
        raise InputError(f"{name}.qk_norm.at_read: cached keys are rotated, so after_rope must be true")
    if a.gate_bias and a.gate is None:
        raise InputError(f"{name}.gate_bias: there is no gate")
    if a.log_length == 1:
        raise InputError(f"{name}.log_length: expected at least 2, found 1")
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
    if a.relative is not None:
        for key, used in {"experts": a.experts, "index": a.index, "softcap": a.softcap}.items():
            if used is not None:
                raise InputError(f"{name}.relative: not defined with {key}")
    if a.kv_conv is not None and (a.kv is not None or a.k_eq_v):
        raise InputError(f"{name}.kv_conv: needs keys and values of its own")
    if a.index is not None:
        _block_indexer(name, a, a.index)


def _block_indexer(name: str, a: Attention, index: BlockIndexer) -> None:
    if index.local >= index.top_k:
        raise InputError(f"{name}.index: top_k = {index.top_k} blocks leave no choice beside local = {index.local}")
    if a.rope is not None and rotated(a.rope, a.d_head) > index.d:
        raise InputError(f"{name}.index.d: {index.d} channels, of which {rotated(a.rope, a.d_head)} would be rotated")
    whole_past_only = {
        "window": a.window is not None,
        "chunk": a.chunk is not None,
        "kv": a.kv is not None,
        "experts": a.experts is not None,
        "qk_norm.at_read": a.qk_norm is not None and a.qk_norm.at_read,
        "position: alibi": a.position == "alibi",
        "rope.scaling: proportional": a.rope is not None and isinstance(a.rope.scaling, Proportional),
    }
    for key, used in whole_past_only.items():
        if used:
            raise InputError(f"{name}.index: not defined with {key}")


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


def check_reuse(name: str, a: Attention | LatentAttention, owner: Sublayer) -> None:
    """A sublayer that reuses keys and values must fit those of the one that made them, and need no more of them."""
    if type(a) is not type(owner):
        raise InputError(f"{name}.kv.from: section {owner.section!r} has no keys and values of this kind")
    common = ("n_kv_heads", "d_head", "d_v") if isinstance(a, Attention) else ("kv_rank", "d_rope")
    for key in common:
        own, theirs = getattr(a, key), getattr(owner, key)
        if own != theirs:
            raise InputError(f"{name}.kv: {key} = {own} here, {theirs} in section {owner.section!r}")
    if isinstance(a, Attention) and isinstance(owner, Attention) and not _kept(a, owner):
        kept = f"window: {owner.window}" if owner.window is not None else f"chunk: {owner.chunk}"
        raise InputError(f"{name}.kv: section {owner.section!r} does not keep all that is seen here", f"set {kept}")


def _kept(a: Attention, owner: Attention) -> bool:
    """Whether the owner's window or chunk has all that the other one's has."""
    if owner.window is not None:
        return (a.window or a.chunk or owner.window + 1) <= owner.window
    return owner.chunk is None or (a.chunk is not None and owner.chunk % a.chunk == 0)


def check_rope(name: str, rope: Rope, width: int) -> None:
    channels = rotated(rope, width)
    if channels % 2 or not 0 < channels <= width:
        raise InputError(f"{name}.rope: {channels} rotated channels of {width}; must be even, from 2 to {width}")
    if isinstance(rope.scaling, Proportional) and width % 2:
        raise InputError(f"{name}.rope.scaling: proportional pairs all channels, {width} are odd")
    if isinstance(rope.scaling, (NTK, Dynamic)) and channels == 2:
        raise InputError(f"{name}.rope.scaling: {channels} rotated channels are too few for r / (r − 2)")
    if isinstance(rope.scaling, LongRope):
        for key, factors in (("short", rope.scaling.short), ("long", rope.scaling.long)):
            if len(factors) != channels // 2:
                raise InputError(f"{name}.rope.scaling.{key}: {len(factors)} factors for {channels // 2} frequencies")


def _shared_sink(name: str, m: Experts) -> None:
    if m.router != "sigmoid" or not m.normalize:
        raise InputError(f"{name}.shared_sink: needs router: sigmoid and normalize: true")
    if not m.n_shared or m.d_shared % m.n_shared:
        raise InputError(f"{name}.shared_sink: needs shared experts (n_shared), equally wide")
    others = {"shared_gate": m.shared_gate, "n_identity": m.n_identity, "hash": m.hash, "router_scale": m.router_scale}
    for key, used in others.items():
        if used:
            raise InputError(f"{name}.shared_sink: not defined with {key}")


def check_experts(name: str, m: Experts) -> None:
    check_sublayer(name, m)
    if m.latent_norm is not None and m.d_latent is None:
        raise InputError(f"{name}.latent_norm: the experts work at full width (d_latent)")
    if m.shared_clamp is not None and not m.n_shared:
        raise InputError(f"{name}.shared_clamp: there is no shared expert (n_shared)")
    choices = m.n_experts + m.n_identity
    if m.top_k > choices:
        raise InputError(f"{name}: top_k = {m.top_k} exceeds n_experts = {choices}")
    if m.hash and (m.selection_bias or m.groups is not None or m.n_identity):
        which = "selection_bias" if m.selection_bias else "groups" if m.groups is not None else "n_identity"
        raise InputError(f"{name}.hash: the table chooses the experts, so {which} would be ignored")
    if m.hash and m.router == "sparsemixer":
        raise InputError(f"{name}.hash: not defined for router {m.router!r}, which weighs what it chooses itself")
    if m.shared_sink:
        _shared_sink(name, m)
    if m.shared_gate and not m.n_shared:
        raise InputError(f"{name}.shared_gate: there is no shared expert (n_shared)")
    if m.groups is not None:
        if choices % m.groups.n:
            raise InputError(f"{name}.groups.n: {m.groups.n} groups do not divide {choices} experts")
        if m.groups.top_k > m.groups.n:
            raise InputError(f"{name}.groups: top_k = {m.groups.top_k} exceeds n = {m.groups.n}")
        if m.groups.top_k * (choices // m.groups.n) < m.top_k:
            raise InputError(f"{name}.groups: {m.groups.top_k} groups hold fewer than top_k = {m.top_k} experts")
