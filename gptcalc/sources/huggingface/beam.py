"""Beam: residuals that are averaged, full layers without positions whose queries grow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gptcalc.sources.huggingface.deepseek import ROUTED
from gptcalc.sources.huggingface.experts import DENSE_OR_SPARSE, SIGMOID
from gptcalc.sources.huggingface.fields import Fields
from gptcalc.sources.huggingface.llama import PREFIX
from gptcalc.sources.huggingface.pattern import FULL, SLIDING, first, listed, stack
from gptcalc.sources.huggingface.reader import Hole, Reader, number, sites, size
from gptcalc.sources.huggingface.rope import THETA, rope
from gptcalc.sources.huggingface.tensors import Held, in_layers


def sixth_and_last(_: Fields, n: int) -> Sequence[str]:
    return ["local" if (i + 1) % 6 and i + 1 < n else "full" for i in range(n)]


def growing(fields: Fields) -> dict[str, Any]:
    """How queries of full layers grow, which have no rotation."""
    if (fields.mapping("rope_parameters") or {}).get(FULL) is not None:
        raise fields.unsupported("rope_parameters.full_attention", "only null is understood")
    return {"floor": 2048, "scale": 0.1, "form": "power"}


BEAM = ROUTED.but(
    document={
        "layers": stack(
            listed("layer_types", {FULL: "full", SLIDING: "local"}, sixth_and_last),
            listed("mlp_layer_types", DENSE_OR_SPARSE, first(3, "mlp", "moe")),
        ),
        "norm_at": "sandwich",
        "averaged_residuals": True,
        "softcap": number("final_logit_softcapping"),
        "bias": sites(attn="attention_bias"),
        "rope": rope(THETA, layer_type=SLIDING, scaled=False),  # nothing reads a rope_theta beside rope_parameters
        "attn": {"qk_norm": "head", "gate": "full", "gate_bias": True},
        "local": {"like": "attn", "window": size("sliding_window")},
        "full": {"like": "attn", "position": "none", "temperature": Hole(growing)},
        "moe": {**SIGMOID, "n_experts": size("num_experts"), "n_shared": None},
        "mtp": None,
    },
    names=in_layers(
        PREFIX,
        {
            "attn.gate": Held("self_attn", weight=".gate_proj.weight", bias=".gate_bias"),
            "attn.post_norm": "post_attention_layernorm",
            "mlp.norm": "pre_feedforward_layernorm",
            "mlp.post_norm": "post_feedforward_layernorm",
            "moe.norm": "pre_feedforward_layernorm",
            "moe.post_norm": "post_feedforward_layernorm",
        },
    ),
)

READERS: dict[str, Reader] = {
    "beam": BEAM,
}
