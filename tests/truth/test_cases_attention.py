"""Mistakes that people and tools really made with heads, keys and values: caches, latents, windows, shared layers.

Every expected value is the right one of the report, with its working; the wrong one that was given stands beside it.
"""

from __future__ import annotations

from typing import Any

import pytest

from gptcalc.analysis.flops import flops
from gptcalc.analysis.memory.cache import KVCache, kv
from gptcalc.analysis.params import params
from gptcalc.architecture import Architecture
from gptcalc.document import build
from gptcalc.sources import load
from tests.configs import (
    DEEPSEEK_V2_LITE,
    DEEPSEEK_V3,
    GLM_5,
    GPT_OSS_20B,
    GPT_OSS_120B,
    LLAMA_2_7B,
    LLAMA_3_8B,
    MISTRAL_NEMO,
    QWEN_3_4B,
    llama_like,
    model,
)
from tests.conftest import Command

KIB, MIB, GIB = 2**10, 2**20, 2**30


def attention(n_layers: int, n_kv_heads: int, d_head: int, n_heads: int | None = None, **more: Any) -> Architecture:
    """A model of which only keys and values are of interest."""
    document = {"d": 64, "v": 10, "c": 2**20, "d_ff": 10, "n_layers": n_layers}
    return build({**document, "n_heads": n_heads or n_kv_heads, "n_kv_heads": n_kv_heads, "d_head": d_head, **more})


def held(found: KVCache) -> dict[str, int]:
    """How many layers keep keys and values, by kind."""
    layers: dict[str, int] = {}
    for group in found.groups:
        layers[group.kind] = layers.get(group.kind, 0) + group.layers
    return layers


# --- the size of a head is not d / n_heads ----------------------------------------------------------------------------


def test_a_declared_head_size_counts() -> None:
    # Qwen3 4B: 36 layers · 2 · 8 heads · 128 channels · 2 bytes; 2560 / 32 = 80 channels would give 92,160
    found = kv(model(QWEN_3_4B), context=4096, kv_dtype="fp16")
    assert found.bytes_per_token == 147_456
    assert found.bytes == 603_979_776 == 576 * MIB


def test_head_sizes_above_and_below_an_equal_share() -> None:
    # Mistral Small 24B: 40 · 2 · 8 · 128 · 2; 5120 // 32 = 160 would be a quarter too high
    small = llama_like("mistral", 5120, 40, 32, 8, 32768, 131072, head_dim=128)
    assert kv(model(small)).bytes_per_token == 163_840
    # gpt-oss 20B: 24 · 2 · 8 · 64 · 2; 2880 // 64 = 45 would be 29.7 % too low
    assert kv(model(GPT_OSS_20B)).bytes_per_token == 49_152


def test_heads_wider_than_the_model() -> None:
    # Gemma 2 9B: 2 · 8 · 256 · 2 a layer; 3584 // 16 = 224 would give 7,168
    gemma = llama_like("gemma2", 3584, 1, 16, 8, 14336, 256000, head_dim=256)
    assert kv(model(gemma)).bytes_per_token == 8_192
    assert kv(model(gemma, num_hidden_layers=42)).bytes_per_token == 344_064


def test_a_query_projection_that_is_not_square() -> None:
    # 40·(2·5120·4096 + 2·5120·1024 + 3·5120·14336 + 2·5120) + 2·131072·5120 + 5120; square: 12,772,070,400
    nemo = model(MISTRAL_NEMO)
    assert params(nemo).total == 12_247_782_400
    assert kv(nemo, kv_dtype="fp16").bytes_per_token == 163_840
    assert {t.name: t.shape for t in params(nemo).groups[1].tensors}["attn.q"] == (5120, 4096)


def test_heads_wider_than_the_model_and_a_tied_head() -> None:
    # 28·(4·3072·4096 + 3·3072·24576 + 2·3072) + 256000·3072 + 3072; heads of 192: 8,185,359,360, untied: 9,324,112,896
    gemma = llama_like("gemma", 3072, 28, 16, 16, 24576, 256000, head_dim=256, tie_word_embeddings=True)
    assert params(model(gemma)).total == 8_537_680_896
    assert params(load("gemma-7b").architecture).total == 8_537_680_896


