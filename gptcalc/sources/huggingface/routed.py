"""Ordinary attention before experts that are chosen as DeepSeek chooses them: sigmoid scores, a selection bias, shared
experts beside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gptcalc.errors import InputError
from gptcalc.sources.huggingface.deepseek import (
    DENSE_OR_SPARSE,
    EXPERTS,
    MTP_NAMES,
    SHARED_NAMES,
    SIGMOID,
    SPARSE,
    modules,
)
from gptcalc.sources.huggingface.gemma import query_scale
from gptcalc.sources.huggingface.llama import LLAMA, PREFIX, TYPES
from gptcalc.sources.huggingface.mixtures import EXPERT_NAMES, groups, shared_experts
from gptcalc.sources.huggingface.pattern import FULL, SLIDING, Units, enumerated, every, first, flagged, listed, stack
from gptcalc.sources.huggingface.qwen import QWEN3_MOE, upper_layers
from gptcalc.sources.huggingface.reader import Fields, Hole, choice, flag, number, optional, rmsnorm, sites, size, when
from gptcalc.sources.huggingface.rope import rope
from gptcalc.sources.huggingface.tensors import EXPERTS_GATE_UP, QKV, Held, Names, bare, fused, in_layers
from gptcalc.sources.huggingface.vendors import GRANITE, exaone_windows, windows

NAMES: Names = {**EXPERT_NAMES, **SHARED_NAMES}

#: DeepSeek's first mixture: softmax scores, no bias
DEEPSEEK_MOE = LLAMA.but(
    document={"layers": stack("attn", SPARSE), "moe": EXPERTS},
    defaults={"moe_layer_freq": 1, "first_k_dense_replace": 0, "routed_scaling_factor": 1.0, "hidden_act": "silu"},
    only={"scoring_func": "softmax"},
    irrelevant=("first_k_dense_replace", "moe_layer_freq"),
    names=NAMES,
)

ROUTED = DEEPSEEK_MOE.but(
    document={"moe": SIGMOID, "mtp": optional("num_nextn_predict_layers", "num_mtp_layers", least=0)},
    only={"scoring_func": "sigmoid", "topk_method": "noaux_tc"},
    names=MTP_NAMES,
)

GLM4_MOE = ROUTED.but(
    document={"bias": sites(qkv="attention_bias"), "attn": {"qk_norm": when("use_qk_norm", "head")}},
    defaults={"partial_rotary_factor": 0.5},
)

SOLAR_OPEN = ROUTED.but(
    document={"layers": "n*attn+moe", "d_ff": None, "bias": sites(qkv="attention_bias")},
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
    }
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
        "moe": {**EXPERTS, "n_experts": size("num_experts"), "n_shared": optional("num_shared_experts", least=0)},
    },
    defaults={"hidden_act": "silu", "rms_norm_eps": 1e-6, "norm_topk_prob": True},
    only={"rope_scaling": None, "multi_gate": False},
    irrelevant=("norm_head", "norm_softmax", "max_window_layers", "use_sliding_window", "sliding_window"),
    names=BAILING_NAMES,
)

BAILING_MOE_V2 = BAILING_MOE.but(
    document={
        "moe": {**SIGMOID, "n_experts": size("num_experts"), "n_shared": optional("num_shared_experts", least=0)},
        "attn": {"qk_norm": when("use_qk_norm", "head")},
        "mtp": optional("num_nextn_predict_layers", least=0),
    },
    defaults={"use_qk_norm": True, "routed_scaling_factor": 2.5, "first_k_dense_replace": 1},
    only={"score_function": "sigmoid", "scoring_func": "sigmoid", "moe_router_enable_expert_bias": True},
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
    only={"qk_norm": True, "route_norm": True, "moe_router_use_sigmoid": True, "moe_router_enable_expert_bias": True},
    irrelevant=("enable_moe_fp32_combine", "enable_attention_fp32_softmax", "enable_lm_head_fp32"),
    names=in_layers(PREFIX, {"moe.selection_bias": (bare("mlp.e_score_correction_bias"), bare("mlp.expert_bias"))}),
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
            listed("layer_types", TYPES, every("global_attn_every_n_layers", "attn", "local")),
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
            listed("layer_types", TYPES, flagged("hybrid_layer_pattern", "local", "attn", FIRST_AND_EVERY_SIXTH)),
            listed("mlp_layer_types", DENSE_OR_SPARSE, flagged("moe_layer_freq", "moe", "mlp", first(1, "mlp", "moe"))),
        ),
        "norm": {"kind": "rmsnorm", "eps": number("layernorm_epsilon", "rms_norm_eps")},
        "bias": sites(qkv="attention_bias"),
        "rope": rope(5000000, fraction=0.334),
        "attn": {"value_scale": number("attention_value_scale"), "sinks": flag("add_full_attention_sink_bias")},
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
        **in_layers(PREFIX, {"attn.sinks": (bare("self_attn.attention_sink_bias"), bare("self_attn.sinks"))}),
    },
)


# --- Step: other query heads, rotations and clamps for each kind of layer ---------------------------------------------


def of_kind(name: str, layer_type: str) -> Hole:
    """A number, or a list with one for each layer, of which the layers of one kind must agree."""

    def read(fields: Fields) -> Any:
        value = fields.get(name)
        if not isinstance(value, list):
            return fields.number(name)
        kinds = fields.items("layer_types") or [FULL] * len(value)
        own = [x for x, kind in zip(value, kinds, strict=False) if kind == layer_type]
        if any(x != own[0] for x in own):
            raise fields.unsupported(name, f"{layer_type} layers that differ are not understood")
        return own[0] if own else None

    return Hole(read)


def sliding_heads(fields: Fields) -> int | None:
    """Query heads of the layers with a window."""
    other = fields.mapping("attention_other_setting") or {}
    inner = Fields(other, {}, fields.model_type, f"{fields.within}attention_other_setting.")
    for key in ("attention_type", "num_attention_groups", "head_dim", "true_head_dim"):
        inner.get(key)
    return fields.size("num_sliding_attention_heads") or inner.size("num_attention_heads")


def limits(name: str, fields: Fields, n: int) -> list[float]:
    """One clamp a layer, 0 where there is none."""
    values = [0.0 if value is None else value for value in (fields.items(name) or [0.0] * n)[:n]]
    if len(values) != n or any(isinstance(v, bool) or not isinstance(v, (int, float)) or v < 0 for v in values):
        raise InputError(f"{fields.within}{name}: expected {n} numbers from 0 on")
    return values


def clamped(units: Units) -> Units:
    """The layers whose experts have clamps stand apart; all of them must have the same."""

    def read(fields: Fields, n: int) -> Sequence[str]:
        kinds = [units] * n if isinstance(units, str) else units(fields, n)
        pairs = list(zip(*(limits(name, fields, n) for name in LIMITS), strict=True))
        some = {pair for pair in pairs if any(pair)}
        if len(some) > 1 or any(any(pair) and kind != "moe" for pair, kind in zip(pairs, kinds, strict=True)):
            raise fields.unsupported(LIMITS[0], "clamps of dense layers, or of several strengths, are not understood")
        return ["clamped" if any(pair) else kind for pair, kind in zip(pairs, kinds, strict=True)]

    return read


LIMITS = ("swiglu_limits", "swiglu_limits_shared")


def limit(name: str) -> Hole:
    """The clamp of the layers that have one."""
    return Hole(lambda fields: max((value or 0 for value in fields.items(name) or []), default=0) or None)


def module(fields: Fields) -> str | None:
    """The block of a multi-token-prediction module: the entries behind the model's own in the lists of layers."""
    n = fields.needed("num_hidden_layers")
    kinds = (fields.items("layer_types") or [])[n:] or fields.items("mtp_layer_types") or []
    inner = (fields.items("mlp_layer_types") or [])[n:] or fields.items("mtp_mlp_layer_types") or ["dense"]
    if not kinds:
        return None
    if len(set(kinds)) > 1 or len(set(inner)) > 1 or kinds[0] not in TYPES or inner[0] not in DENSE_OR_SPARSE:
        raise fields.unsupported("mtp_layer_types", "modules that differ are not understood")
    return f"{TYPES[kinds[0]]}+{DENSE_OR_SPARSE[inner[0]]}"


