"""MiniMax-Text-01 and M1: lightning attention, every eighth layer softmax attention; the stream itself is normed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gptcalc.sources.huggingface.fields import Fields
from gptcalc.sources.huggingface.llama import PREFIX
from gptcalc.sources.huggingface.mistral import MIXTRAL
from gptcalc.sources.huggingface.pattern import FULL, RECURRENT, Units, flagged, listed, stack
from gptcalc.sources.huggingface.reader import Hole, Reader, number, size
from gptcalc.sources.huggingface.rope import rope
from gptcalc.sources.huggingface.tensors import fused, in_layers


def alternating(_: Fields, n: int) -> Sequence[str]:
    return ["lightning" if i % 2 else "attn" for i in range(n)]


_mixers: Units = listed(
    "layer_types",
    {FULL: "attn", RECURRENT: "lightning"},
    flagged("attn_type_list", "attn", "lightning", alternating),
)


def share(of: str, original: str) -> dict[str, Any]:
    """Factors of the normed stream and of what is added to it."""
    return {
        "stream_scale": number(f"{of}_alpha_factor", f"layernorm_{original}_alpha"),
        "residual_scale": number(f"{of}_beta_factor", f"layernorm_{original}_beta"),
    }


def head_width(fields: Fields) -> int:
    return fields.size("head_dim") or fields.needed("hidden_size") // fields.needed("num_attention_heads")


MINIMAX_TEXT = MIXTRAL.but(
    document={
        "layers": stack(_mixers, "moe"),
        "rope": rope(fraction="partial_rotary_factor", channels="rotary_dim"),
        "norm_at": "stream",
        "attn": {**MIXTRAL.document["attn"], **share("full_attn", "full_attention")},
        "lightning": {
            "like": "linear",
            "n_heads": size("num_attention_heads"),
            "d_k": Hole(head_width),
            "d_v": Hole(head_width),
            "decay": {"form": "fixed"},
            "qk_norm": "none",
            "scale": 1.0,
            "gate": "sigmoid",
            "out_norm": {"over": "full"},
            "chunk": size("block_size"),
            **share("linear_attn", "linear_attention"),
        },
        "moe": {
            "n_experts": size("num_local_experts", "num_experts"),
            "top_k": size("num_experts_per_tok"),
            **share("mlp", "mlp"),
        },
    },
    only={"postnorm": True, "shared_intermediate_size": 0, "shared_moe_mode": "sigmoid"},
    irrelevant=("router_jitter_noise",),
    names=in_layers(
        PREFIX,
        {
            "linear.norm": "input_layernorm",
            **fused("self_attn.qkv_proj", (("linear.q", 1), ("linear.k", 1), ("linear.v", 1)), groups="n_heads"),
            "linear.gate": "self_attn.output_gate",
            "linear.out_norm": "self_attn.norm",
            "linear.out": "self_attn.out_proj",
        },
    ),
)

#: what the vendor's own code reads and transformers' class, whose names are others, doesn't
OWN = (
    "attn_type_list", "rotary_dim", "postnorm", "shared_intermediate_size", "shared_moe_mode",
    "layernorm_full_attention_alpha", "layernorm_full_attention_beta", "layernorm_linear_attention_alpha",
    "layernorm_linear_attention_beta", "layernorm_mlp_alpha", "layernorm_mlp_beta",
)  # fmt: skip

READERS: dict[str, Reader] = {
    "minimax": MINIMAX_TEXT,
    "minimax_text_01": MINIMAX_TEXT.but(like="minimax", beyond=OWN),
    "minimax_m1": MINIMAX_TEXT.but(like="minimax", beyond=OWN),
}