def test_three_matrices_of_a_gated_mlp_and_a_wide_query() -> None:
    qwen = model(QWEN_3_4B)
    # 2·3·2560·9728 a token and layer; with two matrices 99,614,720
    assert flops(qwen, context=1).by_component["mlp"] == 36 * 149_422_080
    # 2·2560·4096 for queries; with heads of 80 channels 13,107,200
    queries = next(t for t in params(qwen).groups[1].tensors if t.name == "attn.q")
    assert 2 * queries.params == 20_971_520


# --- fewer heads of keys and values than of queries -------------------------------------------------------------------


def test_multi_head_and_grouped_are_not_alike() -> None:
    # 32 · 2 · heads · 128 · 2; layers · heads · width · … gave 4,194,304 for both
    assert kv(model(LLAMA_2_7B)).bytes_per_token == 524_288
    assert kv(model(LLAMA_3_8B)).bytes_per_token == 131_072


def test_grouped_heads_at_8192_tokens() -> None:
    # 131,072 · 8192; with 2 · 4096 channels a layer it would be 4 GiB
    assert kv(model(LLAMA_3_8B), context=8192).bytes == 1_073_741_824 == GIB


@pytest.mark.parametrize(
    ("layers", "n_kv_heads", "bytes_"),
    [
        (32, 32, 16 * GIB),  # 2 · 32 · 32 · 128 · 2 · 32768; a text said 512 MB
        (80, 8, 10 * GIB),  # 10.737 GB
        (80, 64, 80 * GIB),  # were it not grouped; the text said 32 GB
    ],
)
def test_caches_at_32768_tokens(layers: int, n_kv_heads: int, bytes_: int) -> None:
    assert kv(attention(layers, n_kv_heads, 128), context=32768).bytes == bytes_


def test_keys_and_values_as_a_log_prints_them() -> None:
    # 28 · 4 · 128 · 2 · 2048 for keys, and the same for values
    found = kv(attention(28, 4, 128), context=2048, kv_dtype="fp16")
    assert found.bytes == 112 * MIB == 2 * 56 * MIB


def test_other_names_for_the_heads_of_keys_and_values() -> None:
    # multi_query_group_num: 28 · 2 · 2 · 128 · 2; read as multi-head 458,752
    config = {
        "architectures": ["ChatGLMModel"], "hidden_size": 4096, "num_layers": 28, "num_attention_heads": 32,
        "kv_channels": 128, "multi_query_attention": True, "multi_query_group_num": 2, "ffn_hidden_size": 13696,
        "padded_vocab_size": 65024, "vocab_size": 65024, "seq_length": 8192, "add_qkv_bias": True,
        "add_bias_linear": False, "rmsnorm": True, "post_layer_norm": True, "tie_word_embeddings": False,
    }  # fmt: skip
    glm = model(config)
    assert kv(glm, kv_dtype="fp16").bytes_per_token == 28_672
    assert params(glm).total == 6_243_584_000


@pytest.mark.parametrize("fields", [{"num_key_value_heads": None}, {}])
def test_no_word_on_the_heads_of_keys_and_values(fields: dict[str, Any]) -> None:
    # null and absent both mean as many as attention heads: 32 · 2 · 2560 · 2
    phi = llama_like("phi", 2560, 32, 32, 32, 10240, 51200)
    del phi["num_key_value_heads"]
    assert kv(model({**phi, **fields})).bytes_per_token == 327_680


def test_layers_without_attention_keep_nothing() -> None:
    # 6 of 16 layers have 8 heads of 64 channels: 6 · 2 · 8 · 64 · 2; the first entry alone says 0, the largest 1 GiB
    heads = [0, 0, 8, 0, 0, 8, 0, 0, 8, 0, 8, 0, 8, 0, 8, 0]
    layers = " ".join("attn+mlp" if n else "mlp" for n in heads)
    found = kv(attention(16, 8, 64, layers=layers), context=32768, kv_dtype="fp16")
    assert found.bytes_per_token == 12_288
    assert found.bytes == 402_653_184 == 384 * MIB


