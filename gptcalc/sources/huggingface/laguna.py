"""Laguna: query heads by layer, gated attention."""

from __future__ import annotations

from typing import Any

from gptcalc.sources.huggingface.experts import DENSE_OR_SPARSE, NAMES
from gptcalc.sources.huggingface.fields import Fields
from gptcalc.sources.huggingface.llama import LLAMA, PREFIX
from gptcalc.sources.huggingface.pattern import FULL, SLIDING, first, listed, stack
from gptcalc.sources.huggingface.reader import Hole, Reader, choice, number, sites, size
from gptcalc.sources.huggingface.rope import rope
from gptcalc.sources.huggingface.tensors import bare, in_layers
from gptcalc.sources.huggingface.windows import TYPES, of_kind


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
            "gate": choice("gating", **{"true": "head", "per-head": "head", "per-element": "full", "false": "full"}),
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
    names={
        **NAMES,
        **in_layers(
            PREFIX,
            {
                "attn.gate": "self_attn.g_proj",
                "moe.selection_bias": tuple(
                    bare(f"mlp.{where}.e_score_correction_bias") for where in ("experts", "gate")
                ),
                **{
                    f"moe.shared.{part}": (f"mlp.shared_expert.{part}_proj", f"mlp.shared_experts.{part}_proj")
                    for part in ("gate", "up", "down")
                },
            },
        ),
    },
)

READERS: dict[str, Reader] = {
    "laguna": LAGUNA,
}
