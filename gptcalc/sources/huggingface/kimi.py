"""Kimi Linear: delta rules whose decay is channel by channel, every fourth layer latent attention without positions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from gptcalc.errors import InputError
from gptcalc.sources.huggingface.deepseek import DEEPSEEK_V3
from gptcalc.sources.huggingface.experts import DENSE_OR_SPARSE, SIGMOID, groups, own_experts
from gptcalc.sources.huggingface.fields import Fields
from gptcalc.sources.huggingface.llama import PREFIX
from gptcalc.sources.huggingface.pattern import FULL, RECURRENT, first, listed, stack
from gptcalc.sources.huggingface.qwen_next import convolutions
from gptcalc.sources.huggingface.reader import Reader, flag, number, optional, size
from gptcalc.sources.huggingface.tensors import bare, in_layers


def delta_attention(heads: tuple[str, ...], width: tuple[str, ...], kernel: tuple[str, ...]) -> dict[str, Any]:
    """Kimi delta attention: gates and decays through a bottleneck of a head's width."""
    return {
        "like": "linear",
        "n_heads": size(*heads),
        "d_k": size(*width),
        "d_v": size(*width),
        "delta": True,
        "decay": {"over": "channel", "rank": size(*width)},
        "kernel": size(*kernel),
        "gate": {"function": "sigmoid", "rank": size(*width)},
        "out_norm": {"over": "head", "eps": number("rms_norm_eps")},
    }


def numbered_layers(fields: Fields, n: int) -> Sequence[str]:
    """Which layers attend, by numbers from 1; every fourth but the first where none are given."""
    chosen = fields.items("linear_attn_config.full_attn_layers")
    fields.get("linear_attn_config.kda_layers")
    if chosen is None:
        return ["mla" if i and i % 4 == 0 else "kda" for i in range(n)]
    if not all(isinstance(i, int) and i >= 1 for i in chosen):
        raise InputError(f"{fields.within}linear_attn_config.full_attn_layers: expected numbers of layers, from 1")
    return ["mla" if i + 1 in chosen else "kda" for i in range(n)]


KIMI_LINEAR = replace(
    DEEPSEEK_V3.but(
        document={
            "c": size("model_max_length", "max_position_embeddings"),
            "rope": None,
            "position": "none",
            "layers": stack(
                listed("layer_types", {FULL: "mla", RECURRENT: "kda"}, numbered_layers),
                listed("mlp_layer_types", DENSE_OR_SPARSE, first("first_k_dense_replace", "mlp", "moe")),
            ),
            "kda": delta_attention(
                ("linear_num_heads", "linear_attn_config.num_heads"),
                ("linear_head_dim", "linear_attn_config.head_dim"),
                ("linear_conv_kernel_dim", "linear_attn_config.short_conv_kernel_size"),
            ),
            "moe": {
                **SIGMOID,
                "n_experts": size("num_experts", "num_local_experts"),
                "top_k": size("num_experts_per_token", "num_experts_per_tok"),
                "n_shared": optional("num_shared_experts", "n_shared_experts", least=0),
                "normalize": flag("moe_renormalize", "norm_topk_prob"),
                "groups": groups("num_expert_group"),
            },
        },
        defaults={"first_k_dense_replace": 1, "num_expert_group": 1},
        only={"moe_router_activation_func": "sigmoid", "mla_use_nope": True, "use_grouped_topk": True},
        irrelevant=("rope_theta", "rope_scaling", "rope_parameters", "moe_layer_freq", "n_group", "topk_group"),
        names=in_layers(
            PREFIX,
            {
                "linear.norm": "input_layernorm",
                "linear.q": "self_attn.q_proj",
                "linear.k": "self_attn.k_proj",
                "linear.v": "self_attn.v_proj",
                **convolutions("self_attn"),
                "linear.decay_a": ("self_attn.f_a_proj", "self_attn.forget_gate.f_a_proj"),
                "linear.decay_b": ("self_attn.f_b_proj", "self_attn.forget_gate.f_b_proj"),
                "linear.A_log": (bare("self_attn.A_log"), bare("self_attn.forget_gate.A_log")),
                "linear.dt_bias": (bare("self_attn.dt_bias"), bare("self_attn.forget_gate.dt_bias")),
                "linear.beta": "self_attn.b_proj",
                "linear.gate_a": "self_attn.g_a_proj",
                "linear.gate_b": "self_attn.g_b_proj",
                "linear.out_norm": "self_attn.o_norm",
                "linear.out": "self_attn.o_proj",
                "mlp.gate": ("mlp.gate_proj", "block_sparse_moe.gate_proj"),
                "mlp.up": ("mlp.up_proj", "block_sparse_moe.up_proj"),
                "mlp.down": ("mlp.down_proj", "block_sparse_moe.down_proj"),
                "moe.router": ("block_sparse_moe.gate", "mlp.gate"),
                "moe.selection_bias": (
                    bare("block_sparse_moe.gate.e_score_correction_bias"),
                    bare("mlp.gate.e_score_correction_bias"),
                ),
                **own_experts("block_sparse_moe.experts", "w1", "w3", "w2", together="mlp.experts"),
                **{
                    f"moe.shared.{word}": (
                        f"block_sparse_moe.shared_experts.{word}_proj",
                        f"mlp.shared_experts.{word}_proj",
                    )
                    for word in ("gate", "up", "down")
                },
            },
        ),
    ),
    nested=("linear_attn_config",),
)

READERS: dict[str, Reader] = {"kimi_linear": KIMI_LINEAR}
