"""Ordinary attention before experts that are chosen as DeepSeek chooses them: sigmoid scores, a selection bias, shared
experts beside."""

from __future__ import annotations

from gptcalc.sources.huggingface.deepseek import (
    DENSE_OR_SPARSE,
    EXPERTS,
    MTP_NAMES,
    SHARED_NAMES,
    SIGMOID,
    SPARSE,
)
from gptcalc.sources.huggingface.llama import LLAMA, PREFIX, TYPES
from gptcalc.sources.huggingface.mixtures import EXPERT_NAMES, groups
from gptcalc.sources.huggingface.pattern import (
    SLIDING,
    Units,
    every,
    first,
    flagged,
    listed,
    stack,
)
from gptcalc.sources.huggingface.qwen import upper_layers
from gptcalc.sources.huggingface.reader import (
    Fields,
    Hole,
    flag,
    number,
    optional,
    sites,
    size,
    when,
)
from gptcalc.sources.huggingface.rope import rope
from gptcalc.sources.huggingface.tensors import QKV, Names, bare, fused, in_layers
from gptcalc.sources.huggingface.vendors import exaone_windows, windows

NAMES: Names = {**EXPERT_NAMES, **SHARED_NAMES}

#: DeepSeek's first mixture: softmax scores, no bias
DEEPSEEK_MOE = LLAMA.but(
    document={"layers": stack("attn", SPARSE), "moe": EXPERTS},
    defaults={
        "moe_layer_freq": 1,
        "first_k_dense_replace": 0,
        "routed_scaling_factor": 1.0,
    },
    only={"scoring_func": "softmax"},
    irrelevant=("first_k_dense_replace", "moe_layer_freq"),
    names=NAMES,
)

ROUTED = DEEPSEEK_MOE.but(
    document={
        "moe": SIGMOID,
        "mtp": optional("num_nextn_predict_layers", "num_mtp_layers", least=0),
    },
    only={"scoring_func": "sigmoid", "topk_method": "noaux_tc"},
    names=MTP_NAMES,
)

GLM4_MOE = ROUTED.but(
    document={
        "bias": sites(qkv="attention_bias"),
        "attn": {"qk_norm": when("use_qk_norm", "head")},
    },
    defaults={"partial_rotary_factor": 0.5},
)

SOLAR_OPEN = ROUTED.but(
    document={
        "layers": "n*attn+moe",
        "d_ff": None,
        "bias": sites(qkv="attention_bias"),
    },
    irrelevant=("intermediate_size",),
)

DOTS1 = ROUTED.but(
    document={
        "layers": stack(listed("layer_types", TYPES, upper_layers), SPARSE),
        "bias": sites(attn="attention_bias"),
        "attn": {"qk_norm": "head"},
        "local": {"like": "attn", "window": size("sliding_window")},
    },
    irrelevant=("use_sliding_window", "max_window_layers"),
)

SARVAM_MOE = ROUTED.but(
    document={
        "bias": sites(qkv=flag("attention_bias", "use_qkv_bias")),
        "attn": {"qk_norm": when("use_qk_norm", "head")},
    },
)

BAILING_NAMES: Names = {
    "embedding.token": ("model.word_embeddings", "model.embed_tokens"),
    **in_layers(
        PREFIX,
        {
            **fused("attention.query_key_value", QKV),
            "attn.out": "attention.dense",
            "attn.q_norm": "attention.query_layernorm",
            "attn.k_norm": "attention.key_layernorm",
            "moe.selection_bias": bare("mlp.gate.expert_bias"),
        },
    ),
}

BAILING_MOE = DEEPSEEK_MOE.but(
    document={
        "bias": sites(qkv="use_qkv_bias", out="use_bias"),
        "moe": {
            **EXPERTS,
            "n_experts": size("num_experts"),
            "n_shared": optional("num_shared_experts", least=0),
        },
    },
    defaults={"hidden_act": "silu", "rms_norm_eps": 1e-6, "norm_topk_prob": True},
    only={"rope_scaling": None, "multi_gate": False},
    irrelevant=(
        "norm_head",
        "norm_softmax",
        "max_window_layers",
        "use_sliding_window",
        "sliding_window",
    ),
    names=BAILING_NAMES,
)

BAILING_MOE_V2 = BAILING_MOE.but(
    document={
        "moe": {
            **SIGMOID,
            "n_experts": size("num_experts"),
            "n_shared": optional("num_shared_experts", least=0),
        },
        "attn": {"qk_norm": when("use_qk_norm", "head")},
        "mtp": optional("num_nextn_predict_layers", least=0),
    },
    defaults={
        "use_qk_norm": True,
        "routed_scaling_factor": 2.5,
        "first_k_dense_replace": 1,
    },
    only={
        "score_function": "sigmoid",
        "scoring_func": "sigmoid",
        "moe_router_enable_expert_bias": True,
    },
    irrelevant=("rotary_dim", "moe_shared_expert_intermediate_size"),
    names=MTP_NAMES,
)

HY_V3 = ROUTED.but(
    document={
        "layers": stack("attn", SPARSE),
        "attn": {"qk_norm": "head"},
        "moe": {
            **EXPERTS,
            "n_experts": size("num_experts", "num_local_experts"),
            "n_shared": optional("num_shared_experts", least=0),
            "normalize": None,
            "route_scale": number("router_scaling_factor"),
            "router": "sigmoid",
            "selection_bias": True,
        },
    },
    defaults={"first_k_dense_replace": 1},
    only={
        "qk_norm": True,
        "route_norm": True,
        "moe_router_use_sigmoid": True,
        "moe_router_enable_expert_bias": True,
    },
    irrelevant=(
        "enable_moe_fp32_combine",
        "enable_attention_fp32_softmax",
        "enable_lm_head_fp32",
    ),
    names=in_layers(
        PREFIX,
        {
            "moe.selection_bias": (
                bare("mlp.e_score_correction_bias"),
                bare("mlp.expert_bias"),
            )
        },
    ),
)

