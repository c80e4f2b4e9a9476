"""What must hold between sublayers; an InputError names those that contradict each other."""

from __future__ import annotations

from msgspec.structs import replace

from gptcalc.architecture import (
    Architecture,
    Attention,
    Experts,
    LatentAttention,
    Loop,
    Mlp,
    Speeds,
    Sublayer,
    looped,
    of_speeds,
    placed,
    sublayers,
)
from gptcalc.errors import InputError


def check_parallel(s: Sublayer) -> None:
    """What a sublayer must not have that shares its residual with others."""
    if s.norms_stream:
        raise InputError(f"{s.section}: norm_at {s.norm_at!r} needs a residual of its own, not a parallel one")
    for key, given in (
        ("residual_gate", s.residual.gate),
        ("laurel", s.residual.low_rank),
        ("residual_factors", s.residual.factors),
        ("residual_rate", s.residual.rate),
    ):
        if given is not None:
            raise InputError(f"{s.section}: {key} needs a residual of its own, not a parallel one")


#: layers of a model with attention residuals or a loop, whose layers are looked at one by one
MOST_MIXING = 1024


def looping(a: Architecture, loop: Loop | None, speeds: Speeds | None) -> Architecture:
    """Where layers run several times, the same with layers that know it."""
    hearing = [m for m in a.mixers() if m.messages is not None]
    if hearing and (loop is None or loop.entry != "anew" or a.attention_residuals is None):
        problem = "are of the last pass of a loop that begins anew, with attention_residuals"
        raise InputError(f"{hearing[0].section}.messages: {problem}")
    for mixer in hearing:
        if not isinstance(mixer, (Attention, Mlp, Experts)):
            raise InputError(f"{mixer.section}.messages: not defined for this kind of sublayer")
        if (spec := a.attention_residuals) is not None and (spec.values, spec.scale) != ("normed", None):
            raise InputError(
                f"{mixer.section}.messages: needs attention_residuals that mix what they norm, without scale"
            )
    if loop is None and speeds is None:
        return a
    where = "loop" if loop is not None else "speeds"
    if loop is not None and speeds is not None:
        raise InputError("speeds: not defined together with a loop")
    if speeds is not None and speeds.fast >= a.n_layers:
        raise InputError(f"speeds.fast: {speeds.fast} of {a.n_layers} layers, so none is slow")
    if loop is not None and loop.first + loop.layers > a.n_layers:
        raise InputError(f"loop: its layers end at {loop.first + loop.layers}, the model has {a.n_layers}")
    if a.n_layers > MOST_MIXING:
        raise InputError(f"{where}: n_layers = {a.n_layers}; at most {MOST_MIXING:,} layers are read")
    if speeds is not None:
        return replace(a, layers=placed(of_speeds(a.layers, speeds), None))
    assert loop is not None
    found = replace(a, layers=placed(looped(a.layers, loop), None))
    for block, _ in found.groups():
        if block.looped is None and any(mixer.messages is not None for mixer in sublayers(block)):
            raise InputError(f"loop: layer {block.name!r} has messages and stands outside")
    return found


def mixing(a: Architecture) -> Architecture:
    """Where there are attention residuals, the same with layers that know how many sums they read."""
    residuals = a.attention_residuals
    if residuals is None:
        return a
    if a.n_layers > MOST_MIXING:
        raise InputError(f"attention_residuals: n_layers = {a.n_layers}; at most {MOST_MIXING:,} layers are read")
    return replace(a, layers=placed(a.layers, residuals))


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
