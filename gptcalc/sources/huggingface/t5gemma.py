"""T5Gemma: Gemma 2 with an encoder of its own, that sees all tokens, and cross-attention."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gptcalc.errors import InputError
from gptcalc.sources.huggingface.fields import Fields
from gptcalc.sources.huggingface.gemma import GEMMA2, query_scale
from gptcalc.sources.huggingface.pattern import every, listed, stack
from gptcalc.sources.huggingface.reader import SEARCHED, Hole, Reader, number
from gptcalc.sources.huggingface.tensors import Names, in_layers
from gptcalc.sources.huggingface.windows import TYPES

STACK = "t5_gemma_module"

#: what the class of both parts assumes, which transformers lists under no type of its own
ASSUMED = {
    "vocab_size": 256000, "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26,
    "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "hidden_activation": "gelu_pytorch_tanh",
    "max_position_embeddings": 8192, "rms_norm_eps": 1e-6, "tie_word_embeddings": True, "attention_bias": False,
    "query_pre_attn_scalar": 256, "sliding_window": 4096, "final_logit_softcapping": 30.0,
    "attn_logit_softcapping": 50.0,
}  # fmt: skip
_softcap = number("attn_logit_softcapping")

DECODER = GEMMA2.but(
    defaults=ASSUMED,
    document={
        "layers": stack(listed("layer_types", TYPES, every(2, "attn", "local")), "cross+mlp"),
        "cross": {"scale": Hole(query_scale), "softcap": _softcap},
    },
    irrelevant=("cross_attention_hidden_size", "dropout_rate"),
)

ENCODER = GEMMA2.but(
    defaults=ASSUMED,
    document={
        "softcap": None,
        "tying": None,
        "tokens": "own",
        "local": {"like": "attn", "window": Hole(lambda fields: fields.needed("sliding_window") + 1)},
    },
    irrelevant=("final_logit_softcapping", "tie_word_embeddings", "dropout_rate"),
)


def stacks(fields: Fields) -> dict[str, Any]:
    """The decoder's document, and in it the encoder's."""
    decoder, encoder = part("decoder", DECODER, fields), part("encoder", ENCODER, fields)
    own = {key: value for key, value in encoder.items() if decoder.get(key) != value}
    return {**decoder, "tying": fields.flag("tie_word_embeddings"), "encoder": own}


def part(name: str, reader: Reader, fields: Fields) -> dict[str, Any]:
    config: Mapping[str, Any] | None = fields.mapping(name)
    if config is None:
        raise InputError(f"{fields.within}{name} is missing")
    return reader.fill(reader.fields(config, STACK, within=f"{fields.within}{name}."))


_PARTS = (("attn", "self_attn"), ("cross", "cross_attn"))

_layer: Names = {
    **{
        f"{ours}.{key}": f"{theirs}.{part}_proj"
        for ours, theirs in _PARTS
        for key, part in (("q", "q"), ("k", "k"), ("v", "v"), ("out", "o"))
    },
    **{
        f"{ours}.{norm}": f"{when}_{theirs}_layernorm"
        for ours, theirs in (*_PARTS, ("mlp", "feedforward"))
        for norm, when in (("norm", "pre"), ("post_norm", "post"))
    },
    "mlp.gate": "mlp.gate_proj",
    "mlp.up": "mlp.up_proj",
    "mlp.down": "mlp.down_proj",
}


def _stack_names(side: str) -> Names:
    return {
        "embedding.token": f"model.{side}.embed_tokens",
        **in_layers(f"model.{side}.layers.{{l}}.", _layer),
        "final_norm": f"model.{side}.norm",
    }


T5GEMMA = Reader(
    document={SEARCHED: Hole(stacks)},
    only={"is_encoder_decoder": True},
    irrelevant=frozenset({"dropout_rate", "classifier_dropout_rate", "vocab_size"}),
    classes={
        "": {},
        "ForConditionalGeneration": {},
    },
    names={
        **_stack_names("decoder"),
        **{f"encoder.{stem}": entry for stem, entry in _stack_names("encoder").items()},
        "head": "lm_head.out_proj",
    },
)

READERS: dict[str, Reader] = {"t5gemma": T5GEMMA}