MOE_LAYERS: Units = enumerated("moe_layers_enum", "moe", "mlp", first("first_k_dense_replace", "mlp", "moe"))

STEP3P5 = LLAMA.but(
    document={
        "n_kv_heads": optional("num_key_value_heads", "num_attention_groups"),
        "layers": stack(
            listed("layer_types", TYPES, "attn", longer=True),
            clamped(listed("mlp_layer_types", DENSE_OR_SPARSE, MOE_LAYERS, longer=True)),
        ),
        "norm": rmsnorm(offset=1),
        "rope": rope(of_kind("rope_theta", FULL), fraction=of_kind("partial_rotary_factors", FULL)),
        "bias": sites(attn="attention_bias", mlp="mlp_bias"),
        "attn": {
            "qk_norm": "head",
            "gate": when("use_head_wise_attn_gate", "head"),
            "scale": Hole(query_scale),
        },
        "local": {
            "like": "attn",
            "window": size("sliding_window"),
            "n_heads": Hole(sliding_heads),
            "rope": rope(
                of_kind("rope_theta", SLIDING),
                layer_type=SLIDING,
                fraction=of_kind("partial_rotary_factors", SLIDING),
                scaled=False,
            ),
        },
        "moe": {
            "n_experts": size("n_routed_experts", "moe_num_experts", "num_experts"),
            "top_k": size("num_experts_per_tok", "moe_top_k"),
            "d_ff": size("moe_intermediate_size"),
            "n_shared": 1,
            "d_shared": size("share_expert_dim", "share_expert_dims"),
            "route_scale": number("moe_router_scaling_factor"),
            "router": "sigmoid",
            "selection_bias": True,
        },
        "clamped": {
            "like": "moe",
            "clamp": limit("swiglu_limits"),
            "shared_clamp": limit("swiglu_limits_shared"),
            "clamp_at": "output",
        },
        "mtp": {"n": Hole(modules), "block": Hole(module)},
        "mlp": "swiglu",
    },
    defaults={"first_k_dense_replace": 3, "use_head_wise_attn_gate": True},
    only={
        "moe_router_activation": "sigmoid",
        "scoring_func": "sigmoid",
        "use_moe_router_bias": True,
        "use_moe": True,
        "use_qk_norm": True,
        "use_mfa": False,
        "use_rope_layers": (),
        "n_shared_experts": 1,
        "num_shared_experts": 1,
        "moe_layer_offset": 0,
        "moe_every_n_layer": 1,
        "norm_expert_weight": True,
        "need_fp32_gate": (True, False),
        "zero_centered": True,
        "att_impl_type": "GQA",
        "yarn_only_types": (["full_attention"],),
    },
    irrelevant=("first_k_dense_replace", "moe_layers_enum", "num_local_experts", "mtp_layer_types", "sink",
                "mtp_mlp_layer_types", "max_seq_len", "layer_norm_type", "partial_rotary_factor", "max_seq_length"),
    names={
        **NAMES,
        **in_layers(
            PREFIX,
            {
                "attn.gate": "self_attn.g_proj",
                "moe.router": ("moe.gate", "mlp.gate"),
                "moe.selection_bias": (bare("moe.router_bias"), bare("mlp.gate.e_score_correction_bias")),
                "moe.gate": ("moe.gate_proj", bare("mlp.experts.gate_up_proj", parts=EXPERTS_GATE_UP)),
                "moe.up": ("moe.up_proj", bare("mlp.experts.gate_up_proj", parts=EXPERTS_GATE_UP)),
                "moe.down": ("moe.down_proj", bare("mlp.experts.down_proj")),
                "moe.shared.gate": ("share_expert.gate_proj", "mlp.shared_experts.gate_proj"),
                "moe.shared.up": ("share_expert.up_proj", "mlp.shared_experts.up_proj"),
                "moe.shared.down": ("share_expert.down_proj", "mlp.shared_experts.down_proj"),
            },
        ),
        **MTP_NAMES,
    },
)  # fmt: skip

