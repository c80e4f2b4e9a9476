"""A draft model beside a served one, in memory, fit and serve alike."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gptcalc.analysis.memory.account import account, held_by, whole
from gptcalc.analysis.memory.fit import fitted
from gptcalc.analysis.memory.inference import Inference
from gptcalc.analysis.memory.serve import served
from gptcalc.conventions import Engine, FitRun, InferenceRun
from gptcalc.sources import load
from tests.conftest import Command

GIB = 2**30
LLAMA = load("llama-3-8b").architecture
SMALL = load("llama-3.2-1b").architecture
#: of Llama 3.2 1B: 1,235,814,400 weights in bf16; K and V of 8 heads of 64 in 16 layers
WEIGHTS, TOKEN = 2 * 1_235_814_400, 16 * 2 * 8 * 64 * 2


def test_its_weights_and_its_cache_come_on_top() -> None:
    alone, both = (held_by(LLAMA, InferenceRun(context=8192), draft).per_device for draft in (None, SMALL))
    assert both.weights - alone.weights == WEIGHTS
    assert both.kv - alone.kv == 8192 * TOKEN
    assert both.activations == alone.activations  # it runs before or after, in less


def test_what_fits_is_what_the_sum_leaves() -> None:
    """24 GiB, and nothing counted but weights and cache: in decode steps of one sequence."""
    how = FitRun(context=8192, phase="decode", advice=False)
    found = fitted(LLAMA, 24 * GIB, how, draft=SMALL)
    left = 24 * GIB - 2 * 8_030_261_248 - WEIGHTS - found.per_device.activations
    assert found.draft == "llama-3.2-1b"
    assert found.max_context == left // (131_072 + TOKEN)


@pytest.mark.parametrize("engine", ["ideal", "vllm", "sglang", "llama.cpp", "transformers"])
def test_serve_and_fit_agree(engine: Engine) -> None:
    how = FitRun(context=8192, engine=engine, advice=False)
    for size in (18, 20, 24, 40):
        fit, serve = fitted(LLAMA, size * GIB, how, draft=SMALL), served(LLAMA, size * GIB, how, "", SMALL)
        assert fit.fits == serve.starts
        assert (fit.max_batch, fit.max_context) == (serve.requests, serve.max_context)


def test_llama_cpp_has_a_compute_buffer_for_each() -> None:
    how = InferenceRun(engine="llama.cpp", context=8192)
    one, other = (held_by(model, how).per_device for model in (LLAMA, SMALL))
    both = held_by(LLAMA, how, SMALL)
    assert both.per_device.activations == one.activations + other.activations
    assert both.per_device.kv == one.kv + other.kv
    assert both.host == held_by(LLAMA, how).host + held_by(SMALL, how).host


@pytest.mark.parametrize("ways", [{"tp": 2}, {"pp": 2}, {"tp": 2, "pp": 2}, {"dp": 2}, {"tp": 4, "dp": 2}])
@pytest.mark.parametrize("engine", ["ideal", "vllm"])
def test_the_sum_is_one_copy_and_what_is_replicated(ways: dict[str, Any], engine: Engine) -> None:
    run = Inference(LLAMA, InferenceRun(context=4096, engine=engine, engine_version=None, **ways), SMALL)
    found = account(run, 3, 4096)
    one = whole(run, 3, 4096)
    extra = sum(row.bytes for row in found.replicated if row.part == "weights")
    assert found.sums.weights == one.weights + extra
    assert one.weights == 2 * 8_030_261_248 + WEIGHTS


def test_it_stands_on_the_last_stage() -> None:
    how = InferenceRun(context=4096, pp=2)
    alone, both = Inference(LLAMA, how), Inference(LLAMA, how, SMALL)
    assert both.device(0, 1, 4096) == alone.device(0, 1, 4096)
    assert both.device(1, 1, 4096).weights == alone.device(1, 1, 4096).weights + WEIGHTS


def test_commands_take_it(gptcalc: Command) -> None:
    weights = {}
    for draft in ((), ("--draft", "llama-3.2-1b")):
        weights[draft] = int(gptcalc("memory", "llama-3-8b", *draft, "--get", "per_device.weights")[1])
    assert weights["--draft", "llama-3.2-1b"] - weights[()] == WEIGHTS
    asked = ("fit", "llama-3-8b", "--budget", "17.5GiB", "--context", "8K")
    assert gptcalc(*asked)[0] == 0
    status, out, _ = gptcalc(*asked, "--draft", "llama-3.2-1b")
    assert status == 1
    assert "llama-3.2-1b" in out
    found = json.loads(gptcalc(*asked, "--draft", "llama-3.2-1b", "--json")[1])
    assert "beside it llama-3.2-1b in bf16, its weights and its cache" in found["notes"]


def test_nothing_is_drafted_in_training(gptcalc: Command) -> None:
    found = gptcalc("memory", "llama-3-8b", "--training", "--draft", "llama-3.2-1b")
    assert (found.status, found.out, len(found.lines)) == (2, "", 1)


@pytest.mark.parametrize(("model", "draft"), [("llama-3-8b", "bert-base"), ("bert-base", "gpt2")])
@pytest.mark.parametrize("words", [("memory",), ("fit", "--budget", "24GiB")])
def test_an_encoder_neither_drafts_nor_is_drafted_for(
    gptcalc: Command, model: str, draft: str, words: tuple[str, ...]
) -> None:
    found = gptcalc(words[0], model, *words[1:], "--draft", draft)
    assert (found.status, found.out, len(found.lines)) == (2, "", 1)
    assert "--draft: bert-base sees all tokens at once" in found.err
