"""Grok: caps on scores, norms around every sublayer; an MLP beside the experts (2)."""

from __future__ import annotations

from typing import Any

from gptcalc.sources.huggingface.fields import Fields
from gptcalc.sources.huggingface.llama import PREFIX
from gptcalc.sources.huggingface.mistral import MIXTRAL
from gptcalc.sources.huggingface.reader import Hole, Reader, number, optional, size
from gptcalc.sources.huggingface.tensors import Names, in_layers

_grok: Names = in_layers(
    PREFIX,
    {
        "attn.norm": "pre_attn_norm",
        "attn.post_norm": "post_attn_norm",
        "attn.q": ("attn.q_proj", "self_attn.q_proj"),
        "attn.k": ("attn.k_proj", "self_attn.k_proj"),
        "attn.v": ("attn.v_proj", "self_attn.v_proj"),
        "attn.out": ("attn.o_proj", "self_attn.o_proj"),
        "moe.norm": "pre_moe_norm",
        "moe.post_norm": "post_moe_norm",
        "moe.router": ("moe_block.gate", "block_sparse_moe.gate"),
        "moe.gate": ("moe_block.experts.{e}.linear", "block_sparse_moe.experts.{e}.w1"),
        "moe.up": ("moe_block.experts.{e}.linear_v", "block_sparse_moe.experts.{e}.w3"),
        "moe.down": ("moe_block.experts.{e}.linear_1", "block_sparse_moe.experts.{e}.w2"),
    },
)


def grok_rope(fields: Fields) -> dict[str, Any]:
    """YaRN written in fields of the config itself, without a rescaling of scores."""
    factor = fields.number("scaling_factor")
    words = {"beta_fast": fields.number("beta_fast"), "beta_slow": fields.number("beta_slow")}
    original = fields.size("original_max_position_embeddings")
    scaling = {"kind": "yarn", "factor": factor, "original": original, "attention_factor": 1.0, **words}
    return {"theta": fields.number("rope_theta"), "scaling": scaling if factor else None}


GROK1 = MIXTRAL.but(
    document={
        "norm_at": "sandwich",
        "mlp": "geglu_tanh",
        "bias": None,
        "embedding": {"scale": number("embedding_multiplier_scale")},
        "logit_scale": number("output_multiplier_scale"),
        "attn": {"softcap": number("max_attn_value"), "scale": number("attn_output_multiplier")},
        "moe": {
            "n_experts": size("num_experts", "num_local_experts"),
            "top_k": size("num_experts_per_tok", "num_selected_experts"),
            "normalize": False,
        },
    },
    defaults={"rms_norm_eps": 1e-5, "tie_word_embeddings": True},
    only={"hidden_act": "gelu"},
    names=_grok,
)

#: an MLP beside the experts, one norm before and one behind both
GROK2 = GROK1.but(
    document={
        "layers": "n*attn+mlp|moe",
        "d_ff": size("intermediate_size"),
        "parallel_out_norm": True,
        "parallel_scale": 0.5**0.5,
        "rope": Hole(grok_rope),
        "softcap": number("final_logit_softcapping"),
        "attn": {"softcap": number("attn_logit_softcapping"), "log_length": optional("attn_temperature_len")},
        "mlp": {"activation": "geglu_tanh", "norm": "none"},
        "moe": {
            "activation": "geglu_tanh",
            "norm": "none",
            "n_experts": size("num_local_experts", "num_experts"),
            "top_k": size("num_experts_per_tok"),
            "d_ff": size("moe_intermediate_size"),
            "normalize": False,
            "router_softcap": number("router_logit_softcapping"),
        },
    },
    defaults={"tie_word_embeddings": False},
    only={
        "residual_moe": True,
        "sliding_window_size": -1,
        "global_attn_every_n": 1,
        "rope_type": "original",
        "extrapolation_factor": 1.0,
        "attn_factor": 1.0,
    },
    names=in_layers(
        PREFIX,
        {
            "parallel.norm": "pre_moe_norm",
            "parallel.out_norm": "post_moe_norm",
            "mlp.gate": "mlp.gate_proj",
            "mlp.up": "mlp.up_proj",
            "mlp.down": "mlp.down_proj",
        },
    ),
)

READERS: dict[str, Reader] = {
    "grok-1": GROK1,
    "grok-2": GROK2,
}
