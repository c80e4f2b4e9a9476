"""Deliberate errors in the lines of a normalized transformer whose middle layers run twice: each is noticed by a figure
of Dory's default config. The total is that of transformers' class (causal_lm_types.json); the others are by hand.
"""

from __future__ import annotations

import importlib
import json
from typing import Any

import pytest

from gptcalc.analysis.flops import flops
from gptcalc.analysis.memory.cache import kv
from gptcalc.analysis.params import params
from gptcalc.equations.model import remembered
from gptcalc.errors import InputError
from gptcalc.sources.huggingface import read
from tests import TESTS
from tests.mutation import mutate

TYPES = json.loads((TESTS / "data" / "causal_lm_types.json").read_text("utf-8"))

# 8 layers, 20 twice, 8; every fourth sees all, the others 1,024 tokens: 56 runs, of 36 layers
LOCAL_RUNS, WHOLE_RUNS = 6 + 2 * 15 + 6, 2 + 2 * 5 + 2
LOCAL, WHOLE = 27, 9
# queries, gate and output of 16 heads with 256 channels, keys and values of 4, an MLP of three matrices
MATRICES = 2560 * (3 * 4096 + 2 * 1024 + 3 * 7168)

FIGURES: dict[str, int] = {
    "total": TYPES["dory"]["total"],
    "cache at 4096": 2 * 2 * 1024 * (LOCAL_RUNS * 1024 + WHOLE_RUNS * 4096),
    "cache of the last pass at 4096": 2 * 2 * 1024 * (LOCAL * 1024 + WHOLE * 4096),
    "decode at 4097": 2 * (56 * MATRICES + 2560 * 131_072) + 2 * 2 * 4096 * (LOCAL_RUNS * 1024 + WHOLE_RUNS * 4097),
}
FIGURES["decode of the last pass at 4097"] = FIGURES["decode at 4097"]

#: the error, the module, what is written, what the mutant writes, the figure that must notice
MUTANTS: list[tuple[str, str, str, str, str]] = [
    ("logits without factors", "equations.head", ', s_voc="head.scale"', "", "total"),
    ("queries without factors", "equations.attention_heads", ', s_q="q_scale"', "", "total"),
    ("gates without factors", "equations.attention_heads", ', s_OG="gate_scale"', "", "total"),
    ("an MLP without factors", "equations.mlp", "component, **stored)", "component)", "total"),
    ("a residual without a rate", "equations.sublayer", ', λ_x="residual_rate"', "", "total"),
    ("a cache for each pass, where the last keeps one", "analysis.memory.cache", "layers * stage.runs_in_passes(line)",
     "layers * stage.passes", "cache of the last pass at 4096"),
    ("one cache for all passes", "equations.parts", 'self.looped.caches == "last"', "True", "cache at 4096"),
    ("passes that look back on nothing", "equations.stages", '"all": n', '"all": 1', "decode at 4097"),
    ("a pass less", "architecture.places", "passes=loop.passes", "passes=loop.passes - 1",
     "decode of the last pass at 4097"),
]  # fmt: skip


def figure(name: str) -> int:
    remembered.cache_clear()
    config: dict[str, Any] = {"model_type": "dory", "architectures": ["DoryForCausalLM"]}
    if "last pass" in name:
        config["recurrent_kv_cache_mode"] = "last_loop"
    model = read(config).architecture
    if name == "total":
        return params(model).total
    context = int(name.rpartition(" ")[2])
    return kv(model, context=context).bytes if "cache" in name else flops(model, context=context, phase="decode").total


@pytest.mark.parametrize("name", FIGURES)
def test_clean_code_gives_the_figure(name: str) -> None:
    assert figure(name) == FIGURES[name]


@pytest.mark.parametrize(("error", "module", "old", "new", "name"), MUTANTS, ids=[mutant[0] for mutant in MUTANTS])
def test_a_mutant_is_noticed(error: str, module: str, old: str, new: str, name: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        mutate(importlib.import_module(f"gptcalc.{module}"), old, new, patch)
        assert figure(name) != FIGURES[name], f"{error}: {name} does not notice"
    remembered.cache_clear()


# a loop says more about how it may be written


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"n_recurrent_layers": 19}, "8 in front, 19 that run several times and 8 behind are not 36 layers"),
        ({"n_input_layers": 28}, "28 in front, 0 that run several times and 8 behind"),
        ({"initializer_range": 0}, "initializer_range: expected a positive number"),
        ({"recurrent_kv_cache_mode": "none"}, "known are per_loop, last_loop"),
        (
            {"layer_types": ["sliding_attention", "mlp"] * 17},
            "layer_types: expected full_attention or sliding_attention",
        ),
    ],
)
def test_what_is_no_such_loop_is_refused(change: dict[str, Any], problem: str) -> None:
    with pytest.raises(InputError) as error:
        read({"model_type": "dory", **change})
    assert problem in error.value.message


def test_layers_that_are_counted_by_their_halves() -> None:
    """As published: attention and MLP are a layer each."""
    halves: dict[str, Any] = {
        "layer_types": (["sliding_attention", "mlp"] * 3 + ["full_attention", "mlp"]) * 9,
        "num_hidden_layers": 72, "n_input_layers": 16, "n_recurrent_layers": 40, "n_output_layers": 16,
    }  # fmt: skip
    assert read({"model_type": "dory", **halves}).document == read({"model_type": "dory"}).document
