"""StarCoder: GPT-2 with one KV head (1), rotations and grouped queries (2)."""

from __future__ import annotations

from gptcalc.sources.huggingface.gpt2 import GPT2
from gptcalc.sources.huggingface.gpt_neo import GPT_NEOX, _plain
from gptcalc.sources.huggingface.reader import Hole, Reader, layernorm, optional, when
from gptcalc.sources.huggingface.rope import rope
from gptcalc.sources.huggingface.tensors import QKV, fused, in_layers

GPT_BIGCODE = GPT2.but(
    document={
        "n_kv_heads": when("multi_query", 1),
        "attn": {"scale": Hole(lambda fields: 1.0 if fields.flag("scale_attn_weights") is False else None)},
    },
    only={"scale_attn_weights": (True, False)},
    irrelevant=("num_key_value_heads", "inference_runner", "validate_runner_input", "pre_allocate_kv_cache"),
    names=in_layers(
        "transformer.h.{l}.",
        {
            **fused("attn.c_attn", QKV, groups="n_kv_heads"),
            "attn.out": "attn.c_proj",
            "mlp.up": "mlp.c_fc",
            "mlp.down": "mlp.c_proj",
        },
    ),
)

STARCODER2 = GPT_NEOX.but(
    document={
        "layers": "n*attn+mlp",
        "parallel_norm": None,
        "rope": rope(),
        "norm": layernorm("norm_epsilon"),
        "bias": when("use_bias", "all"),
        "attn": {"window": optional("sliding_window")},
    },
    only={"norm_type": "layer_norm", "mlp_type": "default"},
    names={
        **_plain,
        **in_layers(
            "model.layers.{l}.", {"attn.out": "self_attn.o_proj", "mlp.up": "mlp.c_fc", "mlp.down": "mlp.c_proj"}
        ),
        "final_norm": "model.norm",
    },
)

READERS: dict[str, Reader] = {
    "gpt_bigcode": GPT_BIGCODE,
    "starcoder2": STARCODER2,
}
