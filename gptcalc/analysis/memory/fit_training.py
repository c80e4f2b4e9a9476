"""Does a training step fit? The same search over the memory of training."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from fractions import Fraction
from typing import Any

from msgspec.structs import replace

from gptcalc.analysis.memory.fit import Asked, Fit, answer, less_work, more_devices, usable
from gptcalc.analysis.memory.sharding import Layout
from gptcalc.analysis.memory.training import Training
from gptcalc.architecture import Architecture
from gptcalc.errors import InputError


def fit_training(
    architecture: Architecture,
    *,
    capacity: int,
    utilization: Fraction = Fraction(1),
    batch: int | None = None,
    context: int | None = None,
    parallel: Layout | None = None,
    **how: Any,
) -> Fit:
    """Whether a training step fits devices of this capacity, and what is the most that does. `how`: as for Training."""
    run = Training(architecture, parallel=parallel, **how)
    run.check_batch(batch)
    length = context or architecture.c
    asked = Asked(run, usable(capacity, utilization), batch or run.parallel.dp * run.micro(batch), length)
    found = answer(asked, run.fullest(asked.batch, length).device, capacity, utilization)
    changes = {} if found.fits else dict(_changes(asked, found, how))
    return replace(found, would_fit=changes, estimated=run.estimated())


def _changes(asked: Asked, found: Fit, how: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Single changes after which a training step would fit."""
    run = asked.run
    yield from less_work(found)
    for key, values in (("recompute", ("selective", "full")), ("zero", (1, 2, 3))):
        for value in values:
            with suppress(InputError):
                if asked.fits(Training(run.architecture, parallel=run.parallel, **{**how, key: value})):
                    yield key, value
                    break
    yield from more_devices(asked, lambda more: Training(run.architecture, parallel=more, **how))