STEP3 = LLAMA.but(
    document={
        "n_kv_heads": optional("num_attention_groups", "num_key_value_heads"),
        "layers": stack("attn", MOE_LAYERS),
        "attn": {"q_rank": size("share_q_dim")},
        "moe": {
            "n_experts": size("moe_num_experts"),
            "top_k": size("moe_top_k"),
            "d_ff": size("moe_intermediate_size"),
            "n_shared": 1,
            "d_shared": size("share_expert_dim"),
            "normalize": flag("norm_expert_weight"),
        },
    },
    defaults={
        "hidden_act": "silu",
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": False,
        "num_attention_groups": 1,
        "norm_expert_weight": False,
        "first_k_dense_replace": 4,
    },
    only={"use_im_start_end": True},
    irrelevant=("max_seq_len", "first_k_dense_replace", "mtp_layers"),
    names=in_layers(
        PREFIX,
        {
            "attn.q_a": "self_attn.q_proj",
            "attn.q_a_norm": "self_attn.inter_norm",
            "attn.q_b": "self_attn.wq",
            "moe.norm": "post_attention_layernorm",
            "moe.router": "moe.gate",
            "moe.gate": "moe.gate_proj",
            "moe.up": "moe.up_proj",
            "moe.down": "moe.down_proj",
            **shared_experts("share_expert"),
        },
    ),
)

