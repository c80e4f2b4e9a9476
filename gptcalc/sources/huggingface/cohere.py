"""Cohere: attention and MLP in parallel, norms without biases; Command A+ with experts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gptcalc.sources.huggingface.experts import EXPERT_NAMES, shared_experts
from gptcalc.sources.huggingface.fields import Fields
from gptcalc.sources.huggingface.llama import LLAMA, PREFIX
from gptcalc.sources.huggingface.pattern import FULL, SLIDING, every, first, listed, stack
from gptcalc.sources.huggingface.reader import (
    Hole,
    Reader,
    choice,
    layernorm,
    number,
    optional,
    preferred,
    rmsnorm,
    sites,
    size,
    when,
)
from gptcalc.sources.huggingface.rope import rope
from gptcalc.sources.huggingface.tensors import in_layers
from gptcalc.sources.huggingface.windows import TYPES

COHERE = LLAMA.but(
    document={
        "layers": "n*attn|mlp",
        "rope": rope(pairing="adjacent"),
        "norm": layernorm(bias=False),
        "bias": sites(attn="attention_bias"),
        "logit_scale": number("logit_scale"),
        "attn": {"qk_norm": when("use_qk_norm", "each")},
    },
    irrelevant=("rms_norm_eps",),
    names=in_layers(PREFIX, {"parallel.norm": "input_layernorm"}),
)

COHERE2 = COHERE.but(
    document={
        "layers": stack(listed("layer_types", TYPES, every("sliding_window_pattern", "attn", "local")), "mlp", "|"),
        "attn": {"position": "none"},
        "local": {"like": "attn", "position": "rope", "window": size("sliding_window")},
    },
    defaults={"sliding_window_pattern": 4},
    only={"rotary_pct": 1.0, "position_embedding_type": "rope_gptj", "use_parallel_block": True},
    irrelevant=(
        "cache_implementation",
        "layer_switch",
        "order_of_interleaved_layers",
        "sliding_window_pattern",
        "use_embedding_sharing",
        "use_gated_activation",
        "use_parallel_embedding",
    ),
)


def kind_rope(kind: str) -> Hole:
    """The rotation of the layers of a kind that turn."""

    def read(fields: Fields) -> Any:
        return rope(pairing="adjacent", layer_type=kind).read(fields) if position(kind).read(fields) == "rope" else None

    return Hole(read)


def position(kind: str) -> Hole:
    """Layers turn whose kind has rotary parameters."""

    def read(fields: Fields) -> str:
        own = fields.mapping("rope_parameters") or {}
        nested = any(name in own for name in TYPES)
        return "rope" if own.get(kind) or not nested else "none"

    return Hole(read)


COHERE_COMPASS = COHERE2.but(
    document={
        "layers": stack(listed("layer_types", TYPES, "attn"), "mlp", "|"),
        "rope": None,
        "attn": {"position": position(FULL), "rope": kind_rope(FULL)},
        "local": {
            "like": "attn",
            "position": position(SLIDING),
            "rope": kind_rope(SLIDING),
            "window": size("sliding_window"),
        },
    },
    irrelevant=("pooling",),
)

# --- with experts -----------------------------------------------------------------------------------------------------


def feed_forward(fields: Fields, n: int) -> Sequence[str]:
    """Dense layers first."""
    return listed("mlp_layer_types", {"dense": "mlp", "sparse": "moe"}, first("first_k_dense_replace", "mlp", "moe"))(
        fields, n
    )


def mixers(fields: Fields, n: int) -> Sequence[str]:
    """Windows, but in every so manieth layer, counted apart for the dense layers. Those turn even where they see all,
    if they have no pattern of their own."""
    dense = [unit == "mlp" for unit in feed_forward(fields, n)]
    k, step, own = (
        fields.size("first_k_dense_replace", least=0) or 0,
        fields.needed("sliding_window_pattern"),
        fields.needed("prefix_dense_sliding_window_pattern"),
    )
    windows = [(i + 1) % own != 0 if i < k else (i - k + 1) % step != 0 for i in range(n)]
    kinds = listed("layer_types", TYPES, lambda _, __: [TYPES[SLIDING if window else FULL] for window in windows])(
        fields, n
    )
    turns = [is_dense and own == 1 for is_dense in dense]
    return ["turned" if kind == "attn" and turn else kind for kind, turn in zip(kinds, turns, strict=True)]


def norm(fields: Fields) -> dict[str, Any]:
    return rmsnorm() if fields.present("rms_norm_eps") else layernorm(bias=False)


COHERE2_MOE = COHERE2.but(
    document={
        "layers": stack(mixers, feed_forward, "|"),
        "norm": Hole(norm),
        "turned": {"like": "attn", "position": "rope"},
        "mlp": {"activation": "swiglu", "d_ff": preferred("prefix_dense_intermediate_size", "intermediate_size")},
        "moe": {
            "n_experts": size("num_experts"),
            "top_k": size("num_experts_per_tok"),
            "n_shared": optional("num_shared_experts", least=0),
            "router": choice("expert_selection_fn", softmax="topk_softmax", sigmoid="topk_sigmoid"),
            "normalize": Hole(
                lambda f: f.flag("norm_topk_prob") if f.get("expert_selection_fn") == "sigmoid" else None
            ),
            "residual_scale": Hole(
                lambda f: (
                    choice("shared_expert_combination_strategy", average=0.5, sum=None)
                    if f.size("num_shared_experts", least=0)
                    else None
                )
            ),
        },
    },
    only={"hidden_act": "silu"},
    names={
        **EXPERT_NAMES,
        **in_layers(PREFIX, {"parallel.norm": "input_layernorm", **shared_experts("mlp.shared_experts")}),
    },
)

READERS: dict[str, Reader] = {
    "cohere": COHERE,
    "cohere2": COHERE2,
    "cohere2_moe": COHERE2_MOE,
    "cohere_compass_text": COHERE_COMPASS,
}
