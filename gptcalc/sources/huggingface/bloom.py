"""BLOOM: ALiBi, a norm behind the embedding."""

from __future__ import annotations

from gptcalc.sources.huggingface.reader import Reader, flag, layernorm, size
from gptcalc.sources.huggingface.tensors import QKV, fused, in_layers

BLOOM = Reader(
    defaults={"seq_length": 2048},  # the class has no such field; all published models were trained at this length
    document={
        "d": size("hidden_size", "n_embed"),
        "v": size("vocab_size"),
        "c": size("seq_length"),
        "n_heads": size("n_head", "num_attention_heads"),
        "n_layers": size("n_layer", "num_hidden_layers"),
        "tying": flag("tie_word_embeddings"),
        "position": "alibi",
        "norm": layernorm("layer_norm_epsilon"),
        "mlp": "gelu_tanh",
        "bias": "all",
        "embedding": {"norm": True},
    },
    only={"apply_residual_connection_post_layernorm": False},
    irrelevant=frozenset(
        {"slow_but_exact", "masked_softmax_fusion", "offset_alibi", "skip_bias_add", "skip_bias_add_qkv", "n_inner"}
    ),
    names={
        "embedding.token": "transformer.word_embeddings",
        "embedding.norm": "transformer.word_embeddings_layernorm",
        **in_layers(
            "transformer.h.{l}.",
            {
                "attn.norm": "input_layernorm",
                **fused("self_attention.query_key_value", QKV, groups="n_heads"),
                "attn.out": "self_attention.dense",
                "mlp.norm": "post_attention_layernorm",
                "mlp.up": "mlp.dense_h_to_4h",
                "mlp.down": "mlp.dense_4h_to_h",
            },
        ),
        "final_norm": "transformer.ln_f",
        "head": "lm_head",
    },
)

READERS: dict[str, Reader] = {
    "bloom": BLOOM,
}