# --- Laguna, Mellum, Kolibri, Granite with windows --------------------------------------------------------------------


def heads_of_kind(layer_type: str) -> Hole:
    """Query heads by layer, where all layers of a kind agree."""

    def read(fields: Fields) -> Any:
        found = of_kind("num_attention_heads_per_layer", layer_type).read(fields)
        inner = Fields({"num_attention_heads_per_layer": found}, {}, fields.model_type, fields.within)
        return inner.size("num_attention_heads_per_layer")

    return Hole(read)


LAGUNA = LLAMA.but(
    document={
        "layers": stack(
            listed("layer_types", TYPES), listed("mlp_layer_types", DENSE_OR_SPARSE, first(1, "mlp", "moe"))
        ),
        "rope": rope(500000, fraction=0.5),
        "bias": sites(attn="attention_bias"),
        "attn": {
            "qk_norm": "head",
            "n_heads": heads_of_kind(FULL),
            "gate": choice("gating", **{"true": "head", "per-head": "head", "per-element": "full", "false": None}),
            "gate_function": "softplus",
        },
        "local": {
            "like": "attn",
            "n_heads": heads_of_kind(SLIDING),
            "window": size("sliding_window"),
            "rope": rope(10000, layer_type=SLIDING, fraction=1.0, scaled=False),
        },
        "moe": {
            "n_experts": size("num_experts"),
            "top_k": size("num_experts_per_tok"),
            "d_ff": size("moe_intermediate_size"),
            "n_shared": 1,
            "d_shared": size("shared_expert_intermediate_size"),
            "route_scale": number("moe_routed_scaling_factor"),
            "router": "sigmoid",
            "selection_bias": True,
            "router_softcap": Hole(lambda fields: fields.number("moe_router_logit_softcapping") or None),
        },
    },
    only={"moe_apply_router_weight_on_input": False},
    names={**NAMES, **in_layers(PREFIX, {"attn.gate": "self_attn.g_proj"})},
)

MELLUM = QWEN3_MOE.but(
    document={
        "layers": stack(listed("layer_types", TYPES), listed("mlp_layer_types", DENSE_OR_SPARSE, "moe")),
        "rope": rope(500000),
        "attn": {"qk_norm": "head"},
        "local": {
            "like": "attn",
            "window": size("sliding_window"),
            "rope": rope(10000, layer_type=SLIDING, scaled=False),
        },
    },
    only={"num_nextn_predict_layers": (0, 1), "num_mtp_layers": (0, 1)},
)

