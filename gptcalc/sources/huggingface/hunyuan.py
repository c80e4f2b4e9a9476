"""Hunyuan: norms of queries and keys behind the rotation; mixtures; keys and values shared by layers."""

from __future__ import annotations

from gptcalc.errors import InputError
from gptcalc.sources.huggingface.deepseek import ROUTED
from gptcalc.sources.huggingface.experts import EXPERT_NAMES, EXPERTS, SPARSE, one_of_all, shared_experts
from gptcalc.sources.huggingface.fields import Fields
from gptcalc.sources.huggingface.llama import LLAMA, PLAIN, PREFIX
from gptcalc.sources.huggingface.pattern import MOST_LISTED, expression, stack
from gptcalc.sources.huggingface.reader import Hole, Reader, flag, number, optional, size, when
from gptcalc.sources.huggingface.tensors import bare, in_layers

HUNYUAN = LLAMA.but(
    document={
        "d_head": optional("head_dim", "attention_head_dim"),
        "attn": {"qk_norm": {"over": "head", "after_rope": True}},
    },
    only={"use_qk_norm": True, "norm_type": ("rms", "hf_rms"), "use_rotary_pos_emb": True},
    # the factor stands there whether or not layers share keys and values, which use_cla decides
    irrelevant=("cla_share_factor", "org_vocab_size", "add_classification_head", "class_num", "pool_type", "dense_list",
                "pad_id", "im_newline_id", "mask_init_id", "text_start_id", "text_end_id"),
    names=in_layers(PREFIX, {"attn.q_norm": "self_attn.query_layernorm", "attn.k_norm": "self_attn.key_layernorm"}),
)  # fmt: skip

HUNYUAN_MOE = HUNYUAN.but(
    document={
        "layers": "n*attn+moe",
        "moe": {
            "n_experts": one_of_all("num_experts", "num_local_experts"),
            "top_k": one_of_all("moe_topk", "num_experts_per_tok"),
            "d_ff": one_of_all("moe_intermediate_size"),
            "n_shared": one_of_all("num_shared_expert", default=1),
        },
    },
    only={
        "use_mixed_mlp_moe": True,
        "use_mla": False,
        "group_limited_greedy": False,
        "norm_topk_prob": True,
        "routed_scaling_factor": 1.0,
        "moe_layer_num_skipped": 0,
    },
    irrelevant=("moe_drop_tokens", "moe_random_routing_dropped_token"),
    names={**EXPERT_NAMES, **in_layers(PREFIX, {"moe.router": "mlp.gate.wg", **shared_experts("mlp.shared_mlp")})},
)

# --- Hunyuan Large: every second layer reuses keys and values ---------------------------------------------------------


def shared_layers(fields: Fields) -> str:
    """With cross-layer attention, the layers after the first of each group reuse its keys and values."""
    group = fields.size("cla_share_factor") or 1
    if not fields.flag("use_cla") or group == 1:
        return "n*attn+moe"
    n = fields.needed("num_hidden_layers")
    if n > MOST_LISTED:
        raise InputError(
            f"{fields.within}num_hidden_layers = {n}: layers of several kinds are read up to {MOST_LISTED}"
        )
    return expression(["attn+moe" if i % group == 0 else "reuse+moe" for i in range(n)])


HUNYUAN_LARGE = HUNYUAN_MOE.but(
    called=("HunYuanMoEV1ForCausalLM", "HunYuanDenseV1ForCausalLM", "HunYuanForCausalLM"),
    document={
        "d_head": optional("head_dim"),
        "layers": Hole(shared_layers),
        "attn": {"qk_norm": when("use_qk_norm", {"over": "head", "after_rope": True, "at_read": flag("use_cla")})},
        "reuse": {"like": "attn", "kv": {"from": "attn"}},
        "moe": {
            "n_experts": one_of_all("num_experts"),
            "top_k": one_of_all("moe_topk"),
            "d_ff": one_of_all("moe_intermediate_size"),
            "n_shared": when("use_mixed_mlp_moe", one_of_all("num_shared_expert", default=1)),
            "normalize": Hole(lambda fields: one_of_all("moe_topk").read(fields) != 1),
        },
    },
    defaults={**PLAIN, "rms_norm_eps": 1e-5, "moe_topk": 1, "use_qk_norm": False},
    only={"cla_share_factor": (1, 2), "norm_type": "rms", "mlp_bias": False},
    irrelevant=("moe_drop_tokens", "moe_random_routing_dropped_token", "capacity_factor", "group_limited_greedy",
                "im_newline_id", "position_embedding_xdrope", "add_classification_head", "class_num", "pool_type",
                "dense_list", "eod_token_id", "kv_lora_rank", "use_mla", "cla_share_factor", "attention_head_dim",
                # of pictures, in a text model's config
                "anyres_pooling_size", "anyres_vit_max_image_size", "anyres_vit_two_views", "max_image_size",
                "num_media_embeds", "video_end_id", "video_start_id", "vit_add_patchemb_bias", "vit_input_resolution",
                "vit_mapping_type", "vit_norm_type", "vit_patch", "vit_path", "vit_remove_prenorm", "vit_token",
                "vit_type", "vit_used_rms_norm", "skip_cls_token"),
)  # fmt: skip


def dense_for_none(fields: Fields) -> int | None:
    """Where there are no shared experts the class builds an MLP of the dense layers' width in their place."""
    return None if fields.size("num_shared_experts", least=0) else fields.needed("intermediate_size")


HY_V3 = ROUTED.but(
    document={
        "layers": stack("attn", SPARSE),
        "attn": {"qk_norm": "head"},
        "moe": {
            **EXPERTS,
            "n_experts": size("num_experts", "num_local_experts"),
            "n_shared": Hole(lambda fields: fields.size("num_shared_experts", least=0) or 1),
            "d_shared": Hole(dense_for_none),
            "bias": when("mlp_bias", ["shared"]),
            "normalize": None,
            "route_scale": number("router_scaling_factor"),
            "router": "sigmoid",
            "selection_bias": True,
        },
    },
    defaults={"first_k_dense_replace": 1},
    only={"qk_norm": True, "route_norm": True, "moe_router_use_sigmoid": True, "moe_router_enable_expert_bias": True},
    irrelevant=("enable_moe_fp32_combine", "enable_attention_fp32_softmax", "enable_lm_head_fp32"),
    names=in_layers(
        PREFIX,
        {
            "moe.selection_bias": (bare("mlp.e_score_correction_bias"), bare("mlp.expert_bias")),
            "moe.router": ("mlp.gate", "mlp.router.gate"),
            "moe.shared.gate": ("mlp.shared_experts.gate_proj", "mlp.shared_mlp.gate_proj"),
            "moe.shared.up": ("mlp.shared_experts.up_proj", "mlp.shared_mlp.up_proj"),
            "moe.shared.down": ("mlp.shared_experts.down_proj", "mlp.shared_mlp.down_proj"),
        },
    ),
)

READERS: dict[str, Reader] = {
    "hunyuan_v1_dense": HUNYUAN,
    "hunyuan_v1_moe": HUNYUAN_MOE,
    "hy_v3": HY_V3,
    "hunyuan": HUNYUAN_LARGE,
    "hunyuan_vl_text": HUNYUAN,
}
