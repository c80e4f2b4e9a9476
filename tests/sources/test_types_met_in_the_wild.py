"""Configs of vendors' own types, which no class of transformers reads: totals as published, or derived beside them."""

from __future__ import annotations

from typing import Any

import pytest

from gptcalc.analysis.flops import flops
from gptcalc.analysis.memory.training import trained
from gptcalc.analysis.params import params
from gptcalc.conventions import TrainingRun
from gptcalc.document import build
from gptcalc.errors import InputError
from gptcalc.sources.huggingface import read

TELECHAT_7B = {
    "model_type": "telechat", "architectures": ["TelechatForCausalLM"], "hidden_size": 4096, "n_head": 32,
    "n_layer": 30, "seq_length": 8192, "vocab_size": 160256, "ffn_hidden_size": 12288, "embed_layernorm": False,
    "layer_norm_epsilon": 1e-5, "apply_residual_connection_post_layernorm": False,
}  # fmt: skip
TELECHAT_12B_V2 = {
    **TELECHAT_7B, "hidden_size": 5120, "n_head": 32, "n_layer": 38, "vocab_size": 120000, "tie_word_embeddings": False,
    "offset_alibi": 100,
}  # fmt: skip
QWEN_7B_OLDER = {
    "model_type": "qwen", "architectures": ["QWenLMHeadModel"], "n_embd": 4096, "n_head": 32, "n_layer": 32,
    "ffn_hidden_size": 22016, "kv_channels": 128, "vocab_size": 151936, "padded_vocab_size": 151936,
    "seq_length": 2048, "n_positions": 6144, "activation": "swiglu", "no_bias": True, "tie_word_embeddings": False,
}  # fmt: skip
JAIS_13B = {
    "model_type": "jais", "architectures": ["JAISLMHeadModel"], "n_embd": 5120, "n_head": 40, "n_layer": 40,
    "n_inner": 13653, "n_positions": 2048, "vocab_size": 84992, "activation_function": "swiglu",
    "position_embedding_type": "alibi", "scale_qk_dot_by_d": True, "embeddings_scale": 14.6, "width_scale": 0.111,
}  # fmt: skip
#: BTLM-3B-8k
BTLM_3B = {
    "model_type": "btlm", "architectures": ["BTLMLMHeadModel"], "n_embd": 2560, "n_head": 32, "n_layer": 32,
    "n_inner": 6826, "n_positions": 8192, "vocab_size": 50257, "activation_function": "swiglu",
    "position_embedding_type": "alibi", "mup_scale_qk_dot_by_d": True, "mup_embeddings_scale": 14.6,
    "mup_output_alpha": 2.22, "mup_width_scale": 0.1,
}  # fmt: skip
#: OpenELM-1_1B
OPENELM_1_1B = {
    "model_type": "openelm", "architectures": ["OpenELMForCausalLM"], "activation_fn_name": "swish", "model_dim": 2048,
    "head_dim": 64, "num_transformer_layers": 28, "ffn_dim_divisor": 256, "ffn_with_glu": True, "vocab_size": 32000,
    "max_context_length": 2048, "normalization_layer_name": "rms_norm", "normalize_qk_projections": True,
    "num_gqa_groups": 4, "qkv_multipliers": [0.5, 1.0], "rope_freq_constant": 10000, "rope_max_length": 4096,
    "share_input_output_layers": True, "num_query_heads": [*[16] * 3, *[20] * 7, *[24] * 8, *[28] * 6, *[32] * 4],
    "num_kv_heads": [*[4] * 3, *[5] * 7, *[6] * 8, *[7] * 6, *[8] * 4],
    "ffn_multipliers": [
        0.5, 0.63, 0.76, 0.89, 1.02, 1.15, 1.28, 1.41, 1.54, 1.67, 1.8, 1.93, 2.06, 2.19, 2.31, 2.44, 2.57, 2.7, 2.83,
        2.96, 3.09, 3.22, 3.35, 3.48, 3.61, 3.74, 3.87, 4.0,
    ],
}  # fmt: skip
#: DeciLM-7B's sizes
DECI = {
    "model_type": "deci", "architectures": ["DeciLMForCausalLM"], "hidden_size": 4096, "intermediate_size": 14336,
    "num_attention_heads": 32, "num_hidden_layers": 4, "num_key_value_heads_per_layer": [4, 4, 2, 1],
    "vocab_size": 32000, "max_position_embeddings": 8192, "tie_word_embeddings": False, "rope_theta": 10000.0,
}  # fmt: skip
INTERNLM2_REWARD = {
    "model_type": "internlm2", "architectures": ["InternLM2ForRewardModel"], "hidden_size": 2048, "bias": False,
    "intermediate_size": 8192, "num_attention_heads": 16, "num_hidden_layers": 24, "num_key_value_heads": 8,
    "vocab_size": 92544, "max_position_embeddings": 32768, "reward_token_id": 92527,
}  # fmt: skip
#: Qwen2.5-Math-RM-72B and Qwen2.5-Math-PRM-7B: a dense layer and its scores in place of the output matrix
MATH_RM_72B = {
    "model_type": "qwen2", "architectures": ["Qwen2ForRewardModel"], "hidden_size": 8192, "intermediate_size": 29568,
    "num_attention_heads": 64, "num_hidden_layers": 80, "num_key_value_heads": 8, "vocab_size": 152064,
    "tie_word_embeddings": False,
}  # fmt: skip
MATH_PRM_7B = {
    "model_type": "qwen2", "architectures": ["Qwen2ForProcessRewardModel"], "hidden_size": 3584, "vocab_size": 152064,
    "intermediate_size": 18944, "num_attention_heads": 28, "num_hidden_layers": 28, "num_key_value_heads": 4,
    "tie_word_embeddings": False,
}  # fmt: skip
#: what its class assumes is Phi-3-small-8k
PHI_3_SMALL = {"model_type": "phi3small", "architectures": ["Phi3SmallForCausalLM"]}
#: Ling-plus-base, as inclusionAI's repository has it for MindIE: experts in DeepSeek's words; rates of dropout as they
#: were trained with
LING_PLUS = {
    "model_type": "bailing_moe", "architectures": ["BailingMoeForCausalLM"], "hidden_size": 5376, "vocab_size": 126464,
    "intermediate_size": 12288, "moe_intermediate_size": 3072, "n_routed_experts": 64, "n_shared_experts": 1,
    "num_attention_heads": 56, "num_experts_per_tok": 4, "num_hidden_layers": 88, "num_key_value_heads": 8,
    "first_k_dense_replace": 0, "use_bias": False, "use_qkv_bias": False, "norm_head": True, "embedding_dropout": 0.1,
    "output_dropout": 0.1, "tie_word_embeddings": False, "max_position_embeddings": 16384,
}  # fmt: skip
#: MiniMind2 in its first spelling, MiniMind2-MoE in its second, minimind-3-moe
MINIMIND = {
    "model_type": "minimind", "architectures": ["MiniMindLM"], "dim": 768, "n_layers": 16, "n_heads": 8,
    "n_kv_heads": 2, "hidden_dim": 2048, "multiple_of": 64, "vocab_size": 6400, "max_seq_len": 8192, "use_moe": False,
    "n_routed_experts": 4, "n_shared_experts": True, "num_experts_per_tok": 2, "norm_eps": 1e-5, "flash_attn": True,
}  # fmt: skip
MINIMIND_MOE = {
    "model_type": "minimind", "architectures": ["MiniMindForCausalLM"], "hidden_size": 640, "num_hidden_layers": 8,
    "num_attention_heads": 8, "num_key_value_heads": 2, "intermediate_size": None, "vocab_size": 6400, "use_moe": True,
    "n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2, "inference_rope_scaling": False,
}  # fmt: skip
MINIMIND_3_MOE = {
    "model_type": "minimind", "architectures": ["MiniMindForCausalLM"], "hidden_size": 768, "num_hidden_layers": 8,
    "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 96, "vocab_size": 6400, "num_experts": 4,
    "num_experts_per_tok": 1, "use_moe": True,
}  # fmt: skip
#: Phi-1.5 as first published, and OpenAssistant's oasst-rm-2.1-pythia-1.4b
PHI_FIRST = {
    "model_type": "mixformer-sequential", "architectures": ["MixFormerSequentialForCausalLM"], "n_embd": 2048,
    "n_head": 32, "n_inner": None, "n_layer": 24, "n_positions": 2048, "rotary_dim": 32, "vocab_size": 51200,
    "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5, "tie_word_embeddings": False,
}  # fmt: skip
OASST_RM = {
    "model_type": "gpt_neox_reward_model", "architectures": ["GPTNeoXRewardModel"], "hidden_size": 2048,
    "intermediate_size": 8192, "num_attention_heads": 16, "num_hidden_layers": 24, "vocab_size": 50288,
    "max_position_embeddings": 2048, "pooling": "last", "tie_word_embeddings": False,
}  # fmt: skip
MOSS_16B = {
    "model_type": "moss", "architectures": ["MossForCausalLM"], "n_embd": 6144, "n_head": 24, "n_layer": 34,
    "n_positions": 2048, "n_inner": None, "rotary_dim": 64, "vocab_size": 107008, "tie_word_embeddings": False,
    "wbits": 8, "groupsize": 128,
}  # fmt: skip
#: MinerU 2's text model is Qwen2-0.5B's of 151,654 words
MINERU = {
    "model_type": "mineru2_qwen", "architectures": ["Mineru2QwenForCausalLM"], "hidden_size": 896, "vocab_size": 151654,
    "intermediate_size": 4864, "num_attention_heads": 14, "num_hidden_layers": 24, "num_key_value_heads": 2,
    "max_position_embeddings": 32768, "mm_vision_tower": "google/siglip-so400m-patch14-384",
    "tie_word_embeddings": True,
}  # fmt: skip
#: MiniCPM-V 2, with its tower's words among the text model's; its checkpoint has an output matrix
MINICPM_V_2 = {
    "model_type": "minicpmv", "architectures": ["MiniCPMV"], "hidden_size": 2304, "intermediate_size": 5760,
    "num_attention_heads": 36, "num_hidden_layers": 40, "vocab_size": 122753, "max_position_embeddings": 4096,
    "scale_emb": 12, "scale_depth": 1.4, "dim_model_base": 256, "tie_word_embeddings": False, "image_size": 448,
    "drop_vision_last_layer": True, "max_slice_nums": 9, "mm_use_im_start_end": True, "patch_size": 14, "query_num": 64,
    "scale_resolution": 448, "slice_mode": True, "vision_encoder": "vit_so400m_patch14_siglip_384.webli",
}  # fmt: skip
#: a LLaDA of 448 channels, Dream 7B and MobileLLM 125M
LLADA = {
    "model_type": "llada", "architectures": ["LLaDAModelLM"], "d_model": 448, "n_heads": 7, "n_kv_heads": 7,
    "n_layers": 6, "mlp_hidden_size": 768, "mlp_ratio": 2, "embedding_size": 126464, "vocab_size": 126464,
    "max_sequence_length": 1024, "block_type": "llama", "layer_norm_type": "rms", "rope": True, "include_bias": False,
    "weight_tying": False, "activation_type": "silu", "precision": "amp_bf16", "alibi_bias_max": 8.0,
}  # fmt: skip
DREAM = {
    "model_type": "Dream", "architectures": ["DreamModel"], "hidden_size": 3584, "intermediate_size": 18944,
    "num_attention_heads": 28, "num_hidden_layers": 28, "num_key_value_heads": 4, "vocab_size": 152064,
    "max_position_embeddings": 131072, "mask_token_id": 151666, "tie_word_embeddings": False, "use_mrope": False,
}  # fmt: skip
MOBILE_LLM = {
    "model_type": "mobilellm", "architectures": ["MobileLLMForCausalLM"], "hidden_size": 576, "head_dim": 64,
    "intermediate_size": 1536, "num_attention_heads": 9, "num_hidden_layers": 30, "num_key_value_heads": 3,
    "vocab_size": 32000, "max_position_embeddings": 2048, "layer_sharing": False, "share_embedding": True,
    "tie_word_embeddings": False, "attention_bias": False, "mlp_bias": False,
}  # fmt: skip
#: the text model of DeepSeek-VL2-tiny: DeepSeek-V2's type without latents
WITHOUT_LATENTS = {
    "model_type": "deepseek_v2", "architectures": ["DeepseekV2ForCausalLM"], "use_mla": False, "kv_lora_rank": None,
    "q_lora_rank": None, "qk_nope_head_dim": 0, "qk_rope_head_dim": 0, "v_head_dim": 0, "hidden_size": 1280,
    "intermediate_size": 6848, "moe_intermediate_size": 896, "n_routed_experts": 64, "n_shared_experts": 2,
    "num_experts_per_tok": 6, "num_attention_heads": 10, "num_key_value_heads": 10, "num_hidden_layers": 12,
    "first_k_dense_replace": 1, "vocab_size": 129280, "max_position_embeddings": 4096, "topk_method": "greedy",
}  # fmt: skip