KOLIBRI = LLAMA.but(
    document={
        "d_ff": None,
        "layers": stack(listed("layer_types", TYPES, every(5, "attn", "local")), "moe"),
        "norm_at": "sandwich",
        "attn": {"qk_norm": "head", "position": Hole(windows)},
        "local": {"like": "attn", "position": "rope", "window": size("sliding_window")},
        "moe": {
            "n_experts": size("num_experts", "num_local_experts"),
            "top_k": size("num_experts_per_tok"),
            "d_ff": size("moe_intermediate_size"),
            "n_shared": 1,
            "d_shared": size("shared_expert_intermediate_size"),
            "router": "topk_sigmoid",
            "selection_bias": True,
            "normalize": flag("norm_topk_prob"),
        },
    },
    names={
        **NAMES,
        **in_layers(
            PREFIX,
            {
                "attn.post_norm": "post_self_attn_layernorm",
                "moe.norm": "post_attention_layernorm",
                "moe.post_norm": "post_mlp_layernorm",
            },
        ),
    },
)

GRANITE_SWA = GRANITE.but(
    document={
        "layers": stack(listed("layer_types", TYPES, every(4, "attn", "local", offset=0)), "mlp"),
        "rope": rope(of_kind("layer_rope_theta", FULL)),
        "attn": {"scale": number("attention_multiplier"), "sinks": True},
        "local": {
            "like": "attn",
            "window": size("sliding_window"),
            "rope": rope(of_kind("layer_rope_theta", SLIDING), layer_type=SLIDING),
        },
    },
    names=in_layers(PREFIX, {"attn.sinks": bare("self_attn.sinks")}),
)

# --- Beam: residuals that are averaged, full layers without positions whose queries grow -----------------------------


def sixth_and_last(_: Fields, n: int) -> Sequence[str]:
    return ["local" if (i + 1) % 6 and i + 1 < n else "full" for i in range(n)]


def growing(fields: Fields) -> dict[str, Any]:
    """How queries of full layers grow, which have no rotation."""
    if (fields.mapping("rope_parameters") or {}).get(FULL) is not None:
        raise fields.unsupported("rope_parameters.full_attention", "only null is understood")
    return {"floor": 2048, "scale": 0.1, "form": "power"}


BEAM = ROUTED.but(
    document={
        "layers": stack(
            listed("layer_types", {FULL: "full", SLIDING: "local"}, sixth_and_last),
            listed("mlp_layer_types", DENSE_OR_SPARSE, first(3, "mlp", "moe")),
        ),
        "norm_at": "sandwich",
        "averaged_residuals": True,
        "softcap": number("final_logit_softcapping"),
        "bias": sites(attn="attention_bias"),
        "rope": rope(layer_type=SLIDING),
        "attn": {"qk_norm": "head", "gate": "full", "gate_bias": True},
        "local": {"like": "attn", "window": size("sliding_window")},
        "full": {"like": "attn", "position": "none", "temperature": Hole(growing)},
        "moe": {**SIGMOID, "n_experts": size("num_experts"), "n_shared": None},
        "mtp": None,
    },
    names=in_layers(
        PREFIX,
        {
            "attn.gate": Held("self_attn", weight=".gate_proj.weight", bias=".gate_bias"),
            "attn.post_norm": "post_attention_layernorm",
            "mlp.norm": "pre_feedforward_layernorm",
            "mlp.post_norm": "post_feedforward_layernorm",
            "moe.norm": "pre_feedforward_layernorm",
            "moe.post_norm": "post_feedforward_layernorm",
        },
    ),
)

READERS = {
    "beam": BEAM,
    "deepseek": DEEPSEEK_MOE,
    "glm4_moe": GLM4_MOE,
    "glm4v_moe_text": GLM4_MOE,
    "solar_open": SOLAR_OPEN,
    "dots1": DOTS1,
    "sarvam_moe": SARVAM_MOE,
    "bailing_moe": BAILING_MOE,
    "bailing_moe_v2": BAILING_MOE_V2,
    "hy_v3": HY_V3,
    "exaone_moe": EXAONE_MOE,
    "afmoe": AFMOE,
    "mimo_v2_flash": MIMO_V2,
    "step3_text": STEP3,
    "step3p5": STEP3P5,
    "step3p7": STEP3P5.but(like="step3p5"),
    "laguna": LAGUNA,
    "mellum": MELLUM,
    "kolibri1": KOLIBRI,
    "granite_swa": GRANITE_SWA,
}
