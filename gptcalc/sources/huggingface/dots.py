"""dots.llm1: a mixture with sigmoid routing, norms of queries and keys, windows in upper layers."""

from __future__ import annotations

from gptcalc.sources.huggingface.deepseek import ROUTED
from gptcalc.sources.huggingface.experts import SPARSE
from gptcalc.sources.huggingface.pattern import listed, stack
from gptcalc.sources.huggingface.reader import Reader, sites, size
from gptcalc.sources.huggingface.windows import TYPES, upper_layers

DOTS1 = ROUTED.but(
    document={
        "layers": stack(listed("layer_types", TYPES, upper_layers), SPARSE),
        "bias": sites(attn="attention_bias"),
        "attn": {"qk_norm": "head"},
        "local": {"like": "attn", "window": size("sliding_window")},
    },
    irrelevant=("use_sliding_window", "max_window_layers"),
)

READERS: dict[str, Reader] = {"dots1": DOTS1}
