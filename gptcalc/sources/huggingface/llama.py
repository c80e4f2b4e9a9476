"""Llama and what is spelled like it: pre-norm RMSNorm, a gated MLP, rotary positions, grouped queries."""

from __future__ import annotations

from gptcalc.sources.huggingface.pattern import FULL, listed, stack
from gptcalc.sources.huggingface.reader import Reader, activation, flag, optional, rmsnorm, sites, size
from gptcalc.sources.huggingface.rope import rope
from gptcalc.sources.huggingface.tensors import GATE_UP, QKV, Names, fused, in_layers

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

NAMES: Names = {
    "embedding.token": "model.embed_tokens",
    **in_layers(PREFIX, LAYER),
    "final_norm": "model.norm",
    "head": "lm_head",
}

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

MISTRAL = LLAMA.but(
    document={"attn": {"window": optional("sliding_window")}},
)

PHI3 = LLAMA.but(
    document={"attn": {"window": optional("sliding_window")}},
    names=in_layers(PREFIX, {**fused("self_attn.qkv_proj", QKV), **fused("mlp.gate_up_proj", GATE_UP)}),
)

READERS = {"llama": LLAMA, "mistral": MISTRAL, "phi3": PHI3}
