"""Sarvam: mixtures with sigmoid routing, on grouped queries or latent attention."""

from __future__ import annotations

from gptcalc.sources.huggingface.deepseek import FIRST_DENSE, ROUTED
from gptcalc.sources.huggingface.llama import PREFIX
from gptcalc.sources.huggingface.reader import Reader, flag, sites, when
from gptcalc.sources.huggingface.tensors import QKV, Held, bare, in_layers

SARVAM_MOE = ROUTED.but(
    document={
        "bias": sites(qkv=flag("attention_bias", "use_qkv_bias")),
        "attn": {"qk_norm": when("use_qk_norm", "head")},
    },
    defaults={"first_k_dense_replace": 1},
    names={
        "embedding.token": ("model.embed_tokens", "model.word_embeddings"),
        **in_layers(
            PREFIX,
            {
                **{
                    f"attn.{part}": (f"self_attn.{part}_proj", Held("attention.query_key_value", parts=QKV))
                    for part in ("q", "k", "v")
                },
                "attn.out": ("self_attn.o_proj", "attention.dense"),
                "attn.q_norm": ("self_attn.q_norm", "attention.query_layernorm"),
                "attn.k_norm": ("self_attn.k_norm", "attention.key_layernorm"),
                "moe.selection_bias": (bare("mlp.gate.e_score_correction_bias"), bare("mlp.gate.expert_bias")),
            },
        ),
    },
)

READERS: dict[str, Reader] = {"sarvam_moe": SARVAM_MOE, "sarvam_mla": FIRST_DENSE}
