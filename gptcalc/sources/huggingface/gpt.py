"""GPT-2 and the decoders of its time: LayerNorm, biases, no gate; learned positions, partial rotations or ALiBi."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gptcalc.errors import InputError
from gptcalc.sources.huggingface.pattern import stack
from gptcalc.sources.huggingface.reader import (
    Fields,
    Hole,
    Reader,
    activation,
    choice,
    flag,
    layernorm,
    number,
    optional,
    shown,
    sites,
    size,
    when,
)
from gptcalc.sources.huggingface.rope import rope
from gptcalc.sources.huggingface.tensors import QKV, Held, Names, fused, in_layers

# --- learned positions ------------------------------------------------------------------------------------------------

_gpt2_block: Names = {
    "attn.norm": "ln_1",
    "attn.post_norm": "ln_1",
    **fused("attn.c_attn", QKV, stored="in,out"),
    "attn.out": Held("attn.c_proj", stored="in,out"),
    "mlp.norm": "ln_2",
    "mlp.post_norm": "ln_2",
    "mlp.up": Held("mlp.c_fc", stored="in,out"),
    "mlp.down": Held("mlp.c_proj", stored="in,out"),
}

GPT2 = Reader(
    document={
        "d": size("n_embd", "hidden_size"),
        "v": size("vocab_size"),
        "c": size("n_positions", "max_position_embeddings"),
        "n_heads": size("n_head", "num_attention_heads"),
        "n_layers": size("n_layer", "num_hidden_layers"),
        "d_ff": optional("n_inner"),
        "tying": flag("tie_word_embeddings"),
        "position": "learned",
        "norm": layernorm("layer_norm_epsilon"),
        "mlp": activation("activation_function", gated=False),
        "bias": "all",
    },
    only={"scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False},
    irrelevant=frozenset({"n_ctx", "reorder_and_upcast_attn", "scale_attention_softmax_in_fp32"}),
    names={
        "embedding.token": "transformer.wte",
        "embedding.position": "transformer.wpe",
        **in_layers("transformer.h.{l}.", _gpt2_block),
        "final_norm": "transformer.ln_f",
        "head": "lm_head",
    },
)

GPT1 = GPT2.but(
    document={"norm_at": "post", "final_norm": False, "mlp": choice("afn", gelu="gelu_tanh", relu="relu", silu="silu")},
    irrelevant=("predict_special_tokens", "n_special"),
    names={"embedding.token": "transformer.tokens_embed", "embedding.position": "transformer.positions_embed"},
)

GPT_BIGCODE = GPT2.but(
    document={"n_kv_heads": when("multi_query", 1)},
    irrelevant=("num_key_value_heads", "inference_runner", "validate_runner_input", "pre_allocate_kv_cache"),
    names=in_layers(
        "transformer.h.{l}.",
        {
            **fused("attn.c_attn", QKV, groups="n_kv_heads"),
            "attn.out": "attn.c_proj",
            "mlp.up": "mlp.c_fc",
            "mlp.down": "mlp.c_proj",
        },
    ),
)


def neo_layers(fields: Fields, n: int) -> Sequence[str]:
    """[[["global", "local"], 12]]: patterns with how often each repeats."""
    name = {"global": "attn", "local": "local"}
    layers = fields.items("attention_layers") or []
    for item in fields.items("attention_types") or []:
        match item:
            case [list() as words, int() as times] if times * len(words) <= n:
                layers = layers if fields.present("attention_layers") else layers + words * times
            case _:
                raise InputError(f"{fields.within}attention_types: {shown(item)} is not a pattern of up to {n} layers")
    if len(layers) != n or not set(layers) <= set(name):
        raise InputError(
            f"{fields.within}attention_types: expected global or local for {n} layers, found {len(layers)}"
        )
    return [name[word] for word in layers]


GPT_NEO = GPT2.but(
    defaults={"attention_types": [[["global", "local"], 12]]},
    document={
        "d": size("hidden_size"),
        "c": size("max_position_embeddings"),
        "n_heads": size("num_heads", "num_attention_heads"),
        "n_layers": size("num_layers", "num_hidden_layers"),
        "d_ff": optional("intermediate_size"),
        "layers": stack(neo_layers, "mlp", n_layers="num_layers"),
        "bias": ["out", "mlp"],
        "attn": {"scale": 1.0},
        "local": {"like": "attn", "window": size("window_size")},
    },
    names=in_layers(
        "transformer.h.{l}.",
        {
            "attn.q": "attn.attention.q_proj",
            "attn.k": "attn.attention.k_proj",
            "attn.v": "attn.attention.v_proj",
            "attn.out": "attn.attention.out_proj",
            "mlp.up": "mlp.c_fc",
            "mlp.down": "mlp.c_proj",
        },
    ),
)

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

# --- partial rotations, often parallel --------------------------------------------------------------------------------

GPTJ = GPT2.but(
    document={
        "layers": "n*attn|mlp",
        "position": "rope",
        "rope": rope(fraction=None, channels="rotary_dim", pairing="adjacent"),
        "bias": ["mlp", "head"],
    },
    only={"rotary": True},
    names=in_layers(
        "transformer.h.{l}.",
        {
            "parallel.norm": "ln_1",
            "attn.q": "attn.q_proj",
            "attn.k": "attn.k_proj",
            "attn.v": "attn.v_proj",
            "attn.out": "attn.out_proj",
            "mlp.up": "mlp.fc_in",
            "mlp.down": "mlp.fc_out",
        },
    ),
)

CODEGEN = GPTJ.but(
    names=in_layers(
        "transformer.h.{l}.",
        fused("attn.qkv_proj", (QKV[0], QKV[2], QKV[1]), groups=4),  # laid out for four devices: query, value, key
    )
)

_neox_block: Names = {
    "attn.norm": "input_layernorm",
    **fused("attention.query_key_value", QKV, groups="n_heads"),
    "attn.out": "attention.dense",
    "mlp.norm": "post_attention_layernorm",
    "mlp.up": "mlp.dense_h_to_4h",
    "mlp.down": "mlp.dense_4h_to_h",
}

GPT_NEOX = Reader(
    defaults={"rotary_pct": 0.25},
    document={
        "d": size("hidden_size"),
        "v": size("vocab_size"),
        "c": size("max_position_embeddings"),
        "n_heads": size("num_attention_heads"),
        "n_layers": size("num_hidden_layers"),
        "n_kv_heads": optional("num_key_value_heads"),
        "d_head": optional("head_dim"),
        "d_ff": size("intermediate_size"),
        "layers": when("use_parallel_residual", "n*attn|mlp", "n*attn+mlp"),
        "tying": flag("tie_word_embeddings"),
        "rope": rope(("rotary_emb_base", "rope_theta"), fraction=("rotary_pct", "partial_rotary_factor")),
        "norm": layernorm(),
        "parallel_norm": "separate",
        "mlp": activation("hidden_act", gated=False),
        "bias": sites(attn="attention_bias", mlp=True),
    },
    names={
        "embedding.token": "gpt_neox.embed_in",
        **in_layers("gpt_neox.layers.{l}.", _neox_block),
        "final_norm": "gpt_neox.final_layer_norm",
        "head": ("embed_out", "lm_head"),
    },
)

#: Llama's names around GPT-NeoX's
_plain: Names = {
    "embedding.token": "model.embed_tokens",
    **in_layers(
        "model.layers.{l}.",
        {
            "attn.norm": "input_layernorm",
            "parallel.norm": "input_layernorm",
            "attn.q": "self_attn.q_proj",
            "attn.k": "self_attn.k_proj",
            "attn.v": "self_attn.v_proj",
            "attn.out": "self_attn.dense",
            "attn.q_norm": "self_attn.q_layernorm",
            "attn.k_norm": "self_attn.k_layernorm",
            "mlp.norm": "post_attention_layernorm",
        },
    ),
    "final_norm": "model.final_layernorm",
    "head": "lm_head",
}

PHI = GPT_NEOX.but(
    defaults={"partial_rotary_factor": 0.5},
    document={
        "layers": "n*attn|mlp",
        "parallel_norm": None,
        "rope": rope(),
        "bias": ["attn", "mlp", "head"],
        "attn": {"qk_norm": when("qk_layernorm", "head")},
    },
    names={**_plain, **in_layers("model.layers.{l}.", {"mlp.up": "mlp.fc1", "mlp.down": "mlp.fc2"})},
)

PERSIMMON = GPT_NEOX.but(
    defaults={"partial_rotary_factor": 0.5},
    document={
        "layers": "n*attn+mlp",
        "parallel_norm": None,
        "rope": rope(),
        "bias": "all",
        "attn": {"qk_norm": when("qk_layernorm", "head")},
    },
    names={
        **_plain,
        **in_layers(
            "model.layers.{l}.",
            {
                **fused("self_attn.query_key_value", QKV, groups="n_heads"),
                "mlp.up": "mlp.dense_h_to_4h",
                "mlp.down": "mlp.dense_4h_to_h",
            },
        ),
    },
)

STABLELM = GPT_NEOX.but(
    defaults={"partial_rotary_factor": 0.25},
    document={
        "layers": when("use_parallel_residual", "n*attn|mlp", "n*attn+mlp"),
        "parallel_norm": None,
        "rope": rope(fraction="partial_rotary_factor"),
        "mlp": activation("hidden_act", gated=True),
        "bias": sites(qkv="use_qkv_bias"),
        "attn": {"qk_norm": when("qk_layernorm", {"over": "each", "bias": False})},
    },
    names={
        **_plain,
        **in_layers(
            "model.layers.{l}.",
            {
                "attn.out": "self_attn.o_proj",
                "attn.q_norm": "self_attn.q_layernorm.norms.{e}",
                "attn.k_norm": "self_attn.k_layernorm.norms.{e}",
                "mlp.gate": "mlp.gate_proj",
                "mlp.up": "mlp.up_proj",
                "mlp.down": "mlp.down_proj",
            },
        ),
        "final_norm": "model.norm",
    },
)

STARCODER2 = GPT_NEOX.but(
    document={
        "layers": "n*attn+mlp",
        "parallel_norm": None,
        "rope": rope(),
        "norm": layernorm("norm_epsilon"),
        "bias": when("use_bias", "all"),
        "attn": {"window": optional("sliding_window")},
    },
    only={"norm_type": "layer_norm", "mlp_type": "default"},
    names={
        **_plain,
        **in_layers(
            "model.layers.{l}.", {"attn.out": "self_attn.o_proj", "mlp.up": "mlp.c_fc", "mlp.down": "mlp.c_proj"}
        ),
        "final_norm": "model.norm",
    },
)

# --- Falcon -----------------------------------------------------------------------------------------------------------


def falcon_kv_heads(fields: Fields) -> int | None:
    """The newer layout gives a number; in the older one it is one head or all."""
    given = fields.size("num_kv_heads", "n_head_kv", "num_key_value_heads")
    one = fields.flag("multi_query")
    if fields.flag("new_decoder_architecture"):
        return given
    return 1 if one else None


def falcon_scale(fields: Fields) -> float:
    """Linear biases are added to the scores before those are scaled."""
    width = fields.needed("hidden_size", "n_embed") // fields.needed("num_attention_heads", "n_head")
    return 1 / math.sqrt(width)


def falcon_norms(fields: Fields) -> str:
    given = fields.size("num_ln_in_parallel_attn")
    number = given if given is not None else 2 if fields.flag("new_decoder_architecture") else 1
    return "separate" if number == 2 else "shared"


FALCON = Reader(
    document={
        "d": size("hidden_size", "n_embed"),
        "v": size("vocab_size"),
        "c": size("max_position_embeddings"),
        "n_heads": size("num_attention_heads", "n_head"),
        "n_layers": size("num_hidden_layers", "n_layer"),
        "n_kv_heads": Hole(falcon_kv_heads),
        "d_head": optional("head_dim"),
        "d_ff": optional("ffn_hidden_size", "intermediate_size"),
        "layers": when("parallel_attn", "n*attn|mlp", "n*attn+mlp"),
        "tying": flag("tie_word_embeddings"),
        "position": when("alibi", "alibi"),
        "rope": when("alibi", None, rope()),
        "attn": {"alibi_scale": when("alibi", Hole(falcon_scale))},
        "norm": layernorm("layer_norm_epsilon"),
        "parallel_norm": Hole(falcon_norms),
        "mlp": activation("activation", gated=False),
        "bias": when("bias", "all"),
    },
    only={"apply_residual_connection_post_layernorm": False},
    names={
        "embedding.token": "transformer.word_embeddings",
        **in_layers(
            "transformer.h.{l}.",
            {
                "attn.norm": ("ln_attn", "input_layernorm"),
                "parallel.norm": "input_layernorm",
                **fused("self_attention.query_key_value", QKV, groups="n_kv_heads"),
                "attn.out": "self_attention.dense",
                "mlp.norm": ("ln_mlp", "post_attention_layernorm"),
                "mlp.up": "mlp.dense_h_to_4h",
                "mlp.down": "mlp.dense_4h_to_h",
            },
        ),
        "final_norm": "transformer.ln_f",
        "head": "lm_head",
    },
)

#: Falcon's first names: the 40B model's layout had no flag of its own
REFINED_WEB = FALCON.but(defaults={"new_decoder_architecture": True}, like="falcon")

# --- ALiBi ------------------------------------------------------------------------------------------------------------

BLOOM = Reader(
    defaults={"seq_length": 2048},  # the class has no such field; all published models were trained at this length
    document={
        "d": size("hidden_size", "n_embed"),
        "v": size("vocab_size"),
        "c": size("seq_length"),
        "n_heads": size("n_head", "num_attention_heads"),
        "n_layers": size("n_layer", "num_hidden_layers"),
        "tying": flag("tie_word_embeddings"),
        "position": "alibi",
        "norm": layernorm("layer_norm_epsilon"),
        "mlp": "gelu_tanh",
        "bias": "all",
        "embedding": {"norm": True},
    },
    only={"apply_residual_connection_post_layernorm": False},
    irrelevant=frozenset(
        {"slow_but_exact", "masked_softmax_fusion", "offset_alibi", "skip_bias_add", "skip_bias_add_qkv", "n_inner"}
    ),
    names={
        "embedding.token": "transformer.word_embeddings",
        "embedding.norm": "transformer.word_embeddings_layernorm",
        **in_layers(
            "transformer.h.{l}.",
            {
                "attn.norm": "input_layernorm",
                **fused("self_attention.query_key_value", QKV, groups="n_heads"),
                "attn.out": "self_attention.dense",
                "mlp.norm": "post_attention_layernorm",
                "mlp.up": "mlp.dense_h_to_4h",
                "mlp.down": "mlp.dense_4h_to_h",
            },
        ),
        "final_norm": "transformer.ln_f",
        "head": "lm_head",
    },
)


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

READERS: dict[str, Reader] = {
    "gpt2": GPT2,
    "openai-gpt": GPT1,
    "gpt_bigcode": GPT_BIGCODE,
    "gpt_neo": GPT_NEO,
    "opt": OPT,
    "gptj": GPTJ,
    "codegen": CODEGEN,
    "gpt_neox": GPT_NEOX,
    "phi": PHI,
    "persimmon": PERSIMMON,
    "stablelm": STABLELM,
    "stablelm_epoch": STABLELM.but(like="stablelm"),
    "starcoder2": STARCODER2,
    "falcon": FALCON,
    "RefinedWebModel": FALCON.but(like="falcon"),
    "RefinedWeb": REFINED_WEB,
    "bloom": BLOOM,
    "mpt": MPT,
}
