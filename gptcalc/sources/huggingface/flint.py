"""Flint: windows with rotary positions, full layers without, sinks, experts chosen by sigmoids beside a shared one."""

from __future__ import annotations

from collections.abc import Sequence

from gptcalc.sources.huggingface.experts import EXPERT_NAMES, shared_experts
from gptcalc.sources.huggingface.fields import Fields
from gptcalc.sources.huggingface.llama import LLAMA, PREFIX
from gptcalc.sources.huggingface.pattern import listed, stack
from gptcalc.sources.huggingface.qwen import sparse_layers
from gptcalc.sources.huggingface.reader import Reader, flag, sites, size
from gptcalc.sources.huggingface.tensors import bare, in_layers
from gptcalc.sources.huggingface.windows import TYPES


def first_two_every_fourth_and_last(_: Fields, n: int) -> Sequence[str]:
    return ["attn" if i < 2 or i % 4 == 1 or i == n - 1 else "local" for i in range(n)]


FLINT = LLAMA.but(
    document={
        "layers": stack(listed("layer_types", TYPES, first_two_every_fourth_and_last), sparse_layers),
        "bias": sites(attn="attention_bias"),
        "attn": {"position": "none", "qk_norm": "head", "sinks": True},
        "local": {"like": "attn", "position": "rope", "window": size("sliding_window")},
        "moe": {
            "n_experts": size("num_experts", "num_local_experts"),
            "top_k": size("num_experts_per_tok"),
            "d_ff": size("moe_intermediate_size"),
            "d_shared": size("shared_expert_intermediate_size"),
            "router": "sigmoid",
            "normalize": flag("norm_topk_prob"),
        },
    },
    defaults={"mlp_only_layers": [0, 1]},
    names={
        **EXPERT_NAMES,
        **in_layers(
            PREFIX,
            {
                "attn.sinks": (bare("self_attn.softmax_offset"), bare("self_attn.sinks")),
                **shared_experts("mlp.shared_expert"),
            },
        ),
    },
)

READERS: dict[str, Reader] = {
    "flint": FLINT,
}
