"""Llama and what is spelled like it: pre-norm RMSNorm, a gated MLP, rotary positions, grouped queries."""

from __future__ import annotations

from gptcalc.sources.huggingface.fields import Fields
from gptcalc.sources.huggingface.pattern import FULL, SLIDING, every, listed, stack
from gptcalc.sources.huggingface.reader import (
    Reader,
    activation,
    flag,
    optional,
    rmsnorm,
    sites,
    size,
)
from gptcalc.sources.huggingface.rope import rope
from gptcalc.sources.huggingface.tensors import Names, in_layers

LAYER: Names = {
    "attn.norm": "input_layernorm",
    "attn.q": "self_attn.q_proj",
    "attn.k": "self_attn.k_proj",
    "attn.v": "self_attn.v_proj",
    "attn.out": "self_attn.o_proj",
    "attn.q_norm": "self_attn.q_norm",
    "attn.k_norm": "self_attn.k_norm",
    "mlp.norm": "post_attention_layernorm",
    "mlp.gate": "mlp.gate_proj",
    "mlp.up": "mlp.up_proj",
    "mlp.down": "mlp.down_proj",
}

PREFIX = "model.layers.{l}."

#: norms behind the sublayers
BEHIND_NAMES = in_layers(
    PREFIX,
    {
        "attn.post_norm": "post_attention_layernorm",
        "mlp.post_norm": "post_feedforward_layernorm",
        "moe.post_norm": "post_feedforward_layernorm",
    },
)

NAMES: Names = {
    "embedding.token": "model.embed_tokens",
    **in_layers(PREFIX, LAYER),
    "final_norm": "model.norm",
    "head": "lm_head",
}

#: what the classes of these repositories assume, as far as their configs leave it out
PLAIN = {"hidden_act": "silu", "rms_norm_eps": 1e-6, "tie_word_embeddings": False}


def filling(fields: Fields) -> int | None:
    """The width of a head, in classes that run none which are not as wide as the model all together."""
    d_head = fields.size("head_dim")
    if d_head is not None and d_head * fields.needed("num_attention_heads") != fields.needed("hidden_size"):
        raise fields.unsupported("head_dim", "its class runs no heads that are not as wide as the model all together")
    return d_head


LLAMA = Reader(
    document={
        "d": size("hidden_size"),
        "v": size("vocab_size"),
        "c": size("max_position_embeddings"),
        "n_heads": size("num_attention_heads"),
        "n_layers": size("num_hidden_layers"),
        "n_kv_heads": optional("num_key_value_heads"),
        "d_head": optional("head_dim"),
        "d_ff": size("intermediate_size"),
        "layers": stack(listed("layer_types", {FULL: "attn"}), "mlp"),
        "tying": flag("tie_word_embeddings"),
        "rope": rope(),
        "norm": rmsnorm(),
        "mlp": activation("hidden_act", gated=True),
        "bias": sites(attn="attention_bias", mlp="mlp_bias"),
    },
    names=NAMES,
)

CWM = LLAMA.but(
    document={
        "layers": stack(
            listed("layer_types", {FULL: "attn", SLIDING: "local"}, every(4, "attn", "local", offset=0)), "mlp"
        ),
        "local": {"like": "attn", "window": size("sliding_window")},
    },
    defaults={
        "rope_parameters": {
            "rope_type": "llama3",
            "rope_theta": 1e6,
            "factor": 16.0,
            "original_max_position_embeddings": 8192,
        }
    },
)

#: types of vendors' own code that is Llama's under another name; their configs say all sizes
SAME = LLAMA.but(defaults=PLAIN, irrelevant=("max_tokenizer_truncation",))

READERS: dict[str, Reader] = {
    "Yi": LLAMA.but(like="llama"),
    "llama": LLAMA,
    # openPangu-Embedded (modeling_openpangu_dense.py)
    "PanguEmbedded": SAME.but(document={"bias": sites(attn="bias", mlp=False)}, defaults={"bias": True}),
    "cwm": CWM,
    "emu3_text_model": LLAMA,
    "iquestcoder": LLAMA.but(only={"clip_qkv": None}),
    # whose own field says that the output is the table, whatever the usual one says; layers may run twice
    "mobilellm": SAME.but(
        document={"tying": flag("share_embedding")},
        only={"layer_sharing": False},
        irrelevant=("tie_word_embeddings",),
    ),
    **dict.fromkeys(("xverse", "aquila", "skywork", "sparsellama"), SAME),
}