@pytest.mark.parametrize(
    ("config", "total"),
    [
        # half of the bytes that the index of its bf16 checkpoint gives, 14,400,036,864: one table; 30 times 4·d² and
        # 3·d·d_ff, two biases and two norms; a norm
        (TELECHAT_7B, 160256 * 4096 + 30 * (4 * 4096**2 + 3 * 4096 * 12288 + 4 * 4096) + 4096),
        # likewise 24,772,864,000, of two tables
        (TELECHAT_12B_V2, 2 * 120000 * 5120 + 38 * (4 * 5120**2 + 3 * 5120 * 12288 + 4 * 5120) + 5120),
        # Qwen-7B's, which has the same sizes under the newer names
        (QWEN_7B_OLDER, 7_721_324_544),
        # one table; 40 times 4·d² and 3·d·n_inner with their biases and two norms; a norm
        # of flash-linear-attention: 340M as it is trained with flame, whose MLP has 2/3 of 4·d rounded up to 256, and
        # grouped with biases and norms of queries and keys
        (
            {
                "model_type": "transformer",
                "attention_bias": False,
                "fuse_cross_entropy": True,
                "fuse_norm": True,
                "hidden_act": "swish",
                "hidden_size": 1024,
                "max_position_embeddings": 8192,
                "num_heads": 16,
                "num_hidden_layers": 24,
                "norm_eps": 1e-6,
                "tie_word_embeddings": False,
                "vocab_size": 32000,
            },
            2 * 32000 * 1024 + 24 * (4 * 1024**2 + 3 * 1024 * 2816 + 2 * 1024) + 1024,
        ),
        (
            {
                "model_type": "transformer",
                "hidden_size": 512,
                "num_heads": 8,
                "num_kv_heads": 2,
                "qkv_bias": True,
                "qk_norm": True,
                "window_size": 256,
                "intermediate_size": 1000,
                "num_hidden_layers": 3,
                "vocab_size": 99,
            },
            2 * 99 * 512 + 3 * (2 * 512**2 + 2 * 512 * 128 + 512 + 2 * 128 + 2 * 64 + 3 * 512 * 1000 + 2 * 512) + 512,
        ),
        (
            BTLM_3B,
            50257 * 2560 + 32 * (4 * 2560**2 + 4 * 2560 + 3 * 2560 * 6826 + 2 * 6826 + 2560 + 4 * 2560) + 2 * 2560,
        ),
        (
            JAIS_13B,
            84992 * 5120 + 40 * (4 * 5120**2 + 4 * 5120 + 3 * 5120 * 13653 + 2 * 13653 + 5120 + 4 * 5120) + 10240,
        ),
        # no output matrix, one row of a head instead
        (INTERNLM2_REWARD, 92544 * 2048 + 24 * (3 * 2048**2 + 3 * 2048 * 8192 + 2 * 2048) + 2048 + 2048),
        # Qwen2.5-72B's 72,706,203,648 and 7B's 7,615,616,512 less 152064·d, plus d² + d and one or two rows with biases
        (MATH_RM_72B, 72_706_203_648 - 152064 * 8192 + 8192**2 + 8192 + 8192 + 1),
        (MATH_PRM_7B, 7_615_616_512 - 152064 * 3584 + 3584**2 + 3584 + 2 * (3584 + 1)),
        # 100352·d, tied; 32 times (32 + 2·8)·128·d and d², 3·d·14336, their biases and two norms; a norm
        (
            PHI_3_SMALL,
            100352 * 4096
            + 32 * (4096 * 6144 + 6144 + 4096**2 + 4096 + 3 * 4096 * 14336 + 2 * 14336 + 4096 + 4 * 4096)
            + 2 * 4096,
        ),
        # two tables; 88 times queries and output, keys and values of 8 heads of 96, 64 + 1 experts, a router, two norms
        (
            LING_PLUS,
            2 * 126464 * 5376
            + 88 * (2 * 5376**2 + 2 * 5376 * 8 * 96 + 65 * 3 * 5376 * 3072 + 64 * 5376 + 2 * 5376)
            + 5376,
        ),
        # as transformers' Phi-1.5, whose published count is 1,418,270,720
        (PHI_FIRST, 1_418_270_720),
        # a quarter of the bytes that its index gives, 5,246,377,988 of float32: one row and its bias
        (OASST_RM, 5_246_377_988 // 4),
        # two tables, a bias for words; 34 times 12·d², biases of the MLP and a norm; a norm
        (MOSS_16B, 2 * 107008 * 6144 + 107008 + 34 * (12 * 6144**2 + 5 * 6144 + 2 * 6144) + 2 * 6144),
        (MINICPM_V_2, 2 * 122753 * 2304 + 40 * (4 * 2304**2 + 3 * 2304 * 5760 + 2 * 2304) + 2304),
        (MINERU, 494_032_768 - (151936 - 151654) * 896),
        # 124,327,616 by its class, as a report of a training has it
        (LLADA, 124_327_616),
        # Qwen2.5-7B's count
        (DREAM, 7_615_616_512),
        # 124.6M in arXiv:2402.14905, of one table
        (MOBILE_LLM, 32000 * 576 + 30 * (2 * 576**2 + 2 * 576 * 192 + 3 * 576 * 1536 + 2 * 576) + 576),
        # published as 104M, 145M and 198M: a table; queries and output, keys and values, MLPs, two norms; a norm
        (MINIMIND, 6400 * 768 + 16 * (2 * 768**2 + 2 * 768 * 192 + 3 * 768 * 2048 + 2 * 768) + 768),
        # 640 · 8/3 rounded up to 64 is 1728, of four experts and a shared one
        (
            MINIMIND_MOE,
            6400 * 640 + 8 * (2 * 640**2 + 2 * 640 * 160 + 5 * 3 * 640 * 1728 + 4 * 640 + 2 * 640) + 640,
        ),
        # 768 · π rounded up is 2432; norms of queries and keys
        (
            MINIMIND_3_MOE,
            6400 * 768 + 8 * (2 * 768**2 + 2 * 768 * 384 + 4 * 3 * 768 * 2432 + 4 * 768 + 2 * 768 + 2 * 96) + 768,
        ),
        # two tables; 12 times 4·d² and two norms; a dense layer; 11 times a router and 64 + 2 experts; a norm.
        # d·v + d, and for each layer 2d + 2·64 + 64·d·(2·heads + 2·KV heads) + 3·d·(multiplier · d, in steps of 256)
        (OPENELM_1_1B, 1_079_891_456),
        (DECI, 2 * 32000 * 4096 + 4 * (2 * 4096**2 + 3 * 4096 * 14336 + 2 * 4096) + 11 * 2 * 4096 * 128 + 4096),
        # transformers 5.24 measures as much, 2,934,734,080, on UnlimitedOcrTextModel of the same sizes with its output
        (
            WITHOUT_LATENTS,
            2 * 129280 * 1280
            + 12 * (4 * 1280**2 + 2 * 1280)
            + 3 * 1280 * 6848
            + 11 * (64 * 1280 + (64 + 2) * 3 * 1280 * 896)
            + 1280,
        ),
        (
            {
                "model_type": "yuan",
                "hidden_size": 64,
                "num_hidden_layers": 2,
                "num_attention_heads": 4,
                "intermediate_size": 96,
                "vocab_size": 1000,
                "max_position_embeddings": 128,
                "tie_word_embeddings": True,
            },
            1000 * 64 + 2 * (4 * 64**2 + 2 * 64**2 + 64 * 5 // 2 + 3 * 64 * 96 + 2 * 64) + 64,
        ),
        (
            {
                "model_type": "yuan",
                "hidden_size": 64,
                "num_hidden_layers": 2,
                "num_attention_heads": 4,
                "attention_projection_size": 128,
                "moe_config": {
                    "moe_num_experts": 4,
                    "moe_top_k": 2,
                    "ffn_hidden_size": 80,
                    "norm_topk_prob": True,
                    "gated_linear_unit": True,
                },
                "intermediate_size": 96,
                "vocab_size": 1000,
                "max_position_embeddings": 128,
                "tie_word_embeddings": False,
            },
            2 * 1000 * 64 + 64 + 2 * (4 * 64 * 128 + 2 * 64**2 + 64 * 5 // 2 + 4 * 3 * 64 * 80 + 3 * 64 * 4 + 2 * 64),
        ),
    ],
    ids=lambda value: value["model_type"] if isinstance(value, dict) else "",
)
def test_totals(config: dict[str, Any], total: int) -> None:
    assert params(build(read(config).document)).total == total


LLAMA = {
    "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 96,
    "vocab_size": 1000, "max_position_embeddings": 128,
}  # fmt: skip
SMALL_LLAMA = 2 * 1000 * 64 + 2 * (4 * 64**2 + 3 * 64 * 96 + 2 * 64) + 64


@pytest.mark.parametrize(
    "config",
    [
        {**LLAMA, "model_type": "llava_llama", "architectures": ["LlavaLlamaForCausalLM"], "mm_hidden_size": 1024,
         "mm_projector_type": "mlp2x_gelu", "mm_vision_tower": "openai/clip-vit-large-patch14-336"},
        {"model_type": "llava_llama", "architectures": ["LlavaLlamaModel"], "hidden_size": 64,
         "llm_cfg": {**LLAMA, "architectures": ["LlamaForCausalLM"]}, "vision_tower_cfg": {"hidden_size": 1024}},
    ],
    ids=["flat", "inside"],
)  # fmt: skip
def test_llamas_that_see_images(config: dict[str, Any]) -> None:
    """LLaVA's own files, and VILA's."""
    assert params(build(read(config).document)).total == SMALL_LLAMA


def test_a_name_of_another_family_may_say_what_the_class_assumes() -> None:
    """Step-3.7-Flash's 288 experts under another name, in a file for a class that isn't known."""
    config = {"model_type": "step3p7", "architectures": ["Step3p7FlashForCausalLM"], "num_experts": 288}
    assert any("counted as" in note for note in read(config).notes)
    with pytest.raises(InputError, match="may read num_experts = 12"):
        read({**config, "num_experts": 12})


def test_gated_slots_with_a_bare_norm() -> None:
    """flash-linear-attention's class has no weight in the norm of what heads read then; convolutions that aren't there
    share nothing."""
    config = {
        "model_type": "gsa",
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_heads": 4,
        "vocab_size": 1000,
        "share_conv_kernel": True,
    }
    with_weight = params(build(read(config).document)).total
    assert params(build(read({**config, "elementwise_affine": False}).document)).total == with_weight - 2 * 64
    with pytest.raises(InputError, match="one convolution for all"):
        read({**config, "use_short_conv": True})


def test_routers_of_images_and_sounds_are_left_out() -> None:
    """Ming-omni's text model is Ling's, whose experts three routers share."""
    text = {**LING_PLUS, "multi_gate": True, "image_patch_token": 126346}
    found = read({"model_type": "bailingmm", "llm_config": text, "vision_config": {"depth": 32}, "mlp_depth": 2})
    assert params(found.architecture).total == params(read(LING_PLUS).architecture).total
    assert any("routers of images and of sounds are left out" in note for note in found.notes)


def test_a_text_passes_no_experts_of_images() -> None:
    """ERNIE 4.5 VL costs a text what ERNIE 4.5 of its sizes costs it; what images alone pass is stored beside."""
    images = read({"model_type": "ernie4_5_vl_moe"}).architecture
    text = read({"model_type": "ernie4_5_moe"}).architecture  # whose class assumes the same sizes
    beside = 27 * (64 * 3 * 2560 * 512 + 64 * 2560 + 64)  # experts, their router, its biases
    assert params(images).total - params(text).total == beside
    assert params(images).active == params(text).active
    assert params(images).groups[2].active == params(text).groups[2].active
    for phase in ("prefill", "decode", "train"):
        assert flops(images, context=100, phase=phase).total == flops(text, context=100, phase=phase).total
    run = TrainingRun(context=100)
    assert trained(images, run).per_device.activations == trained(text, run).per_device.activations


@pytest.mark.parametrize(
    ("config", "concept"),
    [
        ({"model_type": "moshi"}, "a depth decoder"),
        ({"model_type": "ultravox", "text_model_id": "meta-llama/Llama-3.1-8B-Instruct"}, "another repository's"),
        ({"model_type": "minimind", "hidden_size": 512}, "three classes call themselves so"),
    ],
)  # fmt: skip
def test_what_is_missing_is_named(config: dict[str, Any], concept: str) -> None:
    with pytest.raises(InputError, match=concept) as caught:
        read(config)
    assert caught.value.kind == "unsupported"
