"""Encoders that are BERT or RoBERTa but for where norms stand, or what their weights are called."""

from __future__ import annotations

from typing import Any

from gptcalc.sources.huggingface.bert import BERT, MASKED, ROBERTA, names, width
from gptcalc.sources.huggingface.fields import Fields
from gptcalc.sources.huggingface.heads import BARE, TANH, encoders, function, labels, scores
from gptcalc.sources.huggingface.reader import Hole, Reader, optional, size
from gptcalc.sources.huggingface.rope import rope
from gptcalc.sources.huggingface.tensors import QKV, Held, fused, in_layers

BERT_CLASSES = BERT.classes or {}

#: norms in front of the sublayers, and one behind the last layer
IN_FRONT = {"norm_at": "pre", "final_norm": True}

#: those of its first and second version; the third reads a task's number, too
ERNIE = BERT.but(
    only={"use_task_id": False},
    irrelevant=("task_type_vocab_size",),
    classes={**BERT_CLASSES, "ForCausalLM": MASKED},
    names={**names("ernie."), "pooler.dense": "ernie.pooler.dense"},
)

MEGATRON = BERT.but(
    document={**IN_FRONT, "embedding": {**BERT.document["embedding"], "norm": None}},
    classes={**BERT_CLASSES, "ForCausalLM": MASKED},
    names={
        **in_layers("bert.encoder.layer.{l}.", {"attn.norm": "attention.ln", "mlp.norm": "ln"}),
        "final_norm": "bert.encoder.ln",
    },
)

GENERATION = BERT.but(
    document={"embedding": {"norm": True}},
    classes={
        "": BARE,
        "Encoder": BARE,
        "Decoder": {"bias": ["attn", "mlp", "head"]},
    },
    names={"embedding.norm": "bert.embeddings.LayerNorm", "head": Held("lm_head", weight=".decoder.weight")},
)

DATA2VEC = ROBERTA.but(
    names={**names("data2vec_text."), "pooler.dense": ("data2vec_text.pooler.dense", "classifier.dense")},
)

PRELAYERNORM = ROBERTA.but(
    document=IN_FRONT,
    names={
        **names("roberta_prelayernorm."),
        **in_layers(
            "roberta_prelayernorm.encoder.layer.{l}.",
            {"attn.norm": "attention.LayerNorm", "mlp.norm": "intermediate.LayerNorm"},
        ),
        "final_norm": "roberta_prelayernorm.LayerNorm",
        "pooler.dense": ("roberta_prelayernorm.pooler.dense", "classifier.dense"),
    },
)

XL = ROBERTA.but(
    document={**IN_FRONT, "embedding": {**ROBERTA.document["embedding"], "norm": None}},
    names={
        **in_layers(
            "roberta.encoder.layer.{l}.", {"attn.norm": "attention.self_attn_layer_norm", "mlp.norm": "LayerNorm"}
        ),
        "final_norm": "roberta.encoder.LayerNorm",
    },
)

#: integers everywhere where `quant_mode` says so; else RoBERTa
IBERT = ROBERTA.but(
    only={"quant_mode": False},
    irrelevant=("force_dequant",),
    names={**names("ibert."), "pooler.dense": ("ibert.pooler.dense", "classifier.dense")},
)

#: XLM-R whose positions turn queries and keys
JINA = ROBERTA.but(
    document={
        "c": size("max_position_embeddings"),
        "position": None,
        "rope": rope(),
        "embedding": {"types": size("type_vocab_size", least=0), "norm": True},
    },
    names={
        "embedding.norm": "roberta.emb_ln",
        **in_layers(
            "roberta.encoder.layers.{l}.",
            {
                **fused("mixer.Wqkv", QKV),
                "attn.out": "mixer.out_proj",
                "attn.post_norm": "norm1",
                "mlp.up": "mlp.fc1",
                "mlp.down": "mlp.fc2",
                "mlp.post_norm": "norm2",
            },
        ),
    },
)

_narrow = {"norm": True, "projected": "normed", "projection_bias": True}
_rotated_dense = {"function": function("hidden_act"), "norm": False}


def turned(fields: Fields) -> dict[str, Any]:
    """Positions turn queries and keys by sines, which its class holds as a table."""
    fields.notes.append("transformers' class holds its sines as a parameter, which is computed and not counted")
    return {"pairing": "adjacent"}


ROFORMER = BERT.but(
    document={
        "position": None,
        "rope": Hole(turned),
        "embedding": {"width": optional("embedding_size"), "types": size("type_vocab_size", least=0), **_narrow},
    },
    only={"rotary_value": False},
    classes={
        **encoders(None, MASKED, _rotated_dense, _rotated_dense),
        "ForMultipleChoice": scores("last", 1),
        "ForCausalLM": MASKED,
    },
    names={
        **names("roformer."),
        "embedding.projection": "roformer.embeddings_project",
        "pooler.dense": "classifier.dense",
        "pooler.labels": ("classifier.out_proj", "classifier", "qa_outputs"),
    },
)

_decoupled = {**MASKED, "head": {"dense": {"function": function("hidden_act"), "d": size("output_embedding_size")}}}

#: tables of other widths at both ends (arXiv:2010.12821)
REMBERT = BERT.but(
    document={
        "tying": None,
        "embedding": {"width": width("input_embedding_size"), "types": size("type_vocab_size", least=0), **_narrow},
    },
    irrelevant=("tie_word_embeddings", "classifier_dropout_prob", "output_embedding_size"),
    classes={
        **encoders(TANH, _decoupled, TANH, TANH),
        "ForCausalLM": _decoupled,
        "ForQuestionAnswering": scores("each", labels()),
    },
    names={
        **names("rembert."),
        "embedding.projection": "rembert.encoder.embedding_hidden_mapping_in",
        "head.dense": "cls.predictions.dense",
        "head.dense.norm": "cls.predictions.LayerNorm",
        "head": "cls.predictions.decoder",
        "pooler.dense": "rembert.pooler.dense",
    },
)


def shape_and_sound(fields: Fields) -> list[dict[str, int]]:
    """Rows and channels of both tables."""
    return [
        {"rows": fields.needed(f"{what}_vocab_size"), "d": fields.needed(f"{what}_embed_dim")}
        for what in ("shape", "pronunciation")
    ]


#: tables of a character's shape and of its sound, whose first rows are read where neither is given
ROC = BERT.but(
    document={
        "embedding": {
            **BERT.document["embedding"],
            "beside": Hole(shape_and_sound),
        },
    },
    only={"enable_shape": True, "enable_pronunciation": True, "concat_input": True},
    classes={
        **BERT_CLASSES,
        "ForCausalLM": MASKED,
        "ForPreTraining": {**MASKED, "head": {**MASKED["head"], "pooler": {"token": "first", "dense": TANH}}},
    },
    names={
        **names("roc_bert."),
        "embedding.beside.0": "roc_bert.embeddings.shape_embed",
        "embedding.beside.1": "roc_bert.embeddings.pronunciation_embed",
        "embedding.projection": "roc_bert.embeddings.map_inputs_layer",
        "pooler.dense": "roc_bert.pooler.dense",
    },
)

READERS: dict[str, Reader] = {
    "roc_bert": ROC,
    "ernie": ERNIE,
    "megatron-bert": MEGATRON,
    "bert-generation": GENERATION,
    "data2vec-text": DATA2VEC,
    "roberta-prelayernorm": PRELAYERNORM,
    "xlm-roberta-xl": XL,
    "ibert": IBERT,
    "jina_embeddings_v3": JINA,
    "roformer": ROFORMER,
    "rembert": REMBERT,
}
