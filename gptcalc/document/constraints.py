"""What must hold between sublayers; an InputError names those that contradict each other."""

from __future__ import annotations

from msgspec.structs import replace

from gptcalc.architecture import (
    Architecture,
    Attention,
    Block,
    LatentAttention,
    Sublayer,
    set_aside,
)
from gptcalc.errors import InputError


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
