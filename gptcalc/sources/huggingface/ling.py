"""Ling 3: delta rules whose decay is channel by channel and bounded, every sixth layer gated latent attention."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gptcalc.sources.huggingface.deepseek import DEEPSEEK_V3, LATENT, LATENT_NAMES
from gptcalc.sources.huggingface.experts import SIGMOID, SPARSE, groups
from gptcalc.sources.huggingface.fields import Fields
from gptcalc.sources.huggingface.llama import PREFIX
from gptcalc.sources.huggingface.pattern import FULL, RECURRENT, every, listed, stack
from gptcalc.sources.huggingface.qwen_next import CONVOLVED
from gptcalc.sources.huggingface.reader import Hole, Reader, flag, number, optional, preferred, size
from gptcalc.sources.huggingface.rope import rope
from gptcalc.sources.huggingface.tensors import Entry, Held, Names, bare, fused, in_layers


def decay(fields: Fields) -> dict[str, Any]:
    """Bounded from below, where the config says so."""
    floor = fields.number("kda_lower_bound")
    bounded = fields.flag("kda_safe_gate")
    return {"over": "channel", **({"form": "bounded", "floor": floor} if bounded else {})}


def either(entry: Entry) -> tuple[str | Held, ...]:
    """Under `attention`, as checkpoints have it, or under `self_attn`, as transformers 5 has."""
    entries: Iterable[str | Held] = [entry] if isinstance(entry, (str, Held)) else entry
    found: list[str | Held] = []
    for one in entries:
        if isinstance(one, str):
            found += [one.replace("self_attn", "attention"), one]
        else:
            moved = one.module.replace("self_attn", "attention")
            found += [Held(moved, one.parts, one.groups, one.stored, one.weight, one.bias), one]
    return tuple(found)


_attention: Names = {
    "attn.gate": "self_attn.g_proj",
    "attn.out": ("self_attn.dense", "self_attn.o_proj"),
    **{f"linear.{x}": f"self_attn.{x}_proj" for x in "qkv"},
    **{
        stem: (f"self_attn.{stem[7]}_conv1d", held)
        for stem, held in fused("self_attn.conv1d", CONVOLVED).items()
        if isinstance(held, Held)
    },
    "linear.decay": ("self_attn.f_proj", "self_attn.forget_gate.f_proj"),
    "linear.A_log": (bare("self_attn.A_log"), bare("self_attn.forget_gate.A_log")),
    "linear.dt_bias": (bare("self_attn.dt_bias"), bare("self_attn.forget_gate.dt_bias")),
    "linear.beta": "self_attn.b_proj",
    "linear.gate": "self_attn.g_proj",
    "linear.out_norm": "self_attn.o_norm",
    "linear.out": ("self_attn.dense", "self_attn.o_proj"),
}

BAILING_HYBRID = DEEPSEEK_V3.but(
    document={
        "c": size("model_max_length", "max_position_embeddings"),
        "rope": rope(fraction=None, pairing="adjacent"),
        "layers": stack(
            listed("layer_types", {FULL: "mla", RECURRENT: "kda"}, every("layer_group_size", "mla", "kda")), SPARSE
        ),
        "mla": {**LATENT, "gate": "head"},
        "kda": {
            "like": "linear",
            "n_heads": size("linear_num_heads", "num_attention_heads"),
            "d_k": preferred("linear_head_dim", "head_dim"),
            "d_v": preferred("linear_head_dim", "head_dim"),
            "delta": True,
            "decay": Hole(decay),
            "kernel": size("short_conv_kernel_size", "linear_conv_kernel_dim"),
            "gate": "sigmoid",
            "out_norm": {"over": "head"},
        },
        "moe": {
            **SIGMOID,
            "n_experts": size("num_experts", "num_local_experts"),
            "top_k": size("num_experts_per_token", "num_experts_per_tok"),
            "n_shared": optional("num_shared_experts", "n_shared_experts", least=0),
            "normalize": flag("moe_renormalize", "norm_topk_prob"),
            "groups": groups("num_expert_group"),
            "route_scale": number("routed_scaling_factor"),
        },
    },
    defaults={"num_expert_group": 8, "moe_layer_freq": 1},
    irrelevant=(
        "n_group",
        "rope_interleave",
        "kda_lower_bound",
        "layer_group_size",
        "first_k_dense_replace",
        "head_dim",
    ),
    names={
        "embedding.token": ("model.word_embeddings", "model.embed_tokens"),
        **{stem: either(entry) for stem, entry in LATENT_NAMES.items()},
        **in_layers(PREFIX, {stem: either(entry) for stem, entry in _attention.items()}),
        **in_layers(
            PREFIX,
            {
                "linear.norm": "input_layernorm",
                "moe.selection_bias": (bare("mlp.gate.expert_bias"), bare("mlp.gate.e_score_correction_bias")),
            },
        ),
    },
)

READERS: dict[str, Reader] = {"bailing_hybrid": BAILING_HYBRID}
