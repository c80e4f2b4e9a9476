"""Solar Open: a mixture with sigmoid routing in every layer."""

from __future__ import annotations

from gptcalc.sources.huggingface.deepseek import ROUTED
from gptcalc.sources.huggingface.reader import Reader, sites

SOLAR_OPEN = ROUTED.but(
    document={"layers": "n*attn+moe", "d_ff": None, "bias": sites(qkv="attention_bias")},
    irrelevant=("intermediate_size",),
)

READERS: dict[str, Reader] = {"solar_open": SOLAR_OPEN}
