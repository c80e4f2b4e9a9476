"""RWKV-4: time mixing and channel mixing, a norm behind the embedding."""

from __future__ import annotations

from gptcalc.sources.huggingface.fields import Fields
from gptcalc.sources.huggingface.llama import LLAMA
from gptcalc.sources.huggingface.mamba import PLAIN
from gptcalc.sources.huggingface.reader import Hole, Reader, layernorm, size
from gptcalc.sources.huggingface.tensors import bare, in_layers


def inner(fields: Fields) -> int:
    return fields.size("attention_hidden_size") or fields.needed("hidden_size")


def wide(fields: Fields) -> int:
    return fields.size("intermediate_size") or 4 * fields.needed("hidden_size")


RWKV = LLAMA.but(
    document={
        **PLAIN,
        "c": size("context_length"),
        "layers": "n*timemix+channelmix",
        "norm": layernorm("layer_norm_epsilon"),
        "embedding": {"norm": True},
        "timemix": {"d_inner": Hole(inner)},
        "channelmix": {"d_ff": Hole(wide)},
    },
    irrelevant=("rescale_every",),  # halves stream and weights alike, against overflow in float16
    names={
        "embedding.token": "rwkv.embeddings",
        "embedding.norm": "rwkv.blocks.0.pre_ln",
        "final_norm": "rwkv.ln_out",
        "head": "head",
        **in_layers(
            "rwkv.blocks.{l}.",
            {
                "timemix.norm": "ln1",
                "timemix.receptance": "attention.receptance",
                "timemix.k": "attention.key",
                "timemix.v": "attention.value",
                "timemix.out": "attention.output",
                "timemix.decay_rate": bare("attention.time_decay"),
                "timemix.bonus": bare("attention.time_first"),
                "timemix.receptance_mix": bare("attention.time_mix_receptance"),
                "timemix.k_mix": bare("attention.time_mix_key"),
                "timemix.v_mix": bare("attention.time_mix_value"),
                "channelmix.norm": "ln2",
                "channelmix.receptance": "feed_forward.receptance",
                "channelmix.up": "feed_forward.key",
                "channelmix.down": "feed_forward.value",
                "channelmix.receptance_mix": bare("feed_forward.time_mix_receptance"),
                "channelmix.up_mix": bare("feed_forward.time_mix_key"),
            },
        ),
    },
)

READERS: dict[str, Reader] = {"rwkv": RWKV}
