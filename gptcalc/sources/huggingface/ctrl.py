"""CTRL: sines and cosines, a scaled embedding, a bias on the logits."""

from __future__ import annotations

from gptcalc.sources.huggingface.gpt2 import GPT2
from gptcalc.sources.huggingface.reader import Reader, size
from gptcalc.sources.huggingface.tensors import in_layers

CTRL = GPT2.but(
    document={
        "d_ff": size("dff"),
        "position": "sinusoidal",
        "embedding": {"scale": "sqrt(d)", "sinusoids": "halves"},
        "norm": {"kind": "layernorm", "bias": True, "eps": 1e-6},  # of the layers, whatever the config says
        "final_norm": {"kind": "layernorm", "bias": True, "eps": GPT2.document["norm"]["eps"]},
        "mlp": "relu",
        "bias": ["qkv", "out", "mlp", "head"],
    },
    names={
        "embedding.token": "transformer.w",
        **in_layers(
            "transformer.h.{l}.",
            {
                "attn.norm": "layernorm1",
                "attn.q": "multi_head_attention.Wq",
                "attn.k": "multi_head_attention.Wk",
                "attn.v": "multi_head_attention.Wv",
                "attn.out": "multi_head_attention.dense",
                "mlp.norm": "layernorm2",
                "mlp.up": "ffn.0",
                "mlp.down": "ffn.2",
            },
        ),
        "final_norm": "transformer.layernorm",
    },
)

READERS: dict[str, Reader] = {
    "ctrl": CTRL,
}
