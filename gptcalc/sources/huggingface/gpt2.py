"""GPT-2 and its nearest: LayerNorm, biases, no gate, learned positions."""

from __future__ import annotations

from typing import Any

from gptcalc.errors import InputError
from gptcalc.sources.huggingface.fields import Fields
from gptcalc.sources.huggingface.pattern import MOST_LISTED, expression
from gptcalc.sources.huggingface.reader import (
    SEARCHED,
    Hole,
    Reader,
    activation,
    choice,
    flag,
    layernorm,
    optional,
    size,
)
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

WIDTH = ("n_embd", "hidden_size")
HEADS = ("n_head", "num_attention_heads")
LAYERS = ("n_layer", "num_hidden_layers")

GPT2 = Reader(
    document={
        "d": size(*WIDTH),
        "v": size("vocab_size"),
        "c": size("n_positions", "max_position_embeddings"),
        "n_heads": size(*HEADS),
        "n_layers": size(*LAYERS),
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


def scaled(fields: Fields) -> dict[str, Any]:
    """Scores by another factor: 1 instead of 1/√d_head; divided by the layer's number, too (Mistral's GPT-2)."""
    one = fields.flag("scale_attn_weights") is False
    attn = {"attn": {"scale": 1.0}} if one else {}
    if not fields.flag("scale_attn_by_inverse_layer_idx"):
        return attn
    n, width, heads = (fields.needed(*names) for names in (LAYERS, WIDTH, HEADS))
    if n > MOST_LISTED:
        raise InputError(f"{fields.within}scale_attn_by_inverse_layer_idx: {n} layers, each with a factor of its own")
    if width % heads != 0:
        raise InputError(f"{fields.within}n_embd = {width} is not a multiple of n_head = {heads}")
    base = 1.0 if one else (width // heads) ** -0.5
    further = {f"attn_{i}": {"like": "attn", "scale": base / i} for i in range(2, n + 1)}
    return {**attn, "layers": expression([f"{kind}+mlp" for kind in ("attn", *further)]), **further}


GPT2_SCALED = GPT2.but(
    document={SEARCHED: Hole(scaled)},
    only={"scale_attn_weights": (True, False), "scale_attn_by_inverse_layer_idx": (False, True)},
)

READERS: dict[str, Reader] = {
    "gpt2": GPT2_SCALED,
    "gpt-sw3": GPT2_SCALED.but(like="gpt2"),
    "openai-gpt": GPT1,
}
