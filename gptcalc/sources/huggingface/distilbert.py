"""DistilBERT: BERT without token types and pooler."""

from __future__ import annotations

from gptcalc.sources.huggingface.bert import BERT
from gptcalc.sources.huggingface.heads import encoders, function
from gptcalc.sources.huggingface.reader import Reader, activation, flag, size
from gptcalc.sources.huggingface.tensors import in_layers

_masked = {
    "bias": ["attn", "mlp", "head"],
    "head": {"dense": {"function": function("activation"), "norm": {"kind": "layernorm", "eps": 1e-12}}},
}
_relu = {"function": "relu", "norm": False}

DISTILBERT = BERT.but(
    document={
        "tying": flag("tie_word_embeddings"),
        "d": size("dim", "hidden_size"),
        "n_heads": size("n_heads", "num_attention_heads"),
        "n_layers": size("n_layers", "num_hidden_layers"),
        "d_ff": size("hidden_dim"),
        "norm": {"kind": "layernorm", "eps": 1e-12},
        "mlp": activation("activation", gated=False),
        "embedding": {"norm": True},
        "causal": False,
    },
    only={"sinusoidal_pos_embds": (False, True)},  # the table is filled so before it is trained
    irrelevant=("qa_dropout", "seq_classif_dropout", "tie_weights_"),
    classes=encoders(None, _masked, _relu, _relu),
    names={
        "embedding.token": "distilbert.embeddings.word_embeddings",
        "embedding.position": "distilbert.embeddings.position_embeddings",
        "embedding.norm": "distilbert.embeddings.LayerNorm",
        **in_layers(
            "distilbert.transformer.layer.{l}.",
            {
                "attn.q": "attention.q_lin",
                "attn.k": "attention.k_lin",
                "attn.v": "attention.v_lin",
                "attn.out": "attention.out_lin",
                "attn.post_norm": "sa_layer_norm",
                "mlp.up": "ffn.lin1",
                "mlp.down": "ffn.lin2",
                "mlp.post_norm": "output_layer_norm",
            },
        ),
        "head.dense": "vocab_transform",
        "head.dense.norm": "vocab_layer_norm",
        "head": "vocab_projector",
        "pooler.dense": "pre_classifier",
        "pooler.labels": ("classifier", "qa_outputs"),
    },
)

READERS: dict[str, Reader] = {"distilbert": DISTILBERT}
