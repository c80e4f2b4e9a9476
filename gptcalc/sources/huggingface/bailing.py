"""Bailing (Ling): mixtures with softmax and with sigmoid routing."""

from __future__ import annotations

from gptcalc.sources.huggingface.deepseek import DEEPSEEK_MOE
from gptcalc.sources.huggingface.experts import EXPERTS, MTP_NAMES, SIGMOID
from gptcalc.sources.huggingface.fields import Fields
from gptcalc.sources.huggingface.llama import PREFIX
from gptcalc.sources.huggingface.reader import Hole, Reader, optional, sites, when
from gptcalc.sources.huggingface.tensors import QKV, Names, bare, fused, in_layers

BAILING_NAMES: Names = {
    "embedding.token": ("model.word_embeddings", "model.embed_tokens"),
    **in_layers(
        PREFIX,
        {
            **fused("attention.query_key_value", QKV),
            "attn.out": "attention.dense",
            "attn.q_norm": "attention.query_layernorm",
            "attn.k_norm": "attention.key_layernorm",
            "moe.selection_bias": bare("mlp.gate.expert_bias"),
        },
    ),
}


def experts_of_texts(fields: Fields) -> int:
    """Older files say it in DeepSeek's words. Ming's have routers of images and of sounds beside that of texts."""
    if fields.flag("multi_gate"):
        fields.notes.append(f"{fields.within}multi_gate: routers of images and of sounds are left out")
    return fields.needed("num_experts", "n_routed_experts")


_experts = {
    "n_experts": Hole(experts_of_texts),
    "n_shared": optional("num_shared_experts", "n_shared_experts", least=0),
}

BAILING_MOE = DEEPSEEK_MOE.but(
    document={"bias": sites(qkv="use_qkv_bias", out="use_bias"), "moe": {**EXPERTS, **_experts}},
    defaults={"hidden_act": "silu", "rms_norm_eps": 1e-6, "norm_topk_prob": True},
    only={"rope_scaling": None},
    irrelevant=(
        "norm_head",
        "norm_softmax",
        "max_window_layers",
        "use_sliding_window",
        "sliding_window",
        "image_patch_token",
    ),
    names=BAILING_NAMES,
)

BAILING_MOE_V2 = BAILING_MOE.but(
    document={
        "moe": {**SIGMOID, **_experts},
        "attn": {"qk_norm": when("use_qk_norm", "head")},
        "mtp": optional("num_nextn_predict_layers", least=0),
    },
    defaults={"use_qk_norm": True, "routed_scaling_factor": 2.5, "first_k_dense_replace": 1},
    only={"score_function": "sigmoid", "scoring_func": "sigmoid", "moe_router_enable_expert_bias": True},
    irrelevant=("rotary_dim", "moe_shared_expert_intermediate_size"),
    names=MTP_NAMES,
)

READERS: dict[str, Reader] = {
    "bailing_moe": BAILING_MOE,
    "bailing_moe_v2": BAILING_MOE_V2,
}
