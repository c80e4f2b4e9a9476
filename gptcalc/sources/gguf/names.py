"""What llama.cpp calls a model's weights (gguf-py/gguf/constants.py): one vocabulary for all its architectures."""

from __future__ import annotations

from gptcalc.sources.huggingface.tensors import (
    EXPERTS_GATE_UP,
    GATE_UP,
    QKV,
    Entry,
    Held,
    Names,
    bare,
    fused,
    in_layers,
)

PREFIX = "blk.{l}."

_latent = fused("attn_kv_a_mqa", (("attn.kv_a", "kv_rank"), ("attn.k_rope", "d_rope")))
_kv_b = fused("attn_kv_b", (("attn.k_b", "d_nope"), ("attn.v_b", "d_v")), groups="n_heads")


def _or(first: str | Held, second: Entry) -> Entry:
    return (first, second) if isinstance(second, (str, Held)) else (first, *second)


_qkv = fused("attn_qkv", QKV)
_gate_up = fused("ffn_up", GATE_UP)
_experts = fused("ffn_gate_up_exps", EXPERTS_GATE_UP)

NAMES: Names = {
    "embedding.token": "token_embd",
    "embedding.position": "position_embd",
    "embedding.norm": "token_embd_norm",
    "final_norm": "output_norm",
    "head": "output",
    "ple.token": "per_layer_token_embd",
    "ple.projection": "per_layer_model_proj",
    "ple.norm": "per_layer_proj_norm",
    "altup.projection": "altup_proj",
    "altup.out": "altup_unembd_proj",
    **in_layers(
        PREFIX,
        {
            "parallel.norm": "attn_norm",
            "parallel.out_norm": "post_ffw_norm",
            "attn.norm": "attn_norm",
            "attn.q": _or("attn_q", _qkv["attn.q"]),
            "attn.k": _or("attn_k", _qkv["attn.k"]),
            "attn.v": _or("attn_v", _qkv["attn.v"]),
            "attn.out": "attn_output",
            "attn.q_norm": "attn_q_norm",
            "attn.k_norm": "attn_k_norm",
            "attn.out_norm": "attn_sub_norm",
            "attn.post_norm": ("post_attention_norm", "attn_output_norm"),
            "attn.sinks": "attn_sinks",
            "attn.gate": "attn_gate",
            "attn.q_a": "attn_q_a",
            "attn.q_a_norm": "attn_q_a_norm",
            "attn.q_b": "attn_q_b",
            **_latent,
            "attn.kv_a_norm": "attn_kv_a_norm",
            "attn.k_b": _or("attn_k_b", _kv_b["attn.k_b"]),
            "attn.v_b": _or("attn_v_b", _kv_b["attn.v_b"]),
            "attn.index.q": "indexer.attn_q_b",
            "attn.index.k": "indexer.attn_k",
            "attn.index.k_norm": "indexer.k_norm",
            "attn.index.weights": "indexer.proj",
            "attn.laurel.left": "laurel_l",
            "attn.laurel.right": "laurel_r",
            "attn.laurel.norm": "laurel_post_norm",
            "mlp.norm": ("ffn_norm", "attn_norm_2", "post_attention_norm"),
            "mlp.post_norm": ("post_ffw_norm_1", "post_ffw_norm", "layer_output_norm"),
            "mlp.gate": _or("ffn_gate", _gate_up["mlp.gate"]),
            "mlp.up": _or("ffn_up", _gate_up["mlp.up"]),
            "mlp.down": "ffn_down",
            "mlp.mid_norm": "ffn_sub_norm",
            "moe.norm": ("pre_ffw_norm_2", "ffn_norm", "post_attention_norm"),
            "moe.post_norm": ("post_ffw_norm_2", "post_ffw_norm", "layer_output_norm"),
            "moe.router": "ffn_gate_inp",
            "moe.router_scale": bare("ffn_gate_inp.scale"),
            "moe.expert_scale": bare("ffn_down_exps.scale"),
            "moe.selection_bias": bare("exp_probs_b.bias"),
            "moe.gate": ("ffn_gate_exps", "ffn_gate.{e}", _experts["moe.gate"]),  # type: ignore[dict-item]
            "moe.up": ("ffn_up_exps", "ffn_up.{e}", _experts["moe.up"]),  # type: ignore[dict-item]
            "moe.down": ("ffn_down_exps", "ffn_down.{e}"),
            "moe.shared.gate": "ffn_gate_shexp",
            "moe.shared.up": "ffn_up_shexp",
            "moe.shared.down": "ffn_down_shexp",
            "moe.shared_gate": "ffn_gate_inp_shexp",
            "altup.router": "altup_router",
            "altup.router_norm": "altup_router_norm",
            "altup.prediction": "altup_predict_coef",
            "altup.correction": "altup_correct_coef",
            "altup.output_scale": "altup_correct_scale",
            "ple.gate": "inp_gate",
            "ple.out": "proj",
            "ple.post_norm": "post_norm",
            "layer_scalar": "layer_output_scale",
            "embedding_norm": "nextn.enorm",
            "hidden_norm": "nextn.hnorm",
            "projection": "nextn.eh_proj",
            "norm": "nextn.shared_head_norm",
        },
    ),
}
