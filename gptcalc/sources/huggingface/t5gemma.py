"""T5Gemma: Gemma 2 with an encoder of its own, that sees all tokens, and cross-attention."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gptcalc.errors import InputError
from gptcalc.sources.huggingface.gemma import GEMMA2, query_scale
from gptcalc.sources.huggingface.pattern import every, listed, stack
from gptcalc.sources.huggingface.reader import SEARCHED, Fields, Hole, Reader, number, size
from gptcalc.sources.huggingface.tensors import Names, in_layers
from gptcalc.sources.huggingface.windows import TYPES

STACK = "t5_gemma_module"
_softcap = number("attn_logit_softcapping")

DECODER = GEMMA2.but(
    document={
        "layers": stack(listed("layer_types", TYPES, every(2, "attn", "local")), "cross+mlp"),
        "cross": {"scale": Hole(query_scale), "softcap": _softcap},
    },
    irrelevant=("cross_attention_hidden_size", "dropout_rate"),
)

ENCODER = GEMMA2.but(
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
    **{f"{ours}.{key}": f"{theirs}.{part}_proj" for ours, theirs in _PARTS
       for key, part in (("q", "q"), ("k", "k"), ("v", "v"), ("out", "o"))},
    **{f"{ours}.{norm}": f"{when}_{theirs}_layernorm" for ours, theirs in (*_PARTS, ("mlp", "feedforward"))
       for norm, when in (("norm", "pre"), ("post_norm", "post"))},
    "mlp.gate": "mlp.gate_proj",
    "mlp.up": "mlp.up_proj",
    "mlp.down": "mlp.down_proj",
}  # fmt: skip


def _stack_names(side: str) -> Names:
    return {
        "embedding.token": f"model.{side}.embed_tokens",
        **in_layers(f"model.{side}.layers.{{l}}.", _layer),
        "final_norm": f"model.{side}.norm",
    }


T5GEMMA = Reader(
    document={SEARCHED: Hole(stacks), "v": size("vocab_size")},
    only={"is_encoder_decoder": True},
    irrelevant=frozenset({"dropout_rate", "classifier_dropout_rate"}),
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
