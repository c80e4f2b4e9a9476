"""Step: other query heads, rotations and clamps for each kind of layer."""

from __future__ import annotations

from collections.abc import Sequence

from gptcalc.errors import InputError
from gptcalc.sources.huggingface.experts import DENSE_OR_SPARSE, MTP_NAMES, NAMES, modules, shared_experts
from gptcalc.sources.huggingface.fields import Fields
from gptcalc.sources.huggingface.gemma import query_scale
from gptcalc.sources.huggingface.llama import LLAMA, PREFIX
from gptcalc.sources.huggingface.pattern import FULL, SLIDING, Units, enumerated, first, listed, stack
from gptcalc.sources.huggingface.reader import Hole, Reader, flag, number, optional, rmsnorm, sites, size, when
from gptcalc.sources.huggingface.rope import rope
from gptcalc.sources.huggingface.tensors import EXPERTS_GATE_UP, bare, in_layers
from gptcalc.sources.huggingface.windows import TYPES, of_kind


def sliding_heads(fields: Fields) -> int | None:
    """Query heads of the layers with a window."""
    other = fields.mapping("attention_other_setting") or {}
    inner = Fields(other, {}, fields.model_type, f"{fields.within}attention_other_setting.")
    for key in ("attention_type", "num_attention_groups", "head_dim", "true_head_dim"):
        inner.get(key)
    return fields.size("num_sliding_attention_heads") or inner.size("num_attention_heads")


LIMITS = ("swiglu_limits", "swiglu_limits_shared")


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
        # under their other name, num_local_experts, there are as many as a file says; transformers 5.24 sets that name
        # first and then overwrites it by the default of n_routed_experts
        "moe": {
            "n_experts": size("n_routed_experts", "moe_num_experts", "num_experts"),
            "top_k": size("num_experts_per_tok", "moe_top_k"),
            "d_ff": size("moe_intermediate_size"),
            "n_shared": 1,
            "d_shared": size("share_expert_dim", "share_expert_dims"),
            "route_scale": number("moe_router_scaling_factor"),
            "router": "sigmoid",
            "selection_bias": True,
            "bias": when("mlp_bias", ["shared"]),
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

READERS: dict[str, Reader] = {
    "step3_text": STEP3,
    "step3p5": STEP3P5,
    "step3p7": STEP3P5.but(like="step3p5"),
}
