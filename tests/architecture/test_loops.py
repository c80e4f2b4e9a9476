"""Loops: in which order layers run, and what does not go with running several times."""

from __future__ import annotations

from typing import Any

import pytest

import gptcalc
from gptcalc.architecture import visits
from gptcalc.document import build
from gptcalc.errors import InputError

SMALL: dict[str, Any] = {"d": 8, "v": 9, "c": 99, "n_heads": 2, "n_layers": 4, "d_ff": 5}
LOOP = {"first": 1, "layers": 2, "passes": 3}
SPEEDS = {"fast": 2, "cycles": 2, "fast_cycles": 2}


@pytest.mark.parametrize(
    ("keys", "order"),
    [
        ({"loop": LOOP}, [0, 1, 2, 1, 2, 1, 2, 3]),
        ({"speeds": SPEEDS}, [0, 1, 0, 1, 2, 3, 0, 1, 0, 1, 2, 3]),
    ],
)
def test_layers_run_in_the_order_of_their_passes(keys: dict[str, Any], order: list[int]) -> None:
    assert [number for number, _, _ in visits(build({**SMALL, **keys}))] == order


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({"loop": {**LOOP, "first": 3}}, "its layers end at 5, the model has 4"),
        ({"loop": {**LOOP, "passes": 1}}, "loop.passes: layers that run once are no loop"),
        ({"loop": {**LOOP, "entry": "both"}}, "loop.norm: what a pass begins with is normed with entry: both"),
        ({"loop": {**LOOP, "norm": {}}}, "loop.norm: what a pass begins with is normed with entry: both"),
        ({"loop": {**LOOP, "caches": "last"}, "layers": "n*conv+mlp", "conv": {"kernel": 3}}, "conv keeps more"),
        ({"loop": {**LOOP, "caches": "last"}, "attn": {"kv_conv": 3}}, "not defined together with kv_conv"),
        ({"loop": LOOP, "mtp": 1}, "loop: not defined together with mtp"),
        ({"loop": LOOP, "speeds": SPEEDS}, "not defined together with a loop"),
        ({"loop": LOOP, "attention_residuals": {"every": 2}}, "attention_residuals, unless it begins anew"),
        ({"speeds": {**SPEEDS, "fast": 4}}, "speeds.fast: 4 of 4 layers, so none is slow"),
        ({"attn": {"messages": {"rank": 3}}}, "attn.messages: are of the last pass of a loop that begins anew"),
    ],
)
def test_what_is_no_loop_is_refused(keys: dict[str, Any], problem: str) -> None:
    with pytest.raises(InputError) as error:
        build({**SMALL, **keys})
    assert problem in error.value.message


@pytest.mark.parametrize("how", [{"engine": "vllm"}, {"engine": "llama.cpp"}, {"pp": 2}])
def test_engines_and_pipelines_that_do_not_run_loops_say_so(how: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"several times|passes of a loop"):
        gptcalc.memory("inkling-2-mini", context=64, **how)
