"""Helium: Llama with neighbours turned as pairs."""

from __future__ import annotations

from gptcalc.sources.huggingface.llama import LLAMA
from gptcalc.sources.huggingface.reader import Reader, sites
from gptcalc.sources.huggingface.rope import rope

# The class's output projection reads hidden_size channels: where the heads have more or fewer together, it can't run.
# Counted is the matrix that would.
HELIUM = LLAMA.but(document={"rope": rope(pairing="adjacent"), "bias": sites(qkv="attention_bias", mlp="mlp_bias")})

READERS: dict[str, Reader] = {"helium": HELIUM}
