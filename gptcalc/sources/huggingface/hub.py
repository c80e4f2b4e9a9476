"""Types whose code lives beside the weights on the Hub, not in transformers: their own words for the same things."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gptcalc.errors import InputError
from gptcalc.sources.huggingface.llama import LLAMA, PREFIX
from gptcalc.sources.huggingface.mixtures import HUNYUAN_MOE, MIXTRAL, one_of_all
from gptcalc.sources.huggingface.pattern import MOST_LISTED, expression
from gptcalc.sources.huggingface.reader import (
    Fields,
    Hole,
    Reader,
    flag,
    layernorm,
    number,
    optional,
    preferred,
    shown,
    sites,
    size,
    when,
)
from gptcalc.sources.huggingface.rope import rope
from gptcalc.sources.huggingface.tensors import GATE_UP, QKV, Names, fused, in_layers
from gptcalc.sources.huggingface.vendors import MUP

#: what the classes of these repositories assume, as far as their configs leave it out
PLAIN = {"hidden_act": "silu", "rms_norm_eps": 1e-6, "tie_word_embeddings": False}

# --- InternLM, Baichuan, Orion, MiniCPM -------------------------------------------------------------------------------

INTERNLM = LLAMA.but(
    document={"bias": sites(attn="bias")},
    defaults={**PLAIN, "bias": True},
    only={"rotary": ({"base": 10000, "type": "dynamic"}, {"base": 10000, "type": "origin"})},
)

INTERNLM2 = LLAMA.but(
    document={"bias": sites(attn="bias")},
    defaults={**PLAIN, "bias": False, "max_position_embeddings": 32768},
    names={
        "embedding.token": "model.tok_embeddings",
        **in_layers(
            PREFIX,
            {
                "attn.norm": "attention_norm",
                **fused("attention.wqkv", QKV, groups="n_kv_heads"),
                "attn.out": "attention.wo",
                "mlp.norm": "ffn_norm",
                "mlp.gate": "feed_forward.w1",
                "mlp.up": "feed_forward.w3",
                "mlp.down": "feed_forward.w2",
            },
        ),
        "head": "output",
    },
)


def baichuan_position(fields: Fields) -> str | None:
    """The two sizes have code of their own under one model_type: 7B rotates, 13B has linear biases."""
    return None if fields.needed("hidden_size") == 4096 else "alibi"


BAICHUAN = LLAMA.but(
    document={
        "c": preferred("max_position_embeddings", "model_max_length"),
        "position": Hole(baichuan_position),
        "rope": Hole(lambda fields: rope() if baichuan_position(fields) is None else None),
    },
    defaults=PLAIN,
    names=in_layers(PREFIX, fused("self_attn.W_pack", QKV)),
)

ORION = LLAMA.but(document={"norm": layernorm("rms_norm_eps")}, defaults=PLAIN)

MINICPM = LLAMA.but(
    document=MUP, defaults={**PLAIN, "tie_word_embeddings": True}, only={"num_experts": 0}, irrelevant=("lm_head_bias",)
)

MIMO = LLAMA.but(
    document={"bias": sites(qkv="attention_bias"), "mtp": optional("num_nextn_predict_layers", least=0)},
    defaults={**PLAIN, "attention_bias": True},
    only={"use_mrope": False, "use_sliding_window": False},
    irrelevant=("sliding_window", "max_window_layers"),
)

# --- ChatGLM ----------------------------------------------------------------------------------------------------------


def groups_of_queries(fields: Fields) -> int | None:
    number_of_groups = fields.size("multi_query_group_num")
    return number_of_groups if fields.flag("multi_query_attention") else None


def stretched(fields: Fields) -> float:
    return 10000 * (fields.number("rope_ratio") or 1)


CHATGLM = Reader(
    document={
        "d": size("hidden_size"),
        "v": preferred("padded_vocab_size", "vocab_size"),
        "c": preferred("seq_length", "max_position_embeddings"),
        "n_heads": size("num_attention_heads"),
        "n_layers": size("num_layers", "num_hidden_layers"),
        "n_kv_heads": Hole(groups_of_queries),
        "d_head": optional("kv_channels"),
        "d_ff": size("ffn_hidden_size", "intermediate_size"),
        "tying": flag("tie_word_embeddings"),
        "rope": {"theta": Hole(stretched), "fraction": 0.5, "pairing": "adjacent"},
        "norm": {
            "kind": when("rmsnorm", "rmsnorm", "layernorm"),
            "eps": number("layernorm_epsilon"),
            "bias": Hole(lambda fields: not fields.flag("rmsnorm")),
        },
        "final_norm": flag("post_layer_norm"),
        "bias": sites(qkv="add_qkv_bias", out="add_bias_linear", mlp="add_bias_linear"),
    },
    defaults={
        "layernorm_epsilon": 1e-5,
        "rmsnorm": True,
        "post_layer_norm": True,
        "multi_query_attention": False,
        "add_qkv_bias": False,
        "add_bias_linear": False,
        "tie_word_embeddings": False,
    },
    only={
        "apply_residual_connection_post_layernorm": False,
        "original_rope": True,
        "interleaved_qkv": False,
        "num_key_value_heads": None,
        "prefix_projection": False,
    },
    irrelevant=frozenset({"pre_seq_len", "hidden_act"}),
    names={
        "embedding.token": "transformer.embedding.word_embeddings",
        **in_layers(
            "transformer.encoder.layers.{l}.",
            {
                "attn.norm": "input_layernorm",
                **fused("self_attention.query_key_value", QKV),
                "attn.out": "self_attention.dense",
                "mlp.norm": "post_attention_layernorm",
                **fused("mlp.dense_h_to_4h", GATE_UP),
                "mlp.down": "mlp.dense_4h_to_h",
            },
        ),
        "final_norm": "transformer.encoder.final_layernorm",
        "head": "transformer.output_layer",
    },
)

# --- Qwen 1 -----------------------------------------------------------------------------------------------------------


def half_width(fields: Fields) -> int:
    """The config gives the width of gate and up projection together."""
    both = fields.needed("intermediate_size")
    if both % 2:
        raise InputError(f"{fields.within}intermediate_size = {both}: expected an even number, for two projections")
    return both // 2


QWEN1 = LLAMA.but(
    document={
        "c": preferred("max_position_embeddings", "seq_length"),
        "d_head": optional("kv_channels"),
        "d_ff": Hole(half_width),
        "layers": "n*attn+mlp",
        "rope": rope("rotary_emb_base", fraction="rotary_pct"),
        "norm": {"kind": "rmsnorm", "eps": number("layer_norm_epsilon", "rms_norm_eps")},
        "mlp": "swiglu",
        "bias": "qkv",
    },
    defaults={"layer_norm_epsilon": 1e-6, "tie_word_embeddings": False, "rotary_emb_base": 10000},
    only={"no_bias": True, "scale_attn_weights": True, "hidden_act": "silu"},
    irrelevant=("rope_theta", "onnx_safe", "params_dtype", "apply_residual_connection_post_layernorm",
                "pos_emb", "n_inner", "n_head", "n_layer", "n_embd", "n_positions", "ffn_hidden_size",
                "padded_vocab_size", "rope_scaling"),
    names={
        "embedding.token": "transformer.wte",
        **in_layers(
            "transformer.h.{l}.",
            {
                "attn.norm": "ln_1",
                **fused("attn.c_attn", QKV),
                "attn.out": "attn.c_proj",
                "mlp.norm": "ln_2",
                "mlp.gate": "mlp.w2",
                "mlp.up": "mlp.w1",
                "mlp.down": "mlp.c_proj",
            },
        ),
        "final_norm": "transformer.ln_f",
    },
)  # fmt: skip

# --- Hunyuan Large: every second layer reuses keys and values ---------------------------------------------------------


def shared_layers(fields: Fields) -> str:
    """With cross-layer attention, the layers after the first of each group reuse its keys and values."""
    group = fields.size("cla_share_factor") or 1
    if not fields.flag("use_cla") or group == 1:
        return "n*attn+moe"
    n = fields.needed("num_hidden_layers")
    if n > MOST_LISTED:
        raise InputError(
            f"{fields.within}num_hidden_layers = {n}: layers of several kinds are read up to {MOST_LISTED}"
        )
    return expression(["attn+moe" if i % group == 0 else "reuse+moe" for i in range(n)])


HUNYUAN_LARGE = HUNYUAN_MOE.but(
    document={
        "d_head": optional("head_dim"),
        "layers": Hole(shared_layers),
        "attn": {"qk_norm": when("use_qk_norm", {"over": "head", "after_rope": True, "at_read": flag("use_cla")})},
        "reuse": {"like": "attn", "kv": {"from": "attn"}},
        "moe": {
            "n_experts": one_of_all("num_experts"),
            "top_k": one_of_all("moe_topk"),
            "d_ff": one_of_all("moe_intermediate_size"),
            "n_shared": when("use_mixed_mlp_moe", one_of_all("num_shared_expert", default=1)),
            "normalize": Hole(lambda fields: one_of_all("moe_topk").read(fields) != 1),
        },
    },
    defaults={**PLAIN, "rms_norm_eps": 1e-5, "moe_topk": 1, "use_qk_norm": False},
    only={"cla_share_factor": (1, 2), "norm_type": "rms", "mlp_bias": False},
    irrelevant=("moe_drop_tokens", "moe_random_routing_dropped_token", "capacity_factor", "group_limited_greedy",
                "im_newline_id", "position_embedding_xdrope", "add_classification_head", "class_num", "pool_type",
                "dense_list", "eod_token_id", "kv_lora_rank", "use_mla", "cla_share_factor", "attention_head_dim"),
)  # fmt: skip

# --- Nemotron's searched architectures: a width for each layer --------------------------------------------------------


def searched(fields: Fields) -> dict[str, Any]:
    """Sections and layers from block_configs, where each layer has an attention and an MLP of its own, or lacks one."""
    blocks = fields.items("block_configs") or []
    n = fields.needed("num_hidden_layers")
    if len(blocks) != n:
        raise InputError(f"{fields.within}block_configs has {len(blocks)} entries, num_hidden_layers is {n}")
    sections: dict[str, Any] = {}
    names = []
    for i, block in enumerate(blocks):
        parts = [attention_of(block, i, fields, sections), mlp_of(block, i, fields, sections)]
        if parts == [None, None]:
            raise fields.unsupported(f"block_configs[{i}]", "a layer with neither attention nor MLP is not understood")
        names.append("+".join(part for part in parts if part))
    return {"layers": expression(names), **sections}


def part_of(block: Any, key: str, i: int, fields: Fields) -> Mapping[str, Any]:
    part = block.get(key) if isinstance(block, Mapping) else None
    if not isinstance(part, Mapping):
        raise InputError(f"{fields.within}block_configs[{i}].{key}: expected an object, found {shown(part)}")
    if part.get("replace_with_linear") or part.get("sparsify") or part.get("window_length"):
        raise fields.unsupported(f"block_configs[{i}].{key}", "replaced or sparsified parts are not understood")
    return part


def attention_of(block: Any, i: int, fields: Fields, sections: dict[str, Any]) -> str | None:
    part = part_of(block, "attention", i, fields)
    if part.get("no_op"):
        return None
    heads, group = fields.needed("num_attention_heads"), part.get("n_heads_in_group")
    if not isinstance(group, int) or group < 1 or heads % group:
        raise InputError(
            f"{fields.within}block_configs[{i}].attention.n_heads_in_group: {shown(group)} of {heads} heads"
        )
    name = f"attn_{heads // group}"
    sections[name] = {"like": "attn", "n_kv_heads": heads // group}
    return name


def mlp_of(block: Any, i: int, fields: Fields, sections: dict[str, Any]) -> str | None:
    part = part_of(block, "ffn", i, fields)
    if part.get("no_op"):
        return None
    factor = part.get("ffn_mult")
    if isinstance(factor, bool) or not isinstance(factor, (int, float)) or not 0 < factor < 1000:
        raise InputError(f"{fields.within}block_configs[{i}].ffn.ffn_mult: expected a number, found {shown(factor)}")
    width = -(-int(2 * factor * fields.needed("hidden_size") / 3) // 256) * 256  # two thirds, in steps of 256
    name = f"mlp_{width}"
    sections[name] = {"like": "mlp", "d_ff": width}
    return name


NEMOTRON_NAS = LLAMA.but(
    document={"n_kv_heads": None, "d_ff": None, "layers": None, "searched": Hole(searched)},
    defaults={**PLAIN, "rms_norm_eps": 1e-5},
    irrelevant=("num_key_value_heads", "intermediate_size", "max_window_layers"),
)

# --- Grok -------------------------------------------------------------------------------------------------------------

_grok: Names = in_layers(
    PREFIX,
    {
        "attn.norm": "pre_attn_norm",
        "attn.post_norm": "post_attn_norm",
        "attn.q": ("attn.q_proj", "self_attn.q_proj"),
        "attn.k": ("attn.k_proj", "self_attn.k_proj"),
        "attn.v": ("attn.v_proj", "self_attn.v_proj"),
        "attn.out": ("attn.o_proj", "self_attn.o_proj"),
        "moe.norm": "pre_moe_norm",
        "moe.post_norm": "post_moe_norm",
        "moe.router": ("moe_block.gate", "block_sparse_moe.gate"),
        "moe.gate": ("moe_block.experts.{e}.linear", "block_sparse_moe.experts.{e}.w1"),
        "moe.up": ("moe_block.experts.{e}.linear_v", "block_sparse_moe.experts.{e}.w3"),
        "moe.down": ("moe_block.experts.{e}.linear_1", "block_sparse_moe.experts.{e}.w2"),
    },
)


def grok_rope(fields: Fields) -> dict[str, Any]:
    """YaRN written in fields of the config itself, without a rescaling of scores."""
    factor = fields.number("scaling_factor")
    words = {"beta_fast": fields.number("beta_fast"), "beta_slow": fields.number("beta_slow")}
    original = fields.size("original_max_position_embeddings")
    scaling = {"kind": "yarn", "factor": factor, "original": original, "attention_factor": 1.0, **words}
    return {"theta": fields.number("rope_theta"), "scaling": scaling if factor else None}


GROK1 = MIXTRAL.but(
    document={
        "norm_at": "sandwich",
        "mlp": "geglu_tanh",
        "bias": None,
        "embedding": {"scale": number("embedding_multiplier_scale")},
        "logit_scale": number("output_multiplier_scale"),
        "attn": {"softcap": number("max_attn_value"), "scale": number("attn_output_multiplier")},
        "moe": {
            "n_experts": size("num_experts", "num_local_experts"),
            "top_k": size("num_experts_per_tok", "num_selected_experts"),
            "normalize": False,
        },
    },
    defaults={"rms_norm_eps": 1e-5, "tie_word_embeddings": True},
    only={"hidden_act": "gelu"},
    names=_grok,
)

#: an MLP beside the experts, one norm before and one behind both
GROK2 = GROK1.but(
    document={
        "layers": "n*attn+mlp|moe",
        "d_ff": size("intermediate_size"),
        "parallel_out_norm": True,
        "parallel_scale": 0.5**0.5,
        "rope": Hole(grok_rope),
        "softcap": number("final_logit_softcapping"),
        "attn": {"softcap": number("attn_logit_softcapping"), "log_length": optional("attn_temperature_len")},
        "mlp": {"activation": "geglu_tanh", "norm": "none"},
        "moe": {
            "activation": "geglu_tanh",
            "norm": "none",
            "n_experts": size("num_local_experts", "num_experts"),
            "top_k": size("num_experts_per_tok"),
            "d_ff": size("moe_intermediate_size"),
            "normalize": False,
            "router_softcap": number("router_logit_softcapping"),
        },
    },
    defaults={"tie_word_embeddings": False},
    only={"residual_moe": True, "sliding_window_size": -1, "global_attn_every_n": 1, "rope_type": "original",
          "extrapolation_factor": 1.0, "attn_factor": 1.0},
    names=in_layers(
        PREFIX,
        {
            "parallel.norm": "pre_moe_norm",
            "parallel.out_norm": "post_moe_norm",
            "mlp.gate": "mlp.gate_proj",
            "mlp.up": "mlp.up_proj",
            "mlp.down": "mlp.down_proj",
        },
    ),
)  # fmt: skip

READERS: dict[str, Reader] = {
    "internlm": INTERNLM,
    "internlm2": INTERNLM2,
    "baichuan": BAICHUAN,
    "orion": ORION,
    "minicpm": MINICPM,
    "mimo": MIMO,
    "chatglm": CHATGLM,
    "qwen": QWEN1,
    "hunyuan": HUNYUAN_LARGE,
    "nemotron-nas": NEMOTRON_NAS,
    "grok-1": GROK1,
    "grok-2": GROK2,
    "Yi": LLAMA.but(like="llama"),
}
