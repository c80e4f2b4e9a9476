"""Gemma: norms whose stored weight is the scale minus one, embeddings scaled by √d, a tied head."""

from __future__ import annotations

from gptcalc.sources.huggingface.llama import LLAMA, PREFIX
from gptcalc.sources.huggingface.pattern import FULL, SLIDING, every, listed, stack
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

TYPES = {FULL: "attn", SLIDING: "local"}


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
    defaults={
        "vocab_size": 256000,
        "hidden_size": 3072,
        "intermediate_size": 24576,
        "num_hidden_layers": 28,
        "num_attention_heads": 16,
        "num_key_value_heads": 16,
        "head_dim": 256,
        "hidden_activation": "gelu_pytorch_tanh",
        "max_position_embeddings": 8192,
        "tie_word_embeddings": True,
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
    defaults={
        "hidden_size": 2304,
        "intermediate_size": 9216,
        "num_hidden_layers": 26,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "query_pre_attn_scalar": 256,
        "sliding_window": 4096,
        "final_logit_softcapping": 30.0,
        "attn_logit_softcapping": 50.0,
    },
    only={"use_bidirectional_attention": False},
    irrelevant=("cache_implementation", "sliding_window_pattern"),
    names=SANDWICH_NAMES,
)

GEMMA3 = GEMMA2.but(
    document={
        "layers": stack(listed("layer_types", TYPES, every("sliding_window_pattern", "attn", "local")), "mlp"),
        "rope": rope(default=1e6),
        "attn": {"scale": Hole(query_scale), "softcap": number("attn_logit_softcapping"), "qk_norm": "head"},
        "local": {
            "like": "attn",
            "window": size("sliding_window"),
            "rope": rope("rope_local_base_freq", layer_type=SLIDING, scaled=False),
        },
    },
    defaults={
        "vocab_size": 262208,
        "max_position_embeddings": 131072,
        "sliding_window_pattern": 6,
        "final_logit_softcapping": None,
        "attn_logit_softcapping": None,
    },
)

READERS = {"gemma": GEMMA, "gemma2": GEMMA2, "gemma3_text": GEMMA3}
