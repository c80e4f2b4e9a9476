"""BioGPT: OPT's layers with a scaled embedding."""

from __future__ import annotations

from gptcalc.sources.huggingface.opt import OPT
from gptcalc.sources.huggingface.reader import Hole, Reader, activation, size, when
from gptcalc.sources.huggingface.tensors import in_layers

BIOGPT = OPT.but(
    document={
        "d_ff": size("intermediate_size"),
        "norm": "layernorm",  # of eps 1e-5, whatever the config says
        "norm_at": None,
        "final_norm": None,
        "mlp": activation("hidden_act", gated=False),
        "bias": ["qkv", "out", "mlp"],
        "embedding": {
            "scale": when("scale_embedding", "sqrt(d)"),
            "rows": Hole(lambda f: f.needed("max_position_embeddings") + 2),
            "offset": 2,
        },
    },
    irrelevant=("layer_norm_eps",),
    names={
        "embedding.token": "biogpt.embed_tokens",
        "embedding.position": "biogpt.embed_positions",
        **in_layers(
            "biogpt.layers.{l}.",
            {
                "attn.norm": "self_attn_layer_norm",
                "attn.q": "self_attn.q_proj",
                "attn.k": "self_attn.k_proj",
                "attn.v": "self_attn.v_proj",
                "attn.out": "self_attn.out_proj",
                "mlp.norm": "final_layer_norm",
                "mlp.up": "fc1",
                "mlp.down": "fc2",
            },
        ),
        "final_norm": "biogpt.layer_norm",
        "head": "output_projection",
    },
)

READERS: dict[str, Reader] = {
    "biogpt": BIOGPT,
}
