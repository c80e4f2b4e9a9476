"""RecurrentGemma: two blocks with a gated linear recurrence, then one with attention in a window."""

from __future__ import annotations

from collections.abc import Sequence
from math import frexp, ldexp, sqrt

from gptcalc.sources.huggingface.fields import Fields, shown
from gptcalc.sources.huggingface.llama import LLAMA, PREFIX
from gptcalc.sources.huggingface.mamba import length
from gptcalc.sources.huggingface.pattern import stack
from gptcalc.sources.huggingface.reader import Hole, Reader, activation, number, optional, rmsnorm, size
from gptcalc.sources.huggingface.tensors import Held, bare, in_layers

KINDS = {"recurrent": "rglru", "attention": "attn"}


def blocks(fields: Fields, n: int) -> Sequence[str]:
    """A short list, repeated."""
    words = fields.items("block_types", "_block_types") or []
    for i, word in enumerate(words):
        if word not in KINDS:
            raise fields.unsupported(f"block_types[{i}]", f"block type {shown(word)} is not understood")
    return [KINDS[words[i % len(words)]] for i in range(n)] if words else fields.wrong(("block_types",), "words", words)


def rounded_root(fields: Fields) -> float:
    """√d as bfloat16 has it: 8 significant bits."""
    mantissa, exponent = frexp(sqrt(fields.needed("hidden_size")))
    return ldexp(round(mantissa * 256), exponent - 8)


def half(fields: Fields) -> int:
    """intermediate_size counts gate and value together."""
    return fields.needed("intermediate_size") // 2


def width(fields: Fields) -> int:
    return fields.size("lru_width") or fields.needed("hidden_size")


def gate_of(name: str) -> Held:
    """A stack of matrices, one a head, that multiply from the right."""
    return Held(f"temporal_block.rg_lru.{name}_gate", stored="in,out", weight="_weight", bias="_bias")


RECURRENT_GEMMA = LLAMA.but(
    document={
        "c": Hole(length),
        "layers": stack(blocks, "mlp"),
        "d_ff": Hole(half),
        "norm": rmsnorm(offset=1),
        "embedding": {"scale": Hole(rounded_root)},
        "tying": True,
        "softcap": number("logits_soft_cap"),
        "mlp": activation("hidden_activation", gated=True),
        "bias": ["mlp"],
        "attn": {"window": size("attention_window_size"), "bias": ["out"]},
        "rglru": {
            "d_rnn": Hole(width),
            "n_heads": size("num_attention_heads"),
            "kernel": size("conv1d_width"),
            "activation": activation("hidden_activation", gated=False),
        },
        "n_kv_heads": optional("num_key_value_heads"),
    },
    defaults={"partial_rotary_factor": 0.5},
    only={"attention_bias": False, "tie_word_embeddings": True},
    irrelevant=("w_init_variance_scale", "final_w_init_variance_scale", "lru_width", "embeddings_scale_by_sqrt_dim"),
    names={
        "final_norm": "model.final_norm",
        **in_layers(
            PREFIX,
            {
                "attn.norm": "temporal_pre_norm",
                "rglru.norm": "temporal_pre_norm",
                "mlp.norm": "channel_pre_norm",
                **{f"attn.{x}": f"temporal_block.{x}_proj" for x in "qkv"},
                "attn.out": "temporal_block.o_proj",
                "rglru.x": "temporal_block.linear_x",
                "rglru.y": "temporal_block.linear_y",
                "rglru.out": "temporal_block.linear_out",
                "rglru.inner_conv": "temporal_block.conv_1d",
                "rglru.input_gate": Held(
                    "temporal_block.rg_lru.input_gate", stored="in,out", weight="_weight", bias="_bias"
                ),
                "rglru.forget_gate": Held(
                    "temporal_block.rg_lru.recurrent_gate", stored="in,out", weight="_weight", bias="_bias"
                ),
                "rglru.decay_rate": bare("temporal_block.rg_lru.recurrent_param"),
                "mlp.gate": "mlp_block.gate_proj",
                "mlp.up": "mlp_block.up_proj",
                "mlp.down": "mlp_block.down_proj",
            },
        ),
    },
)

READERS: dict[str, Reader] = {"recurrent_gemma": RECURRENT_GEMMA}
