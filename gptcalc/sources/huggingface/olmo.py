"""OLMo: norms without weights (1), norms behind the sublayers and over all heads' queries and keys (2, 3)."""

from __future__ import annotations

from typing import Any

from gptcalc.sources.huggingface.experts import EXPERT_NAMES
from gptcalc.sources.huggingface.llama import BEHIND_NAMES, LLAMA
from gptcalc.sources.huggingface.pattern import SLIDING, every, listed, stack
from gptcalc.sources.huggingface.reader import Reader, flag, number, sites, size
from gptcalc.sources.huggingface.rope import rope
from gptcalc.sources.huggingface.windows import TYPES

OLMO = LLAMA.but(
    document={
        "norm": {"kind": "layernorm", "weight": False, "bias": False},
        "bias": sites(attn="attention_bias"),
        "attn": {"clip": number("clip_qkv")},
    },
    irrelevant=("rms_norm_eps",),
)

OLMO2 = LLAMA.but(
    document={"norm_at": "output", "bias": sites(attn="attention_bias"), "attn": {"qk_norm": "full"}},
    names=BEHIND_NAMES,
)

#: a flat rope_theta is handed to the full layers only; the others keep the class's
SLIDING_THETA = 500000

OLMO3 = OLMO2.but(
    document={
        "layers": stack(listed("layer_types", TYPES, every(4, "attn", "local")), "mlp"),
        "rope": rope(by_layer=True),
        "local": {
            "like": "attn",
            "window": size("sliding_window"),
            "rope": rope(SLIDING_THETA, layer_type=SLIDING, scaled=False, by_layer=True),
        },
    }
)

_experts: dict[str, Any] = {
    "n_experts": size("num_experts", "num_local_experts"),
    "top_k": size("num_experts_per_tok"),
    "normalize": flag("norm_topk_prob"),
}

# The class norms hidden_size channels of queries, and as many a head of keys: with another head_dim it can't run.
# Counted are the norms that would.
OLMOE = LLAMA.but(
    document={
        "layers": "n*attn+moe",
        "bias": sites(attn="attention_bias"),
        "attn": {"qk_norm": "full", "clip": number("clip_qkv")},
        "moe": _experts,
    },
    names=EXPERT_NAMES,
)

FLEX_OLMO = OLMO2.but(document={"layers": "n*attn+moe", "moe": _experts}, names=EXPERT_NAMES)

READERS: dict[str, Reader] = {
    "olmo": OLMO,
    "olmo2": OLMO2,
    "olmo3": OLMO3,
    "olmoe": OLMOE,
    "flex_olmo": FLEX_OLMO,
}
