"""GPT-2 and its nearest: LayerNorm, biases, no gate, learned positions."""

from __future__ import annotations

from gptcalc.sources.huggingface.reader import Reader, activation, choice, flag, layernorm, optional, size
from gptcalc.sources.huggingface.tensors import QKV, Held, Names, fused, in_layers

_gpt2_block: Names = {
    "attn.norm": "ln_1",
    "attn.post_norm": "ln_1",
    **fused("attn.c_attn", QKV, stored="in,out"),
    "attn.out": Held("attn.c_proj", stored="in,out"),
    "mlp.norm": "ln_2",
    "mlp.post_norm": "ln_2",
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
    only={"scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False},
    irrelevant=frozenset({"n_ctx", "reorder_and_upcast_attn", "scale_attention_softmax_in_fp32"}),
    names={
        "embedding.token": "transformer.wte",
        "embedding.position": "transformer.wpe",
        **in_layers("transformer.h.{l}.", _gpt2_block),
        "final_norm": "transformer.ln_f",
        "head": "lm_head",
    },
)

GPT1 = GPT2.but(
    document={"norm_at": "post", "final_norm": False, "mlp": choice("afn", gelu="gelu_tanh", relu="relu", silu="silu")},
    irrelevant=("predict_special_tokens", "n_special"),
    names={"embedding.token": "transformer.tokens_embed", "embedding.position": "transformer.positions_embed"},
)

READERS: dict[str, Reader] = {
    "gpt2": GPT2,
    "gpt-sw3": GPT2.but(like="gpt2"),
    "openai-gpt": GPT1,
}
