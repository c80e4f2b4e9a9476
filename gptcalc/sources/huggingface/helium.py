"""Helium: Llama with neighbours turned as pairs."""

from __future__ import annotations

from gptcalc.sources.huggingface.llama import LLAMA, filling
from gptcalc.sources.huggingface.reader import Hole, Reader, sites
from gptcalc.sources.huggingface.rope import rope

HELIUM = LLAMA.but(
    document={
        "d_head": Hole(filling),
        "rope": rope(pairing="adjacent"),
        "bias": sites(qkv="attention_bias", mlp="mlp_bias"),
    }
)

READERS: dict[str, Reader] = {"helium": HELIUM}
