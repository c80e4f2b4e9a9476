"""Llama and what is spelled like it: pre-norm RMSNorm, a gated MLP, rotary positions, grouped queries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gptcalc.errors import InputError
from gptcalc.sources.huggingface.pattern import FULL, SLIDING, every, listed, stack
from gptcalc.sources.huggingface.reader import (
    Fields,
    Hole,
    Reader,
    activation,
    flag,
    layernorm,
    optional,
    rmsnorm,
    sites,
    size,
)
from gptcalc.sources.huggingface.rope import parameters, rope
from gptcalc.sources.huggingface.tensors import GATE_UP, QKV, Names, bare, fused, in_layers

LAYER: Names = {
    "attn.norm": "input_layernorm",
    "attn.q": "self_attn.q_proj",
    "attn.k": "self_attn.k_proj",
    "attn.v": "self_attn.v_proj",
    "attn.out": "self_attn.o_proj",
    "attn.q_norm": "self_attn.q_norm",
    "attn.k_norm": "self_attn.k_norm",
    "mlp.norm": "post_attention_layernorm",
    "mlp.gate": "mlp.gate_proj",
    "mlp.up": "mlp.up_proj",
    "mlp.down": "mlp.down_proj",
}

PREFIX = "model.layers.{l}."

#: norms behind the sublayers
BEHIND_NAMES = in_layers(
    PREFIX,
    {
        "attn.post_norm": "post_attention_layernorm",
        "mlp.post_norm": "post_feedforward_layernorm",
        "moe.post_norm": "post_feedforward_layernorm",
    },
)

#: layer_types -> sections
TYPES = {FULL: "attn", SLIDING: "local"}

NAMES: Names = {
    "embedding.token": "model.embed_tokens",
    **in_layers(PREFIX, LAYER),
    "final_norm": "model.norm",
    "head": "lm_head",
}


def all_if_windowed(fields: Fields, n: int) -> Sequence[str]:
    """Windows in all layers where the config has one."""
    return ["local" if fields.size("sliding_window") else "attn"] * n


MINISTRAL3_ROPE = {
    "rope_type": "yarn",
    "rope_theta": 1000000.0,
    "factor": 16.0,
    "original_max_position_embeddings": 16384,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
    "llama_4_scaling_beta": 0.1,
}


def temperature(fields: Fields) -> dict[str, Any] | None:
    """Queries that grow with the position beyond the trained length."""
    own = parameters(fields, FULL) or {}
    scale = own.get("llama_4_scaling_beta")
    if not scale:
        return None
    return {"floor": own.get("original_max_position_embeddings"), "scale": scale, "shift": 0}


LLAMA = Reader(
    document={
        "d": size("hidden_size"),
        "v": size("vocab_size"),
        "c": size("max_position_embeddings"),
        "n_heads": size("num_attention_heads"),
        "n_layers": size("num_hidden_layers"),
        "n_kv_heads": optional("num_key_value_heads"),
        "d_head": optional("head_dim"),
        "d_ff": size("intermediate_size"),
        "layers": stack(listed("layer_types", {FULL: "attn"}), "mlp"),
        "tying": flag("tie_word_embeddings"),
        "rope": rope(),
        "norm": rmsnorm(),
        "mlp": activation("hidden_act", gated=True),
        "bias": sites(attn="attention_bias", mlp="mlp_bias"),
    },
    names=NAMES,
)

MISTRAL = LLAMA.but(document={"attn": {"window": optional("sliding_window", "sliding_window_size")}})

#: Mistral with windows in some layers
WINDOWS_IN_PLACES = {
    "layers": stack(listed("layer_types", TYPES, all_if_windowed), "mlp"),
    "local": {"like": "attn", "window": size("sliding_window")},
}

MINISTRAL = LLAMA.but(document=WINDOWS_IN_PLACES)

MINISTRAL3 = MISTRAL.but(
    document={"attn": {"window": optional("sliding_window"), "temperature": Hole(temperature)}},
    defaults={"rope_parameters": MINISTRAL3_ROPE},
)

PHI3 = MISTRAL.but(names=in_layers(PREFIX, {**fused("self_attn.qkv_proj", QKV), **fused("mlp.gate_up_proj", GATE_UP)}))

SEED_OSS = LLAMA.but(document={"bias": sites(qkv="attention_bias", out="attention_out_bias", mlp="mlp_bias")})

CWM = LLAMA.but(
    document={
        "layers": stack(
            listed("layer_types", {FULL: "attn", SLIDING: "local"}, every(4, "attn", "local", offset=0)), "mlp"
        ),
        "local": {"like": "attn", "window": size("sliding_window")},
    },
    defaults={"rope_parameters": {"rope_type": "llama3", "factor": 16.0, "original_max_position_embeddings": 8192}},
)

ARCEE = LLAMA.but(document={"mlp": activation("hidden_act", gated=False)})

HELIUM = LLAMA.but(document={"rope": rope(pairing="adjacent"), "bias": sites(qkv="attention_bias", mlp="mlp_bias")})

APERTUS = ARCEE.but(
    document={"attn": {"qk_norm": "head"}},
    defaults={"rope_parameters": {"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8192}},
    only={"qk_norm": True, "post_norm": False},
    names=in_layers(
        PREFIX,
        {
            "attn.norm": "attention_layernorm",
            "mlp.norm": "feedforward_layernorm",
            "mlp.alpha_p": bare("mlp.act_fn.alpha_p"),
            "mlp.alpha_n": bare("mlp.act_fn.alpha_n"),
        },
    ),
)

JAIS2 = ARCEE.but(document={"norm": layernorm()})

NEMOTRON = ARCEE.but(
    document={"norm": layernorm("norm_eps", offset=1)},
    defaults={"partial_rotary_factor": 0.5},
    irrelevant=("rms_norm_eps",),
)

BITNET = LLAMA.but(
    document={
        "bias": sites(attn="attention_bias"),
        "attn": {"out_norm": rmsnorm()},
        "mlp": {"activation": activation("hidden_act", gated=True), "mid_norm": rmsnorm()},
    },
    names=in_layers(PREFIX, {"attn.out_norm": "self_attn.attn_sub_norm", "mlp.mid_norm": "mlp.ffn_sub_norm"}),
)

INTERNLM3 = LLAMA.but(document={"bias": sites(attn=flag("attention_bias", "qkv_bias"), mlp=flag("mlp_bias", "bias"))})


def without_rope(fields: Fields, n: int) -> Sequence[str]:
    """A list of zeros where a layer has no rotary positions; a window, where there is one, is theirs."""
    flags = fields.items("no_rope_layers")
    step = fields.needed("no_rope_layer_interval")
    rotates = flags if flags is not None else [(i + 1) % step for i in range(n)]
    if len(rotates) != n:
        raise InputError(f"{fields.within}no_rope_layers has {len(rotates)} entries, the model {n} layers")
    local = fields.flag("use_sliding_window") and fields.size("sliding_window") is not None
    return ["attn" if flag else "local" if local else "nope" for flag in rotates]


SMOLLM3 = LLAMA.but(
    document={
        "layers": stack(without_rope, "mlp"),
        "nope": {"like": "attn", "position": "none"},
        "local": {"like": "nope", "window": size("sliding_window")},
    },
    irrelevant=("layer_types", "max_window_layers"),
)

READERS = {
    "llama": LLAMA,
    "mistral": MISTRAL,
    "ministral": MINISTRAL,
    "ministral3": MINISTRAL3,
    "phi3": PHI3,
    "seed_oss": SEED_OSS,
    "cwm": CWM,
    "arcee": ARCEE,
    "helium": HELIUM,
    "apertus": APERTUS,
    "jais2": JAIS2,
    "nemotron": NEMOTRON,
    "bitnet": BITNET,
    "iquestcoder": LLAMA.but(only={"clip_qkv": None}),
    "internlm3": INTERNLM3,
    "smollm3": SMOLLM3,
}
