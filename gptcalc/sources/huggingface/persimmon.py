"""Persimmon: GPT-NeoX with norms of queries and keys."""

from __future__ import annotations

from gptcalc.sources.huggingface.gpt_neo import GPT_NEOX, _plain
from gptcalc.sources.huggingface.reader import Reader, when
from gptcalc.sources.huggingface.rope import rope
from gptcalc.sources.huggingface.tensors import QKV, fused, in_layers

PERSIMMON = GPT_NEOX.but(
    defaults={"partial_rotary_factor": 0.5},
    document={
        "layers": "n*attn+mlp",
        "parallel_norm": None,
        "rope": rope(),
        "bias": "all",
        "attn": {"qk_norm": when("qk_layernorm", "head")},
    },
    names={
        **_plain,
        **in_layers(
            "model.layers.{l}.",
            {
                **fused("self_attn.query_key_value", QKV, groups="n_heads"),
                "mlp.up": "mlp.dense_h_to_4h",
                "mlp.down": "mlp.dense_4h_to_h",
            },
        ),
    },
)

READERS: dict[str, Reader] = {
    "persimmon": PERSIMMON,
}
