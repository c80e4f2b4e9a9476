"""Aria: Llama with experts beside shared ones, stored inputs first."""

from __future__ import annotations

from gptcalc.sources.huggingface.experts import shared_experts
from gptcalc.sources.huggingface.llama import LLAMA, PREFIX
from gptcalc.sources.huggingface.reader import Reader, sites, size
from gptcalc.sources.huggingface.tensors import EXPERTS_GATE_UP, Held, bare, in_layers

#: the experts were published as layers (fc1, fc2), transformers 5 holds them bare
_gate_up = (
    Held("mlp.experts.fc1", parts=EXPERTS_GATE_UP, stored="in,out"),
    bare("mlp.experts.gate_up_proj", parts=EXPERTS_GATE_UP, stored="in,out"),
)

ARIA = LLAMA.but(
    document={
        "layers": "n*attn+moe",
        "bias": sites(attn="attention_bias"),
        "mlp": None,
        "moe": {
            "n_experts": size("moe_num_experts"),
            "top_k": size("moe_topk"),
            "router": "topk_softmax",
            "n_shared": size("moe_num_shared_experts"),
        },
    },
    only={"hidden_act": "silu", "mlp_bias": False},
    names=in_layers(
        PREFIX,
        {
            "moe.norm": "post_attention_layernorm",
            "moe.router": "mlp.router",
            "moe.gate": _gate_up,
            "moe.up": _gate_up,
            "moe.down": (Held("mlp.experts.fc2", stored="in,out"), bare("mlp.experts.down_proj", stored="in,out")),
            **shared_experts("mlp.shared_experts"),
        },
    ),
)

READERS: dict[str, Reader] = {
    "aria_text": ARIA,
}
