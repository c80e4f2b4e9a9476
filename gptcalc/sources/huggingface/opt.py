"""OPT: learned positions with an offset, narrower embeddings; XGLM: sines and cosines in their place."""

from __future__ import annotations

from gptcalc.sources.huggingface.reader import Hole, Reader, activation, flag, optional, size, when
from gptcalc.sources.huggingface.tensors import in_layers

_affine = flag("layer_norm_elementwise_affine")

OPT = Reader(
    document={
        "d": size("hidden_size"),
        "v": size("vocab_size"),
        "c": size("max_position_embeddings"),
        "n_heads": size("num_attention_heads"),
        "n_layers": size("num_hidden_layers"),
        "d_ff": size("ffn_dim"),
        "tying": flag("tie_word_embeddings"),
        "position": "learned",
        "norm": {
            "kind": "layernorm",
            "bias": flag("layer_norm_elementwise_affine"),
            "weight": flag("layer_norm_elementwise_affine"),
        },
        "norm_at": when("do_layer_norm_before", "pre", "post"),
        "final_norm": when("do_layer_norm_before", Hole(lambda f: not f.flag("_remove_final_layer_norm")), False),
        "mlp": activation("activation_function", gated=False),
        "bias": when("enable_bias", "all"),
        "embedding": {
            "width": optional("word_embed_proj_dim"),
            "rows": Hole(lambda f: f.needed("max_position_embeddings") + 2),
            "offset": 2,
        },
    },
    names={
        "embedding.token": "model.decoder.embed_tokens",
        "embedding.position": "model.decoder.embed_positions",
        "embedding.projection": "model.decoder.project_in",
        **in_layers(
            "model.decoder.layers.{l}.",
            {
                "attn.norm": "self_attn_layer_norm",
                "attn.post_norm": "self_attn_layer_norm",
                "attn.q": "self_attn.q_proj",
                "attn.k": "self_attn.k_proj",
                "attn.v": "self_attn.v_proj",
                "attn.out": "self_attn.out_proj",
                "mlp.norm": "final_layer_norm",
                "mlp.post_norm": "final_layer_norm",
                "mlp.up": "fc1",
                "mlp.down": "fc2",
            },
        ),
        "final_norm": "model.decoder.final_layer_norm",
        "head.projection": "model.decoder.project_out",
        "head": "lm_head",
    },
)

XGLM = OPT.but(
    document={
        "d": size("d_model", "hidden_size"),
        "n_heads": size("attention_heads", "num_attention_heads"),
        "n_layers": size("num_layers", "num_hidden_layers"),
        "norm": "layernorm",
        "norm_at": None,
        "final_norm": None,
        "bias": ["qkv", "out", "mlp"],
        "position": "sinusoidal",
        "embedding": {"scale": when("scale_embedding", "sqrt(d)"), "sinusoids": "tensor2tensor", "offset": 2},
    },
    names={
        "embedding.token": "model.embed_tokens",
        **in_layers(
            "model.layers.{l}.",
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
        "final_norm": "model.layer_norm",
    },
)

READERS: dict[str, Reader] = {
    "opt": OPT,
    "xglm": XGLM,
}
