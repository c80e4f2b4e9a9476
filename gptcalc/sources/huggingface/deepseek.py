"""DeepSeek: latent attention, a few dense layers first, then experts with shared ones beside them."""

from __future__ import annotations

from typing import Any

from gptcalc.sources.huggingface.llama import LLAMA, PREFIX
from gptcalc.sources.huggingface.mixtures import EXPERT_NAMES, groups, shared_experts
from gptcalc.sources.huggingface.pattern import Units, every, first, stack
from gptcalc.sources.huggingface.reader import flag, number, optional, rmsnorm, size, when
from gptcalc.sources.huggingface.rope import rope
from gptcalc.sources.huggingface.tensors import Names, bare, fused, in_layers

LATENT_NAMES: Names = in_layers(
    PREFIX,
    {
        "attn.q": "self_attn.q_proj",
        "attn.q_a": "self_attn.q_a_proj",
        "attn.q_a_norm": "self_attn.q_a_layernorm",
        "attn.q_b": "self_attn.q_b_proj",
        **fused("self_attn.kv_a_proj_with_mqa", (("attn.kv_a", "kv_rank"), ("attn.k_rope", "d_rope"))),
        "attn.kv_a_norm": "self_attn.kv_a_layernorm",
        **fused("self_attn.kv_b_proj", (("attn.k_b", "d_nope"), ("attn.v_b", "d_v")), groups="n_heads"),
    },
)

SHARED_NAMES = in_layers(
    PREFIX,
    {**shared_experts("mlp.shared_experts"), "moe.selection_bias": bare("mlp.gate.e_score_correction_bias")},
)

#: a multi-token-prediction module is stored as one more layer
MTP_NAMES = in_layers(
    PREFIX,
    {
        "embedding_norm": "enorm",
        "hidden_norm": "hnorm",
        "projection": "eh_proj",
        "norm": "shared_head.norm",
    },
)


LATENT: dict[str, Any] = {
    "q_rank": optional("q_lora_rank"),
    "kv_rank": size("kv_lora_rank"),
    "d_nope": size("qk_nope_head_dim"),
    "d_rope": size("qk_rope_head_dim"),
    "d_v": size("v_head_dim"),
    "bias": when("attention_bias", when(optional("q_lora_rank"), ["q_a", "kv_a", "out"], ["kv_a", "out"])),
    "latent_norm": rmsnorm(1e-6),
}

EXPERTS: dict[str, Any] = {
    "n_experts": size("n_routed_experts", "num_local_experts", "num_experts"),
    "top_k": size("num_experts_per_tok"),
    "d_ff": size("moe_intermediate_size"),
    "n_shared": optional("n_shared_experts", least=0),
    "normalize": flag("norm_topk_prob"),
    "route_scale": number("routed_scaling_factor"),
}

#: dense layers first, then experts in every moe_layer_freq-th
SPARSE: Units = first("first_k_dense_replace", "mlp", every("moe_layer_freq", "moe", "mlp", offset=0))

DEEPSEEK_V2 = LLAMA.but(
    defaults={"moe_layer_freq": 1},
    document={
        "layers": stack("mla", SPARSE),
        "n_kv_heads": None,
        "d_head": None,
        "rope": rope(fraction=None, pairing="adjacent"),
        "bias": None,
        "mla": LATENT,
        "moe": {
            **EXPERTS,
            "groups": groups(score="max", method="group_limited_greedy"),
        },
    },
    only={"scoring_func": "softmax", "topk_method": ("greedy", "group_limited_greedy")},
    irrelevant=("num_key_value_heads", "head_dim", "qk_head_dim"),
    names={**EXPERT_NAMES, **LATENT_NAMES, **SHARED_NAMES},
)


DEEPSEEK_V3 = DEEPSEEK_V2.but(
    document={
        "rope": rope(fraction=None, pairing=when("rope_interleave", "adjacent", "half")),
        "moe": {**EXPERTS, "router": "sigmoid", "selection_bias": True, "groups": groups()},
        "mtp": optional("num_nextn_predict_layers", "num_mtp_layers", least=0),
    },
    only={"scoring_func": "sigmoid", "topk_method": "noaux_tc"},
    names=MTP_NAMES,
)

READERS = {"deepseek_v2": DEEPSEEK_V2, "deepseek_v3": DEEPSEEK_V3}
