"""EuroBERT: Llama that sees all tokens."""

from __future__ import annotations

from gptcalc.sources.huggingface.heads import encoders
from gptcalc.sources.huggingface.llama import LLAMA
from gptcalc.sources.huggingface.reader import Reader, sites

_dense = {"function": "gelu", "norm": False}

EUROBERT = LLAMA.but(
    document={"causal": False},
    irrelevant=("classifier_pooling", "clf_pooling"),
    classes=encoders(None, {"bias": sites(attn="attention_bias", mlp="mlp_bias", head="mlp_bias")}, _dense, _dense),
    names={"pooler.dense": "dense", "pooler.labels": "classifier"},
)

READERS: dict[str, Reader] = {"eurobert": EUROBERT}
