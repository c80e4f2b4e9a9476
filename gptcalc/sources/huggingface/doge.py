"""Doge: scores that grow by what the keys' values say, residuals with learned factors."""

from __future__ import annotations

from gptcalc.sources.huggingface.llama import LLAMA, PREFIX
from gptcalc.sources.huggingface.reader import Reader, flag, sites, size
from gptcalc.sources.huggingface.tensors import bare, in_layers

DOGE = LLAMA.but(
    document={
        "attn": {
            "qk_norm": "head",
            "dynamic_mask": {"top_k": size("keep_window_size"), "bias": flag("attention_bias")},
            "residual_factors": {"stream": True},
        },
        "mlp": {"activation": LLAMA.document["mlp"], "residual_factors": {"stream": True}},
        "bias": sites(attn="attention_bias", mlp="mlp_bias"),
    },
    only={"is_moe": False, "sliding_window": ()},
    irrelevant=("num_experts", "num_experts_per_tok", "norm_topk_prob"),
    names=in_layers(
        PREFIX,
        {
            "attn.mask.dt": "self_attn.dt_proj",
            "attn.mask.A": bare("self_attn.A"),
            "attn.residual.stream": bare("input_residual"),
            "mlp.residual.stream": bare("post_attention_residual"),
        },
    ),
)

READERS: dict[str, Reader] = {
    "doge": DOGE,
}
