"""Mistakes that tools really made with config.json files: other names, nested models, quantised variants.

Every expected value is the right one of the report; configs are written here with the same facts.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gptcalc.analysis.memory.cache import kv
from gptcalc.analysis.params import params
from gptcalc.sources.huggingface import read
from tests.configs import DEEPSEEK_V3, MIXTRAL_8X7B, llama_like, model
from tests.conftest import Command

# --- names of their own -----------------------------------------------------------------------------------------------

BAICHUAN = {
    "architectures": ["BaichuanForCausalLM"], "model_type": "baichuan", "hidden_act": "silu", "hidden_size": 4096,
    "intermediate_size": 11008, "max_position_embeddings": 4096, "model_max_length": 4096, "num_attention_heads": 32,
    "num_hidden_layers": 32, "rms_norm_eps": 1e-6, "tie_word_embeddings": False, "vocab_size": 125696,
    "z_loss_weight": 0,
}  # fmt: skip
MPT = {
    "architectures": ["MPTForCausalLM"], "model_type": "mpt", "d_model": 4096, "n_heads": 32, "n_layers": 32,
    "expansion_ratio": 4, "max_seq_len": 2048, "vocab_size": 50432, "no_bias": True, "learned_pos_emb": True,
    "logit_scale": None, "norm_type": "low_precision_layernorm", "embedding_fraction": 1.0, "verbose": 0,
    "attn_config": {"alibi": True, "alibi_bias_max": 8, "attn_impl": "torch", "attn_pdrop": 0, "attn_type":
                    "multihead_attention", "attn_uses_sequence_id": False, "clip_qkv": None, "prefix_lm": False,
                    "qk_ln": False, "softmax_scale": None},
    "init_config": {"name": "kaiming_normal_"},
}  # fmt: skip
FALCON = {
    "architectures": ["FalconForCausalLM"], "model_type": "falcon", "hidden_size": 8192, "num_hidden_layers": 60,
    "num_attention_heads": 128, "num_kv_heads": 8, "new_decoder_architecture": True, "multi_query": True,
    "parallel_attn": True, "bias": False, "alibi": False, "vocab_size": 65024, "layer_norm_epsilon": 1e-5,
    "apply_residual_connection_post_layernorm": False,
}  # fmt: skip
REFINED_WEB = {
    "architectures": ["RWForCausalLM"], "model_type": "RefinedWeb", "hidden_size": 8192, "n_layer": 60, "n_head": 128,
    "n_head_kv": 8, "parallel_attn": True, "bias": False, "alibi": False, "vocab_size": 65024,
    "layer_norm_epsilon": 1e-5, "apply_residual_connection_post_layernorm": False,
}  # fmt: skip
DBRX = {
    "architectures": ["DbrxForCausalLM"], "model_type": "dbrx", "d_model": 6144, "n_heads": 48, "n_layers": 40,
    "max_seq_len": 32768, "vocab_size": 100352, "tie_word_embeddings": False, "emb_pdrop": 0.0, "resid_pdrop": 0.0,
    "attn_config": {"model_type": "", "clip_qkv": 8, "kv_n_heads": 8, "rope_theta": 500000},
    "ffn_config": {"model_type": "", "ffn_hidden_size": 10752, "moe_jitter_eps": 0, "moe_loss_weight": 0.05,
                   "moe_num_experts": 16, "moe_top_k": 4},
}  # fmt: skip


@pytest.mark.parametrize(
    ("config", "total"),
    [
        (BAICHUAN, 7_505_973_248),
        (MPT, 6_649_286_656),
        (FALCON, 41_303_293_952),
        (REFINED_WEB, 41_303_293_952),
        (DBRX, 131_596_523_520),
    ],
    ids=lambda value: value["model_type"] if isinstance(value, dict) else None,
)
def test_sizes_under_other_names(config: dict[str, Any], total: int) -> None:
    assert params(model(config)).total == total


def test_a_text_model_two_levels_down() -> None:
    # a vision tower's hidden_size must not win over the text model's 3584
    text = llama_like("qwen2_5_omni_text", 3584, 28, 28, 4, 18944, 152064)
    config = {
        "model_type": "qwen2_5_omni",
        "thinker_config": {"model_type": "qwen2_5_omni_thinker", "text_config": text,
                           "vision_config": {"hidden_size": 1280}},
        "vision_config": {"hidden_size": 1152},
        "hidden_size": 1152,
    }  # fmt: skip
    reading = read(config)
    assert (reading.document["d"], reading.document["n_layers"]) == (3584, 28)
    assert any("thinker_config.text_config" in note for note in reading.notes)
    assert params(model(config)).total == 7_615_616_512


# --- a quantised variant has as many parameters -----------------------------------------------------------------------

NVFP4 = {"quant_method": "modelopt", "quant_algo": "NVFP4", "kv_cache_scheme": {"num_bits": 8, "type": "float"},
         "config_groups": {"group_0": {"weights": {"num_bits": 4, "type": "float", "group_size": 16}}},
         "ignore": ["lm_head", "model.layers.61*"]}  # fmt: skip
AQLM = {"quant_method": "aqlm", "in_group_size": 8, "num_codebooks": 1, "nbits_per_codebook": 16}
FP8 = {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}
MLX = {"group_size": 64, "bits": 4}


@pytest.mark.parametrize(
    ("config", "total"),
    [
        ({**DEEPSEEK_V3, "quantization_config": NVFP4}, 671_026_419_200),
        ({**DEEPSEEK_V3, "quantization_config": FP8}, 671_026_419_200),
        ({**DBRX, "quantization": MLX}, 131_596_523_520),
        ({**DBRX, "quantization": MLX, "quantization_config": MLX}, 131_596_523_520),
        # of codes a header shows 6,546,853,888; a config says how many weights they stand for
        ({**MIXTRAL_8X7B, "quantization_config": AQLM}, 46_702_792_704),
    ],
)
def test_logical_parameters_are_never_scaled(config: dict[str, Any], total: int) -> None:
    assert params(model(config)).total == total


def test_a_quantisation_in_a_file_of_its_own(tmp_path: Path, gptcalc: Command) -> None:
    (tmp_path / "config.json").write_text(json.dumps(DEEPSEEK_V3))
    (tmp_path / "hf_quant_config.json").write_text(json.dumps({"quantization": {"quant_algo": "NVFP4"}}))
    assert gptcalc("params", tmp_path, "--get", "total").out == "671026419200\n"
    assert gptcalc("kv", tmp_path, "--get", "bytes_per_token").out == "70272\n"


def test_a_quantised_config_is_cached_as_asked(tmp_path: Path, gptcalc: Command) -> None:
    """Weights of four bits say nothing of the cache, which is bf16 where --kv-dtype says nothing."""
    quantised = {**MIXTRAL_8X7B, "quantization_config": AQLM}
    assert kv(model(quantised)).bytes_per_token == 131_072
    (tmp_path / "config.json").write_text(json.dumps(quantised))
    assert gptcalc("kv", tmp_path, "--kv-dtype", "fp8", "--get", "bytes_per_token").out == "65536\n"
