"""Kimi Linear: delta rules whose decay is channel by channel, every fourth layer latent attention without positions.
Kimi K3, which calls its text model the same: sums of blocks of layers that are mixed, experts in a latent space."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from gptcalc.errors import InputError
from gptcalc.sources.huggingface.deepseek import DEEPSEEK_V3, LATENT
from gptcalc.sources.huggingface.experts import DENSE_OR_SPARSE, SIGMOID, SPARSE, groups, own_experts
from gptcalc.sources.huggingface.fields import Fields
from gptcalc.sources.huggingface.llama import PREFIX
from gptcalc.sources.huggingface.pattern import FULL, RECURRENT, first, listed, stack
from gptcalc.sources.huggingface.qwen_next import convolutions
from gptcalc.sources.huggingface.reader import (
    Hole,
    Reader,
    activation,
    flag,
    number,
    optional,
    rmsnorm,
    size,
    when,
)
from gptcalc.sources.huggingface.tensors import Names, bare, in_layers


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

# --- Kimi K3: modeling_kimi_linear.py and configuration_kimi_k3.py beside moonshotai/Kimi-K3 --------------------------


def _decay(fields: Fields) -> dict[str, Any]:
    """Bounded from below, where the config says so."""
    width = fields.needed("linear_attn_config.head_dim")
    floor = fields.number("linear_attn_config.gate_lower_bound")
    if floor is not None and floor >= 0:
        fields.wrong(("linear_attn_config.gate_lower_bound",), "a number below 0", floor)
    return {"over": "channel", "rank": width, **({} if floor is None else {"form": "bounded", "floor": floor})}


def _parted_layers(fields: Fields, n: int) -> Sequence[str]:
    """Which layers are which, by two lists of numbers from 1; without them all attend."""
    recurrent, full = (fields.items(f"linear_attn_config.{name}_layers") for name in ("kda", "full_attn"))
    if recurrent is None and full is None:
        return ["mla"] * n
    recurrent, full = recurrent or [], full or []
    if sorted([*recurrent, *full], key=str) != sorted(range(1, n + 1), key=str):
        problem = f"kda_layers and full_attn_layers do not name each of {n} layers, from 1, once"
        raise InputError(f"{fields.within}linear_attn_config: {problem}")
    return ["kda" if i + 1 in recurrent else "mla" for i in range(n)]


def _bounds(fields: Fields) -> dict[str, Any] | None:
    """SiTU-GLU: β·tanh(g/β)·σ(g), times the other half, which may have a bound of its own."""
    beta, linear = fields.number("activation_situ_beta"), fields.number("activation_situ_linear_beta")
    return {"gate": beta or 1.0, "up": linear} if fields.word("hidden_act") == "situ" else None


def _gating(fields: Fields) -> str:
    named = fields.word("hidden_act") == "situ"
    return "swiglu" if named else str(activation("hidden_act", gated=True).read(fields))


def _sums(fields: Fields) -> dict[str, Any] | None:
    every = fields.size("attn_res_block_size")
    how = {"norm": rmsnorm(), "values": "raw", "scale": 1.0, "first": True}
    return None if every is None else {"every": every, **how}


def _latent_norm(fields: Fields) -> dict[str, Any] | None:
    normed = fields.flag("latent_moe_use_norm")
    return rmsnorm() if normed and fields.size("routed_expert_hidden_size") is not None else None


KDA = delta_attention(
    ("linear_attn_config.num_heads",), ("linear_attn_config.head_dim",), ("linear_attn_config.short_conv_kernel_size",)
)
SITU = {"activation": Hole(_gating), "softcaps": Hole(_bounds)}

#: where a sum is weighed: in front of each sublayer, and behind the last
SUMS_NAMES: Names = {
    **in_layers(
        PREFIX,
        {
            f"{stem}.sums.{part}": f"{place}_res_{module}"
            for stems, place in (("linear attn", "self_attention"), ("mlp moe", "mlp"))
            for stem in stems.split()
            for part, module in (("query", "proj"), ("norm", "norm"))
        },
    ),
    "sums.query": "model.output_attn_res_proj",
    "sums.norm": "model.output_attn_res_norm",
}

KIMI_K3 = replace(
    KIMI_LINEAR.but(
        document={
            "c": size("max_position_embeddings"),
            "layers": stack(_parted_layers, SPARSE),
            "mlp": SITU,
            "attention_residuals": Hole(_sums),
            "mla": {**LATENT, "bias": None, "gate": when("mla_use_output_gate", "full")},
            "kda": {
                **KDA,
                "decay": Hole(_decay),
                "gate": when("linear_attn_config.use_full_rank_gate", {"function": "sigmoid"}, KDA["gate"]),
            },
            "moe": {
                **KIMI_LINEAR.document["moe"],
                **SITU,
                "d_latent": optional("routed_expert_hidden_size"),
                "latent_out_norm": Hole(_latent_norm),
            },
        },
        defaults={
            "vocab_size": 163840,
            "hidden_size": 4096,
            "intermediate_size": 11008,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "hidden_act": "silu",
            "rms_norm_eps": 1e-6,
            "moe_renormalize": True,
            "routed_scaling_factor": 1.0,
            "first_k_dense_replace": 0,
            "moe_layer_freq": 1,
            "max_position_embeddings": 4096,
            "tie_word_embeddings": False,
            "num_expert_group": 1,
            "topk_group": 1,
            "linear_attn_config.short_conv_kernel_size": 4,
        },
        irrelevant=("head_dim",),
        names={
            **SUMS_NAMES,
            **in_layers(
                PREFIX,
                {
                    "linear.gate": "self_attn.g_proj",
                    "linear.A_log": bare("self_attn.A_log", padded="d_k"),
                    "attn.gate": "self_attn.g_proj",
                    "moe.latent_down": "block_sparse_moe.routed_expert_down_proj",
                    "moe.latent_up": "block_sparse_moe.routed_expert_up_proj",
                    "moe.latent_out_norm": "block_sparse_moe.routed_expert_norm",
                },
            ),
        },
    ),
    nested=KIMI_LINEAR.nested,
)

READERS: dict[str, Reader] = {"kimi_linear": KIMI_LINEAR, "kimi_k3_text": KIMI_K3}
