"""Deliberate errors in the lines of what few decoders have: each is noticed by the total of transformers' class.

The totals are those of the types' default configs (data/README.md, causal_lm_types.json, text_models_inside.json).
"""

from __future__ import annotations

import importlib
import json

import pytest

from gptcalc.analysis.flops import flops
from gptcalc.analysis.memory.cache import kv
from gptcalc.analysis.params import params
from gptcalc.equations.model import remembered
from gptcalc.sources.huggingface import read
from tests import TESTS
from tests.mutation import mutate

TYPES = {
    model_type: row
    for table in ("text_models_inside", "causal_lm_types")
    for model_type, row in json.loads((TESTS / "data" / f"{table}.json").read_text("utf-8")).items()
}

#: the error, the module, what is written, what the mutant writes, the type whose total must notice
MUTANTS: list[tuple[str, str, str, str, str]] = [
    ("no vectors of λ", "equations.attention", "λ_k{n}[a])\", **keys)", "λ_k{n}[a])\")", "diffllama"),
    ("values that say nothing", "equations.attention", ', W_Δ="mask.dt"', "", "doge"),
    ("no slopes", "equations.attention", ', A="mask.A"', "", "doge"),
    ("a stream without its factor", "equations.sublayer", '"f_x": "residual.stream",', "", "doge"),
    ("a norm without its gate", "equations.sublayer", "if sublayer.norm_gate is not None", "if False", "axk2"),
    ("half of a norm's gate", "equations.sublayer", ', B_N="norm.gate_b"', "", "axk2"),
    ("a norm without its factor", "equations.sublayer", "if sublayer.adaptive_norm is not None", "if False",
     "voxtral_realtime"),
    ("half of a norm's factor", "equations.sublayer", ', B_A="norm.adaptive_b"', "", "voxtral_realtime"),
    ("nothing enters of the step before", "equations.model", "canvas.enter(own, self.model.canvas, e)", "pass",
     "diffusion_gemma"),
    ("one factor for prompt and block", "equations.model", ', s_cvs="layer_scalar")', ")", "diffusion_gemma"),
    ("no experts of images", "equations.experts", "lines.lines += [_of_an_image(line) for line in own.lines]", "pass",
     "ernie4_5_vl_moe"),
    ("streams that are mixed", "architecture.hyper", "self.n * self.mixed", "self.n", "hy_v4"),
    ("streams with one factor more", "architecture.hyper", "2 + self.mixed", "3", "hy_v4"),
    ("pairs of segments without a bias", "architecture.relative",
     " + (0 if self.segments is None else self.segments**2)", "", "cpmant"),
    ("logits of the prompts", "equations.head", "if head.rows is not None", "if False", "cpmant"),
    ("a rotary key that isn't normed", "equations.latent", "if a.k_rope_norm is not None", "if False",
     "dots3_note_text"),
]  # fmt: skip


def total(model_type: str) -> int:
    remembered.cache_clear()
    row = TYPES[model_type]
    config = {"model_type": model_type, "architectures": [row["class"]]}
    if "needs" in row:  # what the class can't be made without
        config["text_config"] = row["needs"]
    return params(read(config).architecture).total


@pytest.mark.parametrize(("error", "module", "old", "new", "name"), MUTANTS, ids=[mutant[0] for mutant in MUTANTS])
def test_a_mutant_is_noticed(error: str, module: str, old: str, new: str, name: str) -> None:
    assert total(name) == TYPES[name]["total"]
    with pytest.MonkeyPatch.context() as patch:
        mutate(importlib.import_module(f"gptcalc.{module}"), old, new, patch)
        assert total(name) != TYPES[name]["total"], f"{error}: {name} does not notice"
    remembered.cache_clear()


def of_a_prompt() -> tuple[int, int, int]:
    """CPM-Ant's attention FLOPs of a prompt of 100 tokens and of the 100th one, and its cache of a token in bytes."""
    remembered.cache_clear()
    model = read({"model_type": "cpmant"}).architecture
    prompt, step = (flops(model, context=100, phase=phase).attention for phase in ("prefill", "decode"))
    return prompt, step, int(kv(model, context=100).bytes_per_token)


def test_a_prompt_sees_itself_whole_and_what_comes_later_all_before_it() -> None:
    """48 layers of 32 heads with 128 channels; scores and values of all pairs."""
    assert of_a_prompt() == (2 * 2 * 48 * 4096 * 100**2, 2 * 2 * 48 * 4096 * 100, 2 * 2 * 48 * 4096)


@pytest.mark.parametrize(
    ("module", "old", "new"),
    [
        ("equations.attention", "both=a.sees_ahead", "both=not a.causal"),
        ("equations.attention", "if a.causal or a.source:\n        s, kept", "if a.source:\n        s, kept"),
    ],
)
def test_a_mutant_of_a_whole_prompt_is_noticed(module: str, old: str, new: str) -> None:
    right = of_a_prompt()
    with pytest.MonkeyPatch.context() as patch:
        mutate(importlib.import_module(f"gptcalc.{module}"), old, new, patch)
        assert of_a_prompt() != right
    remembered.cache_clear()
