"""What `fit`, `serve`, `compare`, `presets` and `kv` say of the same model, device and context."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import get_args

import pytest

from gptcalc.analysis.memory.cache import cached
from gptcalc.analysis.memory.fit import fitted
from gptcalc.analysis.memory.serve import served
from gptcalc.conventions import CompareRun, Engine, FitRun, RoomRun
from gptcalc.errors import InputError
from gptcalc.report.figures import Facts, row
from gptcalc.sources import Model, devices, load
from gptcalc.sources.devices import DeviceModel
from gptcalc.sources.preset import names
from tests.conftest import Command

SHARE = Fraction(9, 10)


@pytest.mark.parametrize("share", range(4))
def test_every_preset(share: int) -> None:
    """On two devices at two lengths."""
    for name in names()[share::4]:
        model = load(name)
        for device in ("rtx-4090", "h100-sxm"):
            for context in (1000, 8192):
                if model.architecture.embedding.position != "learned" or context <= model.architecture.c:
                    all_say_the_same(model, devices.asked(device).model, context)


def all_say_the_same(model: Model, device: DeviceModel, context: int) -> None:
    architecture, name = model.architecture, model.architecture.name
    how = FitRun(context=context, utilization=SHARE, advice=False)
    fit = fitted(architecture, device.visible, how, device.title)
    facts = Facts(architecture, model.written, CompareRun(context=context), fit.budget)
    keys = ("fits", "max_context", "max_batch", "kv_bytes", "needed_bytes", "headroom_bytes")
    assert tuple(row(facts, keys).values()) == (
        fit.fits, fit.max_context, fit.max_batch, fit.per_device.kv, fit.needed, fit.headroom), name  # fmt: skip
    if fit.per_device.kv == 0:
        with pytest.raises(InputError, match="no cache"):
            served(architecture, device.visible, how, device.title)
        return
    server = served(architecture, device.visible, how, device.title)
    assert server.starts == fit.fits, name
    assert (server.requests, server.max_context) == (fit.max_batch, fit.max_context), name
    if server.available > 0:
        room = cached(architecture, RoomRun(context=context, bytes=server.available)).room
        assert room is not None
        assert (room.tokens, room.request_bytes) == (server.tokens, server.request_bytes), name


@pytest.mark.parametrize("engine", [engine for engine in get_args(Engine) if engine != "ideal"])
def test_engines(engine: Engine) -> None:
    """Every ninth preset."""
    found = devices.asked("h100-sxm").model
    asked = 0
    for name in names()[::9]:
        architecture = load(name).architecture
        how = FitRun(context=min(4096, architecture.c), engine=engine, utilization=SHARE, advice=False)
        try:
            server = served(architecture, found.visible, how, found.title)
        except InputError:  # no cache, or none that is known
            continue
        asked += 1
        fit = fitted(architecture, found.visible, how, found.title)
        assert (server.starts, server.requests, server.max_context) == (fit.fits, fit.max_batch, fit.max_context), name
    assert asked > 20


def test_presets_that_fit(gptcalc: Command) -> None:
    """`presets --device` lists what `compare --all` says fits and is made for the context."""
    asked = ("--device", "rtx-4090", "--context", "8192", "--json")
    listed = {line["model"] for line in json.loads(gptcalc("presets", *asked)[1])}
    rows = json.loads(gptcalc("compare", "--all", *asked, "--columns", "model,c,fits")[1])
    assert listed == {line["model"] for line in rows if line["fits"] and line["c"] >= 8192}
