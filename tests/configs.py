"""Facts of public models in the words of their config.json files; what their classes assume is left out."""

from __future__ import annotations

from typing import Any

from gptcalc.architecture import Architecture
from gptcalc.document import build
from gptcalc.sources.huggingface import read

Config = dict[str, Any]


def model(config: Config, **changes: Any) -> Architecture:
    """The architecture that a config.json describes, with other values for some fields."""
    return build(read({**config, **changes}).document)


def llama_like(model_type: str, d: int, layers: int, heads: int, kv: int, ff: int, v: int, **more: Any) -> Config:
    """The fields that most families share."""
    return {
        "model_type": model_type,
        "hidden_size": d,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv,
        "intermediate_size": ff,
        "vocab_size": v,
        "max_position_embeddings": 131072,
        "tie_word_embeddings": False,
        **more,
    }


LLAMA_2_7B = llama_like("llama", 4096, 32, 32, 32, 11008, 32000)
LLAMA_3_8B = llama_like("llama", 4096, 32, 32, 8, 14336, 128256)
LLAMA_3_2_1B = llama_like("llama", 2048, 16, 32, 8, 8192, 128256, tie_word_embeddings=True)
QWEN_3_4B = llama_like("qwen3", 2560, 36, 32, 8, 9728, 151936, head_dim=128, tie_word_embeddings=True)
MISTRAL_NEMO = llama_like("mistral", 5120, 40, 32, 8, 14336, 131072, head_dim=128, sliding_window=None)
MIXTRAL_8X7B = llama_like(
    "mixtral", 4096, 32, 32, 8, 14336, 32000, num_local_experts=8, num_experts_per_tok=2, sliding_window=None
)
QWEN_3_30B_A3B = llama_like(
    "qwen3_moe", 2048, 48, 32, 4, 6144, 151936,
    head_dim=128, num_experts=128, num_experts_per_tok=8, moe_intermediate_size=768,
    decoder_sparse_step=1, mlp_only_layers=[], norm_topk_prob=True, use_sliding_window=False,
)  # fmt: skip
GPT_OSS_20B = llama_like(
    "gpt_oss", 2880, 24, 64, 8, 2880, 201088,
    head_dim=64, num_local_experts=32, num_experts_per_tok=4, attention_bias=True, sliding_window=128, swiglu_limit=7.0,
    layer_types=["sliding_attention", "full_attention"] * 12,
)  # fmt: skip
GPT_OSS_120B = {
    **GPT_OSS_20B,
    "num_hidden_layers": 36,
    "num_local_experts": 128,
    "layer_types": ["sliding_attention", "full_attention"] * 18,
}
DEEPSEEK_V2_LITE = llama_like(
    "deepseek_v2", 2048, 27, 16, 16, 10944, 102400,
    q_lora_rank=None, kv_lora_rank=512, qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128,
    n_routed_experts=64, n_shared_experts=2, num_experts_per_tok=6, moe_intermediate_size=1408,
    first_k_dense_replace=1, moe_layer_freq=1, topk_method="greedy", scoring_func="softmax", norm_topk_prob=False,
)  # fmt: skip
DEEPSEEK_V3 = llama_like(
    "deepseek_v3", 7168, 61, 128, 128, 18432, 129280,
    q_lora_rank=1536, kv_lora_rank=512, qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128,
    n_routed_experts=256, n_shared_experts=1, num_experts_per_tok=8, moe_intermediate_size=2048,
    first_k_dense_replace=3, n_group=8, topk_group=4, topk_method="noaux_tc", scoring_func="sigmoid",
    num_nextn_predict_layers=1,
)  # fmt: skip
GLM_5 = llama_like(
    "glm_moe_dsa", 6144, 78, 64, 64, 12288, 154880,
    head_dim=64, qk_head_dim=256, q_lora_rank=2048, kv_lora_rank=512,
    qk_nope_head_dim=192, qk_rope_head_dim=64, v_head_dim=256,
    index_n_heads=32, index_head_dim=128, index_topk=2048,
    n_routed_experts=256, n_shared_experts=1, num_experts_per_tok=8, moe_intermediate_size=2048,
    first_k_dense_replace=3, moe_layer_freq=1, n_group=1, topk_group=1, num_nextn_predict_layers=1,
)  # fmt: skip


def llama_4(experts: int, step: int, qk_norm: bool) -> Config:
    """The whole of a multimodal config; neither part says whether embeddings are tied."""
    text = llama_like(
        "llama4_text", 5120, 48, 40, 8, 8192, 202048,
        head_dim=128, intermediate_size_mlp=16384, interleave_moe_layer_step=step, num_local_experts=experts,
        num_experts_per_tok=1, attention_chunk_size=8192, use_qk_norm=qk_norm,
    )  # fmt: skip
    del text["tie_word_embeddings"]
    return {"model_type": "llama4", "text_config": text, "vision_config": {"hidden_size": 1408}}
