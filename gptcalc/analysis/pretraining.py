"""What a training run takes: FLOPs of a corpus, device hours, days, money, and whether a step fits the devices.

MFU is of the model's FLOPs alone (Chowdhery et al. 2022, arXiv:2204.02311, appendix B): what is computed again in the
backward pass takes time, but doesn't count for it; with it the share of the peak rate is the HFU.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Literal, get_args

from msgspec.structs import replace

from gptcalc.analysis.flops import counted
from gptcalc.analysis.memory.fit import Fit
from gptcalc.analysis.memory.fit_training import fitted_training
from gptcalc.analysis.memory.sharding import over
from gptcalc.analysis.params import params
from gptcalc.analysis.timed import peak
from gptcalc.analysis.traffic import multiplied_in
from gptcalc.answers import Outcome
from gptcalc.conventions import FlopsRun, PretrainRun, Recompute, TrainingFitRun
from gptcalc.errors import InputError

if TYPE_CHECKING:
    from gptcalc.architecture import Architecture
    from gptcalc.sources.devices import DeviceModel

#: tokens a parameter that a compute budget is best spent on (Hoffmann et al. 2022, arXiv:2203.15556, table 3: 1 B on
#: 20.2 B tokens, 10 B on 205.1 B, 67 B on 1.5 T)
CHINCHILLA = 20

HOUR, DAY = 3600, 86400

Basis = Literal["bound", "mfu", "measured"]


class Pretraining(Outcome, frozen=True, kw_only=True):
    """The keys of `gptcalc train --json`. What hangs on the tokens is null where none are given."""

    model: str
    device: str
    devices: int
    parallel: dict[str, int]
    dtype: str
    context: int
    step_tokens: int  # of a step over all devices
    params: int
    active: int
    tokens: int | None
    tokens_per_parameter: float | None
    chinchilla_tokens: int
    flops_per_token: float
    flops: int | None  # of the model, over all tokens
    approx_6nd: int | None
    recompute: Recompute
    recomputed: dict[str, int]  # over all tokens, with what each kind of recomputation adds
    basis: Basis  # what the time is: the least there can be, at an MFU, or as measured
    mfu: float | None
    hfu: float | None
    tokens_per_second: float
    seconds: float | None
    days: float | None
    device_hours: float | None
    price: float | None
    cost: float | None
    memory: Fit
    notes: tuple[str, ...]


def pretrained(architecture: Architecture, device: DeviceModel, how: PretrainRun) -> Pretraining:
    """What a training run takes on devices of one kind. InputError where it can't be said."""
    how.check_phase(architecture, "train")
    if how.tokens is None and how.tokens_per_second is None:
        best = CHINCHILLA * params(architecture).total
        raise InputError("no --tokens", f"give --tokens 2T; Chinchilla's for this size are {best:,}", "usage")
    how = spread(how)
    if how.tokens is not None and how.tokens < how.length(architecture):
        problem = f"--tokens {how.tokens:,}: less than one sequence of {how.length(architecture):,}"
        raise InputError(problem, "2T are 2·10^12", "usage")
    step = over(architecture, how.devices, how.to(TrainingFitRun))
    fit = fitted_training(architecture, device.visible, step)
    context = how.length(architecture)
    by_kind = {
        kind: counted(
            architecture, FlopsRun(context=context, source=how.source, phase="train", mtp=how.mtp, recompute=kind)
        )
        for kind in get_args(Recompute)
    }
    once, made = by_kind["none"].total, by_kind[how.recompute].total
    rate, basis = pace(how, device, fit, Fraction(once, context), Fraction(made, once))
    counts = params(architecture)
    tokens = how.tokens
    seconds = None if tokens is None else float(tokens / rate)
    full = peak(device, multiplied_in(fit.dtype))
    mfu = None if full is None else float(rate * once / context / (fit.devices * full))
    hours = None if seconds is None else seconds * fit.devices / HOUR
    return Pretraining(
        model=architecture.name,
        device=device.name,
        devices=fit.devices,
        parallel=fit.parallel,
        dtype=fit.dtype,
        context=context,
        step_tokens=fit.batch * context,
        params=counts.total,
        active=counts.active,
        tokens=tokens,
        tokens_per_parameter=None if tokens is None else tokens / counts.total,
        chinchilla_tokens=CHINCHILLA * counts.total,
        flops_per_token=once / context,
        flops=None if tokens is None else once * tokens // context,
        approx_6nd=None if tokens is None else (by_kind["none"].approx_6nd or 0) * tokens // context,
        recompute=how.recompute,
        recomputed={} if tokens is None else {kind: n.total * tokens // context for kind, n in by_kind.items()},
        basis=basis,
        mfu=mfu,
        hfu=None if mfu is None else mfu * made / once,
        tokens_per_second=float(rate),
        seconds=seconds,
        days=None if seconds is None else seconds / DAY,
        device_hours=hours,
        price=None if how.price is None else float(how.price),
        cost=None if how.price is None or hours is None else float(how.price) * hours,
        memory=fit,
        notes=notes(mfu, made, once),
    )


def spread(how: PretrainRun) -> PretrainRun:
    """Devices that no other option takes are data parallel ranks; a single one has nothing to share."""
    ways = how.tp * how.pp
    if how.dp is None and how.devices is not None and how.ep == 1 and how.devices % ways == 0:
        how = replace(how, dp=how.devices // ways)
    return replace(how, zero=0) if (how.dp or how.ep) == 1 else how


def pace(how: PretrainRun, device: DeviceModel, fit: Fit, flops: Fraction, again: Fraction) -> tuple[Fraction, Basis]:
    """Tokens a second of all devices. flops: of a token; again: with what is recomputed, as a multiple."""
    if how.tokens_per_second is not None:
        if how.mfu is not None:
            raise InputError("both --mfu and --tokens-per-second", "the rate says what the MFU is", "usage")
        return exact(how.tokens_per_second), "measured"
    full = peak(device, multiplied_in(fit.dtype))
    if full is None:
        raise InputError(
            f"--device: no {fit.dtype} rate of {device.title} is known", "give --tokens-per-second", "usage"
        )
    if how.mfu is None:
        return fit.devices * full / (flops * again), "bound"
    if exact(how.mfu) * again > 1:
        problem = f"--mfu {float(exact(how.mfu)):g}: with recomputation {how.recompute} more than all of the peak rate"
        raise InputError(problem, f"at most {float(1 / again):.3g}", "usage")
    return fit.devices * full * exact(how.mfu) / flops, "mfu"


def exact(share: object) -> Fraction:
    """A number as it is written."""
    return Fraction(str(share))


def notes(mfu: float | None, made: int, once: int) -> tuple[str, ...]:
    if mfu is not None and mfu * made > once:
        return ("more than the peak rate: the tokens a second, the devices or the type are not these",)
    return ()
