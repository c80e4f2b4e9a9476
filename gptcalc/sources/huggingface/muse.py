"""Muse: windows with rotary positions and full layers without, norms without weights, norms of another eps behind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gptcalc.errors import InputError
from gptcalc.sources.huggingface.experts import EXPERT_NAMES
from gptcalc.sources.huggingface.fields import Fields
from gptcalc.sources.huggingface.llama import LLAMA, PREFIX
from gptcalc.sources.huggingface.pattern import Units, listed, stack
from gptcalc.sources.huggingface.reader import Hole, Reader, activation, number, rmsnorm, sites, size
from gptcalc.sources.huggingface.rope import rope
from gptcalc.sources.huggingface.tensors import bare, in_layers
from gptcalc.sources.huggingface.windows import TYPES


def last_and_every_fourth_before(_: Fields, n: int) -> Sequence[str]:
    return ["local" if (n - 1 - i) % 4 else "attn" for i in range(n)]


KINDS: Units = listed("layer_types", TYPES, last_and_every_fourth_before)


def mixers(fields: Fields, n: int) -> Sequence[str]:
    """Full layers turn nothing: layer_rope_theta is 0 there, and nowhere else."""
    kinds = KINDS(fields, n) if callable(KINDS) else [KINDS] * n
    thetas = fields.items("layer_rope_theta")
    if thetas is not None and len(thetas) != n:
        raise InputError(f"{fields.within}layer_rope_theta has {len(thetas)} entries, the model {n} layers")
    for i, (kind, theta) in enumerate(zip(kinds, thetas or [], strict=False)):
        if (theta == 0) != (kind == "attn"):
            raise fields.unsupported(f"layer_rope_theta[{i}]", "only full layers without rotation are understood")
    return kinds


def score_scale(fields: Fields) -> float:
    """Normed queries are scaled once more, beside 1/√d_head."""
    factor = fields.number("qk_scale_factor")
    return float((1 if factor is None else factor) / fields.needed("head_dim") ** 0.5)


ATTENTION: dict[str, Any] = {
    "position": "none",
    "qk_norm": rmsnorm(weight=False),
    "scale": Hole(score_scale),
    "gate": "full",
}

MUSE_GLIMMER = LLAMA.but(
    document={
        "layers": stack(mixers, "mlp"),
        "norm": rmsnorm(offset=1),
        "final_norm": rmsnorm(),
        "norm_at": "sandwich",
        "rope": rope(),
        "softcap": number("final_logit_softcapping"),
        "logit_scale": number("output_multiplier"),
        "embedding": {"norm": rmsnorm(weight=False)},
        "bias": sites(attn="attention_bias"),
        "attn": {**ATTENTION, "post_norm": rmsnorm("post_norm_eps", offset=1)},
        "local": {"like": "attn", "position": "rope", "window": size("sliding_window")},
        "mlp": {
            "activation": activation("hidden_activation", "hidden_act", gated=True),
            "post_norm": rmsnorm("post_norm_eps", offset=1),
        },
    },
    names=in_layers(
        PREFIX,
        {
            "attn.gate": "self_attn.gate_proj",
            "attn.post_norm": "post_attention_layernorm",
            "mlp.norm": "pre_feedforward_layernorm",
            "mlp.post_norm": "post_feedforward_layernorm",
        },
    ),
)

_mixed = {"temperature": number("residual_gate_temperature")}

_behind = rmsnorm("post_norm_eps", offset=1, weight_at="input")

MUSE_SPARK = MUSE_GLIMMER.but(
    document={
        "layers": stack(mixers, listed("mlp_layer_types", {"dense": "mlp", "sparse": "moe"}, "moe")),
        "attn": {
            **ATTENTION,
            "out_norm": rmsnorm(weight=False, over="head"),
            "post_norm": rmsnorm("post_norm_eps", weight=False),
            "residual_gate": _mixed,
        },
        "mlp": {"activation": activation("hidden_act", gated=True), "post_norm": _behind, "residual_gate": _mixed},
        "moe": {
            "n_experts": size("num_local_experts"),
            "top_k": size("num_experts_per_tok"),
            "d_ff": size("moe_intermediate_size"),
            "d_latent": size("moe_hidden_size"),
            "latent_norm": rmsnorm(offset=1),
            "expert_norm": _behind,
            "activation": activation("hidden_act", gated=True),
            "router": "sigmoid",
            "router_logit_scale": number("output_multiplier"),
            "selection_bias": True,
            "route_scale": number("routed_scaling_factor"),
            "post_norm": _behind,
            "residual_gate": _mixed,
        },
    },
    names={
        **EXPERT_NAMES,
        **in_layers(
            PREFIX,
            {
                "attn.residual_gate": bare("post_attention_residual_gate.gate"),
                "mlp.residual_gate": bare("post_feedforward_residual_gate.gate"),
                "moe.residual_gate": bare("post_feedforward_residual_gate.gate"),
                "moe.norm": "pre_feedforward_layernorm",
                "moe.post_norm": "post_feedforward_layernorm",
                "moe.selection_bias": bare("mlp.gate.e_score_correction_bias"),
                "moe.latent_down": "mlp.pre_expert_proj",
                "moe.latent_norm": "mlp.pre_expert_norm",
                "moe.expert_norm": "mlp.experts.post_expert_norm",
                "moe.latent_up": "mlp.post_expert_proj",
            },
        ),
    },
)

READERS: dict[str, Reader] = {
    "muse_glimmer_text": MUSE_GLIMMER,
    "muse_spark_text": MUSE_SPARK,
}
