"""Qwen: Llama with biases on q, k and v (Qwen 2) or norms of queries and keys (Qwen 3), dense and with experts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gptcalc.errors import InputError
from gptcalc.sources.huggingface.experts import EXPERT_NAMES, shared_experts
from gptcalc.sources.huggingface.fields import Fields
from gptcalc.sources.huggingface.heads import DECODER_NAMES, DECODERS, dense, scores
from gptcalc.sources.huggingface.llama import LLAMA, PREFIX
from gptcalc.sources.huggingface.pattern import FULL, SLIDING, Units, listed, stack
from gptcalc.sources.huggingface.reader import Hole, Reader, flag, number, optional, preferred, sites, size, when
from gptcalc.sources.huggingface.rope import rope
from gptcalc.sources.huggingface.tensors import QKV, fused, in_layers
from gptcalc.sources.huggingface.windows import TYPES, upper_layers


def switched(units: Units) -> Units:
    """Windows by a list or a rule, where the config switches them on; else all layers see everything."""

    def read(fields: Fields, n: int) -> Sequence[str]:
        kinds = units(fields, n) if callable(units) else [units] * n
        on = fields.flag("use_sliding_window") and fields.size("sliding_window") is not None
        return kinds if on else ["attn"] * n

    return read


MIXERS = switched(listed("layer_types", TYPES, upper_layers))


def sparse_layers(fields: Fields, n: int) -> Sequence[str]:
    """Experts in every decoder_sparse_step-th layer that mlp_only_layers doesn't except."""
    step, experts = (fields.needed("decoder_sparse_step"), fields.size("num_experts", "num_local_experts", least=0))
    dense = fields.items("mlp_only_layers") or []
    return ["moe" if experts and i not in dense and (i + 1) % step == 0 else "mlp" for i in range(n)]


def alternating_below(fields: Fields, n: int) -> Sequence[str]:
    """A window, where the config switches it on, in every second of the first max_window_layers layers."""
    local = fields.flag("use_sliding_window") and fields.size("sliding_window") is not None
    end = fields.size("max_window_layers", least=0) or 0
    return ["local" if local and i % 2 == 0 and i < end else "attn" for i in range(n)]


QWEN2 = LLAMA.but(
    document={
        "layers": stack(MIXERS, "mlp"),
        "bias": "qkv",
        "local": {"like": "attn", "window": size("sliding_window")},
    },
    irrelevant=("use_sliding_window", "max_window_layers"),
)

QWEN3 = QWEN2.but(
    document={"bias": sites(attn="attention_bias"), "attn": {"qk_norm": "head"}}, only={"use_qk_norm": True}
)

_sparse: dict[str, Any] = {
    "n_experts": size("num_experts", "num_local_experts"),
    "top_k": size("num_experts_per_tok"),
    "d_ff": size("moe_intermediate_size"),
    "normalize": flag("norm_topk_prob"),
}


def everywhere(fields: Fields) -> Any:
    """One window for all layers, where the config switches it on."""
    window = fields.size("sliding_window")
    return window if fields.flag("use_sliding_window") else None


QWEN3_MOE = QWEN3.but(
    document={
        "layers": stack(listed("layer_types", {FULL: "attn", SLIDING: "attn"}), sparse_layers),
        "attn": {"qk_norm": "head", "window": Hole(everywhere)},
        "local": None,
        "moe": _sparse,
    },
    names=EXPERT_NAMES,
)

QWEN2_MOE = QWEN2.but(
    document={
        "layers": stack(switched(listed("layer_types", TYPES, alternating_below)), sparse_layers),
        "bias": when("qkv_bias", "qkv"),
        "moe": {**_sparse, "n_shared": 1, "d_shared": size("shared_expert_intermediate_size"), "shared_gate": True},
    },
    names={
        **EXPERT_NAMES,
        **in_layers(PREFIX, {**shared_experts("mlp.shared_expert"), "moe.shared_gate": "mlp.shared_expert_gate"}),
    },
)

