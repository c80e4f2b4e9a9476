"""DeepSeek: latent attention, a few dense layers first, then experts with shared ones beside them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gptcalc.errors import InputError
from gptcalc.sources.huggingface.experts import (
    EXPERT_NAMES,
    EXPERTS,
    MTP_NAMES,
    NAMES,
    SHARED_NAMES,
    SIGMOID,
    SPARSE,
    groups,
)
from gptcalc.sources.huggingface.fields import Fields
from gptcalc.sources.huggingface.llama import LLAMA, PREFIX
from gptcalc.sources.huggingface.pattern import stack
from gptcalc.sources.huggingface.reader import Hole, Reader, optional, rmsnorm, size, when
from gptcalc.sources.huggingface.rope import rope
from gptcalc.sources.huggingface.tensors import Names, fused, in_layers

LATENT_NAMES: Names = in_layers(
    PREFIX,
    {
        "attn.q": "self_attn.q_proj",
        "attn.q_a": "self_attn.q_a_proj",
        "attn.q_a_norm": "self_attn.q_a_layernorm",
        "attn.q_b": "self_attn.q_b_proj",
        **fused("self_attn.kv_a_proj_with_mqa", (("attn.kv_a", "kv_rank"), ("attn.k_rope", "d_rope"))),
        "attn.kv_a_norm": "self_attn.kv_a_layernorm",
        **fused("self_attn.kv_b_proj", (("attn.k_b", "d_nope"), ("attn.v_b", "d_v")), groups="n_heads"),
    },
)

WHOLE = "qk_head_dim"


def unturned(fields: Fields) -> int:
    """Channels of a key that don't turn. InputError where a class whose config has all of them as a field is told
    another number: its attention then can't run (LongCat)."""
    n = fields.needed("qk_nope_head_dim")
    whole = fields.size(WHOLE) if fields.known is not None and WHOLE in fields.known.defaults else None
    if whole is not None and whole != (parts := n + fields.needed("qk_rope_head_dim")):
        raise InputError(f"{fields.within}{WHOLE} = {whole} is not qk_nope_head_dim + qk_rope_head_dim = {parts}")
    return n


LATENT: dict[str, Any] = {
    "q_rank": optional("q_lora_rank"),
    "kv_rank": size("kv_lora_rank"),
    "d_nope": Hole(unturned),
    "d_rope": size("qk_rope_head_dim"),
    "d_v": size("v_head_dim"),
    "bias": when("attention_bias", when(optional("q_lora_rank"), ["q_a", "kv_a", "out"], ["kv_a", "out"])),
    "latent_norm": rmsnorm(1e-6),
}


def latent_scale(rank: Hole) -> Hole:
    """Normed latents are scaled up to the width that they stand for (LongCat, dots3.note)."""
    return Hole(lambda fields: float((fields.needed("hidden_size") / rank.read(fields)) ** 0.5))


#: DeepSeek's first mixture: softmax scores, no bias
DEEPSEEK_MOE = LLAMA.but(
    document={"layers": stack("attn", SPARSE), "moe": EXPERTS},
    defaults={"moe_layer_freq": 1, "first_k_dense_replace": 0, "routed_scaling_factor": 1.0, "hidden_act": "silu"},
    only={"scoring_func": "softmax"},
    irrelevant=("first_k_dense_replace", "moe_layer_freq"),
    names=NAMES,
)

#: DeepSeek-OCR's: the second version's routing, which never divides by the chosen weights' sum
DEEPSEEK_OCR2 = DEEPSEEK_MOE.but(
    document={
        "d_head": None,
        "moe": {**EXPERTS, "normalize": False, "groups": groups(score="max", method="group_limited_greedy")},
    },
    only={"topk_method": ("greedy", "group_limited_greedy")},
)

ROUTED = DEEPSEEK_MOE.but(
    document={"moe": SIGMOID, "mtp": optional("num_nextn_predict_layers", "num_mtp_layers", least=0)},
    only={"scoring_func": "sigmoid", "topk_method": "noaux_tc"},
    names=MTP_NAMES,
)


def latent(fields: Fields, n: int) -> Sequence[str]:
    """Latent attention, unless the vendor's code is told to do without (DeepSeek-OCR, DeepSeek-VL2-tiny)."""
    if fields.get("use_mla") is False:
        for name in ("q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"):
            fields.get(name)  # which say nothing then
        return ["attn"] * n
    return ["mla"] * n


# `fraction=None`: all of the rotary channels turn. Where they are scaled (YaRN, linear), transformers 5.24 heeds a
# partial_rotary_factor inside rope_parameters all the same and makes fewer frequencies than there are pairs: a single
# one turns them all, several do not run. That is not followed.
DEEPSEEK_V2 = LLAMA.but(
    defaults={"moe_layer_freq": 1},
    document={
        "layers": stack(latent, SPARSE),
        "n_kv_heads": None,
        "d_head": None,
        "attn": {"n_kv_heads": optional("num_key_value_heads"), "rope": rope()},
        "rope": rope(fraction=None, pairing="adjacent"),
        "bias": None,
        "mla": LATENT,
        "moe": {**EXPERTS, "groups": groups(score="max", method="group_limited_greedy")},
    },
    only={"scoring_func": "softmax", "topk_method": ("greedy", "group_limited_greedy")},
    irrelevant=("num_key_value_heads", "head_dim", "qk_head_dim", "first_k_dense_replace", "moe_layer_freq"),
    beyond=("use_mla",),
    names={**EXPERT_NAMES, **LATENT_NAMES, **SHARED_NAMES},
)

DEEPSEEK_V3 = DEEPSEEK_V2.but(
    document={
        "rope": rope(fraction=None, pairing=when("rope_interleave", "adjacent", "half")),
        "moe": SIGMOID,
        "mtp": optional("num_nextn_predict_layers", "num_mtp_layers", least=0),
    },
    defaults={"rope_interleave": True},
    only={"scoring_func": "sigmoid", "topk_method": "noaux_tc"},
    names=MTP_NAMES,
)

#: relatives whose first layer is dense where the config doesn't say more
FIRST_DENSE = DEEPSEEK_V3.but(defaults={"first_k_dense_replace": 1})

# --- Sparse attention -------------------------------------------------------------------------------------------------


INDEX_NAMES = in_layers(
    PREFIX,
    {
        "attn.index.q": "self_attn.indexer.wq_b",
        "attn.index.k": "self_attn.indexer.wk",
        "attn.index.k_norm": "self_attn.indexer.k_norm",
        "attn.index.weights": "self_attn.indexer.weights_proj",
    },
)


def index(**more: Any) -> dict[str, Any]:
    return {"n_heads": size("index_n_heads"), "d": size("index_head_dim"), "top_k": size("index_topk"), **more}


DEEPSEEK_V32 = DEEPSEEK_V3.but(
    document={"rope": rope(fraction=None, pairing="adjacent"), "mla": {**LATENT, "index": index()}},
    only={"layer_types": None},
    irrelevant=("layer_types", "rope_interleave", "indexer_rope_interleave"),
    names=INDEX_NAMES,
)

READERS: dict[str, Reader] = {
    "deepseek": DEEPSEEK_MOE,
    "deepseek_v2": DEEPSEEK_V2,
    "deepseek_v3": DEEPSEEK_V3,
    "deepseek_ocr2_text": DEEPSEEK_OCR2,
    "kimi_k2": DEEPSEEK_V3.but(like="deepseek_v3"),
    "deepseek_v32": DEEPSEEK_V32,
}
