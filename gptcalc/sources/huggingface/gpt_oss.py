"""gpt-oss: sinks, windows in every second layer, clamped experts."""

from __future__ import annotations

from gptcalc.sources.huggingface.llama import LLAMA, PREFIX
from gptcalc.sources.huggingface.pattern import every, listed, stack
from gptcalc.sources.huggingface.reader import Reader, number, sites, size
from gptcalc.sources.huggingface.tensors import EXPERTS_GATE_UP, bare, in_layers
from gptcalc.sources.huggingface.windows import TYPES

GPT_OSS = LLAMA.but(
    defaults={
        "rope_parameters": {
            "rope_type": "yarn",
            "factor": 32.0,
            "truncate": False,
            "original_max_position_embeddings": 4096,
        }
    },
    document={
        "layers": stack(listed("layer_types", TYPES, every(2, "attn", "local")), "moe"),
        "mlp": "swiglu",
        "bias": sites(attn="attention_bias", experts__router=True),
        "attn": {"sinks": True},
        "local": {"like": "attn", "window": size("sliding_window")},
        "moe": {
            "n_experts": size("num_local_experts", "num_experts"),
            "top_k": size("num_experts_per_tok", "experts_per_token"),
            "activation": "swiglu_oai",
            "clamp": number("swiglu_limit"),
            "router": "topk_softmax",
        },
    },
    only={"swiglu_alpha": 1.702, "initial_context_length": 4096},
    names=in_layers(
        PREFIX,
        {
            "attn.sinks": bare("self_attn.sinks"),
            "moe.norm": "post_attention_layernorm",
            "moe.router": "mlp.router",
            "moe.gate": bare("mlp.experts.gate_up_proj", parts=EXPERTS_GATE_UP, groups="d_ff", stored="in,out"),
            "moe.up": bare("mlp.experts.gate_up_proj", parts=EXPERTS_GATE_UP, groups="d_ff", stored="in,out"),
            "moe.down": bare("mlp.experts.down_proj", stored="in,out"),
        },
    ),
)

READERS: dict[str, Reader] = {
    "gpt_oss": GPT_OSS,
}
