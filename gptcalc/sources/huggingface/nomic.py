"""Nomic's BERT: rotary positions and a gate, no biases in the layers. And GTE, which has some."""

from __future__ import annotations

from typing import Any

from gptcalc.sources.huggingface.bert import BERT, MASKED
from gptcalc.sources.huggingface.fields import Fields
from gptcalc.sources.huggingface.heads import TANH, encoders
from gptcalc.sources.huggingface.reader import Hole, Reader, activation, flag, layernorm, optional, sites, size
from gptcalc.sources.huggingface.rope import positive, rope
from gptcalc.sources.huggingface.tensors import QKV, UP_GATE, Held, fused, in_layers

NOMIC = BERT.but(
    document={
        "d": size("hidden_size", "n_embd"),
        "c": size("max_position_embeddings", "n_positions"),
        "n_heads": size("num_attention_heads", "n_head"),
        "n_layers": size("num_hidden_layers", "n_layer"),
        "d_head": optional("head_dim"),
        "d_ff": size("intermediate_size", "n_inner"),
        "position": None,
        "rope": rope(("rope_theta", "rotary_emb_base"), fraction="rotary_emb_fraction"),
        "norm": layernorm("layer_norm_eps"),
        "mlp": activation("hidden_act", "activation_function", gated=True),
        "bias": sites(qkv="qkv_proj_bias"),
        "causal": flag("causal"),
    },
    defaults={"rope_theta": 1000.0, "tie_word_embeddings": True},
    only={
        "prenorm": False, "mlp_fc1_bias": False, "mlp_fc2_bias": False, "parallel_block": False,
        "rotary_scaling_factor": None, "rotary_emb_interleaved": False, "rotary_emb_scale_base": None,
        "use_rms_norm": (False, None), "scale_attn_by_inverse_layer_idx": False, "scale_attn_weights": True,
        "dense_seq_output": (False, True), "num_experts": (0,), "add_pooling_layer": False,
    },
    irrelevant=("layer_norm_epsilon", "fused_bias_fc", "fused_dropout_add_ln", "last_layer_subset", "use_xentropy",
                "pad_vocab_size_multiple", "max_trained_positions", "reorder_and_upcast_attn", "moe_every_n_layers",
                "expert_choice_router", "ffn_div", "moe_impl", "moe_normalize_expert_weights", "moe_resid_pdrop",
                "moe_top_k", "num_shared_experts", "shared_expert"),
    classes=encoders(None, {**MASKED, "bias": ["head"]}, TANH, TANH),
    names={
        "embedding.token": "nomic_bert.embeddings.word_embeddings",
        "embedding.types": "nomic_bert.embeddings.token_type_embeddings",
        "embedding.norm": ("nomic_bert.emb_ln", "nomic_bert.embeddings.LayerNorm"),
        **in_layers(
            "nomic_bert.encoder.layers.{l}.",
            {
                **fused("attn.Wqkv", QKV),
                "attn.out": "attn.out_proj",
                "attn.post_norm": "norm1",
                "mlp.gate": "mlp.fc12",
                "mlp.up": "mlp.fc11",
                "mlp.down": "mlp.fc2",
                "mlp.post_norm": "norm2",
            },
        ),
        "head.dense": "cls.predictions.transform.dense",
        "head.dense.norm": "cls.predictions.transform.layer_norm",
        "head": Held("cls.predictions", weight=".decoder.weight"),
        "pooler.dense": "nomic_bert.pooler.dense",
    },
)  # fmt: skip

_gte = {"bias": ["attn", "head"], "head": {"dense": {"function": "gelu"}}}


def stretched(fields: Fields) -> dict[str, Any] | None:
    """NTK scaling by a fixed factor f: the j-th pair of h channels of a head turns by (f·θ)^(−2j/h)/f^(2/h), which is
    a linear scaling of another base (text-embeddings-inference, candle's rotary.rs)."""
    own = fields.mapping("rope_scaling")
    if own is None or own.get("type", own.get("rope_type")) != "ntk":
        plain: dict[str, Any] | None = rope().read(fields)
        return plain
    unknown = [key for key in own if key not in ("type", "rope_type", "factor") and own[key] is not None]
    if unknown:
        raise fields.unsupported(f"rope_scaling.{unknown[0]}", "not understood for type ntk")
    factor = positive(own.get("factor"), f"{fields.within}rope_scaling.factor")
    theta = positive(fields.number("rope_theta"), f"{fields.within}rope_theta")
    width = fields.needed("hidden_size") // fields.needed("num_attention_heads")
    return {"theta": theta * factor, "scaling": {"kind": "linear", "factor": factor ** (2 / width)}}


GTE = BERT.but(
    document={
        "tying": flag("tie_word_embeddings"),
        "position": None,
        "rope": Hole(stretched),
        "causal": False,
        "bias": ["attn"],
        "mlp": {"activation": activation("hidden_act", gated=True), "bias": ["down"]},
    },
    defaults={"rope_theta": 160000.0},
    only={
        "layer_norm_type": "layer_norm",
        "logn_attention_scale": False,
        "logn_attention_clip1": False,
        "position_embedding_type": ("rope", "absolute"),
        "pack_qkv": (True, False),
    },
    irrelevant=("unpad_inputs", "use_memory_efficient_attention"),
    classes=encoders(None, _gte, TANH, TANH),
    names={
        "embedding.token": "new.embeddings.word_embeddings",
        "embedding.types": "new.embeddings.token_type_embeddings",
        "embedding.norm": "new.embeddings.LayerNorm",
        **in_layers(
            "new.encoder.layer.{l}.",
            {
                **fused("attention.qkv_proj", QKV),
                "attn.out": "attention.o_proj",
                "attn.post_norm": "attn_ln",
                **fused("mlp.up_gate_proj", UP_GATE),
                "mlp.down": "mlp.down_proj",
                "mlp.post_norm": "mlp_ln",
            },
        ),
        "head.dense": "lm_head.dense",
        "head.dense.norm": "lm_head.norm",
        "head": "lm_head.decoder",
        "pooler.dense": "new.pooler.dense",
    },
)

READERS: dict[str, Reader] = {"nomic_bert": NOMIC, "gte": GTE, "new": GTE.but(like="gte")}
