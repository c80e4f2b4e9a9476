"""What must hold of a model as a whole; an InputError names what contradicts each other."""

from typing import get_args

from gptcalc.architecture.attention import Attention
from gptcalc.architecture.compressed import CompressedAttention
from gptcalc.architecture.latent import LatentAttention
from gptcalc.architecture.model import Architecture, Block, Mixer, Recurrent, sublayers
from gptcalc.architecture.places import is_looped
from gptcalc.errors import InputError


def check(a: Architecture) -> None:
    """InputError where parts of a model don't go together."""
    _check_averaged(a)
    _check_altup(a)
    _check_streams(a)
    _check_target(a)
    _check_source(a)
    _check_speeds(a)
    _check_begun(a)


def _check_averaged(a: Architecture) -> None:
    """What does not go with residuals that are averaged over all sums so far."""
    if not a.averaged_residuals:
        return
    if a.mtp is not None:
        raise InputError("averaged_residuals: not defined for multi-token prediction")
    for block, _ in a.groups():
        for unit in (unit for part in block.parts for unit in part.units):
            if isinstance(unit, Block):
                raise InputError(f"averaged_residuals: {block.name!r} has a block inside a parallel part")
            if unit.norm_at in ("post", "stream") or not unit.residual.is_sum:
                raise InputError(f"averaged_residuals: {unit.section} has a residual of another form")


def _check_altup(a: Architecture) -> None:
    """What alternating updates need, and what is not defined with several streams."""
    if a.altup is None:
        return
    if a.altup.scale and a.per_layer_embedding is None:
        raise InputError("altup.scale: there is no per_layer_embedding whose gate would read what it scales")
    if a.averaged_residuals:
        raise InputError("averaged_residuals: not defined for the streams of altup")
    if a.mtp is not None:
        raise InputError("mtp: not defined for the streams of altup")


def _check_streams(a: Architecture) -> None:
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


def _check_target(a: Architecture) -> None:
    """What goes with hidden states of a target: its tables, if they have its channels; and what reads the tokens."""
    e, head, target = a.embedding, a.head, a.target
    for key, used in {"embedding.borrowed": e.borrowed, "head.borrowed": head.borrowed}.items():
        if used and target is None:
            raise InputError(f"{key}: there is no target")
        if used and target is not None and target.d != e.width:
            raise InputError(f"{key}: the target's table has {target.d} channels, here there are {e.width}")
    if head.markov is not None and (target is None or target.block is None or head.rows is not None):
        raise InputError("head.markov: needs a target.block, of the vocabulary that is read")
    if (target is None or target.block is None) and any(getattr(m, "with_target", False) for m in _mixers(a)):
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
    attending = [m.with_target for m in _mixers(a) if isinstance(m, Attention)]
    if target.block is None:
        if not a.keeps_embedding:
            raise InputError("target: its states are the stream, so no layer reads the tokens", "set with_embedding")
    elif not all(attending) or not attending:
        raise InputError("target.block: every attention must be with_target")
    elif a.embedding.position != "none" or any(isinstance(m, NOT_IN_BLOCKS) or m.residual.conv for m in _mixers(a)):
        raise InputError("target.block: tables of positions, convolutions and states are not defined in a block")


def _check_source(a: Architecture) -> None:
    """Another sequence is there where layers attend to one, and once."""
    crossed = any(isinstance(m, Attention) and m.source for block, _ in a.groups() for m in sublayers(block))
    if a.encoder is not None and a.encoded is not None:
        raise InputError("encoded: the model has an encoder of its own")
    if a.encoded is not None and not crossed:
        raise InputError("encoded: no layer attends to it (cross)")
    if crossed and a.d_source is None:
        raise InputError("layers: cross attends to another sequence", "say encoder, or encoded: {d: …, c: …}")


def _check_speeds(a: Architecture) -> None:
    """Fast layers stand in front of slow ones that hear them, and the other way round."""
    loops = [block.looped for block in a.blocks() if block.looped is not None] if is_looped(a) else []
    ends = [loop.entry for loop in loops if loop.begins and loop.entry in ("fast", "slow")]
    if ends and ends != ["fast", "slow"] * (len(ends) // 2):
        raise InputError("speeds: fast layers need slow ones behind them, and slow ones fast ones in front")


def _check_begun(a: Architecture) -> None:
    """A loop goes on only behind a layer that it has begun with."""
    loops = (block.looped for block in a.blocks() if block.looped is not None) if is_looped(a) else iter(())
    first = next(loops, None)
    if first is not None and not first.begins:
        raise InputError("loop: a layer goes on with a loop that none begins")


def _mixers(a: Architecture) -> list[Mixer]:
    return [mixer for block, _ in a.groups() for mixer in sublayers(block)]


#: sublayers that look back on tokens in a way that is not defined for a block drafted at once
NOT_IN_BLOCKS = (LatentAttention, CompressedAttention, *get_args(Recurrent))
