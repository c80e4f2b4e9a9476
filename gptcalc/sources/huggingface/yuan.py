"""Yuan 2: queries and keys of an input that is filtered over neighbours; experts that attend to each other (M32).

The class reads neither a frequency nor an ε of the filter's norm: 10000 and 1e-6. Of a head, q_proj and k_proj behind
each other make first the query and then the key.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from gptcalc.sources.huggingface.fields import Fields
from gptcalc.sources.huggingface.llama import LLAMA, PLAIN, PREFIX
from gptcalc.sources.huggingface.pattern import stack
from gptcalc.sources.huggingface.reader import Hole, Reader, flag, rmsnorm, size
from gptcalc.sources.huggingface.tensors import EXPERTS_GATE_UP, Held, Parts, fused, in_layers

QUERY_KEY: Parts = (("attn.q", 1), ("attn.k", 1))


def _half(fields: Fields) -> int:
    """The channels between the two convolutions."""
    return (fields.size("hidden_size") or fields.needed("hidden_size")) // 2


def _head(fields: Fields) -> int | None:
    """The width of a head, where all heads together are not as wide as the stream."""
    width, n_heads = fields.size("attention_projection_size"), fields.size("num_attention_heads")
    return None if width is None or n_heads is None else width // n_heads


def _rope(fields: Fields) -> dict[str, Any]:
    """The class turns as many channels as a head would have without a width of its own."""
    d, n_heads, d_head = fields.size("hidden_size"), fields.size("num_attention_heads"), _head(fields)
    turned = d // n_heads if d is not None and n_heads is not None else None
    return {"theta": 10000.0, "channels": None if d_head is None or turned == d_head else turned}


def _sparse(fields: Fields, n: int) -> list[str]:
    """Every layer has experts, or none has."""
    experts = fields.size("moe_config.moe_num_experts", least=0)
    return ["moe" if experts else "mlp"] * n


_YUAN = LLAMA.but(
    document={
        "n_kv_heads": None,
        "bias": None,
        "d_head": Hole(_head),
        "rope": Hole(_rope),
        "layers": stack("attn", _sparse),
        "attn": {"filter": {"d": Hole(_half), "norm": rmsnorm(1e-6)}},
        "moe": {
            "n_experts": size("moe_config.moe_num_experts"),
            "top_k": size("moe_config.moe_top_k"),
            "d_ff": size("moe_config.ffn_hidden_size"),
            "normalize": flag("moe_config.norm_topk_prob"),
            "router_attention": True,
        },
    },
    defaults={**PLAIN, "tie_word_embeddings": True},
    only={
        "use_shareqk": False,
        "causal_mask": True,
        "moe_config.gated_linear_unit": True,
        "rotary_base": 10000,
        "use_yarn": False,
    },
    irrelevant=(
        "use_moe",
        "eod_token",
        "sep_token",
        "reset_attention_mask",
        "reset_position_ids",
        "use_loss_mask",
        "_from_model_config",
    ),
    names=in_layers(
        PREFIX,
        {
            **fused("self_attn.q_proj", QUERY_KEY, groups="n_heads", behind=("self_attn.k_proj",)),
            "attn.filter.inner_conv": "self_attn.lf_gate.conv1",
            "attn.filter.outer_conv": "self_attn.lf_gate.conv2",
            "attn.filter.norm": "self_attn.lf_gate.output_layernorm",
            # the class gates by what it calls up
            "mlp.gate": "mlp.up_proj",
            "mlp.up": "mlp.gate_proj",
            "moe.norm": "post_attention_layernorm",
            "moe.router": "mlp.gate.query",
            "moe.router_k": "mlp.gate.key",
            "moe.router_v": "mlp.gate.value",
            **{stem: Held("mlp.experts.{e}.w1", parts=EXPERTS_GATE_UP) for stem, _ in EXPERTS_GATE_UP},
            "moe.down": "mlp.experts.{e}.w2",
        },
    ),
)

YUAN = replace(_YUAN, nested=("moe_config",))

READERS: dict[str, Reader] = {"yuan": YUAN}
