"""ESM C, of proteins: Llama that sees all tokens, with LayerNorms and a residual that weighs less in deep models."""

from __future__ import annotations

import math

from gptcalc.sources.huggingface.heads import encoders
from gptcalc.sources.huggingface.llama import LAYER, LLAMA
from gptcalc.sources.huggingface.reader import Hole, Reader, sites
from gptcalc.sources.huggingface.tensors import in_layers

_dense = {"function": "tanh", "norm": False}
_masked = {"bias": sites(attn="attention_bias", mlp="mlp_bias", head=True), "head": {"dense": {"function": "gelu"}}}
_without_bias = {"kind": "layernorm", "bias": False}

ESMC = LLAMA.but(
    document={
        "causal": False,
        "norm": "layernorm",
        "final_norm": _without_bias,
        "attn": {"qk_norm": {**_without_bias, "over": "full"}},
        "residual_scale": Hole(lambda fields: 1 / math.sqrt(fields.needed("num_hidden_layers") / 36)),
    },
    irrelevant=("mask_token_id",),
    classes=encoders(None, _masked, _dense, _dense),
    names={
        "embedding.token": "esmc.embed_tokens",
        **in_layers("esmc.layers.{l}.", LAYER),
        "final_norm": "esmc.norm",
        "head.dense": "lm_head.dense",
        "head.dense.norm": "lm_head.layer_norm",
        "head": "lm_head.decoder",
        "pooler.dense": "classifier.dense",
        "pooler.labels": ("classifier.out_proj", "score"),
    },
)

READERS: dict[str, Reader] = {"esmc": ESMC}
