"""How long analyses take once a model is loaded, and what all presets take together.

    python -m pytest tests/benchmarks/bench_analysis.py --benchmark-only

Targets: an analysis of any preset under a millisecond; `fit` without its advice under 1.5 ms in the median of all
presets; all presets loaded and compared in under half a second; the witness at full size under a second.
"""

from __future__ import annotations

from contextlib import suppress
from statistics import median
from time import process_time

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from gptcalc.analysis.flops import flops
from gptcalc.analysis.memory.cache import kv
from gptcalc.analysis.memory.fit import judged
from gptcalc.analysis.params import params
from gptcalc.conventions import Engine, FitRun
from gptcalc.equations.model import remembered
from gptcalc.errors import InputError
from gptcalc.sources import load
from gptcalc.sources.preset import names
from gptcalc.tracing import shapes
from gptcalc.validate import validate

MODELS = ["gpt2", "llama-3.1-405b", "gpt-oss-20b", "deepseek-v3"]


@pytest.mark.parametrize("analysis", [params, kv, flops], ids=lambda function: function.__name__)
@pytest.mark.parametrize("name", MODELS)
def test_an_analysis(benchmark: BenchmarkFixture, name: str, analysis: object) -> None:
    architecture = load(name).architecture
    benchmark(analysis, architecture)


@pytest.mark.parametrize("engine", ["ideal", "vllm", "llama.cpp"])
def test_fit_without_advice(benchmark: BenchmarkFixture, engine: Engine) -> None:
    """Of all presets that an engine runs, one after another; `extra_info` has the median of their processor time."""
    models, how = [load(name).architecture for name in names()], FitRun(engine=engine, advice=False)

    def every() -> list[float]:
        times = []
        for architecture in models:
            start = process_time()
            with suppress(InputError):
                judged(architecture, 24 * 2**30, how)
                times.append(process_time() - start)
        return times

    times = benchmark.pedantic(every, rounds=3)
    benchmark.extra_info["median ms"] = 1000 * median(times)


def test_all_presets_compared(benchmark: BenchmarkFixture) -> None:
    def every() -> None:
        remembered.cache_clear()
        for name in names():
            architecture = load(name).architecture
            params(architecture), kv(architecture), flops(architecture, phase="decode")

    benchmark.pedantic(every, rounds=5)


@pytest.mark.parametrize("name", ["llama-3.1-405b", "deepseek-v3"])
def test_a_trace_of_4096_tokens_and_a_step(benchmark: BenchmarkFixture, name: str) -> None:
    benchmark.pedantic(shapes, (load(name).architecture, 4097, 1), rounds=5)


def test_validate_deepseek_v3(benchmark: BenchmarkFixture) -> None:
    benchmark.pedantic(validate, (load("deepseek-v3").architecture,), rounds=3)
