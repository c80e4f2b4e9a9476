"""BERT and its near kin: RoBERTa, XLM-R, CamemBERT, ELECTRA, MPNet. Attention to all tokens, norms behind the
sublayers, learned positions, token types."""

from __future__ import annotations

from typing import Any

from gptcalc.sources.huggingface.fields import Fields
from gptcalc.sources.huggingface.heads import TANH, encoders, function, scores
from gptcalc.sources.huggingface.reader import Hole, Reader, activation, flag, layernorm, size, tied
from gptcalc.sources.huggingface.tensors import Held, Names, in_layers

#: a dense layer and a norm of the model's kind, then the token table with one bias more
MASKED: dict[str, Any] = {"bias": ["attn", "mlp", "head"], "head": {"dense": {"function": function("hidden_act")}}}

_PRETRAINED = {**MASKED, "head": {**MASKED["head"], "pooler": {"token": "first", "dense": TANH, "labels": 2}}}

LAYER: Names = {
    "attn.q": "attention.self.query",
    "attn.k": "attention.self.key",
    "attn.v": "attention.self.value",
    "attn.out": "attention.output.dense",
    "attn.post_norm": "attention.output.LayerNorm",
    "mlp.up": "intermediate.dense",
    "mlp.down": "output.dense",
    "mlp.post_norm": "output.LayerNorm",
}


def names(base: str) -> Names:
    """The names of the layers and tables below a base such as `bert.`"""
    return {
        "embedding.token": base + "embeddings.word_embeddings",
        "embedding.position": base + "embeddings.position_embeddings",
        "embedding.types": base + "embeddings.token_type_embeddings",
        "embedding.norm": base + "embeddings.LayerNorm",
        **in_layers(base + "encoder.layer.{l}.", LAYER),
    }


#: as its classes are since version 5
TWO_BIASES = "transformers then keeps a second bias of the output matrix, which nothing reads and which is not counted"

BERT = Reader(
    document={
        "d": size("hidden_size"),
        "v": size("vocab_size"),
        "c": size("max_position_embeddings"),
        "n_heads": size("num_attention_heads"),
        "n_layers": size("num_hidden_layers"),
        "d_ff": size("intermediate_size"),
        "tying": tied(TWO_BIASES),
        "position": "learned",
        "norm": layernorm(),
        "norm_at": "post",
        "final_norm": False,
        "causal": flag("is_decoder"),
        "mlp": activation("hidden_act", gated=False),
        "bias": "all",
        "embedding": {"types": size("type_vocab_size", least=0), "norm": True},
    },
    only={"position_embedding_type": "absolute"},
    irrelevant=frozenset({"directionality", "pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers",
                          "pooler_size_per_head", "pooler_type", "output_past", "id2label", "label2id"}),
    classes={
        **encoders(TANH, MASKED, TANH, TANH),
        "ForPreTraining": _PRETRAINED,
        "LMHeadModel": MASKED,
        "ForNextSentencePrediction": scores("first", 2, layer=TANH),
    },
    names={
        **names("bert."),
        "head.dense": "cls.predictions.transform.dense",
        "head.dense.norm": "cls.predictions.transform.LayerNorm",
        "head": Held("cls.predictions", weight=".decoder.weight"),
        "pooler.dense": "bert.pooler.dense",
        "pooler.labels": ("classifier", "qa_outputs", "cls.seq_relationship"),
    },
)  # fmt: skip

# --- RoBERTa ----------------------------------------------------------------------------------------------------------


def first_row(fields: Fields) -> int:
    """The row of position 0: behind that of the padding token."""
    return (fields.size("pad_token_id", least=0) or 0) + 1


def rows_left(fields: Fields) -> int:
    """How many positions the table has from there on."""
    return fields.needed("max_position_embeddings") - first_row(fields)


