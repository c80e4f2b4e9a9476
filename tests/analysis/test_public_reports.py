"""What people reported of memory, as they or an engine's log had it, with the working."""

from __future__ import annotations

import pytest

from gptcalc.analysis.memory.cache import kv
from gptcalc.analysis.memory.inference import memory
from gptcalc.analysis.memory.training import training
from gptcalc.sources import load


def test_latents_of_a_million_tokens() -> None:
    """kaito#2132: Mistral Small 4 in vLLM, 36 layers of 256 + 64 numbers; 17.39 GiB hold 810,208 tokens."""
    model = load("mistral-small-4-119b").architecture
    found = kv(model, engine="vllm", context=1048576)
    assert found.bytes == 36 * (256 + 64) * 2 * 1048576 == 24_159_191_040
    assert found.bytes_per_token == 23_040
    assert 18_667_192_320 // 23_040 == 810_208


def test_an_indexer_and_scaled_latents() -> None:
    """sglang#11309: DeepSeek-V3.2 in fp8, 656 bytes of latents and 132 of the indexer in 61 layers: 43.67 GiB."""
    found = kv(load("deepseek-v3.2").architecture, kv_dtype="fp8", context=975424)
    assert found.bytes_per_token == 61 * (656 + 132) == 48_068
    assert found.bytes == 46_886_680_832


@pytest.mark.parametrize(("context", "size"), [(367404, 17_682_419_712), (178880, 8_609_136_640)])
def test_one_head_on_each_of_four_devices(context: int, size: int) -> None:
    """vllm#21348: Qwen3-235B-A22B, 94 layers, K and V of one of four heads of 128."""
    found = memory(load("qwen3-235b-a22b").architecture, tp=4, context=context)
    assert found.per_device.kv == 94 * 2 * 128 * 2 * context == size


@pytest.mark.parametrize(("heads", "size"), [(8, 66_060_288_000), (16, 132_120_576_000)])
def test_the_cache_of_405_billion(heads: int, size: int) -> None:
    """An article's 123.05 GB at 128,000 tokens are those of 16 heads, which the first config had; now there are 8."""
    model = load("llama-3.1-405b", [f"n_kv_heads={heads}"]).architecture
    assert kv(model, kv_dtype="fp16", context=128000).bytes == 126 * 2 * heads * 128 * 2 * 128000 == size


def test_windows_in_q5_0() -> None:
    """llama.cpp#21394: 50 layers of Gemma 4 31B keep 1,536 cells of K and V, 16 heads of 256, 22 bytes for 32."""
    found = kv(load("gemma-4-31b").architecture, engine="llama.cpp", kv_dtype="q5_0", context=120064)
    windows, full = found.groups
    assert windows.bytes == 50 * 1536 * 2 * 16 * 256 // 32 * 22 == 432_537_600
    assert full.bytes == 3_381_002_240


def test_attention_in_every_fourth_layer() -> None:
    """llmfit#302: Qwen3.5-9B at 262,144 tokens, K and V of four heads of 256 in 8 of 32 layers: 8 GiB."""
    found = kv(load("qwen3.5-9b").architecture, context=262144)
    assert found.bytes - found.state_bytes == 8 * 2 * 4 * 256 * 2 * 262144 == 8_589_934_592


def test_a_tensor_of_experts() -> None:
    """llama.cpp#16379: blk.3.ffn_down_exps of DeepSeek's Q4_K_M, 256 experts of 2048 × 7168 in Q6_K, is 2,940 MiB."""
    found = memory(load("deepseek-v3").architecture, dtype="q4_k_m", context=1)
    (rows,) = ([t for t in found.tensors if t.name == "moe.down" and t.type == "q6_k"],)
    assert {row.bytes for row in rows} == {256 * 2048 * 7168 // 256 * 210} == {3_082_813_440}


@pytest.mark.parametrize(
    ("preset", "size"),
    [("llama-3.1-8b", 64_242_089_984), ("llama-3.1-70b", 564_429_651_968), ("llama-3.1-405b", 3_246_827_110_400)],
)
def test_training_in_bf16_alone(preset: str, size: int) -> None:
    """huggingface/blog#2245: 60 GB, 300 GB and 3.25 TB; the second was wrong. Eight bytes a parameter."""
    held = training(load(preset).architecture, optimizer="adam-bf16", context=1).per_device
    assert held.weights + held.gradients + held.optimizer == size


def test_plain_descent_in_bf16() -> None:
    """torchtune#389: Llama-2-7B, weights and gradients of two bytes and nothing else; measured peak 27.83 GB."""
    held = training(load("llama-2-7b").architecture, optimizer="sgd-bf16", context=512).per_device
    assert (held.weights, held.gradients, held.optimizer) == (13_476_831_232, 13_476_831_232, 0)
