"""A page's numbers are the program's: hundreds of settings, its data evaluated in Python and by its own script."""

from __future__ import annotations

import json
import random
import shutil
from contextlib import suppress
from functools import cache
from typing import Any

import msgspec
import pytest

from gptcalc.analysis.flops import counted
from gptcalc.analysis.memory.account import held_by
from gptcalc.analysis.memory.cache import cached
from gptcalc.analysis.params import params
from gptcalc.conventions import FlopsRun, InferenceRun, RoomRun
from gptcalc.errors import InputError
from gptcalc.report.page.data import Shown, data
from gptcalc.sources import load
from tests.page.evaluated import At, Data, Evaluated, NoModel

#: learned positions and RoPE, MHA, GQA and MLA, experts, windows in a pattern, recurrent layers, chunks, an encoder
MODELS = ("gpt2", "deepseek-v3", "gemma-3-27b", "qwen3-next-80b-a3b", "llama-4-scout", "bert-base")
#: by what keys are multiplied; not all are models
RATIOS = ((1, 1), (1, 2), (2, 1), (3, 1), (3, 2), (1, 4), (5, 4))
NODE = shutil.which("node")


@cache
def written(name: str) -> Data:
    """The data of a page with one model."""
    model = load(name)
    found: Data = json.loads(msgspec.json.encode(data([Shown(model.architecture, model.document)])))
    return found


def settings(name: str, number: int) -> list[tuple[str, Data, At, list[str]]]:
    """Settings of a model at random, the same every time: the variant's name, its data, and what --set says."""
    chance = random.Random(f"{name} {number}")
    found = written(name)
    (model,) = found["models"]
    made = []
    for _ in range(number):
        variant = chance.choice(sorted(model["variants"]))
        structure = model["structures"][model["variants"][variant]]
        keys, said = {}, []
        for key, (path, base) in structure["keys"].items():
            above, below = chance.choice(RATIOS)
            keys[key] = max(base * above // below, 1) if key != "n_layers" else base
            if key == "n_layers" and structure["deeper"]:
                keys[key] += structure["deeper"] * chance.randrange(4)
            said.append(f"{path}={keys[key]}")
        step = structure["step"]
        longest = structure["longest"] or 1 << 20
        length = chance.choice([model["c"], step * chance.randint(1, longest // step), step])
        phase = chance.choice(sorted(structure["stages"]))
        at = At(keys, length, chance.choice([1, 3, 8]), phase, chance.choice(structure["dtypes"][:3]),
                chance.choice(found["caches"]), variant.endswith("|on"))  # fmt: skip
        made.append((variant, structure, at, said))
    return made


def said(name: str, words: list[str], sets: list[str], at: At) -> dict[str, int]:
    """What the program says. InputError where there is no such model."""
    architecture = load(name, sets, switches=words).architecture
    run: dict[str, Any] = {"batch": at.batch, "context": at.length, "mtp": at.modules}
    total = params(architecture)
    flops = counted(architecture, FlopsRun(phase=at.phase, **run))  # type: ignore[arg-type]
    memory = held_by(
        architecture,
        InferenceRun(phase=at.phase, dtype=at.dtype, kv_dtype=at.cache, **run),  # type: ignore[arg-type]
    ).per_device
    assert cached(architecture, RoomRun(kv_dtype=at.cache, **run)).bytes == memory.kv
    return {
        "total": total.total, "active": total.active, "mtp": total.mtp if at.modules else 0, "flops": flops.total,
        "attention": flops.attention, "cache": memory.kv, "weights": memory.weights, "activations": memory.activations,
    }  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_a_page_says_what_the_program_says(name: str) -> None:
    """At the model's own sizes and at others, of every kind of variant, in both phases; what is no model to the one is
    none to the other."""
    checked = 0
    for variant, structure, at, sets in settings(name, 120):
        wanted = found = None
        with suppress(InputError):
            wanted = said(name, structure["words"], sets, at)
        with suppress(NoModel):
            found = Evaluated(written(name), structure, at).totals()
        assert found == wanted, (variant, sets, at)
        checked += found is not None
    assert checked >= 60
