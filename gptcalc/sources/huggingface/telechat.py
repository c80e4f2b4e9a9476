"""TeleChat: Llama in GPT-2's words, with biases where attention and MLP join the stream."""

from __future__ import annotations

from gptcalc.sources.huggingface.reader import Reader, flag, optional, preferred, rmsnorm, size
from gptcalc.sources.huggingface.rope import rope
from gptcalc.sources.huggingface.tensors import fused, in_layers

TELECHAT = Reader(
    document={
        "d": size("hidden_size"),
        "v": size("vocab_size"),
        "c": preferred("seq_length", "training_seqlen", "max_position_embeddings"),
        "n_heads": size("n_head", "num_attention_heads"),
        "n_layers": size("n_layer", "num_hidden_layers"),
        "n_kv_heads": optional("num_key_value_heads"),
        "d_ff": size("ffn_hidden_size", "intermediate_size"),
        "tying": flag("tie_word_embeddings"),
        "rope": rope(),
        "norm": rmsnorm("layer_norm_epsilon"),
        "bias": ["out"],
        "mlp": {"activation": "swiglu", "bias": ["down"]},
    },
    defaults={"tie_word_embeddings": True, "layer_norm_epsilon": 1e-5, "rope_theta": 10000},
    only={"apply_residual_connection_post_layernorm": False, "embed_layernorm": False, "hidden_act": "silu"},
    irrelevant=frozenset(
        {"n_inner", "flash_attn", "training_seqlen", "skip_bias_add", "skip_bias_add_qkv", "slow_but_exact",
         "masked_softmax_fusion", "base_seqlen", "logn", "unk_token_id", "offset_alibi"}
    ),
    names={
        "embedding.token": ("transformer.word_embeddings", "word_embeddings"),
        **in_layers(
            "transformer.h.{l}.",
            {
                "attn.norm": "input_layernorm",
                "attn.q": "self_attention.query",
                **fused("self_attention.key_value", (("attn.k", "n_kv_heads"), ("attn.v", "n_kv_heads"))),
                "attn.out": "self_attention.dense",
                "mlp.norm": "post_attention_layernorm",
                "mlp.gate": "mlp.gate_proj",
                "mlp.up": "mlp.up_proj",
                "mlp.down": "mlp.down_proj",
            },
        ),
        "final_norm": "transformer.ln_f",
        "head": "lm_head",
    },
)  # fmt: skip

READERS: dict[str, Reader] = {"telechat": TELECHAT}
