"""Sarvam: mixtures with sigmoid routing, on grouped queries or latent attention."""

from __future__ import annotations

from gptcalc.sources.huggingface.deepseek import FIRST_DENSE, ROUTED
from gptcalc.sources.huggingface.reader import Reader, flag, sites, when

SARVAM_MOE = ROUTED.but(
    document={
        "bias": sites(qkv=flag("attention_bias", "use_qkv_bias")),
        "attn": {"qk_norm": when("use_qk_norm", "head")},
    },
    defaults={"first_k_dense_replace": 1},
)

READERS: dict[str, Reader] = {"sarvam_moe": SARVAM_MOE, "sarvam_mla": FIRST_DENSE}
