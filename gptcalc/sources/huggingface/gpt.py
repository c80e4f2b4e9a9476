"""GPT-2 and the decoders of its time: LayerNorm, biases, no gate; learned positions, partial rotations or ALiBi."""

from __future__ import annotations

from typing import Any

from gptcalc.sources.huggingface.reader import (
    Fields,
    Hole,
    Reader,
    activation,
    flag,
    layernorm,
    optional,
    sites,
    size,
    when,
)
from gptcalc.sources.huggingface.rope import rope
from gptcalc.sources.huggingface.tensors import QKV, Held, fused, in_layers

_gpt2_block: dict[str, Any] = {
    "attn.norm": "ln_1",
    **fused("attn.c_attn", QKV, stored="in,out"),
    "attn.out": Held("attn.c_proj", stored="in,out"),
    "mlp.norm": "ln_2",
    "mlp.up": Held("mlp.c_fc", stored="in,out"),
    "mlp.down": Held("mlp.c_proj", stored="in,out"),
}

GPT2 = Reader(
    document={
        "d": size("n_embd", "hidden_size"),
        "v": size("vocab_size"),
        "c": size("n_positions", "max_position_embeddings"),
        "n_heads": size("n_head", "num_attention_heads"),
        "n_layers": size("n_layer", "num_hidden_layers"),
        "d_ff": optional("n_inner"),
        "tying": flag("tie_word_embeddings"),
        "position": "learned",
        "norm": layernorm("layer_norm_epsilon"),
        "mlp": activation("activation_function", gated=False),
        "bias": "all",
    },
    defaults={
        "vocab_size": 50257,
        "n_positions": 1024,
        "n_embd": 768,
        "n_layer": 12,
        "n_head": 12,
        "activation_function": "gelu_new",
        "layer_norm_epsilon": 1e-5,
        "tie_word_embeddings": True,
    },
    only={"scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False},
    irrelevant=frozenset({"n_ctx", "reorder_and_upcast_attn"}),
    names={
        "embedding.token": "transformer.wte",
        "embedding.position": "transformer.wpe",
        **in_layers("transformer.h.{l}.", _gpt2_block),
        "final_norm": "transformer.ln_f",
        "head": "lm_head",
    },
)

GPT_NEOX = Reader(
    document={
        "d": size("hidden_size"),
        "v": size("vocab_size"),
        "c": size("max_position_embeddings"),
        "n_heads": size("num_attention_heads"),
        "n_layers": size("num_hidden_layers"),
        "d_ff": size("intermediate_size"),
        "layers": when("use_parallel_residual", "n*attn|mlp", "n*attn+mlp"),
        "tying": flag("tie_word_embeddings"),
        "rope": rope("rotary_emb_base", fraction="rotary_pct"),
        "norm": layernorm(),
        "parallel_norm": "separate",
        "mlp": activation("hidden_act", gated=False),
        "bias": sites(attn="attention_bias", mlp=True),
    },
    defaults={
        "vocab_size": 50432,
        "hidden_size": 6144,
        "intermediate_size": 24576,
        "num_hidden_layers": 44,
        "num_attention_heads": 64,
        "max_position_embeddings": 2048,
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-5,
        "rotary_pct": 0.25,
        "use_parallel_residual": True,
        "attention_bias": True,
        "tie_word_embeddings": False,
    },
    names={
        "embedding.token": "gpt_neox.embed_in",
        **in_layers(
            "gpt_neox.layers.{l}.",
            {
                "attn.norm": "input_layernorm",
                **fused("attention.query_key_value", QKV, groups="n_heads"),
                "attn.out": "attention.dense",
                "mlp.norm": "post_attention_layernorm",
                "mlp.up": "mlp.dense_h_to_4h",
                "mlp.down": "mlp.dense_4h_to_h",
            },
        ),
        "final_norm": "gpt_neox.final_layer_norm",
        "head": ("embed_out", "lm_head"),
    },
)


def falcon_kv_heads(fields: Fields) -> int | None:
    """The newer layout gives a number; in the older one it is one head or all."""
    given = fields.size("num_kv_heads", "n_head_kv")
    if fields.flag("new_decoder_architecture"):
        return given
    return 1 if fields.flag("multi_query") else None


def falcon_norms(fields: Fields) -> str:
    given = fields.size("num_ln_in_parallel_attn")
    number = given if given is not None else 2 if fields.flag("new_decoder_architecture") else 1
    return "separate" if number == 2 else "shared"


FALCON = Reader(
    document={
        "d": size("hidden_size", "n_embed"),
        "v": size("vocab_size"),
        "c": size("max_position_embeddings"),
        "n_heads": size("num_attention_heads", "n_head"),
        "n_layers": size("num_hidden_layers", "n_layer"),
        "n_kv_heads": Hole(falcon_kv_heads),
        "d_ff": optional("ffn_hidden_size"),
        "layers": when("parallel_attn", "n*attn|mlp", "n*attn+mlp"),
        "tying": flag("tie_word_embeddings"),
        "position": when("alibi", "alibi"),
        "rope": when("alibi", None, rope()),
        "norm": layernorm("layer_norm_epsilon"),
        "parallel_norm": Hole(falcon_norms),
        "mlp": activation("activation", gated=False),
        "bias": when("bias", "all"),
    },
    defaults={
        "vocab_size": 65024,
        "hidden_size": 4544,
        "num_hidden_layers": 32,
        "num_attention_heads": 71,
        "max_position_embeddings": 2048,
        "activation": "gelu",
        "layer_norm_epsilon": 1e-5,
        "multi_query": True,
        "parallel_attn": True,
        "new_decoder_architecture": False,
        "tie_word_embeddings": True,
    },
    only={"apply_residual_connection_post_layernorm": False},
    names={
        "embedding.token": "transformer.word_embeddings",
        **in_layers(
            "transformer.h.{l}.",
            {
                "attn.norm": ("ln_attn", "input_layernorm"),
                "parallel.norm": "input_layernorm",
                **fused("self_attention.query_key_value", QKV, groups="n_kv_heads"),
                "attn.out": "self_attention.dense",
                "mlp.norm": ("ln_mlp", "post_attention_layernorm"),
                "mlp.up": "mlp.dense_h_to_4h",
                "mlp.down": "mlp.dense_4h_to_h",
            },
        ),
        "final_norm": "transformer.ln_f",
        "head": "lm_head",
    },
)

READERS = {"gpt2": GPT2, "gpt_neox": GPT_NEOX, "falcon": FALCON}
