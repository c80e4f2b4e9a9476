"""Time: bounds by hand, bounds against what was measured, what is refused."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import Any, NamedTuple

import pytest

from gptcalc.analysis.memory.cache import kv
from gptcalc.analysis.memory.weights import total as stored
from gptcalc.analysis.timed import Timed, timed
from gptcalc.analysis.traffic import Traffic, multiplied_in
from gptcalc.conventions import TimeRun
from gptcalc.errors import InputError
from gptcalc.sources import devices, load
from tests.conftest import Result


def run(model: str, device: str, *settings: str, **how: Any) -> Timed:
    return timed(load(model, settings).architecture, devices.device(device), TimeRun(**how))


# --- by hand ----------------------------------------------------------------------------------------------------------


def test_a_step_reads_all_weights_and_the_cache() -> None:
    """Llama 3 8B in bf16 at 8192 tokens: all weights but the embedding's other rows, 1 GiB of cache, 3.35 TB/s."""
    found = run("llama-3-8b", "h100-sxm", context=8192)
    weights = 2 * (8_030_261_248 - 128_256 * 4096 + 4096)
    assert found.decode is not None
    assert found.decode.bytes == weights + 2**30
    assert found.per_token_s == pytest.approx((weights + 2**30) / 3350e9)
    assert (found.bound.decode, found.bound.prefill) == ("weights", "compute")


