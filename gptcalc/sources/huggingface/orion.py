"""Orion: Llama with LayerNorm."""

from __future__ import annotations

from gptcalc.sources.huggingface.llama import LLAMA, PLAIN
from gptcalc.sources.huggingface.reader import Reader, layernorm

ORION = LLAMA.but(document={"norm": layernorm("rms_norm_eps")}, defaults=PLAIN)

READERS: dict[str, Reader] = {"orion": ORION}
