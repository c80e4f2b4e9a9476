"""Falcon-H1: attention and Mamba-2 side by side, everything with a factor of its own."""

from __future__ import annotations

import math
from typing import Any

from gptcalc.sources.huggingface.bamba import BAMBA
from gptcalc.sources.huggingface.fields import Fields
from gptcalc.sources.huggingface.llama import PREFIX
from gptcalc.sources.huggingface.mamba import EXPANDED, HEADS, biases, mamba2
from gptcalc.sources.huggingface.reader import Hole, Reader, activation, number
from gptcalc.sources.huggingface.tensors import in_layers


def scores(fields: Fields) -> float:
    """Queries and keys are projected from an input that has a factor, and keys have one more."""
    width = fields.size("head_dim") or fields.needed("hidden_size") // fields.needed("num_attention_heads")
    into = fields.number("attention_in_multiplier") or 1.0
    if into != 1.0 and fields.flag("attention_bias"):
        raise fields.unsupported("attention_bias", "biases beside a factor of the input are not understood")
    return float(into * into * (fields.number("key_multiplier") or 1.0) / math.sqrt(width))


def factors(fields: Fields) -> list[float]:
    """Factors of z, x, B, C and Δ."""
    own = fields.items("ssm_multipliers") or [1.0] * 5
    if len(own) != 5 or not all(isinstance(x, (int, float)) for x in own):
        fields.wrong(("ssm_multipliers",), "5 numbers", own)
    into = fields.number("ssm_in_multiplier") or 1.0
    if into != 1.0 and fields.flag("mamba_proj_bias"):
        raise fields.unsupported("mamba_proj_bias", "biases beside a factor of the input are not understood")
    return [float(into * x) for x in own]


def of_mlp(which: int) -> Hole:
    """Factors of the gate and of the output."""

    def read(fields: Fields) -> float | None:
        own = fields.items("mlp_multipliers")
        if own is not None and (len(own) != 2 or not all(isinstance(x, (int, float)) for x in own)):
            fields.wrong(("mlp_multipliers",), "2 numbers", own)
        return None if own is None else float(own[which])

    return Hole(read)


def inner_width(fields: Fields) -> int:
    return fields.size("mamba_d_ssm") or int(EXPANDED.read(fields))


def gated_norm(fields: Fields) -> dict[str, Any] | None:
    return {} if fields.flag("mamba_rms_norm") else None


FALCON_H1 = BAMBA.but(
    document={
        "layers": "n*(attn|mamba2)+mlp",
        "logit_scale": number("lm_head_multiplier"),
        "embedding": {"scale": number("embedding_multiplier")},
        "attn": {
            **HEADS["attn"],
            "scale": Hole(scores),
            "value_scale": number("attention_in_multiplier"),
            "residual_scale": number("attention_out_multiplier"),
        },
        "mamba2": mamba2(
            Hole(inner_width),
            bias=biases("mamba_conv_bias", "mamba_proj_bias", "projectors_bias"),
            out_norm=Hole(gated_norm),
            gate_first=Hole(lambda fields: not fields.flag("mamba_norm_before_gate")),
            scales=Hole(factors),
            residual_scale=number("ssm_out_multiplier"),
        ),
        "mlp": {
            "activation": activation("hidden_act", gated=True),
            "gate_scale": of_mlp(0),
            "residual_scale": of_mlp(1),
        },
    },
    defaults={"partial_rotary_factor": 1.0},
    irrelevant=("mamba_use_mlp", "mamba_expand", "attn_layer_indices"),
    names=in_layers(PREFIX, {"parallel.norm": "input_layernorm"}),
)

READERS: dict[str, Reader] = {"falcon_h1": FALCON_H1}
