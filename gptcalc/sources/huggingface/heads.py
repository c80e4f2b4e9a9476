"""What stands on a model's last layer, by the class that a config names: BertForMaskedLM, LlamaModel, a reward head.

The class's name is the model's, then what it is for. Without one a decoder is a language model, an encoder bare.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from gptcalc.sources.huggingface.fields import Fields
from gptcalc.sources.huggingface.reader import Classes, Hole, activation

LABELS = "num_labels"

#: words in names of classes whose head has no vocabulary
SMALL = "Reward|Score|Critic|Classif|Regress|Embed|Retriev|Rerank|Ranker"


def labels(least: int = 1) -> Hole:
    """How many labels: num_labels, else as many as have a name, else the two that a class assumes."""

    def read(fields: Fields) -> int:
        given = fields.size(LABELS, least=least)
        named = fields.mapping("id2label")
        return given if given is not None else len(named) if named else 2

    return Hole(read)


def dense(function: str | Hole, **more: Any) -> dict[str, Any]:
    return {"function": function, **more}


#: nothing over the vocabulary, and what only a vocabulary's logits read is gone
BARE: dict[str, Any] = {"head": {"vocabulary": False}, "tying": None, "softcap": None, "logit_scale": None}


def scores(token: str, n: int | Hole | None = None, bias: bool | Hole = True, layer: Any = None) -> dict[str, Any]:
    """Labels read off one token or each, through a dense layer or not; without labels that layer's output."""
    return BARE | {
        "head": {"vocabulary": False, "pooler": {"token": token, "dense": layer, "labels": n, "bias": bias}},
    }


#: what transformers' classes for decoders put on the last layer
DECODERS: Classes = {
    "ForCausalLM": {},
    "ForConditionalGeneration": {},
    "LMHeadModel": {},
    "DoubleHeadsModel": {},
    "Model": BARE,
    "ForSequenceClassification": scores("last", labels(), bias=False),
    "ForTokenClassification": scores("each", labels()),
    "ForQuestionAnswering": scores("each", 2),
}

#: a language model's names for them
DECODER_NAMES = {"pooler.labels": ("score", "classifier", "qa_outputs")}


def encoders(
    pooler: Mapping[str, Any] | None, masked: Mapping[str, Any], sentence: Mapping[str, Any], choice: Mapping[str, Any]
) -> dict[str, Mapping[str, Any]]:
    """The classes of an encoder: bare (with its pooler, where it has one), with masked-language-model head, and with
    labels of the whole text, of a choice among texts and of each token."""
    bare = BARE if pooler is None else scores("first", layer=pooler)
    return {
        "": bare,
        "Model": bare,
        "ForMaskedLM": masked,
        "ForSequenceClassification": scores("first", labels(), layer=sentence),
        "ForMultipleChoice": scores("first", 1, layer=choice),
        "ForTokenClassification": scores("each", labels()),
        "ForQuestionAnswering": scores("each", labels()),
    }


TANH = dense("tanh", norm=False)


def function(*names: str) -> Hole:
    """The function of a head's dense layer."""
    return activation(*names, gated=False)


def purpose(name: str, classes: Classes) -> str | None:
    """What a class is for, of what is known: the longest end of its name."""
    ends = [end for end in classes if end and name.endswith(end)]
    return max(ends, key=len, default=None)


def alike(name: str, classes: Collection[str], usual: tuple[str, ...]) -> str | None:
    """Of a type's classes the one that is for the same as a class of another name; else the one with a usual end."""
    ends = tuple(filter(None, (purpose(name, {end: {} for end in DECODERS if end != "Model"}),))) or usual
    return next((known for known in classes if known.endswith(ends)), None)


def is_small(name: str, model_type: str) -> bool:
    """Whether a class that is not known has at most scores, values or an embedding on the last layer, by its name:
    LlamaForRewardModel, LlamaModelForScore, LlamaBidirectionalModel. What those are made of differs from code to code;
    below them is the type's bare model."""
    own = name.lower().startswith(model_type.replace("_", "")) and name.endswith("Model")
    return own or re.search(SMALL, name) is not None
