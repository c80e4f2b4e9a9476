"""Cohere: attention and MLP in parallel, norms without biases."""

from __future__ import annotations

from gptcalc.sources.huggingface.llama import LLAMA, PREFIX
from gptcalc.sources.huggingface.pattern import every, listed, stack
from gptcalc.sources.huggingface.reader import Reader, layernorm, number, sites, size, when
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

READERS: dict[str, Reader] = {
    "cohere": COHERE,
    "cohere2": COHERE2,
}
