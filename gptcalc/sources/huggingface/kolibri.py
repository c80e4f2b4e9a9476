"""Kolibri: norms around every sublayer, sigmoid routing without groups."""

from __future__ import annotations

from gptcalc.sources.huggingface.experts import NAMES
from gptcalc.sources.huggingface.llama import LLAMA, PREFIX
from gptcalc.sources.huggingface.pattern import every, listed, stack
from gptcalc.sources.huggingface.reader import Hole, Reader, flag, size
from gptcalc.sources.huggingface.tensors import bare, in_layers
from gptcalc.sources.huggingface.windows import TYPES, windows

KOLIBRI = LLAMA.but(
    document={
        "d_ff": None,
        "layers": stack(listed("layer_types", TYPES, every(5, "attn", "local")), "moe"),
        "norm_at": "sandwich",
        "attn": {"qk_norm": "head", "position": Hole(windows)},
        "local": {"like": "attn", "position": "rope", "window": size("sliding_window")},
        "moe": {
            "n_experts": size("num_experts", "num_local_experts"),
            "top_k": size("num_experts_per_tok"),
            "d_ff": size("moe_intermediate_size"),
            "n_shared": 1,
            "d_shared": size("shared_expert_intermediate_size"),
            "router": "topk_sigmoid",
            "selection_bias": True,
            "normalize": flag("norm_topk_prob"),
        },
    },
    names={
        **NAMES,
        **in_layers(
            PREFIX,
            {
                "attn.post_norm": ("post_self_attn_layernorm", "post_attn_norm"),
                "moe.norm": "post_attention_layernorm",
                "moe.post_norm": ("post_mlp_layernorm", "post_ffn_norm"),
                "moe.selection_bias": (bare("mlp.gate.e_score_correction_bias"), bare("moe.router.expert_bias")),
            },
        ),
    },
)

READERS: dict[str, Reader] = {
    "kolibri1": KOLIBRI,
}
