"""MosaicML and Databricks: MPT and DBRX."""

from __future__ import annotations

from gptcalc.sources.huggingface.reader import Fields, Hole, Reader, choice, flag, number, optional, size, when
from gptcalc.sources.huggingface.rope import rope
from gptcalc.sources.huggingface.tensors import QKV, bare, fused, in_layers


def mpt_position(fields: Fields) -> str:
    learned, rotary = fields.flag("learned_pos_emb"), fields.flag("attn_config.rope")
    if fields.flag("attn_config.alibi"):
        return "alibi"
    return "rope" if rotary else "learned" if learned else "none"


def mpt_kv_heads(fields: Fields) -> int | None:
    kind, given = (fields.word("attn_config.attn_type"), fields.size("attn_config.kv_n_heads"))
    return 1 if kind == "multiquery_attention" else given if kind == "grouped_query_attention" else None


_biased = Hole(lambda f: not f.flag("no_bias"))

MPT = Reader(
    defaults={"attn_config.alibi": True, "attn_config.attn_type": "multihead_attention"},
    document={
        "d": size("d_model"),
        "v": size("vocab_size"),
        "c": size("max_seq_len"),
        "n_heads": size("n_heads"),
        "n_layers": size("n_layers"),
        "n_kv_heads": Hole(mpt_kv_heads),
        "d_ff": Hole(lambda f: f.needed("expansion_ratio") * f.needed("d_model")),
        "tying": flag("tie_word_embeddings"),
        "position": Hole(mpt_position),
        "rope": when("attn_config.rope", rope("attn_config.rope_theta", fraction=None)),
        "norm": {"kind": "layernorm", "bias": _biased, "eps": number("layer_norm_epsilon")},
        "mlp": "gelu",
        "bias": when(_biased, "all"),
        "logit_scale": number("logit_scale"),
        "attn": {
            "clip": number("attn_config.clip_qkv"),
            "scale": number("attn_config.softmax_scale"),
            "qk_norm": when("attn_config.qk_ln", "full"),
        },
    },
    only={
        "embedding_fraction": (1, 1.0),
        "norm_type": ("low_precision_layernorm", "layernorm"),
        "attn_config.prefix_lm": False,
        "attn_config.alibi_bias_max": 8,
        "attn_config.qk_gn": False,
        "attn_config.sliding_window_size": -1,
        "ffn_config.ffn_type": "mptmlp",
        "fc_type": "torch",
    },
    irrelevant=frozenset(
        {
            "attn_config.attn_impl",
            "attn_config.attn_uses_sequence_id",
            "verbose",
            "init_config",
            "init_device",
            "use_pad_tok_in_ffn",
            "attn_config.rope_impl",
        }
    ),
    nested=("attn_config", "ffn_config"),
    names={
        "embedding.token": "transformer.wte",
        "embedding.position": "transformer.wpe",
        **in_layers(
            "transformer.blocks.{l}.",
            {
                "attn.norm": "norm_1",
                **fused("attn.Wqkv", QKV),
                "attn.out": "attn.out_proj",
                "attn.q_norm": "attn.q_ln",
                "attn.k_norm": "attn.k_ln",
                "mlp.norm": "norm_2",
                "mlp.up": "ffn.up_proj",
                "mlp.down": "ffn.down_proj",
            },
        ),
        "final_norm": "transformer.norm_f",
        "head": "lm_head",
    },
)

DBRX = Reader(
    document={
        "d": size("d_model"),
        "v": size("vocab_size"),
        "c": size("max_seq_len"),
        "n_heads": size("n_heads"),
        "n_layers": size("n_layers"),
        "n_kv_heads": optional("attn_config.kv_n_heads"),
        "d_ff": size("ffn_config.ffn_hidden_size"),
        "layers": "n*attn+moe",
        "tying": flag("tie_word_embeddings"),
        "rope": rope("attn_config.rope_theta"),
        "norm": {"kind": "layernorm", "bias": False},
        "mlp": choice("ffn_config.ffn_act_fn.name", silu="swiglu", gelu="geglu"),
        "attn": {"clip": number("attn_config.clip_qkv")},
        "moe": {
            "n_experts": size("ffn_config.moe_num_experts"),
            "top_k": size("ffn_config.moe_top_k"),
            "normalize": Hole(lambda fields: fields.number("ffn_config.moe_normalize_expert_weights") is not None),
        },
    },
    defaults={
        "attn_config.kv_n_heads": 1,
        "ffn_config.ffn_hidden_size": 3584,
        "ffn_config.moe_num_experts": 4,
        "ffn_config.moe_top_k": 1,
        "ffn_config.moe_normalize_expert_weights": 1.0,
        "ffn_config.ffn_act_fn.name": "silu",
    },
    only={"ffn_config.moe_normalize_expert_weights": (1, 1.0), "ffn_config.uniform_expert_assignment": False},
    irrelevant=frozenset(
        {"ffn_config.hidden_size", "ffn_config.moe_jitter_eps", "rope_parameters", "num_key_value_heads"}
    ),
    nested=("attn_config", "ffn_config", "ffn_config.ffn_act_fn"),
    names={
        "embedding.token": "transformer.wte",
        **in_layers(
            "transformer.blocks.{l}.",
            {
                "attn.norm": "norm_attn_norm.norm_1",
                **fused("norm_attn_norm.attn.Wqkv", QKV),
                "attn.out": "norm_attn_norm.attn.out_proj",
                "moe.norm": "norm_attn_norm.norm_2",
                "moe.router": "ffn.router.layer",
                "moe.gate": bare("ffn.experts.mlp.w1"),
                "moe.up": bare("ffn.experts.mlp.v1"),
                "moe.down": bare("ffn.experts.mlp.w2", stored="in,out"),
            },
        ),
        "final_norm": "transformer.norm_f",
        "head": "lm_head",
    },
)

READERS: dict[str, Reader] = {
    "dbrx": DBRX,
    "mpt": MPT,
}