_inside = {"tie_word_embeddings": False}  # where the larger model says nothing

_vl = QWEN2.but(defaults=_inside)

# --- Qwen 1 -----------------------------------------------------------------------------------------------------------


def half_width(fields: Fields) -> int:
    """The config gives the width of gate and up projection together."""
    name = "intermediate_size" if fields.present("intermediate_size") else "ffn_hidden_size"
    both = fields.needed(name)
    if both % 2:
        raise InputError(f"{fields.within}{name} = {both}: expected an even number, for two projections")
    return both // 2


QWEN1 = LLAMA.but(
    document={
        "d": preferred("hidden_size", "n_embd"),
        "n_heads": preferred("num_attention_heads", "n_head"),
        "n_layers": preferred("num_hidden_layers", "n_layer"),
        "c": preferred("max_position_embeddings", "seq_length"),
        "d_head": optional("kv_channels"),
        "d_ff": Hole(half_width),
        "layers": "n*attn+mlp",
        "rope": rope("rotary_emb_base", fraction="rotary_pct"),
        "norm": {"kind": "rmsnorm", "eps": number("layer_norm_epsilon", "rms_norm_eps")},
        "mlp": "swiglu",
        "bias": "qkv",
    },
    defaults={"layer_norm_epsilon": 1e-6, "tie_word_embeddings": False, "rotary_emb_base": 10000},
    only={"no_bias": True, "scale_attn_weights": True, "hidden_act": "silu", "activation": "swiglu"},
    irrelevant=("rope_theta", "onnx_safe", "params_dtype", "apply_residual_connection_post_layernorm",
                "pos_emb", "n_inner", "n_head", "n_layer", "n_embd", "n_positions", "ffn_hidden_size",
                "padded_vocab_size", "rope_scaling", "tokenizer_type", "visual"),
    names={
        "embedding.token": "transformer.wte",
        **in_layers(
            "transformer.h.{l}.",
            {
                "attn.norm": "ln_1",
                **fused("attn.c_attn", QKV),
                "attn.out": "attn.c_proj",
                "mlp.norm": "ln_2",
                "mlp.gate": "mlp.w2",
                "mlp.up": "mlp.w1",
                "mlp.down": "mlp.c_proj",
            },
        ),
        "final_norm": "transformer.ln_f",
    },
)  # fmt: skip

#: Qwen2.5-Math's own classes: a score of the last token, or two of each step
_relu = dense("relu", norm=False)
QWEN2_AND_REWARDS = QWEN2.but(
    classes={
        **DECODERS,
        "ForRewardModel": scores("last", 1, layer=_relu),
        "ForProcessRewardModel": scores("each", 2, layer=_relu),
    },
    names={"pooler.dense": "score.0", "pooler.labels": ("score", "score.2", *DECODER_NAMES["pooler.labels"][1:])},
)

READERS: dict[str, Reader] = {
    "qwen": QWEN1,
    "qwen2_vl": _vl.but(like="qwen2_vl_text"),
    "qwen2_vl_text": _vl,
    "qwen2_5_vl": _vl.but(like="qwen2_5_vl_text"),
    "qwen2_5_vl_text": _vl,
    "qwen2_5_omni_text": _vl,
    "qwen3_vl_text": QWEN3.but(defaults=_inside),
    "qwen3_vl_moe_text": QWEN3_MOE.but(defaults=_inside),
    "qwen3_omni_moe_text": QWEN3_MOE.but(defaults=_inside),
    "qwen2": QWEN2_AND_REWARDS,
    "qwen2_moe": QWEN2_MOE,
    "qwen3": QWEN3,
    "qwen3_asr_text": QWEN3.but(like="qwen3"),
    "LLaVAOneVision1_5_text": QWEN3.but(like="qwen3"),
    "qwen3_moe": QWEN3_MOE,
}