def test_a_prompt_computes() -> None:
    """The matrices of 32 layers, twice a token, and scores and sums of 8192·8193/2 pairs of 32 heads of 128."""
    found = run("llama-3-8b", "h100-sxm", context=8192)
    matrices = 32 * (2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336)
    flops = 2 * matrices * 8192 + 32 * 2 * 2 * 4096 * (8192 * 8193 // 2)
    layers = next(stage for stage in found.prefill.stages if stage.name == "attn+mlp")
    assert layers.flops == flops
    assert layers.compute_s == pytest.approx(flops / 989.4e12)
    assert layers.seconds == layers.compute_s


def test_expected_experts() -> None:
    """Mixtral, 8 experts of which a token takes 2. Two tokens: 8·(1 − (3/4)²) = 3.5."""
    assert [e.distinct for e in run("mixtral-8x7b", "h100-sxm", batch=1, context=64).experts] == [2.0]
    assert [e.distinct for e in run("mixtral-8x7b", "h100-sxm", batch=2, context=64).experts] == [3.5]


def test_a_mixture_reads_what_it_reaches() -> None:
    """Of each layer's 8 experts of 3·4096·14336 two; the rest of Mixtral whole, but for the embedding's other rows."""
    found = run("mixtral-8x7b", "h200", context=1)
    experts = 32 * 3 * 4096 * 14336
    weights = 2 * (46_702_792_704 - 6 * experts - 32000 * 4096 + 4096)
    assert found.decode is not None
    assert found.decode.bytes == weights + kv(load("mixtral-8x7b").architecture, context=1).bytes


def test_a_window_is_read_and_no_more() -> None:
    """gpt-oss-20b: 12 layers see 128 tokens, 12 all; 8 heads of 64, K and V in bf16."""
    found = run("gpt-oss-20b", "h100-sxm", context=4096)
    assert found.decode is not None
    assert sum(stage.cache_bytes for stage in found.decode.stages) == 12 * (128 + 4096) * 2 * 8 * 64 * 2


def test_layers_that_share_a_cache_read_it_again() -> None:
    """Gemma 3n E2B: the last 10 of 30 layers read an earlier one's K and V, 2 heads of 256."""
    found = run("gemma-3n-e2b", "h100-sxm", context=400)  # within every window: all 30 layers read 400 tokens
    assert found.decode is not None
    assert sum(stage.cache_bytes for stage in found.decode.stages) == 30 * 400 * 2 * 2 * 256 * 2


def test_an_indexer_chooses_what_is_read() -> None:
    """DeepSeek-V3.2: of 16,384 latents of 576 numbers 2048 are read, of the indexer's keys of 128 all, in 61 layers."""
    found = run("deepseek-v3.2", "b200", context=16384)
    assert found.decode is not None
    read = 61 * (2048 * 576 * 2 + 16384 * 128 * 2)
    assert sum(stage.cache_bytes for stage in found.decode.stages) == read


def test_a_recurrent_state_is_read_and_written() -> None:
    """Whatever the context, and twice what is held."""
    model = load("mamba-2.8b").architecture
    held = kv(model, context=1000).bytes
    for context in (10, 1000):
        found = run("mamba-2.8b", "h100-sxm", context=context)
        assert found.decode is not None
        assert sum(stage.cache_bytes for stage in found.decode.stages) == 2 * held


def test_a_tied_table_is_read_as_the_output() -> None:
    """GPT-2 in fp16: 124,439,808 parameters, of the positions one row of 768, and one more row of tokens."""
    found = run("gpt2", "t4", dtype="fp16", context=10)
    assert found.decode is not None
    weights = 124_439_808 - 1024 * 768 + 768 + 768
    assert sum(stage.weights_bytes for stage in found.decode.stages) == 2 * weights


def test_quantised_weights_and_cache() -> None:
    """A step of Llama 3 8B in q8_0 with a q8_0 cache: 34 bytes for 32 numbers, norms in fp32."""
    found = run("llama-3-8b", "rtx-4090", dtype="q8_0", kv_dtype="q8_0", context=1024)
    norms = 65 * 4096
    matrices = 8_030_261_248 - 128_256 * 4096 - norms
    weights = (matrices + 4096) * 34 // 32 + 4 * norms
    assert found.decode is not None
    assert sum(stage.weights_bytes for stage in found.decode.stages) == weights
    assert sum(stage.cache_bytes for stage in found.decode.stages) == 1024 * 32 * 2 * 1024 * 34 // 32


def test_crossover() -> None:
    """Without attention to speak of: a batch of B takes 2·B·P/peak, the weights 2·P/bandwidth: B = peak/bandwidth."""
    found = run("llama-3-8b", "h100-sxm", context=1)
    assert found.crossover_batch is not None
    assert found.crossover_batch == pytest.approx(989.4e12 / 3350e9, rel=0.01)


def test_what_saturates_a_device() -> None:
    """A step of B sequences reads the weights W once and B caches of C. B/(W + B·C) is nine tenths of 1/C from 9·W/C
    on, as long as it is bound by memory. At 32,768 tokens of Llama 3 8B C is 4 GiB."""
    found = timed(load("llama-3-8b").architecture, devices.device("h100-sxm"), TimeRun(context=32768, dtype="bf16"))
    assert found.decode is not None
    assert found.crossover_batch is None
    assert found.saturated_batch is not None
    weights = sum(stage.weights_bytes for stage in found.decode.stages)
    cache = sum(stage.cache_bytes for stage in found.decode.stages)
    assert cache == 2**32
    assert abs(found.saturated_batch - 9 * weights / cache) <= 1
    assert found.saturated_batch < 9 * (8_030_261_248 * 2) / cache + 1


def test_links() -> None:
    """NVLink: 12 links of 50 GB/s of an A100, 6 of a V100, 4 of 28.125 GB/s of GA102; MI300X: 7 of 128 GB/s; PCIe 4.0:
    16 lanes of 16 GT/s, both ways."""
    rates = {name: devices.device(name).link for name in ("a100-80gb", "v100-32gb", "rtx-3090", "mi300x", "rtx-4090")}
    expected = (12 * 50, 6 * 50, 4 * 28.125, 7 * 128, 16 * 16 * 2 / 8)
    assert list(rates.values()) == [int(n * 10**9) for n in expected]
    assert all(model.link is None or model.link_source or "NVIDIA" in model.source for model in devices.models())


def test_the_cache_outweighs_the_weights() -> None:
    """8192 tokens of Llama 3 8B are 1 GiB, the weights that a step reads 15 GB: 14 sequences, not 13."""
    found = run("llama-3-8b", "h100-sxm", context=8192)
    assert found.cache_batch == -(-2 * (8_030_261_248 - 128_256 * 4096) // 2**30) == 14


def test_what_efficiencies_do() -> None:
    ideal, real = (run("llama-3-8b", "h100-sxm", context=1024, mfu=m, mbu=b) for m, b in ((1, 1), (0.5, 0.25)))
    assert real.per_token_s == pytest.approx(4 * (ideal.per_token_s or 0))
    assert real.prefill.stages[1].seconds == pytest.approx(2 * ideal.prefill.stages[1].seconds)
    assert (ideal.ideal, real.ideal) == (True, False)


def test_tensor_parallel() -> None:
    """Eight devices halve three times; what is added up goes over 450 GB/s each way, twice a layer."""
    one, eight = (run("llama-3-70b", "h100-sxm", tp=tp, context=2048, dtype="fp8") for tp in (1, 8))
    layers = [next(s for s in found.prefill.stages if s.name == "attn+mlp") for found in (one, eight)]
    assert layers[0].flops == 8 * layers[1].flops
    assert layers[1].sent_bytes == 80 * 2 * 2048 * 8192 * 2
    assert layers[1].interconnect_s == pytest.approx(layers[1].sent_bytes / 450e9)
    assert layers[0].sent_bytes == 0


def test_routers_and_norms_are_on_every_device() -> None:
    """Mixtral over two: a router of 4096 × 8 is multiplied whole on both."""
    architecture = load("mixtral-8x7b").architecture
    one, two = (Traffic(architecture, TimeRun(tp=tp, context=16), "prefill").costs(0, 1)[1] for tp in (1, 2))
    routers = 32 * 2 * 16 * 4096 * 8
    assert sum(two.flops.values()) == (sum(one.flops.values()) - routers) / 2 + routers


def test_an_encoder_decodes_nothing() -> None:
    found = run("bert-base", "h100-sxm", context=512)
    assert (found.per_token_s, found.tokens_per_s, found.decode, found.bound.decode) == (None, None, None, None)
    assert found.prefill_s > 0


@pytest.mark.parametrize("model", ["gemma-3n-e2b", "deepseek-v4-flash", "zamba2-7b", "t5-small", "rwkv-4-169m"])
def test_a_longer_context_never_takes_less(model: str) -> None:
    c = load(model).architecture.c
    times = [run(model, "h200", context=n) for n in (16, min(256, c), c)]
    assert sorted(found.per_token_s or 0 for found in times) == [found.per_token_s for found in times]
    assert sorted(found.prefill_s for found in times) == [found.prefill_s for found in times]


@pytest.mark.parametrize(
    ("stored_", "multiplied"),
    [("bf16", "bf16"), ("fp8", "fp8"), ("int4", "bf16"), ("nf4", "bf16"), ("q4_k", "int8"), ("mxfp4", "mxfp4"),
     ("exl3:4.0", "fp16"), ("fp32", "fp32")],
)  # fmt: skip
def test_what_is_multiplied_in(stored_: str, multiplied: str) -> None:
    assert multiplied_in(stored_) == multiplied


def test_an_unknown_rate_is_said() -> None:
    """Apple gives a rate for fp32 alone."""
    found = run("llama-3-8b", "apple-m2-ultra-192gb", context=128)
    assert "no bf16 rate" in found.notes[0]
    assert found.bound.prefill == "weights"


def test_a_draft_is_refused() -> None:
    with pytest.raises(InputError, match="drafts for another model"):
        run("deepseek-v3-eagle3", "h100-sxm")


# --- against what was measured ----------------------------------------------------------------------------------------


class Measured(NamedTuple):
    """A measurement: seconds to the first token, or tokens a second of so many sequences over so many new tokens."""

    source: str
    model: str
    device: str
    dtype: str
    prompt: int
    new: int = 0
    value: float = 0.0
    batch: int = 1
    tp: int = 1
    kv_dtype: str = "bf16"

    def bound(self) -> float:
        """The bound of the same quantity. A step's time is linear in the context, so its mean is that of the middle."""
        how: dict[str, Any] = {"dtype": self.dtype, "tp": self.tp, "kv_dtype": self.kv_dtype, "batch": self.batch}
        first = run(self.model, self.device, context=self.prompt, **how).prefill_s if self.prompt else 0.0
        if not self.new:
            return first
        step = run(self.model, self.device, context=self.prompt + self.new // 2, **how).per_token_s
        assert step is not None
        return self.batch * self.new / (first + self.new * step)

    def reached(self) -> float:
        """What share of the bound was measured."""
        return self.value / self.bound() if self.new else self.bound() / self.value


LLAMA_CPP = "llama.cpp, May 2024: github.com/XiongjieDai/GPU-Benchmarks-on-LLM-Inference"
TENSORRT = "TensorRT-LLM 0.5 and 0.6: github.com/NVIDIA/TensorRT-LLM, docs/source/performance.md"
VLLM = "vLLM 0.8.5: github.com/vllm-project/vllm/issues/17788 (mean prompt 217, answer 200, 32 at once)"
MLC = "MLC: github.com/mlc-ai/llm-perf-bench/pull/1"

#: llama.cpp sums fp16 in fp16, which GeForce cards do at twice the rate: its prompts in f16 on them are no measure here
MEASURED = [
    Measured(LLAMA_CPP, "llama-3-8b", "rtx-4090", "q4_k_m", 0, 1024, 127.74),
    Measured(LLAMA_CPP, "llama-3-8b", "rtx-4090", "f16", 0, 1024, 54.34),
    Measured(LLAMA_CPP, "llama-3-8b", "rtx-4090", "f16", 0, 8192, 50.88),
    Measured(LLAMA_CPP, "llama-3-8b", "rtx-4090", "q4_k_m", 1024, value=1024 / 6898.71),
    Measured(LLAMA_CPP, "llama-3-8b", "rtx-4080", "f16", 0, 1024, 40.29),
    Measured(LLAMA_CPP, "llama-3-8b", "rtx-3090", "q4_k_m", 0, 1024, 111.74),
    Measured(LLAMA_CPP, "llama-3-8b", "rtx-3090", "f16", 0, 1024, 46.51),
    Measured(LLAMA_CPP, "llama-3-8b", "rtx-3080", "q4_k_m", 0, 1024, 106.40),
    Measured(LLAMA_CPP, "llama-3-8b", "apple-m1-max-64gb", "f16", 0, 1024, 18.43),
    Measured(LLAMA_CPP, "llama-3-8b", "apple-m2-ultra-192gb", "q4_k_m", 0, 1024, 76.28),
    Measured(LLAMA_CPP, "llama-3-70b", "apple-m1-max-64gb", "q4_k_m", 0, 1024, 4.09),
    Measured(TENSORRT, "llama-2-7b", "h100-sxm", "fp8", 2048, value=36e-3, kv_dtype="fp8"),
    Measured(TENSORRT, "llama-2-70b", "h100-sxm", "fp8", 2048, value=109e-3, kv_dtype="fp8", tp=4),
    Measured(TENSORRT, "llama-2-7b", "a100-80gb", "fp16", 2048, value=133e-3),
    Measured(TENSORRT, "llama-2-70b", "a100-80gb", "fp16", 2048, value=377e-3, tp=4),
    Measured(TENSORRT, "llama-2-7b", "l40s", "fp8", 2048, value=73e-3, kv_dtype="fp8"),
    Measured(TENSORRT, "llama-2-7b", "h100-sxm", "fp8", 128, 2048, 5367, batch=64, kv_dtype="fp8"),
    Measured(TENSORRT, "llama-2-7b", "l40s", "fp8", 128, 2048, 1622, batch=64, kv_dtype="fp8"),
    Measured(TENSORRT, "llama-2-7b", "a100-80gb", "fp16", 128, 2048, 1928, batch=60),
    Measured(TENSORRT, "llama-2-70b", "a100-80gb", "fp16", 128, 2048, 4 * 525, batch=240, tp=4),
    Measured(VLLM, "qwen3-32b", "h100-nvl", "bf16", 217, 200, 653.61, batch=32),
    Measured(MLC, "llama-2-7b", "rtx-4090", "int4", 0, 256, 191.0),
]  # fmt: skip


@pytest.mark.parametrize(
    "one", MEASURED, ids=lambda one: f"{one.model}-{one.device}-{one.dtype}-{one.prompt}-{one.new}"
)
def test_nothing_is_faster_than_the_bound(one: Measured, record_property: Callable[[str, object], None]) -> None:
    """… and nothing that was tuned is far below it."""
    reached = one.reached()
    record_property("share of the bound", round(reached, 3))
    print(f"{one.source}: {reached:.0%}")
    assert 0.15 < reached <= 1


def test_measured_bounds_by_hand() -> None:
    """What three of these are held against, from the sizes and the datasheets' rates."""
    table, norms = 128_256 * 4096, 65 * 4096
    # Llama 3 8B in F16, norms in fp32, and at the middle of 1,024 tokens 512 of 32 layers' K and V; 1,008 GB/s
    read = 2 * (8_030_261_248 - table + 4096) + 2 * norms + 512 * 32 * 2 * 1024 * 2
    assert bound_of("llama-3-8b", "rtx-4090", "f16", 0) == pytest.approx(1008e9 / read)
    # Llama 2 7B over 2,048 tokens at 312 TFLOP/s, then the output matrix and before it so many rows at 2,039 GB/s
    layers = 32 * (4 * 4096**2 + 3 * 4096 * 11008)
    flops = 2 * layers * 2048 + 32 * 4 * 4096 * (2048 * 2049 // 2)
    seconds = flops / 312e12 + (32000 + 2048) * 4096 * 2 / 2039e9
    assert bound_of("llama-2-7b", "a100-80gb", "fp16", 2048) == pytest.approx(seconds, rel=1e-4)
    # a step of 64 sequences of 1,152 tokens in fp8, the output in 16 bits; 3,350 GB/s. 2,048 after a prompt of 128
    step = (layers + 2 * 32000 * 4096 + 64 * 1152 * 32 * 2 * 4096) / 3350e9
    prompts = 64 * 128
    first = (2 * layers * prompts + 64 * 32 * 4 * 4096 * (128 * 129 // 2)) / 1978.9e12
    assert bound_of("llama-2-7b", "h100-sxm", "fp8", 128) == pytest.approx(64 * 2048 / (first + 2048 * step), rel=1e-3)


def bound_of(model: str, device: str, dtype: str, prompt: int) -> float:
    """That of the first such measurement."""
    return next(
        one.bound()
        for one in MEASURED
        if (one.model, one.device, one.dtype, one.prompt) == (model, device, dtype, prompt)
    )


def test_mlperf() -> None:
    """Azure, MLPerf 4.1 (unverified), Llama 2 70B: 865,000 tokens a second on the 72 devices of a GB200 NVL72
    (techcommunity.microsoft.com, 4399253). No token takes less than a step that sees nothing before it."""
    most = run("llama-2-70b", "gb200", context=1, dtype="nvfp4", kv_dtype="fp8").most_tokens_per_s
    assert most is not None
    assert 0.1 < 865_000 / 72 / most < 1


def test_steps_come_near_the_bound() -> None:
    """Single sequences of 16-bit weights read little else than them."""
    steps = [one.reached() for one in MEASURED if one.new and one.batch == 1 and one.dtype == "f16"]
    assert median(steps) > 0.75


# --- the command ------------------------------------------------------------------------------------------------------


def test_the_command(gptcalc: Callable[..., Result]) -> None:
    found = gptcalc("time", "llama-3-8b", "--device", "2xh100-sxm", "--context", "1K", "--json")
    assert found.status == 0
    assert set(found.json) >= {"model", "device", "prefill_s", "per_token_s", "tokens_per_s", "bound", "intensity"}
    assert (found.json["devices"], found.json["parallel"]["tp"]) == (2, 2)
    table = gptcalc("time", "llama-3-8b", "--device", "2xh100-sxm", "--context", "1K")
    assert "a bound" in table.out
    assert "interconnect" in table.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "no --device"),
        (["--device", "h300"], "no device"),
        (["--device", "h200", "--mfu", "2"], "--mfu: '2' is not a share"),
        (["--device", "h200", "--tp", "3"], "does not divide"),
        (["--device", "2xh200", "--devices", "4"], "--device names 2"),
        (["--device", "h200", "--context", "0"], "less than 1"),
    ],
)
def test_what_is_refused(gptcalc: Callable[..., Result], words: list[str], said: str) -> None:
    found = gptcalc("time", "llama-3-8b", *words)
    assert (found.status, found.out) == (2, "")
    assert said in found.err


def test_a_size_that_does_not_fit_is_said(gptcalc: Callable[..., Result]) -> None:
    """405 billion parameters of 2 bytes on 80 GB."""
    assert stored(load("llama-3.1-405b").architecture) > 800 * 10**9
    assert "does not fit" in gptcalc("time", "llama-3.1-405b", "--device", "h100-sxm", "--context", "1K").out
