"""Falcon: one KV head or several, parallel or not, rotary positions or ALiBi."""

from __future__ import annotations

import math

from gptcalc.errors import InputError
from gptcalc.sources.huggingface.fields import Fields
from gptcalc.sources.huggingface.reader import Hole, Reader, activation, flag, layernorm, optional, size, when
from gptcalc.sources.huggingface.rope import rope
from gptcalc.sources.huggingface.tensors import QKV, fused, in_layers


def falcon_kv_heads(fields: Fields) -> int | None:
    """The newer layout gives a number; in the older one it is one head or all."""
    given = fields.size("num_kv_heads", "n_head_kv", "num_key_value_heads")
    one = fields.flag("multi_query")
    if fields.flag("new_decoder_architecture"):
        return given
    return 1 if one else None


def falcon_scale(fields: Fields) -> float:
    """Linear biases are added to the scores before those are scaled.

    transformers 5.24 computes them in bfloat16, whatever the model's type, so that its logits are coarser than these.
    Its eager attention adds them twice, to the scores and in the mask; sdpa, its usual one, once as here.
    """
    width = fields.needed("hidden_size", "n_embed") // fields.needed("num_attention_heads", "n_head")
    if width < 1:
        raise InputError(f"{fields.within}hidden_size has no channel for each of num_attention_heads heads")
    return 1 / math.sqrt(width)


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
        "d_head": optional("head_dim"),
        "d_ff": optional("ffn_hidden_size", "intermediate_size"),
        "layers": when("parallel_attn", "n*attn|mlp", "n*attn+mlp"),
        "tying": flag("tie_word_embeddings"),
        "position": when("alibi", "alibi"),
        "rope": when("alibi", None, rope()),
        "attn": {"alibi_scale": when("alibi", Hole(falcon_scale))},
        "norm": layernorm("layer_norm_epsilon"),
        "parallel_norm": Hole(falcon_norms),
        "mlp": activation("activation", gated=False),
        "bias": when("bias", "all"),
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

#: Falcon's first names: the 40B model's layout had no flag of its own
RW = FALCON.but(
    called=("RWForCausalLM", "RWModel"), beyond=("n_layer", "n_head", "n_embed", "n_head_kv"), like="falcon"
)
REFINED_WEB = RW.but(instead={"new_decoder_architecture": True}, like="falcon")

READERS: dict[str, Reader] = {
    "falcon": FALCON,
    "RefinedWebModel": RW,
    "RefinedWeb": REFINED_WEB,
}
