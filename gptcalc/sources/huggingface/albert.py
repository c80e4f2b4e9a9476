"""ALBERT: one layer's weights for all layers, narrow embeddings."""

from __future__ import annotations

from typing import Any

from gptcalc.errors import InputError
from gptcalc.sources.huggingface.bert import BERT, MASKED, names, width
from gptcalc.sources.huggingface.fields import Fields
from gptcalc.sources.huggingface.heads import encoders, function, labels
from gptcalc.sources.huggingface.pattern import MOST_LISTED, expression
from gptcalc.sources.huggingface.reader import SEARCHED, Hole, Reader, size
from gptcalc.sources.huggingface.tensors import Held, in_layers

_pooler = {"function": "tanh", "norm": False}
_masked = {**MASKED, "head": {"dense": {"function": function("hidden_act")}}}


def groups(fields: Fields) -> dict[str, Any]:
    """n_layers in equal groups, each with one set of weights: inner_group_num layers that run one behind the other."""
    n, n_groups, inner = (fields.needed(name) for name in ("num_hidden_layers", "num_hidden_groups", "inner_group_num"))
    if max(n, inner) > MOST_LISTED or n_groups > n:
        raise InputError(f"{fields.within}num_hidden_groups: {n_groups} groups of {n} layers, {inner} inner ones each")
    if n_groups == inner == 1:
        return {"layers": "n*attn+mlp"}
    sections: dict[str, Any] = {}
    blocks = []
    for group in range(n_groups):
        parts = []
        for layer in range(inner):
            end = f"_{group}_{layer}" if group or layer else ""
            parts += [f"attn{end}", f"mlp{end}"]
            if end:
                sections |= {f"attn{end}": {"like": "attn"}, f"mlp{end}": {"like": "mlp"}}
        blocks.append("+".join(parts))
    return {"layers": expression([blocks[int(i / (n / n_groups))] for i in range(n)]), **sections}


ALBERT = BERT.but(
    document={
        SEARCHED: Hole(groups),
        "attn": {"tied": True},
        "mlp": {"tied": True, "activation": BERT.document["mlp"]},
        "embedding": {
            "width": width("embedding_size"),
            "types": size("type_vocab_size", least=0),
            "norm": True,
            "projected": "normed",
            "projection_bias": True,
        },
        "causal": False,
    },
    irrelevant=("net_structure_type", "num_memory_blocks", "gap_size", "down_scale_factor", "classifier_dropout_prob"),
    classes={
        **encoders(_pooler, _masked, _pooler, _pooler),
        "ForPreTraining": {
            **_masked,
            "head": {**_masked["head"], "pooler": {"token": "first", "dense": _pooler, "labels": labels()}},
        },
    },
    names={
        **names("albert."),
        "embedding.projection": "albert.encoder.embedding_hidden_mapping_in",
        **in_layers(
            "albert.encoder.albert_layer_groups.{group}.albert_layers.0.",
            {
                "attn.q": "attention.query",
                "attn.k": "attention.key",
                "attn.v": "attention.value",
                "attn.out": "attention.dense",
                "attn.post_norm": "attention.LayerNorm",
                "mlp.up": "ffn",
                "mlp.down": "ffn_output",
                "mlp.post_norm": "full_layer_layer_norm",
            },
        ),
        "head.dense": "predictions.dense",
        "head.dense.norm": "predictions.LayerNorm",
        "head": Held("predictions", weight=".decoder.weight"),
        "pooler.dense": "albert.pooler",
        "pooler.labels": ("classifier", "qa_outputs", "sop_classifier.classifier"),
    },
)

READERS: dict[str, Reader] = {"albert": ALBERT}