ROBERTA = BERT.but(
    document={
        "c": Hole(rows_left),
        "embedding": {"types": size("type_vocab_size", least=0), "offset": Hole(first_row), "norm": True},
    },
    classes={
        **encoders(TANH, {**MASKED, "head": {"dense": {"function": "gelu"}}}, TANH, TANH),
        "ForCausalLM": {**MASKED, "head": {"dense": {"function": "gelu"}}},
    },
    names={
        **names("roberta."),
        "head.dense": "lm_head.dense",
        "head.dense.norm": "lm_head.layer_norm",
        "head": Held("lm_head", weight=".decoder.weight"),
        "pooler.dense": ("roberta.pooler.dense", "classifier.dense"),
        "pooler.labels": ("classifier.out_proj", "classifier", "qa_outputs"),
    },
)


def width(name: str) -> Hole:
    """Channels of tables that the class projects to the model's, even where both have as many."""

    def read(fields: Fields) -> int:
        found = fields.needed(name)
        if found == fields.size("hidden_size"):
            raise fields.unsupported(name, "a projection between equal widths is not supported yet")
        return found

    return Hole(read)


# --- MPNet ------------------------------------------------------------------------------------------------------------

MPNET = BERT.but(
    document={
        "c": Hole(lambda fields: fields.needed("max_position_embeddings") - 2),
        "embedding": {"offset": 2, "norm": True},
        "attn": {"buckets": {"n": size("relative_attention_num_buckets"), "max_distance": 128}},
    },
    classes=encoders(TANH, {**MASKED, "head": {"dense": {"function": "gelu"}}}, TANH, TANH),
    names={
        **names("mpnet."),
        **in_layers(
            "mpnet.encoder.layer.{l}.",
            {
                "attn.q": "attention.attn.q",
                "attn.k": "attention.attn.k",
                "attn.v": "attention.attn.v",
                "attn.out": "attention.attn.o",
                "attn.post_norm": "attention.LayerNorm",
            },
        ),
        "relative.buckets": Held("mpnet.encoder.relative_attention_bias.weight", weight=""),
        "head.dense": "lm_head.dense",
        "head.dense.norm": "lm_head.layer_norm",
        "head": Held("lm_head", weight=".decoder.weight"),
        "pooler.dense": ("mpnet.pooler.dense", "classifier.dense"),
        "pooler.labels": ("classifier.out_proj", "classifier", "qa_outputs"),
    },
)

# --- ELECTRA ----------------------------------------------------------------------------------------------------------

_electra_dense = {"function": "gelu", "norm": False}

ELECTRA = BERT.but(
    document={
        "tying": flag("tie_word_embeddings"),
        "embedding": {
            "width": size("embedding_size"),
            "types": size("type_vocab_size", least=0),
            "norm": True,
            "projected": "normed",
            "projection_bias": True,
        },
    },
    irrelevant=("generator_hidden_size", "summary_last_dropout"),
    classes={
        **encoders(None, {**MASKED, "head": {"dense": {"function": "gelu"}}}, _electra_dense, _electra_dense),
        "ForPreTraining": scores("each", 1, layer={"function": function("hidden_act"), "norm": False}),
        "ForCausalLM": {**MASKED, "head": {"dense": {"function": "gelu"}}},
    },
    names={
        **names("electra."),
        "embedding.projection": "electra.embeddings_project",
        "head.dense": "generator_predictions.dense",
        "head.dense.norm": "generator_predictions.LayerNorm",
        "head": "generator_lm_head",
        "pooler.dense": ("discriminator_predictions.dense", "classifier.dense", "sequence_summary.summary"),
        "pooler.labels": (
            "discriminator_predictions.dense_prediction",
            "classifier.out_proj",
            "classifier",
            "qa_outputs",
        ),
    },
)

READERS: dict[str, Reader] = {
    "bert": BERT,
    "roberta": ROBERTA,
    "xlm-roberta": ROBERTA,
    "camembert": ROBERTA,
    "mpnet": MPNET,
    "electra": ELECTRA,
}
