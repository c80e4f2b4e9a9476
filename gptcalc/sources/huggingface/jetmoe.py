"""JetMoE: experts of attention heads."""

from __future__ import annotations

from gptcalc.sources.huggingface.llama import LLAMA, PREFIX
from gptcalc.sources.huggingface.reader import Reader, activation, rmsnorm, size
from gptcalc.sources.huggingface.tensors import EXPERTS_GATE_UP, Held, fused, in_layers

_jetmoe_experts = {"n_experts": size("num_local_experts"), "top_k": size("num_experts_per_tok")}

JETMOE = LLAMA.but(
    document={
        "n_heads": size("num_key_value_heads"),  # of each expert: a token's heads are those of its top_k
        "n_kv_heads": None,
        "d_head": size("kv_channels", "head_dim"),
        "layers": "n*attn+moe",
        "mlp": activation("activation_function", gated=True),
        "norm": rmsnorm(1e-6),  # of layers: whatever rms_norm_eps says, which the final norm reads alone
        "final_norm": rmsnorm(),
        "bias": None,
        "attn": {"experts": _jetmoe_experts, "bias": ["out"]},
        "moe": {**_jetmoe_experts, "router": "topk_softmax", "out_bias": True},
    },
    irrelevant=("num_attention_heads",),
    names=in_layers(
        PREFIX,
        {
            "attn.router": "self_attention.experts.router.layer",
            "attn.q": "self_attention.experts.input_linear",
            "attn.out": Held("self_attention.experts", weight=".output_linear.weight", bias=".bias"),
            **fused("self_attention.kv_proj", (("attn.k", 1), ("attn.v", 1))),
            "moe.norm": "post_attention_layernorm",
            "moe.router": "mlp.router.layer",
            **fused("mlp.input_linear", EXPERTS_GATE_UP),
            "moe.down": "mlp.output_linear",
            "moe.out": Held("mlp", bias=".bias"),
        },
    ),
)

READERS: dict[str, Reader] = {
    "jetmoe": JETMOE,
}
