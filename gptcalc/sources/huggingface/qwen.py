"""Qwen: Llama with biases on q, k and v (Qwen 2) or norms of queries and keys (Qwen 3), dense and with experts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gptcalc.sources.huggingface.llama import LLAMA, PREFIX, TYPES
from gptcalc.sources.huggingface.mixtures import EXPERT_NAMES, shared_experts
from gptcalc.sources.huggingface.pattern import FULL, SLIDING, listed, stack
from gptcalc.sources.huggingface.reader import Fields, Hole, flag, sites, size, when
from gptcalc.sources.huggingface.tensors import in_layers


def upper_layers(fields: Fields, n: int) -> Sequence[str]:
    """A window, where the config switches it on, in the layers from max_window_layers on."""
    local = fields.flag("use_sliding_window") and fields.size("sliding_window") is not None
    start = fields.size("max_window_layers", least=0)
    return ["local" if local and start is not None and i >= start else "attn" for i in range(n)]


MIXERS = listed("layer_types", TYPES, upper_layers)


def sparse_layers(fields: Fields, n: int) -> Sequence[str]:
    """Experts in every decoder_sparse_step-th layer that mlp_only_layers doesn't except."""
    step, experts = (fields.needed("decoder_sparse_step"), fields.size("num_experts", "num_local_experts", least=0))
    dense = fields.items("mlp_only_layers") or []
    return ["moe" if experts and i not in dense and (i + 1) % step == 0 else "mlp" for i in range(n)]


QWEN2 = LLAMA.but(
    document={
        "layers": stack(MIXERS, "mlp"),
        "bias": "qkv",
        "local": {"like": "attn", "window": size("sliding_window")},
    },
    irrelevant=("use_sliding_window", "max_window_layers"),
)

QWEN3 = QWEN2.but(
    document={"bias": sites(attn="attention_bias"), "attn": {"qk_norm": "head"}}, only={"use_qk_norm": True}
)

_sparse: dict[str, Any] = {
    "n_experts": size("num_experts", "num_local_experts"),
    "top_k": size("num_experts_per_tok"),
    "d_ff": size("moe_intermediate_size"),
    "normalize": flag("norm_topk_prob"),
}


def everywhere(fields: Fields) -> Any:
    """One window for all layers, where the config switches it on."""
    window = fields.size("sliding_window")
    return window if fields.flag("use_sliding_window") else None


QWEN3_MOE = QWEN3.but(
    document={
        "layers": stack(listed("layer_types", {FULL: "attn", SLIDING: "attn"}), sparse_layers),
        "attn": {"qk_norm": "head", "window": Hole(everywhere)},
        "local": None,
        "moe": _sparse,
    },
    names=EXPERT_NAMES,
)

QWEN2_MOE = QWEN2.but(
    document={
        "layers": stack(MIXERS, sparse_layers),
        "bias": when("qkv_bias", "qkv"),
        "moe": {**_sparse, "n_shared": 1, "d_shared": size("shared_expert_intermediate_size"), "shared_gate": True},
    },
    names={
        **EXPERT_NAMES,
        **in_layers(PREFIX, {**shared_experts("mlp.shared_expert"), "moe.shared_gate": "mlp.shared_expert_gate"}),
    },
)

_inside = {"tie_word_embeddings": False}  # where the larger model says nothing
_vl = QWEN2.but(defaults=_inside)

READERS = {
    "qwen2_vl": _vl.but(like="qwen2_vl_text"),
    "qwen2_vl_text": _vl,
    "qwen2_5_vl": _vl.but(like="qwen2_5_vl_text"),
    "qwen2_5_vl_text": _vl,
    "qwen2_5_omni_text": _vl,
    "qwen3_vl_text": QWEN3.but(defaults=_inside),
    "qwen3_vl_moe_text": QWEN3_MOE.but(defaults=_inside),
    "qwen3_omni_moe_text": QWEN3_MOE.but(defaults=_inside),
    "qwen2": QWEN2,
    "qwen2_moe": QWEN2_MOE,
    "qwen3": QWEN3,
    "qwen3_moe": QWEN3_MOE,
}
