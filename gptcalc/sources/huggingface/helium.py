"""Helium: Llama with neighbours turned as pairs."""

from __future__ import annotations

from gptcalc.sources.huggingface.llama import LLAMA
from gptcalc.sources.huggingface.reader import Reader, sites
from gptcalc.sources.huggingface.rope import rope

HELIUM = LLAMA.but(document={"rope": rope(pairing="adjacent"), "bias": sites(qkv="attention_bias", mlp="mlp_bias")})

READERS: dict[str, Reader] = {"helium": HELIUM}
