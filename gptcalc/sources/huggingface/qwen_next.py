"""Qwen3-Next and Qwen 3.5: three gated delta nets, then one layer of gated attention."""

from __future__ import annotations

from typing import Any

from gptcalc.sources.huggingface.fields import Fields, shown
from gptcalc.sources.huggingface.llama import PREFIX
from gptcalc.sources.huggingface.pattern import FULL, RECURRENT, every, listed, stack
from gptcalc.sources.huggingface.qwen import QWEN2_MOE, sparse_layers
from gptcalc.sources.huggingface.reader import Hole, Reader, number, optional, rmsnorm, sites, size, when
from gptcalc.sources.huggingface.tensors import Held, Names, Parts, bare, fused, in_layers


def swish(fields: Fields) -> str:
    """The function of convolutions and gates, which is the MLP's."""
    if (word := fields.word("hidden_act")) not in ("silu", "swish"):
        raise fields.unsupported("hidden_act", f"delta nets with {shown(word)} are not understood")
    return "silu"


#: a gated delta net in the words of Qwen3-Next's config
GATED_DELTA_NET: dict[str, Any] = {
    "like": "linear",
    "n_heads": size("linear_num_value_heads"),
    "n_k_heads": size("linear_num_key_heads"),
    "d_k": size("linear_key_head_dim"),
    "d_v": size("linear_value_head_dim"),
    "delta": True,
    "decay": "head",
    "kernel": size("linear_conv_kernel_dim"),
    "gate": Hole(swish),
    "out_norm": {"over": "head", "offset": 0, "eps": number("rms_norm_eps")},
}

CONVOLVED: Parts = (("linear.q_conv", "k_width"), ("linear.k_conv", "k_width"), ("linear.v_conv", "v_width"))

STATE_NAMES: Names = {
    "linear.norm": "input_layernorm",
    "linear.A_log": bare("linear_attn.A_log"),
    "linear.dt_bias": bare("linear_attn.dt_bias"),
    "linear.out_norm": "linear_attn.norm",
    "linear.out": "linear_attn.out_proj",
    **fused("linear_attn.conv1d", CONVOLVED),
}


def convolutions(module: str) -> Names:
    """Three convolutions apart, as checkpoints have them, or (as transformers 5 keeps them) in one."""
    together = fused(f"{module}.conv1d", CONVOLVED)
    return {stem: (f"{module}.{stem[7]}_conv1d", held) for stem, held in together.items() if isinstance(held, Held)}


QKV: Parts = (("linear.q", "k_width"), ("linear.k", "k_width"), ("linear.v", "v_width"))

#: queries and their gates alternate, head by head
QUERIES: Names = fused("self_attn.q_proj", (("attn.q", 1), ("attn.gate", 1)), groups="n_heads")

_interval = every("full_attention_interval", "attn", "gdn")

QWEN3_NEXT = QWEN2_MOE.but(
    document={
        "layers": stack(listed("layer_types", {FULL: "attn", RECURRENT: "gdn"}, _interval), sparse_layers),
        "bias": sites(attn="attention_bias"),
        "norm": rmsnorm(offset=1),
        "local": None,
        "attn": {"qk_norm": "head", "gate": "full", "gate_bias": when("attention_bias", "full")},
        "gdn": GATED_DELTA_NET,
    },
    defaults={"full_attention_interval": 4, "partial_rotary_factor": 0.25},
    only={"use_sliding_window": False},
    irrelevant=("sliding_window", "full_attention_interval"),
    names=in_layers(
        PREFIX,
        {
            **STATE_NAMES,
            **QUERIES,
            **fused("linear_attn.in_proj_qkvz", (*QKV, ("linear.gate", "v_width")), groups="n_k_heads"),
            **fused("linear_attn.in_proj_ba", (("linear.beta", 1), ("linear.decay", 1)), groups="n_k_heads"),
        },
    ),
)

_apart = in_layers(
    PREFIX,
    {
        **fused("linear_attn.in_proj_qkv", QKV),
        "linear.gate": "linear_attn.in_proj_z",
        "linear.beta": "linear_attn.in_proj_b",
        "linear.decay": "linear_attn.in_proj_a",
    },
)

#: a multi-token-prediction module of Qwen 3.5 has attention, whatever the last layer has
_modules = {"n": Hole(lambda fields: fields.size("mtp_num_hidden_layers", least=0) or 0)}

QWEN3_5 = QWEN3_NEXT.but(
    document={
        "layers": stack(listed("layer_types", {FULL: "attn", RECURRENT: "gdn"}, _interval), "mlp"),
        "moe": None,
        "mtp": {**_modules, "block": "attn+mlp"},
    },
    only={"attn_output_gate": True, "output_gate_type": "swish", "mtp_use_dedicated_embeddings": False},
    beyond=("mtp_num_hidden_layers",),
    irrelevant=("mamba_ssm_dtype", "mlp_only_layers"),
    names=_apart,
)

QWEN3_5_MOE = QWEN3_NEXT.but(
    document={
        "layers": stack(listed("layer_types", {FULL: "attn", RECURRENT: "gdn"}, _interval), "moe"),
        "d_ff": optional("intermediate_size"),
        "mtp": {**_modules, "block": "attn+moe"},
    },
    defaults={"norm_topk_prob": True},
    only={"attn_output_gate": True, "output_gate_type": "swish", "mtp_use_dedicated_embeddings": False},
    beyond=("mtp_num_hidden_layers",),
    irrelevant=("mamba_ssm_dtype", "mlp_only_layers", "decoder_sparse_step"),
    names=_apart,
)

READERS: dict[str, Reader] = {
    "qwen3_next": QWEN3_NEXT,
    "qwen3_5_text": QWEN3_5,
    "qwen3_5_moe_text": QWEN3_5_MOE,
}
