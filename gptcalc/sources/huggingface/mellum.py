"""Mellum: Qwen 3's mixture with windows."""

from __future__ import annotations

from gptcalc.sources.huggingface.experts import DENSE_OR_SPARSE
from gptcalc.sources.huggingface.pattern import SLIDING, listed, stack
from gptcalc.sources.huggingface.qwen import QWEN3_MOE
from gptcalc.sources.huggingface.reader import Reader, size
from gptcalc.sources.huggingface.rope import rope
from gptcalc.sources.huggingface.windows import TYPES

MELLUM = QWEN3_MOE.but(
    document={
        "layers": stack(listed("layer_types", TYPES), listed("mlp_layer_types", DENSE_OR_SPARSE, "moe")),
        "rope": rope(500000),
        "attn": {"qk_norm": "head"},
        "local": {
            "like": "attn",
            "window": size("sliding_window"),
            "rope": rope(10000, layer_type=SLIDING, scaled=False),
        },
    },
    only={"num_nextn_predict_layers": (0, 1), "num_mtp_layers": (0, 1)},
)

READERS: dict[str, Reader] = {
    "mellum": MELLUM,
}
