"""Mixtures of experts behind ordinary attention: the pieces that their readers share, and Mixtral's relatives."""

from __future__ import annotations

from typing import Any

from gptcalc.sources.huggingface.llama import LLAMA, PREFIX, TYPES
from gptcalc.sources.huggingface.pattern import every, listed, stack
from gptcalc.sources.huggingface.reader import Fields, Hole, activation, number, optional, sites, size
from gptcalc.sources.huggingface.tensors import EXPERTS_GATE_UP, Entry, bare, in_layers


def own_experts(
    module: str, gate: str = "gate_proj", up: str = "up_proj", down: str = "down_proj", together: str | None = None
) -> dict[str, Entry]:
    """Experts of which each has three tensors of its own, or (as transformers 5 stores them) two for all together."""
    all_experts = together or module
    both = bare(f"{all_experts}.gate_up_proj", parts=EXPERTS_GATE_UP)
    return {
        "moe.gate": (f"{module}.{{e}}.{gate}", both),
        "moe.up": (f"{module}.{{e}}.{up}", both),
        "moe.down": (f"{module}.{{e}}.{down}", bare(f"{all_experts}.down_proj")),
    }


def shared_experts(module: str) -> dict[str, Entry]:
    return {
        "moe.shared.gate": f"{module}.gate_proj",
        "moe.shared.up": f"{module}.up_proj",
        "moe.shared.down": f"{module}.down_proj",
    }


#: experts under `mlp.experts`, the router at `mlp.gate`
EXPERT_NAMES = in_layers(
    PREFIX, {"moe.norm": "post_attention_layernorm", "moe.router": "mlp.gate", **own_experts("mlp.experts")}
)

MIXTRAL_NAMES = in_layers(
    PREFIX,
    {
        "moe.norm": "post_attention_layernorm",
        "moe.router": ("block_sparse_moe.gate", "mlp.gate"),
        **own_experts("block_sparse_moe.experts", "w1", "w3", "w2", together="mlp.experts"),
    },
)


def groups(n: str = "n_group", top_k: str = "topk_group", score: str = "top2", method: str | None = None) -> Hole:
    """Group-limited routing, where there is more than one group (and topk_method is the one that uses them)."""

    def read(fields: Fields) -> dict[str, Any] | None:
        count, chosen = fields.size(n), fields.size(top_k)
        limited = method is None or fields.get("topk_method") == method
        return {"n": count, "top_k": chosen, "score": score} if limited and count and count > 1 else None

    return Hole(read)


MIXTRAL = LLAMA.but(
    document={
        "layers": stack("attn", "moe"),
        "attn": {"window": optional("sliding_window")},
        "moe": {"n_experts": size("num_local_experts", "num_experts"), "top_k": size("num_experts_per_tok")},
    },
    names=MIXTRAL_NAMES,
)

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
        "mlp": activation("hidden_act", gated=True),
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

READERS = {"mixtral": MIXTRAL, "gpt_oss": GPT_OSS}
