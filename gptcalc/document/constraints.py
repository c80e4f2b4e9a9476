"""What must hold between sublayers; an InputError names those that contradict each other."""

from __future__ import annotations

from collections.abc import Iterable
from typing import get_args

from msgspec.structs import replace

from gptcalc.architecture import (
    MTP,
    AltUp,
    Architecture,
    Attention,
    Block,
    CompressedAttention,
    LatentAttention,
    Mixer,
    PerLayerEmbedding,
    Recurrent,
    Sublayer,
    set_aside,
    sublayers,
)
from gptcalc.errors import InputError


def check_averaged(blocks: Iterable[Block]) -> None:
    """What does not go with residuals that are averaged over all sums so far."""
    for block in blocks:
        for unit in (unit for part in block.parts for unit in part.units):
            if isinstance(unit, Block):
                raise InputError(f"averaged_residuals: {block.name!r} has a block inside a parallel part")
            if unit.norm_at in ("post", "stream") or not unit.residual.is_sum:
                raise InputError(f"averaged_residuals: {unit.section} has a residual of another form")


def check_altup(a: AltUp, averaged: bool, mtp: MTP | None, ple: PerLayerEmbedding | None) -> None:
    """What alternating updates need, and what is not defined with several streams."""
    if a.scale and ple is None:
        raise InputError("altup.scale: there is no per_layer_embedding whose gate would read what it scales")
    if averaged:
        raise InputError("averaged_residuals: not defined for the streams of altup")
    if mtp is not None:
        raise InputError("mtp: not defined for the streams of altup")


def check_parallel(s: Sublayer) -> None:
    """What a sublayer must not have that shares its residual with others."""
    if s.norm_at in ("post", "stream"):
        raise InputError(f"{s.section}: norm_at {s.norm_at!r} needs a residual of its own, not a parallel one")
    for key, given in (
        ("residual_gate", s.residual.gate),
        ("laurel", s.residual.low_rank),
        ("residual_factors", s.residual.factors),
    ):
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
        if unit.norm_at in ("post", "stream") or not unit.residual.is_sum or unit.goal != "stream":
            raise InputError(f"streams: {unit.section} has a residual of another form")


def check_source(a: Architecture) -> None:
    """Another sequence is there where layers attend to one, and once."""
    crossed = any(isinstance(m, Attention) and m.source for block, _ in a.groups() for m in sublayers(block))
    if a.encoder is not None and a.encoded is not None:
        raise InputError("encoded: the model has an encoder of its own")
    if a.encoded is not None and not crossed:
        raise InputError("encoded: no layer attends to it (cross)")
    if crossed and a.d_source is None:
        raise InputError("layers: cross attends to another sequence", "say encoder, or encoded: {d: …, c: …}")


def check_target(a: Architecture) -> None:
    """What goes with hidden states of a target: its tables, if they have its channels; and what reads the tokens."""
    e, head, target = a.embedding, a.head, a.target
    for key, used in {"embedding.borrowed": e.borrowed, "head.borrowed": head.borrowed}.items():
        if used and target is None:
            raise InputError(f"{key}: there is no target")
        if used and target is not None and target.d != e.width:
            raise InputError(f"{key}: the target's table has {target.d} channels, here there are {e.width}")
    if head.markov is not None and (target is None or target.block is None or head.rows is not None):
        raise InputError("head.markov: needs a target.block, of the vocabulary that is read")
    if (target is None or target.block is None) and any(getattr(m, "with_target", False) for m in mixers_of(a)):
        raise InputError("with_target: there is no target with a block")
    if target is None:
        return
    for key, present in {
        "encoder": a.encoder is not None,
        "mtp": a.mtp is not None,
        "per_layer_embedding": a.per_layer_embedding is not None,
        "averaged_residuals": a.averaged_residuals,
        "streams": a.streams is not None,
        "altup": a.altup is not None,
        "causal": a.sees_all,
    }.items():
        if present:
            raise InputError(f"target: not defined together with {key}")
    attending = [m.with_target for m in mixers_of(a) if isinstance(m, Attention)]
    if target.block is None:
        if not a.keeps_embedding:
            raise InputError("target: its states are the stream, so no layer reads the tokens", "set with_embedding")
    elif not all(attending) or not attending:
        raise InputError("target.block: every attention must be with_target")
    elif a.embedding.position != "none" or any(isinstance(m, NOT_IN_BLOCKS) or m.residual.conv for m in mixers_of(a)):
        raise InputError("target.block: tables of positions, convolutions and states are not defined in a block")


def mixers_of(a: Architecture) -> list[Mixer]:
    return [mixer for block, _ in a.groups() for mixer in sublayers(block)]


#: sublayers that look back on tokens in a way that is not defined for a block drafted at once
NOT_IN_BLOCKS = (LatentAttention, CompressedAttention, *get_args(Recurrent))


#: layers of a model with attention residuals, in which the number of sums that are mixed grows with the depth
MOST_MIXING = 1024


def mixing(a: Architecture) -> Architecture:
    """Where there are attention residuals, the same with layers that know how many sums they read."""
    residuals = a.attention_residuals
    if residuals is None:
        return a
    where = "attention_residuals"
    for key, used in {
        "per_layer_embedding": a.per_layer_embedding is not None,
        "averaged_residuals": a.averaged_residuals,
        "altup": a.altup is not None,
        "streams": a.streams is not None,
        "mtp": a.mtp is not None,
        "layer_scalar": a.layer_scalar,
        "target": a.target is not None,
    }.items():
        if used:
            raise InputError(f"{where}: not defined together with {key}")
    if a.n_layers > MOST_MIXING:
        raise InputError(f"{where}: n_layers = {a.n_layers}; at most {MOST_MIXING:,} layers are read")
    for block, _ in a.groups():
        for unit in (unit for part in block.parts for unit in part.units):
            if isinstance(unit, Block):
                raise InputError(f"{where}: {block.name!r} has parallel sublayers")
            if unit.norm_at in ("post", "stream") or not unit.residual.is_sum or unit.goal != "stream":
                raise InputError(f"{where}: {unit.section} has a residual of another form")
        if any(len(part.units) > 1 for part in block.parts):
            raise InputError(f"{where}: {block.name!r} has parallel sublayers")
    return replace(a, layers=set_aside(a.layers, residuals))


def check_reuse(name: str, a: Attention | LatentAttention, owner: Sublayer) -> None:
    """A sublayer that reuses keys and values must fit those of the one that made them, and need no more of them."""
    if type(a) is not type(owner):
        raise InputError(f"{name}.kv.from: section {owner.section!r} has no keys and values of this kind")
    common = ("n_kv_heads", "d_head", "d_v") if isinstance(a, Attention) else ("kv_rank", "d_rope", "window")
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
