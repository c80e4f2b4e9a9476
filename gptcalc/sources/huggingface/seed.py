"""Seed-OSS: Llama with biases switched apart."""

from __future__ import annotations

from gptcalc.sources.huggingface.llama import LLAMA
from gptcalc.sources.huggingface.reader import Reader, sites

SEED_OSS = LLAMA.but(document={"bias": sites(qkv="attention_bias", out="attention_out_bias", mlp="mlp_bias")})

READERS: dict[str, Reader] = {"seed_oss": SEED_OSS}
