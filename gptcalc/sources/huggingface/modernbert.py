"""ModernBERT: pre-norm without biases, rotary positions, a gate; every third layer sees all tokens, the others those
near by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gptcalc.sources.huggingface.fields import Fields
from gptcalc.sources.huggingface.heads import DECODERS, encoders, function, labels, scores
from gptcalc.sources.huggingface.pattern import FULL, SLIDING, listed, stack
from gptcalc.sources.huggingface.reader import Hole, Reader, activation, flag, number, sites, size
from gptcalc.sources.huggingface.rope import rope
from gptcalc.sources.huggingface.tensors import QKV, fused, in_layers

#: the first layer reads the normed embedding as it is
_FIRST = {"attn": "first", "local": "first_local"}


def every_third(fields: Fields, n: int) -> Sequence[str]:
    step = fields.needed("global_attn_every_n_layers")
    return ["local" if i % step else "attn" for i in range(n)]


def mixers(fields: Fields, n: int) -> Sequence[str]:
    units = listed("layer_types", {FULL: "attn", SLIDING: "local"}, every_third)(fields, n)
    return [_FIRST[units[0]], *units[1:]]


def reach(fields: Fields) -> int:
    """Half of local_attention on each side, and the token itself."""
    return fields.needed("local_attention") // 2 + 1


DENSE: dict[str, Any] = {"function": function("classifier_activation"), "bias": flag("classifier_bias")}

MODERNBERT = Reader(
    document={
        "d": size("hidden_size"),
        "v": size("vocab_size"),
        "c": size("max_position_embeddings"),
        "n_heads": size("num_attention_heads"),
        "n_layers": size("num_hidden_layers"),
        "d_ff": size("intermediate_size"),
        "tying": flag("tie_word_embeddings"),
        "rope": rope("global_rope_theta"),
        "norm": {"kind": "layernorm", "bias": flag("norm_bias"), "eps": number("norm_eps")},
        "causal": False,
        "mlp": activation("hidden_activation", gated=True),
        "bias": sites(attn="attention_bias", mlp="mlp_bias"),
        "embedding": {"norm": True},
        "layers": stack(mixers, "mlp"),
        "first": {"like": "attn", "norm": "none"},
        "local": {"like": "attn", "window": Hole(reach), "rope": rope("local_rope_theta", layer_type=SLIDING)},
        "first_local": {"like": "local", "norm": "none"},
    },
    defaults={"global_attn_every_n_layers": 3, "global_rope_theta": 160000.0, "local_rope_theta": 10000.0},
    irrelevant=frozenset({"deterministic_flash_attn", "sparse_prediction", "sparse_pred_ignore_index",
                          "reference_compile", "repad_logits_with_grad", "classifier_pooling", "layer_norm_eps",
                          "position_embedding_type", "classifier_bias", "classifier_activation", "decoder_bias",
                          "sliding_window"}),
    classes=encoders(
        None,
        {"bias": sites(attn="attention_bias", mlp="mlp_bias", head="decoder_bias"), "head": {"dense": DENSE}},
        DENSE,
        DENSE,
    ) | {
        "ForTokenClassification": scores("each", labels(), layer=DENSE),
        "ForQuestionAnswering": scores("each", labels(), layer=DENSE),
    },
    names={
        "embedding.token": "model.embeddings.tok_embeddings",
        "embedding.norm": "model.embeddings.norm",
        **in_layers(
            "model.layers.{l}.",
            {
                "attn.norm": "attn_norm",
                **fused("attn.Wqkv", QKV),
                "attn.out": "attn.Wo",
                "mlp.norm": "mlp_norm",
                **fused("mlp.Wi", (("mlp.gate", 1), ("mlp.up", 1))),
                "mlp.down": "mlp.Wo",
            },
        ),
        "final_norm": "model.final_norm",
        "head.dense": "head.dense",
        "head.dense.norm": "head.norm",
        "head": "decoder",
        "pooler.dense": "head.dense",
        "pooler.dense.norm": "head.norm",
        "pooler.labels": "classifier",
    },
)  # fmt: skip


def half(fields: Fields) -> int:
    """What the class works with and saves, or half of what it is given."""
    both = fields.needed("local_attention") // 2
    return fields.size("sliding_window") or both


#: the same as a decoder: each token sees those before it, near ones half as far as local_attention
MODERNBERT_DECODER = MODERNBERT.but(
    document={
        "causal": None,
        "bias": sites(attn="attention_bias", mlp="mlp_bias", head="decoder_bias"),
        "head": {"dense": DENSE},
        "local": {
            "like": "attn",
            "window": Hole(half),
            "rope": rope("local_rope_theta", layer_type=SLIDING),
        },
    },
    names={
        **in_layers("model.layers.{l}.", {"attn.q": "attn.q_proj", "attn.k": "attn.k_proj", "attn.v": "attn.v_proj"}),
        "head.dense": "lm_head.dense",
        "head.dense.norm": "lm_head.norm",
    },
    classes=DECODERS,
)

READERS: dict[str, Reader] = {
    "modernbert": MODERNBERT,
    "modernbert-decoder": MODERNBERT_DECODER,
}