EXAONE_MOE = ROUTED.but(
    document={
        "layers": stack(listed("layer_types", TYPES, exaone_windows), SPARSE),
        "attn": {"qk_norm": "head", "position": Hole(windows)},
        "local": {"like": "attn", "position": "rope", "window": size("sliding_window")},
        "moe": {**SIGMOID, "n_shared": optional("num_shared_experts", least=0)},
    },
    irrelevant=("sliding_window_pattern",),
)

AFMOE = LLAMA.but(
    document={
        "layers": stack(
            listed(
                "layer_types",
                TYPES,
                every("global_attn_every_n_layers", "attn", "local"),
            ),
            first("num_dense_layers", "mlp", "moe"),
        ),
        "norm_at": "sandwich",
        "embedding": when("mup_enabled", {"scale": "sqrt(d)"}),
        "attn": {"qk_norm": "head", "gate": "full", "position": "none"},
        "local": {"like": "attn", "position": "rope", "window": size("sliding_window")},
        "moe": {
            "n_experts": size("num_experts"),
            "top_k": size("num_experts_per_tok"),
            "d_ff": size("moe_intermediate_size"),
            "n_shared": optional("num_shared_experts", least=0),
            "route_scale": number("route_scale"),
            "router": "sigmoid",
            "selection_bias": True,
            "groups": groups(),
        },
    },
    only={"score_func": "sigmoid", "route_norm": True},
    irrelevant=("global_attn_every_n_layers", "use_grouped_mm"),
    names={
        **NAMES,
        **in_layers(
            PREFIX,
            {
                "attn.gate": "self_attn.gate_proj",
                "attn.post_norm": "post_attention_layernorm",
                "mlp.norm": "pre_mlp_layernorm",
                "mlp.post_norm": "post_mlp_layernorm",
                "moe.norm": "pre_mlp_layernorm",
                "moe.post_norm": "post_mlp_layernorm",
                "moe.router": "mlp.router.gate",
                "moe.selection_bias": bare("mlp.expert_bias"),
            },
        ),
    },
)

# --- other heads in the layers with a window --------------------------------------------------------------------------


def window_beyond_itself(fields: Fields) -> int | None:
    """sliding_window_size counts the keys before a token, sliding_window the token too."""
    given = fields.size("sliding_window_size")
    own = fields.size("sliding_window")
    return given + 1 if given is not None else own


def twice_the_kv_heads(fields: Fields) -> int:
    given = fields.size("swa_num_key_value_heads")
    return given if given is not None else 2 * fields.needed("num_key_value_heads")


FIRST_AND_EVERY_SIXTH: Units = first(1, "attn", every(6, "attn", "local"))

#: the class reads rope_parameters alone; published configs repeat its defaults in flat fields
MIMO_V2 = LLAMA.but(
    document={
        "d_v": optional("v_head_dim"),
        "layers": stack(
            listed(
                "layer_types",
                TYPES,
                flagged("hybrid_layer_pattern", "local", "attn", FIRST_AND_EVERY_SIXTH),
            ),
            listed(
                "mlp_layer_types",
                DENSE_OR_SPARSE,
                flagged("moe_layer_freq", "moe", "mlp", first(1, "mlp", "moe")),
            ),
        ),
        "norm": {"kind": "rmsnorm", "eps": number("layernorm_epsilon", "rms_norm_eps")},
        "bias": sites(qkv="attention_bias"),
        "rope": rope(5000000, fraction=0.334),
        "attn": {
            "value_scale": number("attention_value_scale"),
            "sinks": flag("add_full_attention_sink_bias"),
        },
        "local": {
            "like": "attn",
            "n_kv_heads": Hole(twice_the_kv_heads),
            "n_heads": optional("swa_num_attention_heads"),
            "d_head": optional("swa_head_dim"),
            "d_v": optional("swa_v_head_dim"),
            "window": Hole(window_beyond_itself),
            "sinks": flag("add_swa_attention_sink_bias"),
            "rope": rope(10000, layer_type=SLIDING, fraction=0.334, scaled=False),
        },
        "moe": {**SIGMOID, "n_shared": None},
    },
    defaults={"add_swa_attention_sink_bias": True},
    only={"scoring_func": "sigmoid", "topk_method": "noaux_tc"},
    irrelevant=(
        "attention_chunk_size",
        "hybrid_block_size",
        "hybrid_layer_pattern",
        "moe_layer_freq",
        "rope_theta",
        "swa_rope_theta",
        "partial_rotary_factor",
    ),
    names={
        **NAMES,
        **in_layers(
            PREFIX,
            {
                "attn.sinks": (
                    bare("self_attn.attention_sink_bias"),
                    bare("self_attn.sinks"),
                )
            },
        ),
    },
)


READERS = {
    "deepseek": DEEPSEEK_MOE,
    "glm4_moe": GLM4_MOE,
    "solar_open": SOLAR_OPEN,
    "dots1": DOTS1,
    "sarvam_moe": SARVAM_MOE,
    "bailing_moe": BAILING_MOE,
    "bailing_moe_v2": BAILING_MOE_V2,
    "hy_v3": HY_V3,
    "exaone_moe": EXAONE_MOE,
    "afmoe": AFMOE,
    "mimo_v2_flash": MIMO_V2,
}
