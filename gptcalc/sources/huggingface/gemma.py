"""Gemma: norms whose stored weight is the scale minus one, embeddings scaled by √d, a tied head."""

from __future__ import annotations

from gptcalc.sources.huggingface.llama import LLAMA, PREFIX, TYPES
from gptcalc.sources.huggingface.pattern import SLIDING, every, listed, stack
from gptcalc.sources.huggingface.reader import Fields, Hole, activation, number, rmsnorm, sites, size
from gptcalc.sources.huggingface.rope import rope
from gptcalc.sources.huggingface.tensors import in_layers

#: norms in front of and behind each sublayer
SANDWICH_NAMES = in_layers(
    PREFIX,
    {
        "attn.post_norm": "post_attention_layernorm",
        "mlp.norm": "pre_feedforward_layernorm",
        "mlp.post_norm": "post_feedforward_layernorm",
    },
)


def query_scale(fields: Fields) -> float | None:
    scalar = fields.number("query_pre_attn_scalar")
    return None if scalar is None else float(scalar) ** -0.5


GEMMA = LLAMA.but(
    document={
        "norm": rmsnorm(offset=1),
        "mlp": activation("hidden_activation", "hidden_act", gated=True),
        "embedding": {"scale": "sqrt(d)"},
        "bias": sites(attn="attention_bias"),
    },
)

GEMMA2 = GEMMA.but(
    document={
        "layers": stack(listed("layer_types", TYPES, every(2, "attn", "local")), "mlp"),
        "norm_at": "sandwich",
        "attn": {"scale": Hole(query_scale), "softcap": number("attn_logit_softcapping")},
        "local": {"like": "attn", "window": size("sliding_window")},
        "softcap": number("final_logit_softcapping"),
    },
    only={"use_bidirectional_attention": False},
    irrelevant=("cache_implementation", "sliding_window_pattern"),
    names=SANDWICH_NAMES,
)

GEMMA3 = GEMMA2.but(
    defaults={"sliding_window_pattern": 6, "rope_theta": 1000000.0, "rope_local_base_freq": 10000.0},
    document={
        "layers": stack(listed("layer_types", TYPES, every("sliding_window_pattern", "attn", "local")), "mlp"),
        "rope": rope(),
        "attn": {"scale": Hole(query_scale), "softcap": number("attn_logit_softcapping"), "qk_norm": "head"},
        "local": {
            "like": "attn",
            "window": size("sliding_window"),
            "rope": rope("rope_local_base_freq", layer_type=SLIDING, scaled=False),
        },
    },
)

READERS = {"gemma": GEMMA, "gemma2": GEMMA2, "gemma3_text": GEMMA3}
