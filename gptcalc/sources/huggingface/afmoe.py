"""Arcee's mixture: gated attention, norms around every sublayer."""

from __future__ import annotations

from gptcalc.sources.huggingface.experts import NAMES, groups
from gptcalc.sources.huggingface.llama import LLAMA, PREFIX
from gptcalc.sources.huggingface.pattern import every, first, listed, stack
from gptcalc.sources.huggingface.reader import Reader, number, optional, size, when
from gptcalc.sources.huggingface.tensors import bare, in_layers
from gptcalc.sources.huggingface.windows import TYPES

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

READERS: dict[str, Reader] = {
    "afmoe": AFMOE,
}
