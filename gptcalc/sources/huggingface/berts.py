"""Encoders that are BERT or RoBERTa but for where norms stand, or what their weights are called."""

from __future__ import annotations

from gptcalc.sources.huggingface.bert import BERT, MASKED, ROBERTA, names
from gptcalc.sources.huggingface.heads import BARE
from gptcalc.sources.huggingface.reader import Reader
from gptcalc.sources.huggingface.tensors import Held, in_layers

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

READERS: dict[str, Reader] = {
    "ernie": ERNIE,
    "megatron-bert": MEGATRON,
    "bert-generation": GENERATION,
    "data2vec-text": DATA2VEC,
    "roberta-prelayernorm": PRELAYERNORM,
    "xlm-roberta-xl": XL,
}
