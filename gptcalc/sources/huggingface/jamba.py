"""Jamba: Mamba with norms inside, attention and experts in periods of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gptcalc.sources.huggingface.experts import own_experts
from gptcalc.sources.huggingface.fields import Fields
from gptcalc.sources.huggingface.llama import LLAMA, PREFIX
from gptcalc.sources.huggingface.mamba import FEED_FORWARD, biases, convolved, expanded, low_rank, mamba_names
from gptcalc.sources.huggingface.pattern import stack
from gptcalc.sources.huggingface.reader import Reader, size
from gptcalc.sources.huggingface.tensors import in_layers


def some(period: str, offset: str, unit: str, other: str) -> Callable[[Fields, int], Sequence[str]]:
    """`unit` in every layer whose number leaves this rest."""

    def read(fields: Fields, n: int) -> Sequence[str]:
        step, rest = fields.needed(period), fields.size(offset, least=0) or 0
        return [unit if i % step == rest else other for i in range(n)]

    return read


def sparse(fields: Fields, n: int) -> Sequence[str]:
    experts = fields.size("num_experts", "num_local_experts") or 1
    chosen = some("expert_layer_period", "expert_layer_offset", "moe", "mlp")(fields, n)
    return chosen if experts > 1 else ["mlp"] * n


JAMBA = LLAMA.but(
    document={
        "position": "none",
        "rope": None,
        "layers": stack(some("attn_layer_period", "attn_layer_offset", "attn", "mamba"), sparse),
        "mamba": {
            "d_inner": expanded("mamba_expand"),
            "d_state": size("mamba_d_state"),
            "dt_rank": low_rank("mamba_dt_rank"),
            "kernel": convolved(size("mamba_d_conv")),
            "inner_norm": {},
            "bias": biases("mamba_conv_bias", "mamba_proj_bias", "mamba_proj_bias"),
        },
        "moe": {"n_experts": size("num_experts"), "top_k": size("num_experts_per_tok"), "normalize": False},
    },
    irrelevant=(
        "use_mambapy",
        "use_associative_scan",
        "sliding_window",
        "n_ctx",
        "calc_logits_for_entire_prompt",
        "rope_theta",
        "mamba_inner_layernorms",
        "rope_parameters",
        "num_local_experts",
    ),
    names={
        "final_norm": "model.final_layernorm",
        **in_layers(
            PREFIX,
            {
                "mamba.norm": "input_layernorm",
                **mamba_names("mamba"),
                "mamba.dt_a_norm": "mamba.dt_layernorm",
                "mamba.B_norm": "mamba.b_layernorm",
                "mamba.C_norm": "mamba.c_layernorm",
                **FEED_FORWARD,
                "moe.norm": "pre_ff_layernorm",
                "moe.router": "feed_forward.router",
                **own_experts("feed_forward.experts"),
            },
        ),
    },
)

READERS: dict[str, Reader] = {"jamba": JAMBA}