# --- latents ----------------------------------------------------------------------------------------------------------


def test_the_latent_is_kept_once_and_the_rotary_key_with_it() -> None:
    # 61·(512 + 64)·2; twice the latent 124,928, expanded heads 4,997,120
    found = kv(model(DEEPSEEK_V3))
    assert found.bytes_per_token == 70_272
    assert kv(model(DEEPSEEK_V3), mla_cache="expanded").bytes_per_token == 4_997_120


def test_what_a_latent_saves() -> None:
    # 512 + 64 a token and layer; the rotary key once a head would be 8,704
    one = model(DEEPSEEK_V3, num_hidden_layers=1, first_k_dense_replace=1)
    latent, expanded = (kv(one, mla_cache=form).elements_per_token for form in ("latent", "expanded"))
    assert latent == 576
    assert expanded == 24_576 + 16_384  # K of 128·(128 + 64) channels, V of 128·128
    assert round(100 * (1 - latent / expanded), 3) == 98.594
    assert round(100 * (1 - latent / 49_152), 3) == 98.828  # against values as wide as keys


def test_queries_without_a_latent() -> None:
    # attention 13,763,072 a layer with the latent's norm of 512; 26·((64 + 2)·3·2048·1408 + 64·2048) in experts;
    # 3·2048·10944 in the dense layer; 2·102400·2048 in the tables
    lite = model(DEEPSEEK_V2_LITE)
    found = params(lite)
    assert found.total == 15_706_484_224
    assert found.active == 2_661_150_208
    assert found.components["attention"] == 27 * 13_763_072
    assert kv(lite).bytes_per_token == 31_104  # expanded 276,480


def test_an_indexer_and_a_head_size_that_is_the_rotary_part() -> None:
    # 78 layers, 3 dense; indexer 2048·4096 + 6144·128 + 256 + 6144·32 a layer; 75·(256 + 1)·3·6144·2048 in experts
    glm = model(GLM_5)
    found = params(glm)
    assert found.total == 743_911_218_432
    assert found.active == 41_784_728_832
    assert found.mtp == 9_952_920_576
    # 78·(512 + 64)·2 of latents, 78·128·2 of the indexer's keys; 64 heads of head_dim 64 would be 1,277,952
    groups = kv(glm, context=1).groups
    assert sum(group.bytes for group in groups if group.kind == "latent") == 89_856
    assert sum(group.bytes for group in groups if group.kind == "index") == 19_968


# --- windows ----------------------------------------------------------------------------------------------------------


def test_windowed_layers_are_not_dropped() -> None:
    # gpt-oss 120B: 36 · 2,048 at first, then 18 · 2,048 · (S + 128); without windowed layers 36,864, all full 9 GiB
    large = model(GPT_OSS_120B)
    assert kv(large, context=1).bytes == 73_728
    assert kv(large, context=131072).bytes == 4_836_556_800 == 18 * 2_048 * (131072 + 128)
    assert round(4_836_556_800 / GIB, 11) == 4.50439453125


def test_windowed_layers_are_not_full() -> None:
    # gpt-oss 20B at 131,072 tokens: 12 · 2,048 · 131072 and 12 · 2,048 · 128; all full 6 GiB
    small = model(GPT_OSS_20B)
    by_kind = {group.kind: group.bytes for group in kv(small, context=131072, kv_dtype="fp16").groups}
    assert by_kind == {"full": 3 * GIB, "window": 3 * MIB}
    # an engine that rounds 128 + 512 up to 768 cells
    cells = kv(small, context=131072, kv_dtype="fp16", engine="llama.cpp")
    assert {group.kind: group.bytes for group in cells.groups} == {"full": 3 * GIB, "window": 18 * MIB}


