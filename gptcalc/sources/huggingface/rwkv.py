"""RWKV-4 and 5: time mixing and channel mixing, a norm behind the embedding."""

from __future__ import annotations

from typing import Any

from gptcalc.errors import InputError
from gptcalc.sources.huggingface.fields import Fields
from gptcalc.sources.huggingface.llama import LLAMA
from gptcalc.sources.huggingface.mamba import PLAIN
from gptcalc.sources.huggingface.reader import Hole, Reader, layernorm, size
from gptcalc.sources.huggingface.tensors import Names, bare, in_layers


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
    # halves stream and weights alike, against overflow in float16; a norm's eps weighs more in the halved stream, so
    # that logits of many layers differ by thousandths from those without it, which are the ones here
    irrelevant=("rescale_every",),
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


def heads(fields: Fields) -> int:
    """As many heads as of head_size channels make the width; num_attention_heads is not read."""
    width, one = inner(fields), fields.needed("head_size")
    if width % one:
        raise InputError(f"{fields.within}attention_hidden_size: {width} is no multiple of {one}, a head's channels")
    return width // one


def narrow(fields: Fields) -> int:
    """What a channel mixing has inside: three and a half times the width, a multiple of 32."""
    return fields.size("intermediate_size") or int(fields.needed("hidden_size") * 3.5) // 32 * 32


#: the norm of a head's outputs, which are divided by head_size_divisor first
HEAD_NORM: dict[str, Any] = {
    "kind": "layernorm",
    "bias": True,
    "eps": Hole(lambda fields: 1e-5 * (fields.number("head_size_divisor") or 8) ** 2),
}


def mixed_names(**names: str) -> Names:
    """The shares of a mixture of a token and the one before it, by the name of what reads it."""
    return {f"matrixmix.{key}_mix": bare(f"attention.time_mix_{name}") for key, name in names.items()}


RWKV5 = RWKV.but(
    document={
        "layers": "n*matrixmix+channelmix",
        "timemix": None,
        "matrixmix": {"n_heads": Hole(heads), "d_k": size("head_size"), "d_v": size("head_size"),
                      "out_norm": HEAD_NORM},
        "channelmix": {"d_ff": Hole(narrow)},
    },
    defaults={
        "vocab_size": 65536, "hidden_size": 768, "num_hidden_layers": 24, "head_size": 64, "layer_norm_epsilon": 1e-5,
        "tie_word_embeddings": False, "head_size_divisor": 8, "context_length": 4096,
    },
    irrelevant=("num_attention_heads", "model_version"),
    called=("Rwkv5ForCausalLM",),
    names=in_layers(
        "rwkv.blocks.{l}.",
        {
            "matrixmix.norm": "ln1",
            "matrixmix.receptance": "attention.receptance",
            "matrixmix.k": "attention.key",
            "matrixmix.v": "attention.value",
            "matrixmix.gate": "attention.gate",
            "matrixmix.out": "attention.output",
            "matrixmix.out_norm": "attention.ln_x",
            "matrixmix.decay_rate": bare("attention.time_decay"),
            "matrixmix.bonus": bare("attention.time_faaaa"),
            **mixed_names(receptance="receptance", k="key", v="value", gate="gate"),
        },
    ),
)  # fmt: skip

READERS: dict[str, Reader] = {"rwkv": RWKV, "rwkv5": RWKV5}
