"""ZAYA: compressed convolutional attention, routers of several layers that hand on what they read, learned factors of
the residuals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gptcalc.sources.huggingface.fields import Fields
from gptcalc.sources.huggingface.llama import LLAMA, PREFIX
from gptcalc.sources.huggingface.pattern import listed, stack
from gptcalc.sources.huggingface.reader import Reader, sites, size
from gptcalc.sources.huggingface.rope import rope
from gptcalc.sources.huggingface.tensors import EXPERTS_GATE_UP, Held, bare, in_layers

FULL, SLIDING = "hybrid", "hybrid_sliding"


def first_apart(_: Fields, n: int) -> Sequence[str]:
    """The first router has none before it."""
    return ["first", *["moe"] * (n - 1)]


_factors: dict[str, Any] = {"residual_factors": {"stream": True, "output": "channel", "bias": True}}
_layers: dict[str, Any] = {"d": size("router_hidden_size")}
_stacked = bare("mlp.experts.gate_up_proj", parts=EXPERTS_GATE_UP)


def _residual(ours: str, theirs: str) -> dict[str, Held]:
    return {
        f"{ours}.residual.stream": Held(f"{theirs}.residual_", weight="scale", bias="bias"),
        f"{ours}.residual.output": Held(f"{theirs}.hidden_states_", weight="scale", bias="bias"),
    }


ZAYA = LLAMA.but(
    document={
        "d_ff": None,
        "layers": stack(listed("layer_types", {FULL: "attn", SLIDING: "local"}, "attn"), first_apart),
        "mlp": None,
        "bias": sites(head="lm_head_bias"),
        "embedding": {"affine": True},
        "rope": rope(layer_type=FULL),
        "attn": {
            "cca": {"kernel": size("cca_time0"), "head_kernel": size("cca_time1")},
            "qk_norm": {"kind": "rmsnorm", "weight": False, "eps": 1e-12},
            **_factors,
        },
        "local": {"like": "attn", "window": size("sliding_window"), "rope": rope(layer_type=SLIDING)},
        "moe": {
            "n_experts": size("num_experts"),
            "top_k": size("num_experts_per_tok"),
            "d_ff": size("moe_intermediate_size"),
            "normalize": False,
            "selection_bias": True,
            "n_identity": 1,
            "identity": "nothing",
            "router_layers": {**_layers, "carried": True},
            **_factors,
        },
        "first": {"like": "moe", "router_layers": _layers},
    },
    defaults={
        "rope_parameters": {
            FULL: {"rope_theta": 5_000_000.0, "partial_rotary_factor": 0.5},
            SLIDING: {"rope_theta": 10_000.0, "partial_rotary_factor": 0.5},
        }
    },
    only={"hidden_act": "silu", "attention_bias": False},
    irrelevant=("intermediate_size",),
    names={
        "embedding.offset": bare("model.input_hidden_states_bias"),
        "embedding.factor": bare("model.input_hidden_states_scale"),
        **in_layers(
            PREFIX,
            {
                "attn.q": "self_attn.qkv_proj.q_proj",
                "attn.k": "self_attn.qkv_proj.k_proj",
                "attn.v": "self_attn.qkv_proj.v_proj_current",
                "attn.v_before": "self_attn.qkv_proj.v_proj_delayed",
                "attn.u_conv": "self_attn.qkv_proj.conv_qk_depthwise",
                "attn.head_conv": "self_attn.qkv_proj.conv_qk_grouped",
                "attn.k_factor": bare("self_attn.qk_norm.temp"),
                "moe.norm": "post_attention_layernorm",
                "moe.router_down": "mlp.gate.down_proj",
                "moe.router_carried": bare("mlp.gate.router_states_scale"),
                "moe.router_norm": "mlp.gate.router_mlp.norm",
                "moe.router_1": "mlp.gate.router_mlp.fc1",
                "moe.router_2": "mlp.gate.router_mlp.fc2",
                "moe.router": "mlp.gate.router_mlp.out_proj",
                "moe.selection_bias": bare("mlp.gate.balancing_biases"),
                "moe.gate": _stacked,
                "moe.up": _stacked,
                "moe.down": bare("mlp.experts.down_proj"),
                **_residual("attn", "post_attention_residual_scale"),
                **_residual("moe", "post_mlp_residual_scale"),
            },
        ),
    },
)

READERS: dict[str, Reader] = {
    "zaya": ZAYA,
}