def test_a_geometry_for_each_type_of_layer() -> None:
    # Gemma 4 31B: 50 · 2 · 16 · 256 · 2 and 10 · 2 · 4 · 512 · 2; once 163,840, with one page size for all 983,040
    gemma = llama_like(
        "gemma4_text", 5376, 60, 32, 16, 21504, 262144, head_dim=256, global_head_dim=512, tie_word_embeddings=True,
        num_global_key_value_heads=4, attention_k_eq_v=True, sliding_window=1024, hidden_size_per_layer_input=0,
    )  # fmt: skip
    found = kv(model(gemma), context=1)
    assert found.bytes == 901_120
    assert held(found) == {"window": 50, "full": 10}


def test_a_window_in_every_layer() -> None:
    # Mistral 7B v0.1: 32 · 2 · 8 · 128 · 2 · 4096, or all 32,768 tokens where an engine ignores the window
    mistral = llama_like("mistral", 4096, 32, 32, 8, 14336, 32000, sliding_window=4096)
    found = kv(model(mistral), context=32768)
    assert found.bytes == 512 * MIB
    assert found.full_bytes == 4 * GIB
    assert kv(model(mistral), context=32768, engine="llama.cpp").bytes == 4 * GIB


def test_a_window_in_every_second_layer() -> None:
    # Gemma 2 9B at 8,192 tokens: 8,192 bytes · (21 · 8192 + 21 · 4096)
    gemma = llama_like("gemma2", 3584, 42, 16, 8, 14336, 256000, head_dim=256, sliding_window=4096)
    found = kv(model(gemma), context=8192)
    assert found.bytes == 2016 * MIB
    assert found.full_bytes == 2688 * MIB


#: which layers are local, in the words of different families
PATTERN = [0, 1, 1, 1, 1, *[0, 1, 1, 1, 1, 1] * 7, 0]
MIMO = llama_like(
    "mimo_v2_flash", 4096, 48, 64, 4, 16384, 152576,
    head_dim=192, v_head_dim=128, swa_num_attention_heads=64, swa_num_key_value_heads=8, swa_head_dim=192,
    swa_v_head_dim=128, sliding_window_size=128, hybrid_layer_pattern=PATTERN, moe_layer_freq=[0, *[1] * 47],
    n_routed_experts=256, num_experts_per_tok=8, moe_intermediate_size=2048, scoring_func="sigmoid",
    add_swa_attention_sink_bias=True, add_full_attention_sink_bias=False, attention_value_scale=0.707,
)  # fmt: skip


@pytest.mark.parametrize(
    ("config", "layers"),
    [
        (MIMO, {"full": 9, "window": 39}),
        (GPT_OSS_20B, {"full": 12, "window": 12}),
        ({**GPT_OSS_20B, "layer_types": None}, {"full": 12, "window": 12}),
        # every sixth layer is full: 34 // 6 of Gemma 3 4B
        (
            llama_like("gemma3_text", 2560, 34, 8, 4, 10240, 262208, head_dim=256, sliding_window_pattern=6),
            {"full": 5, "window": 29},
        ),
        # use_sliding_window says whether there are windows at all
        (llama_like("qwen2", 64, 8, 4, 4, 64, 100, sliding_window=32, use_sliding_window=False), {"full": 8}),
        (
            llama_like("qwen2", 64, 8, 4, 4, 64, 100, sliding_window=32, use_sliding_window=True, max_window_layers=3),
            {"full": 3, "window": 5},
        ),
    ],
)
def test_which_layers_are_local(config: dict[str, Any], layers: dict[str, int]) -> None:
    assert held(kv(model(config))) == layers


# --- layers that reuse another's keys and values ----------------------------------------------------------------------


def test_reusing_layers_keep_nothing() -> None:
    # Gemma 3n E4B: 4 full and 16 windowed layers own theirs, 15 reuse: 2,048 · (4 · 32768 + 16 · 512)
    layers = "4*[4*local+mlp attn+mlp] 3*[4*reuse_local+mlp reuse+mlp]"
    sections = {
        "local": {"like": "attn", "window": 512},
        "reuse": {"like": "attn", "kv": {"from": "attn"}},
        "reuse_local": {"like": "local", "kv": {"from": "local"}},
    }
    found = kv(attention(35, 2, 256, 8, layers=layers, **sections), context=32768)
    assert held(found) == {"window": 16, "full": 4}
    assert found.bytes == 272 * MIB  # all 35 full 2,240 MiB, all 35 with windows 476 MiB


