"""MosaicML and Databricks: MPT and DBRX."""

from __future__ import annotations

from gptcalc.sources.huggingface.fields import Fields
from gptcalc.sources.huggingface.reader import Hole, Reader, choice, flag, number, optional, size
from gptcalc.sources.huggingface.rope import rope
from gptcalc.sources.huggingface.tensors import QKV, bare, fused, in_layers

#: what llm-foundry's own code reads; the class in transformers has linear biases, four times the width, all heads' keys
#: and values and no biases, whatever these say
FOUNDRY = dict.fromkeys((
    "expansion_ratio", "no_bias", "learned_pos_emb", "logit_scale", "embedding_fraction", "norm_type", "fc_type",
    "attn_config.attn_type", "attn_config.kv_n_heads", "attn_config.qk_ln", "attn_config.qk_gn", "attn_config.alibi",
    "attn_config.alibi_bias_max", "attn_config.rope", "attn_config.rope_theta", "attn_config.sliding_window_size",
    "attn_config.prefix_lm", "ffn_config.ffn_type",
), "llm-foundry")  # fmt: skip

MPT = Reader(
    document={
        "d": size("d_model"),
        "v": size("vocab_size"),
        "c": size("max_seq_len"),
        "n_heads": size("n_heads"),
        "n_layers": size("n_layers"),
        "d_ff": Hole(lambda f: 4 * f.needed("d_model")),
        "tying": flag("tie_word_embeddings"),
        "position": "alibi",
        "norm": {"kind": "layernorm", "bias": False, "eps": number("layer_norm_epsilon")},
        "mlp": "gelu",
        "attn": {"clip": number("attn_config.clip_qkv"), "scale": number("attn_config.softmax_scale")},
    },
    vendor=FOUNDRY,
    only={
        "expansion_ratio": 4,
        "no_bias": True,
        "learned_pos_emb": (True, False),
        "embedding_fraction": (1, 1.0),
        "norm_type": ("low_precision_layernorm", "layernorm"),
        "fc_type": "torch",
        "attn_config.attn_type": "multihead_attention",
        "attn_config.alibi": True,
        "attn_config.alibi_bias_max": 8,
        "attn_config.rope_theta": 10000,
        "attn_config.sliding_window_size": -1,
        "ffn_config.ffn_type": "mptmlp",
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
        **in_layers(
            "transformer.blocks.{l}.",
            {
                "attn.norm": "norm_1",
                **fused("attn.Wqkv", QKV),
                "attn.out": "attn.out_proj",
                "mlp.norm": "norm_2",
                "mlp.up": "ffn.up_proj",
                "mlp.down": "ffn.down_proj",
            },
        ),
        "final_norm": "transformer.norm_f",
        "head": "lm_head",
    },
)


def base(fields: Fields) -> float | int | None:
    """The rotation's base. transformers 5.24 looks for rope_theta in the whole config alone and turns published models,
    which have it among the attention's fields, by the default of others; counted is what the published files say."""
    own = fields.number("attn_config.rope_theta")
    said = "rope_theta" in (fields.mapping("rope_parameters") or {}) or fields.present("rope_theta")
    return None if said else own


NORM = "ffn_config.moe_normalize_expert_weights"


def normalized(fields: Fields) -> bool:
    """Whether the chosen experts' weights are divided by their sum; another norm of theirs is another model."""
    p = fields.number(NORM)
    if p not in (None, 1):
        raise fields.unsupported(NORM, f"only 1, the sum of weights, is understood, found {p}")
    return p is not None


#: a width written as hidden_size is the whole model's here; transformers 5.24 reads it after it has made the experts,
#: whose width then stays d_model's default, so that its model can't run
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
        "tying": False,
        "rope": rope(Hole(base)),
        "norm": {"kind": "layernorm", "bias": False},
        "mlp": choice("ffn_config.ffn_act_fn.name", silu="swiglu", gelu="geglu"),
        "attn": {"clip": number("attn_config.clip_qkv")},
        "moe": {
            "n_experts": size("ffn_config.moe_num_experts"),
            "top_k": size("ffn_config.moe_top_k"),
            "normalize": Hole(normalized),
        },
    },
    defaults={
        "attn_config.kv_n_heads": 1,
        "ffn_config.ffn_hidden_size": 3584,
        "ffn_config.moe_num_experts": 4,
        "ffn_config.moe_top_k": 1,
        NORM: 1.0,
        "ffn_config.ffn_act_fn.name": "silu",
    },
    only={
        "ffn_config.uniform_expert_assignment": False,
        "tie_word_embeddings": False,  # the class refuses any other
    },
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
