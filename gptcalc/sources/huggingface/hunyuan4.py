"""Hy 4: GLM's sparse attention with sinks and a gate, independent hyper-connections."""

from __future__ import annotations

from collections.abc import Sequence

from gptcalc.sources.huggingface.deepseek import LATENT, index
from gptcalc.sources.huggingface.experts import SIGMOID, SPARSE
from gptcalc.sources.huggingface.fields import Fields
from gptcalc.sources.huggingface.glm import GLM_MOE_DSA
from gptcalc.sources.huggingface.llama import PREFIX
from gptcalc.sources.huggingface.pattern import listed, stack
from gptcalc.sources.huggingface.reader import Hole, Reader, number, rmsnorm, size
from gptcalc.sources.huggingface.rope import rope
from gptcalc.sources.huggingface.tensors import EXPERTS_GATE_UP, bare, in_layers


def first_and_every_fourth(_: Fields, n: int) -> Sequence[str]:
    return ["mla" if i == 0 or (i - 1) % 4 == 0 else "follower" for i in range(n)]


def limit(fields: Fields) -> float | None:
    """A clamp at zero or below is none."""
    value = fields.number("swiglu_limit")
    return value if value is not None and value > 0 else None


_index = index(pairing="half", rotates="last", k_norm={"kind": "layernorm", "eps": number("rms_norm_eps")})
_stacked = bare("mlp.experts.gate_up_proj", parts=EXPERTS_GATE_UP)

HY_V4 = GLM_MOE_DSA.but(
    document={
        "layers": stack(listed("indexer_types", {"full": "mla", "shared": "follower"}, first_and_every_fourth), SPARSE),
        "rope": rope(fraction=None),
        "mlp": "swiglu",
        "streams": {
            "n": size("hc_mult"),
            "mixed": False,
            "magnitude": number("hc_magnitude"),
            "eps": number("hc_eps"),
            "norm": rmsnorm(weight=False),
        },
        "mla": {**LATENT, "latent_norm": rmsnorm(1e-6), "gate": "full", "sinks": True, "index": _index},
        "follower": {"like": "mla", "index": {**_index, "shared": True}},
        "moe": {**SIGMOID, "clamp": Hole(limit), "shared_clamp": Hole(lambda f: "none" if limit(f) else None)},
        "mtp": None,
    },
    defaults={"first_k_dense_replace": 1},
    only={"layer_types": (), "head_dim": (), "hidden_act": ("silu", "swish")},  # that of experts is in the class
    irrelevant=("learnable_sink_init",),
    names={
        **in_layers(
            PREFIX,
            {
                "attn.gate": ("self_attn.linear_gate", "self_attn.gate_proj"),
                "attn.sinks": (bare("self_attn.learnable_sink_param"), bare("self_attn.sinks")),
                "mlp.gate": ("mlp.linear_gate", "mlp.gate_proj"),
                "moe.shared.gate": ("mlp.shared_experts.linear_gate", "mlp.shared_experts.gate_proj"),
                "moe.gate": _stacked,
                "moe.up": _stacked,
                "moe.down": bare("mlp.experts.down_proj"),
                **{
                    f"{ours}.{part}": (
                        bare(f"hc_pre.{theirs}_layer.hc_{name}"),
                        bare(f"{theirs.removeprefix('hc_').replace('mlp', 'ffn')}_hc.{name}"),
                    )
                    for ours, theirs in (("streams", "hc_attn"), ("streams2", "hc_mlp"))
                    for part, name in (("mix", "fn"), ("base", "base"), ("scale", "scale"))
                },
            },
        ),
        **{
            f"head.streams.{part}": (bare(f"model.hc_pre.hc_head.hc_head_{name}"), bare(f"model.hc_head.hc_{name}"))
            for part, name in (("mix", "fn"), ("base", "base"), ("scale", "scale"))
        },
    },
)

#: the text model of the larger one, whose latents are normed as the stream is
HY_V4_VL = HY_V4.but(document={"mla": {**HY_V4.document["mla"], "latent_norm": rmsnorm()}})

READERS: dict[str, Reader] = {"hy_v4": HY_V4, "hy_v4_vl_text": HY_V4_VL}
