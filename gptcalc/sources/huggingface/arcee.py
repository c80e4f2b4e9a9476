"""Llama with an MLP without gate: Arcee, Apertus, Jais 2."""

from __future__ import annotations

from gptcalc.sources.huggingface.llama import LLAMA, PREFIX
from gptcalc.sources.huggingface.reader import Reader, activation, layernorm
from gptcalc.sources.huggingface.tensors import bare, in_layers

ARCEE = LLAMA.but(document={"mlp": activation("hidden_act", gated=False)})

APERTUS = ARCEE.but(
    document={"attn": {"qk_norm": "head"}},
    defaults={
        "rope_parameters": {
            "rope_type": "llama3",
            "rope_theta": 12e6,
            "factor": 8.0,
            "original_max_position_embeddings": 8192,
        }
    },
    only={"qk_norm": True, "post_norm": False},
    names=in_layers(
        PREFIX,
        {
            "attn.norm": "attention_layernorm",
            "mlp.norm": "feedforward_layernorm",
            "mlp.alpha_p": bare("mlp.act_fn.alpha_p"),
            "mlp.alpha_n": bare("mlp.act_fn.alpha_n"),
        },
    ),
)

JAIS2 = ARCEE.but(document={"norm": layernorm()})

READERS: dict[str, Reader] = {
    "arcee": ARCEE,
    "apertus": APERTUS,
    "apertus1p5_text": APERTUS.but(only={"output_vocab_size": ()}),
    "jais2": JAIS2,
}