def test_how_many_layers_sharing_saves() -> None:
    # Gemma 4 E2B: 20 of 35 layers reuse; 100 · 20 / 35 = 57.142857 % fewer
    owning = sum(held(kv(load("gemma-4-e2b").architecture)).values())
    assert owning == 15
    assert round(100 * (1 - owning / 35), 6) == 57.142857


CROSS_LAYER = llama_like(
    "hunyuan", 1024, 64, 16, 8, 512, 1000, cla_share_factor=2, num_experts=2, moe_topk=1, num_shared_expert=1
)


def test_cross_layer_attention_where_it_is_switched_on() -> None:
    # a cache for every two of 64 layers: 32 · 2 · 8 · 64 · 2 · 4096
    found = kv(model(CROSS_LAYER, use_cla=True), context=4096)
    assert held(found) == {"full": 32}
    assert found.bytes == 32 * 2 * 8 * 64 * 2 * 4096


@pytest.mark.parametrize("fields", [{"use_cla": False}, {}])
@pytest.mark.parametrize(
    "config",
    [
        CROSS_LAYER,
        llama_like("hunyuan_v1_dense", 1024, 64, 16, 8, 512, 1000, cla_share_factor=2, head_dim=64),
        llama_like("hunyuan_v1_moe", 1024, 64, 16, 8, 512, 1000, cla_share_factor=2, num_experts=2, moe_topk=1),
    ],
)
def test_a_share_factor_alone_shares_nothing(config: dict[str, Any], fields: dict[str, Any]) -> None:
    assert held(kv(model({**config, **fields}))) == {"full": 64}


#: what Hunyuan's dense configs say beside their sizes
HUNYUAN_7B = llama_like(
    "hunyuan_v1_dense", 4096, 32, 32, 8, 14336, 128167, head_dim=128, attention_head_dim=128, tie_word_embeddings=True,
    use_qk_norm=True, use_cla=False, cla_share_factor=2, norm_type="rms", mlp_bias=False, org_vocab_size=128167,
    add_classification_head=False, class_num=0, pool_type="last", dense_list=[4096, 0], use_rotary_pos_emb=True,
    rope_scaling={"type": "dynamic", "alpha": 1000.0, "factor": 1.0, "beta_fast": 32, "beta_slow": 1, "mscale": 1.0,
                  "mscale_all_dim": 1.0},
)  # fmt: skip


def test_a_config_with_a_share_factor_as_published() -> None:
    # 128167·4096 + 32·(2·4096² + 2·4096·1024 + 2·128 + 3·4096·14336 + 2·4096) + 4096
    tables, layer = 128167 * 4096, 2 * 4096**2 + 2 * 4096 * 1024 + 2 * 128 + 3 * 4096 * 14336 + 2 * 4096
    assert params(model(HUNYUAN_7B)).total == tables + 32 * layer + 4096
    assert kv(model(HUNYUAN_7B)).bytes_per_token == 131_072


# --- the same on the command line -------------------------------------------------------------------------------------


def test_on_the_command_line(gptcalc: Command) -> None:
    assert gptcalc("kv", "qwen3-4b", "--context", 4096, "--kv-dtype", "fp16", "--get", "bytes").out == "603979776\n"
    assert gptcalc("kv", "llama-3-8b", "--context", 8192, "--get", "bytes").out == "1073741824\n"
    assert gptcalc("kv", "deepseek-v3", "--get", "bytes_per_token").out == "70272\n"
    assert gptcalc("kv", "gpt-oss-120b", "--context", 131072, "--get", "bytes").out == "4836556800\n"
    assert gptcalc("kv", "mistral-7b", "--context", 32768, "--json").json["full_bytes"] == 4 * GIB
