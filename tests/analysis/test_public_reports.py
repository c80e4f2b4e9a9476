"""What people reported of memory, as they or an engine's log had it, with the working."""

from __future__ import annotations

import pytest

from gptcalc.analysis.flops import flops
from gptcalc.analysis.memory.account import memory
from gptcalc.analysis.memory.cache import kv
from gptcalc.analysis.memory.training import training
from gptcalc.analysis.params import params
from gptcalc.document import build
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


def test_four_experts_in_every_second_layer() -> None:
    """MoE-LLaVA#45: Qwen-1.8B, 24 layers of d 2,048, of whose MLPs with 5,504 hidden units twelve become four experts
    each, two a token; biases of queries, keys and values, a norm for each sublayer and the last, both tables. The code
    that is given there has two norms more for each further expert and no biases: 36·2·d, which are as many, 24·3·d."""
    d, inner, v = 2048, 5504, 151_936
    expert, router = 3 * d * inner, 4 * d
    rest = 24 * (4 * d * d + 3 * d + 2 * d) + 12 * (expert + router) + d + 2 * v * d
    document = {
        "name": "moe-llava-qwen", "d": d, "v": v, "c": 8192, "n_heads": 16, "n_layers": 24, "d_ff": inner,
        "layers": "n*[attn+moe attn+mlp]", "bias": "qkv", "moe": {"n_experts": 4, "top_k": 2},
    }  # fmt: skip
    found = params(build(document))
    assert (found.total, found.active) == (rest + 12 * 4 * expert, rest + 12 * 2 * expert)
    assert 36 * 2 * d == 24 * 3 * d
    assert found.total == 3_054_323_712  # what that code gives


def test_a_module_beside_43_layers() -> None:
    """torchtitan#4441: DeepSeek-V4-Flash with its module has 290,942,278,866 parameters there, less the routers' biases
    of 41 layers with 256 experts, which are buffers."""
    found = params(load("deepseek-v4-flash").architecture)
    assert found.total + (found.mtp or 0) == 290_942_278_866 + 41 * 256


def test_flops_of_a_trained_token() -> None:
    """torchtitan#4300: Qwen3-30B-A3B at 8,192 tokens, 37,578,559,488 a token with 6 for each of its 210,944 norms. By
    hand: 6 for each weight of 48 layers and of the output that a token is multiplied by, 8 of 128 experts; 12 for each
    channel of all heads and each of all pairs."""
    d, heads = 2048, 32 * 128
    layer = 2 * d * heads + 2 * d * 4 * 128 + d * 128 + 8 * 3 * d * 768
    token = 6 * (48 * layer + 151_936 * d) + 12 * 48 * heads * 8192
    found = flops(load("qwen3-30b-a3b").architecture, phase="train", context=8192, pairs="full")
    assert found.total == 8192 * token
    assert token == 37_578_559_488 - 6 * 210_944


@pytest.mark.parametrize(
    ("preset", "layers", "token"),
    [
        ("deepseek-r1", 61, 2 * 128 * (576 + 512)),  # over latents of 512 + 64 channels
        ("llama-3.3-70b", 80, 2 * 2 * 64 * 128),  # the report has twice as much
    ],
)
def test_attention_of_a_decode_step(preset: str, layers: int, token: int) -> None:
    """InferenceX-app#849: FLOPs for each token of the past."""
    found = flops(load(preset).architecture, phase="decode", context=8192)
    assert found.attention == layers * token * 8192
