"""MiMo: Qwen 2 with multi-token modules; other heads in the layers with a window (V2)."""

from __future__ import annotations

from gptcalc.sources.huggingface.experts import DENSE_OR_SPARSE, NAMES, SIGMOID
from gptcalc.sources.huggingface.fields import Fields
from gptcalc.sources.huggingface.llama import LLAMA, PLAIN, PREFIX
from gptcalc.sources.huggingface.pattern import SLIDING, Units, every, first, flagged, listed, stack
from gptcalc.sources.huggingface.reader import Hole, Reader, flag, number, optional, sites
from gptcalc.sources.huggingface.rope import rope
from gptcalc.sources.huggingface.tensors import bare, in_layers
from gptcalc.sources.huggingface.windows import TYPES

MIMO = LLAMA.but(
    document={"bias": sites(qkv="attention_bias"), "mtp": optional("num_nextn_predict_layers", least=0)},
    defaults={**PLAIN, "attention_bias": True},
    only={"use_mrope": False, "use_sliding_window": False},
    irrelevant=("sliding_window", "max_window_layers"),
)


def window_beyond_itself(fields: Fields) -> int | None:
    """sliding_window_size counts the keys before a token, sliding_window the token too."""
    given = fields.size("sliding_window_size")
    own = fields.size("sliding_window")
    return given + 1 if given is not None else own


def twice_the_kv_heads(fields: Fields) -> int:
    given = fields.size("swa_num_key_value_heads")
    return given if given is not None else 2 * fields.needed("num_key_value_heads")


FIRST_AND_EVERY_SIXTH: Units = first(1, "attn", every(6, "attn", "local"))

#: the class reads rope_parameters alone; published configs repeat its defaults in flat fields
MIMO_V2 = LLAMA.but(
    document={
        "d_v": optional("v_head_dim"),
        "layers": stack(
            listed("layer_types", TYPES, flagged("hybrid_layer_pattern", "local", "attn", FIRST_AND_EVERY_SIXTH)),
            listed("mlp_layer_types", DENSE_OR_SPARSE, flagged("moe_layer_freq", "moe", "mlp", first(1, "mlp", "moe"))),
        ),
        "norm": {"kind": "rmsnorm", "eps": number("layernorm_epsilon", "rms_norm_eps")},
        "bias": sites(qkv="attention_bias"),
        "rope": rope(5000000, fraction=0.334),
        "attn": {"value_scale": number("attention_value_scale"), "sinks": flag("add_full_attention_sink_bias")},
        "local": {
            "like": "attn",
            "n_kv_heads": Hole(twice_the_kv_heads),
            "n_heads": optional("swa_num_attention_heads"),
            "d_head": optional("swa_head_dim"),
            "d_v": optional("swa_v_head_dim"),
            "window": Hole(window_beyond_itself),
            "sinks": flag("add_swa_attention_sink_bias"),
            "rope": rope(10000, layer_type=SLIDING, fraction=0.334, scaled=False),
        },
        "moe": {**SIGMOID, "n_shared": None},
    },
    defaults={"add_swa_attention_sink_bias": True},
    only={"scoring_func": "sigmoid", "topk_method": "noaux_tc"},
    irrelevant=(
        "attention_chunk_size",
        "hybrid_block_size",
        "hybrid_layer_pattern",
        "moe_layer_freq",
        "rope_theta",
        "swa_rope_theta",
        "partial_rotary_factor",
    ),
    names={
        **NAMES,
        **in_layers(PREFIX, {"attn.sinks": (bare("self_attn.attention_sink_bias"), bare("self_attn.sinks"))}),
    },
)

READERS: dict[str, Reader] = {
    "mimo_v2_flash": MIMO_V2,
    "mimo": MIMO,
}
