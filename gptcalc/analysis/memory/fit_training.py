"""Does a training step fit? The same search over the memory of training."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from gptcalc.analysis.memory.fit import Asked, Fit, answer, less_work, more_devices, usable
from gptcalc.analysis.memory.training import Training
from gptcalc.architecture import Architecture
from gptcalc.conventions import TrainingFitRun
from gptcalc.errors import InputError


def fitted_training(architecture: Architecture, capacity: int, how: TrainingFitRun) -> Fit:
    """Whether a training step fits devices of this capacity, and what is the most that does."""
    run = Training(architecture, how)
    run.check_batch(how.batch)
    batch = how.batch or run.parallel.dp * run.micro(how.batch)
    asked = Asked(run, usable(capacity, how.utilization), batch, how.length(architecture))
    device = run.fullest(asked.batch, asked.context).device
    found = answer(asked, device, capacity, how.utilization)
    changes = {} if found.fits else dict(_changes(asked, run, found))
    return replace(found, would_fit=changes, estimated=run.estimated())


def _changes(asked: Asked, run: Training, found: Fit) -> Iterator[tuple[str, Any]]:
    """Single changes after which a training step would fit."""
    yield from less_work(found)
    for key, values in (("recompute", ("selective", "full")), ("zero", (1, 2, 3))):
        for value in values:
            with suppress(InputError):
                if asked.fits(Training(run.architecture, replace(run.how, **{key: value}))):
                    yield key, value
                    break
    yield from more_devices(asked, lambda tp: Training(run.architecture, replace(run.how, tp=tp, dp=run.parallel.dp)))
