"""Small architectures that together switch on every block the witness knows, for the tests of the reference."""

from __future__ import annotations

from typing import Any

from gptcalc.architecture import Architecture
from gptcalc.document import build

LAYERNORM = {"kind": "layernorm", "bias": True}

DOCUMENTS: dict[str, dict[str, Any]] = {
    "gpt": {
        "d": 24, "v": 61, "c": 40, "n_heads": 3, "n_layers": 2, "tying": True, "position": "learned",
        "norm": "layernorm", "mlp": "gelu_tanh", "bias": "all",
        "embedding": {"offset": 2, "rows": 42},
    },
    "grouped": {
        "d": 22, "v": 61, "c": 40, "n_heads": 6, "n_kv_heads": 2, "d_head": 10, "d_v": 7, "d_ff": 31, "n_layers": 2,
        "rope": {"theta": 100.0, "scaling": {"kind": "llama3", "factor": 8.0, "original": 16}},
        "attn": {"qk_norm": "head", "gate": "full", "value_scale": 0.7}, "bias": "qkv",
    },
    "soft capped": {
        "d": 23, "v": 61, "c": 40, "n_heads": 4, "n_kv_heads": 2, "d_head": 8, "d_ff": 29, "n_layers": 4,
        "layers": "n*[local+mlp attn+mlp]", "norm": {"offset": 1, "eps": 1e-6}, "norm_at": "sandwich", "tying": True,
        "embedding": {"scale": "sqrt(d)"}, "mlp": "geglu_tanh", "softcap": 30.0,
        "attn": {"softcap": 5.0, "scale": 0.3, "qk_norm": "head"},
        "local": {"like": "attn", "window": 3, "rope": {"theta": 100.0}},
    },
    "alibi": {
        "d": 21, "v": 61, "c": 40, "n_heads": 6, "n_kv_heads": 1, "d_head": 5, "n_layers": 2, "position": "alibi",
        "norm": "layernorm", "embedding": {"norm": True}, "mlp": "gelu", "bias": "all", "tying": True,
    },
    "parallel": {
        "d": 23, "v": 61, "c": 40, "n_heads": 3, "d_head": 10, "n_layers": 2, "layers": "n*attn|mlp", "norm": LAYERNORM,
        "rope": {"fraction": 0.4, "pairing": "adjacent"}, "mlp": "gelu", "bias": ["qkv", "head", "mlp"],
        "logit_scale": 0.5, "residual_scale": 0.6, "attn": {"clip": 1.5},
    },
    "parallel apart": {
        "d": 23, "v": 61, "c": 40, "n_heads": 4, "d_head": 6, "d_ff": 17, "n_layers": 2, "layers": "n*attn|mlp",
        "parallel_norm": "separate", "parallel_out_norm": True, "mlp": {"activation": "reglu", "sparsity": 0.6},
        "attn": {"qk_norm": {"over": "each", **LAYERNORM}, "gate": "head"},
    },
    "latent": {
        "d": 27, "v": 61, "c": 40, "n_heads": 3, "n_layers": 3, "d_ff": 19, "layers": "1*mla+mlp n*mla+moe", "mtp": 2,
        "rope": {"pairing": "adjacent", "scaling": {"kind": "yarn", "factor": 4.0, "original": 16,
            "mscale": 1.0, "mscale_all_dim": 0.8}},
        "mla": {"q_rank": 13, "kv_rank": 11, "d_nope": 5, "d_rope": 8, "d_v": 7, "bias": ["q_a", "q_b", "kv_a",
            "kv_b", "out"], "gate": "full"},
        "moe": {"n_experts": 12, "top_k": 3, "d_ff": 14, "n_shared": 2, "router": "sigmoid", "selection_bias": True,
                "groups": {"n": 4, "top_k": 2, "score": "top2"}, "route_scale": 2.5},
    },
    "sparse": {
        "d": 27, "v": 61, "c": 40, "n_heads": 3, "n_layers": 2, "d_ff": 19, "layers": "mla+mlp again+mlp",
        "mla": {"q_rank": 13, "kv_rank": 11, "d_nope": 5, "d_rope": 4, "d_v": 7,
                "index": {"n_heads": 2, "d": 9, "top_k": 4}},
        "again": {"like": "mla", "index": {"n_heads": 2, "d": 9, "top_k": 4, "shared": True}},
    },
    "nested": {
        "d": 27, "v": 61, "c": 40, "n_heads": 3, "n_layers": 1, "d_ff": 19, "layers": "n*[mla+(mlp+mla+mlp)|moe]",
        "mla": {"kv_rank": 11, "d_nope": 5, "d_rope": 4, "d_v": 7, "q_scale": 1.3, "kv_scale": 1.7,
                "temperature": {"floor": 3.0, "scale": 0.4}},
        "moe": {"n_experts": 5, "n_identity": 3, "top_k": 3, "d_ff": 14, "router": "softmax", "normalize": False},
    },
    "sinks": {
        "d": 22, "v": 61, "c": 40, "n_heads": 4, "n_kv_heads": 2, "d_head": 8, "n_layers": 2,
            "layers": "local+moe attn+moe",
        "bias": "all", "attn": {"sinks": True}, "local": {"like": "attn", "window": 4},
        "rope": {"scaling": {"kind": "yarn", "factor": 8.0, "original": 16, "truncate": False}},
        "moe": {"n_experts": 5, "top_k": 2, "d_ff": 13, "activation": "swiglu_oai", "clamp": 1.0,
            "router": "topk_softmax"},
    },
    "blocks": {
        "d": 22, "v": 61, "c": 40, "n_heads": 6, "n_kv_heads": 2, "d_head": 8, "d_ff": 17, "n_layers": 2,
        "layers": "attn+mlp sparse+mlp", "attn": {"qk_norm": "head", "rope": {"fraction": 0.5}},
        "sparse": {"like": "attn", "index": {"d": 5, "block": 2, "top_k": 3, "local": 2}},
    },
    "convolutions": {
        "d": 22, "v": 61, "c": 40, "n_heads": 6, "n_kv_heads": 2, "d_head": 8, "n_layers": 2, "position": "none",
        "layers": "attn+moe local+mlp", "d_ff": 17,
        "attn": {"relative": {"d": 3, "extent": 5}, "kv_conv": 3, "out_conv": 4, "qk_norm": "head",
                 "temperature": {"floor": 4.0, "scale": 0.5, "form": "beyond"}},
        "local": {"like": "attn", "window": 4, "n_kv_heads": 3, "temperature": None},
        "moe": {"n_experts": 5, "top_k": 2, "d_ff": 7, "n_shared": 2, "router": "sigmoid", "selection_bias": True,
                "shared_sink": True, "learned_route_scale": True, "out_conv": 4},
        "mlp": {"out_scale": True},
    },
    "chunked": {
        "d": 22, "v": 61, "c": 40, "n_heads": 4, "n_kv_heads": 2, "d_head": 8, "n_layers": 2,
            "layers": "attn+mlp nope+moe",
        "d_ff": 17, "attn": {"chunk": 5, "qk_norm": {"kind": "rmsnorm", "weight": False, "after_rope": True}},
        "nope": {"like": "attn", "chunk": None, "position": "none", "qk_norm": None,
            "temperature": {"floor": 4.0, "scale": 0.5}},
        "moe": {"n_experts": 4, "top_k": 1, "d_ff": 13, "n_shared": 1, "shared_gate": True, "router": "topk_sigmoid",
                "weight_at": "input", "normalize": False},
    },
    "attention experts": {
        "d": 22, "v": 61, "c": 40, "n_heads": 4, "n_kv_heads": 2, "d_head": 8, "n_layers": 2, "layers": "n*attn+moe",
        "attn": {"experts": {"n_experts": 3, "top_k": 2}, "bias": ["out"]},
        "moe": {"n_experts": 4, "top_k": 2, "d_ff": 13, "router": "topk_softmax", "out_bias": True},
    },
    "per layer": {
        "d": 22, "v": 61, "c": 40, "n_heads": 4, "n_kv_heads": 2, "d_head": 8, "d_ff": 17, "n_layers": 3,
        "layers": "attn+mlp|moe local+mlp reuse+mlp", "parallel_norm": "separate", "parallel_out_norm": True,
        "norm_at": "sandwich", "layer_scalar": True, "tying": True, "per_layer_embedding": {"v": 61, "d": 5},
        "attn": {"k_eq_v": True, "v_norm": {"weight": False}, "qk_norm": "head", "scale": 1.0,
                 "rope": {"fraction": 0.5, "scaling": {"kind": "proportional"}}},
        "local": {"like": "attn", "k_eq_v": False, "window": 3, "rope": {"theta": 100.0}},
        "reuse": {"like": "local", "kv": {"from": "local"}},
        "moe": {"n_experts": 4, "top_k": 2, "d_ff": 13, "router_scale": True},
    },
    "streams": {
        "d": 22, "v": 61, "c": 40, "n_heads": 4, "n_kv_heads": 2, "d_head": 8, "d_ff": 17, "n_layers": 2,
        "layers": "attn+mlp reuse+sparse", "norm_at": "sandwich", "tying": True,
        "per_layer_embedding": {"v": 53, "d": 5}, "altup": {"n": 3, "active": 1, "scale": True},
        "attn": {"laurel": {"rank": 7}}, "reuse": {"like": "attn", "kv": {"from": "attn"}},
        "sparse": {"like": "mlp", "sparsity": 0.6},
    },
    "post": {
        "d": 24, "v": 61, "c": 40, "n_heads": 3, "n_layers": 2, "position": "sinusoidal", "norm": "layernorm",
        "norm_at": "post", "final_norm": False, "mlp": "relu", "bias": "all", "embedding": {"width": 13},
    },
    "normed inside": {
        "d": 24, "v": 61, "c": 40, "n_heads": 3, "d_ff": 17, "n_layers": 2, "norm_at": "output",
        "attn": {"out_norm": {}, "q_rank": 11, "qk_norm": "full"}, "mlp": {"activation": "relu2glu", "mid_norm": {}},
        "rope": {"scaling": {"kind": "linear", "factor": 4.0}},
    },
    "xielu": {
        "d": 24, "v": 61, "c": 40, "n_heads": 3, "d_ff": 17, "n_layers": 1, "mlp": "xielu",
        "rope": {"scaling": {"kind": "ntk", "factor": 4.0}},
    },
    "difference": {
        "d": 24, "v": 61, "c": 40, "n_heads": 8, "n_kv_heads": 4, "d_head": 6, "d_v": 5, "d_ff": 17, "n_layers": 2,
        "layers": "attn+mlp alone+mlp", "attn": {"differential": {}}, "alone": {"like": "attn", "n_kv_heads": 8},
        "mlp": {"residual_factors": {"stream": True, "output": "channel", "bias": True}},
    },
    "dynamic": {
        "d": 24, "v": 61, "c": 40, "n_heads": 6, "n_kv_heads": 3, "d_head": 6, "d_v": 5, "d_ff": 17, "n_layers": 3,
        "layers": "attn+mlp alone+gated one+mlp", "attn": {"dynamic_mask": {"top_k": 4}, "qk_norm": "head",
            "residual_factors": {"stream": True}},
        "alone": {"like": "attn", "n_kv_heads": 6}, "one": {"like": "attn", "n_kv_heads": 1},
        "gated": {"like": "mlp", "residual_factors": {"output": "tanh"}},
    },
    "gated norms": {
        "d": 27, "v": 61, "c": 40, "n_heads": 3, "n_layers": 3, "d_ff": 19, "layers": "mla+mlp plain+moe attn+mlp",
        "mla": {"q_rank": 13, "kv_rank": 11, "d_nope": 5, "d_rope": 4, "d_v": 7, "raw_queries": True, "gate": "full",
                "sinks": True, "norm_gate": {"rank": 5},
                "index": {"n_heads": 2, "d": 9, "top_k": 4, "rotates": "last"}},
        "plain": {"like": "mla", "raw_queries": False, "gate": "head", "index": None},
        "moe": {"n_experts": 5, "top_k": 2, "d_ff": 14, "n_shared": 1, "clamp": 0.4, "shared_clamp": "none",
                "norm_gate": {"rank": 3}},
        "attn": {"d_head": 8, "norm_at": "sandwich", "norm_gate": {"rank": 6}},
    },
    "independent streams": {
        "d": 22, "v": 61, "c": 40, "n_heads": 4, "n_kv_heads": 2, "d_head": 8, "d_ff": 17, "n_layers": 2,
        "streams": {"n": 3, "mixed": False, "magnitude": 1.7, "eps": 0.01},
    },
    "convolved heads": {
        "d": 24, "v": 61, "c": 40, "n_heads": 6, "n_kv_heads": 2, "d_head": 6, "n_layers": 3, "d_ff": 17,
        "layers": "attn+moe alone+later one+mlp", "embedding": {"affine": True},
        "attn": {"cca": {"kernel": 3, "head_kernel": 2}, "qk_norm": {"weight": False}, "rope": {"fraction": 0.67},
                 "residual_factors": {"stream": True, "output": "channel", "bias": True}},
        "alone": {"like": "attn", "n_kv_heads": 6, "window": 4}, "one": {"like": "attn", "n_kv_heads": 1},
        "moe": {"n_experts": 4, "top_k": 2, "d_ff": 13, "n_identity": 1, "identity": "nothing", "normalize": False,
                "selection_bias": True, "router_layers": {"d": 5}},
        "later": {"like": "moe", "router_layers": {"d": 5, "carried": True}},
    },
    "backward": {
        "d": 24, "v": 61, "c": 40, "n_heads": 3, "d_ff": 17, "n_layers": 1, "rope": {"backward": True},
        "norm": {"weight": False}, "embedding": {"norm": True}, "softcap": 6.0,
        "attn": {"qk_norm": {"weight": False, "after_rope": True}},
    },
    "mixers of experts": {
        "d": 24, "v": 61, "c": 40, "n_heads": 3, "n_layers": 3, "layers": "attn+moe attn+slim attn+grouped",
        "moe": {"n_experts": 4, "top_k": 2, "d_ff": 13, "router": "sparsemixer", "normalize": False, "jitter": 0.4},
        "slim": {"like": "moe", "router": "sqrtsoftplus", "jitter": None, "d_latent": 9,
            "router_softcap": 2.0, "normalize": True},
        "grouped": {"like": "moe", "router": "softmax", "jitter": None, "groups": {"n": 2, "top_k": 1},
            "activation": "relu2", "bias": ["up", "router"]},
    },
    "delta": {
        "d": 22, "v": 61, "c": 40, "n_heads": 4, "n_kv_heads": 2, "d_head": 8, "d_ff": 17, "n_layers": 4,
        "layers": "gdn+mlp kda+mlp bounded+mlp attn+mlp", "attn": {"gate": "full", "qk_norm": "head"},
        "gdn": {"like": "linear", "n_heads": 6, "n_k_heads": 2, "d_k": 5, "d_v": 7, "delta": True, "decay": "head",
                "beta_scale": 2.0, "kernel": 4, "gate": "silu", "out_norm": {"over": "head"}},
        "kda": {"like": "linear", "n_heads": 3, "d_k": 5, "d_v": 7, "delta": True, "kernel": 3,
                "decay": {"over": "channel", "rank": 4}, "gate": {"function": "sigmoid", "rank": 3, "bias": True},
                "out_norm": {"over": "head"}, "bias": ["q", "v", "out"]},
        "bounded": {"like": "linear", "n_heads": 4, "n_k_heads": 1, "d_k": 5, "d_v": 3, "delta": True,
                    "decay": {"over": "channel", "form": "bounded", "floor": -2.0}, "activation": "none"},
    },
    "linear": {
        "d": 22, "v": 61, "c": 40, "d_ff": 17, "n_layers": 3, "layers": "linear+mlp lightning+mlp gla+mlp",
        "norm_at": "stream", "linear": {"n_heads": 3, "d_k": 5, "d_v": 7, "stream_scale": 1.3, "qk_norm": "none"},
        "lightning": {"like": "linear", "decay": {"form": "fixed"}, "scale": 1.0, "gate": "sigmoid",
                      "out_norm": {"over": "full"}, "residual_scale": 0.7},
        "gla": {"like": "linear", "decay": {"over": "channel", "form": "sigmoid", "divisor": 3.0}, "gate": "silu"},
    },
    "state spaces": {
        "d": 22, "v": 61, "c": 40, "n_heads": 4, "n_kv_heads": 2, "d_head": 8, "d_ff": 17, "n_layers": 6,
        "layers": "mamba mlp mamba2 (attn|scaled)+mlp zamba plain", "mlp": {"gate_scale": 0.6},
        "mamba": {"d_inner": 14, "d_state": 5, "dt_rank": 3, "kernel": 4, "inner_norm": {},
                  "bias": ["in", "conv", "out"]},
        "zamba": {"like": "mamba", "n_heads": 2, "inner_norm": None, "bias": []},
        "mamba2": {"n_heads": 6, "n_groups": 2, "d_head": 5, "d_state": 7, "kernel": 3, "out_norm": {}},
        "scaled": {"like": "mamba2", "scales": [0.9, 1.1, 0.8, 1.2, 0.7], "out_norm": None, "n_groups": 6,
                   "residual_scale": 0.6, "bias": ["in", "conv", "out"]},
        "plain": {"like": "mamba2", "n_groups": 1, "gate_first": False, "dt_min": 0.5, "dt_max": 0.8, "bias": []},
    },
    "recurrences": {
        "d": 22, "v": 61, "c": 40, "n_heads": 4, "n_kv_heads": 2, "d_head": 8, "d_ff": 17, "n_layers": 4,
        "layers": "conv+mlp rglru+mlp mlstm+mlp open+attn", "conv": {"kernel": 3, "bias": True},
        "open": {"like": "conv", "kernel": 4, "bias": False}, "rglru": {"d_rnn": 15, "n_heads": 3, "kernel": 4},
        "mlstm": {"n_heads": 2, "d_k": 5, "d_v": 7, "gate_softcap": 2.0},
    },
}  # fmt: skip


def architecture(name: str) -> Architecture:
    return build({"name": name, **DOCUMENTS[name]})
