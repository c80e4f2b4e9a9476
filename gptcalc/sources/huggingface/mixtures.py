"""Mixtures of experts behind ordinary attention: the pieces that their readers share, and Mixtral's relatives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gptcalc.errors import InputError
from gptcalc.sources.huggingface.llama import LLAMA, PREFIX, TYPES
from gptcalc.sources.huggingface.pattern import CHUNKED, FULL, every, listed, stack
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
from gptcalc.sources.huggingface.tensors import EXPERTS_GATE_UP, QKV, Entry, Held, bare, fused, in_layers
from gptcalc.sources.huggingface.vendors import ERNIE, GRANITE, HUNYUAN


def own_experts(
    module: str, gate: str = "gate_proj", up: str = "up_proj", down: str = "down_proj", together: str | None = None
) -> dict[str, Entry]:
    """Experts of which each has three tensors of its own, or (as transformers 5 stores them) two for all together."""
    all_experts = together or module
    both = bare(f"{all_experts}.gate_up_proj", parts=EXPERTS_GATE_UP)
    return {
        "moe.gate": (f"{module}.{{e}}.{gate}", both),
        "moe.up": (f"{module}.{{e}}.{up}", both),
        "moe.down": (f"{module}.{{e}}.{down}", bare(f"{all_experts}.down_proj")),
    }


def shared_experts(module: str) -> dict[str, Entry]:
    return {
        "moe.shared.gate": f"{module}.gate_proj",
        "moe.shared.up": f"{module}.up_proj",
        "moe.shared.down": f"{module}.down_proj",
    }


#: experts under `mlp.experts`, the router at `mlp.gate`
EXPERT_NAMES = in_layers(
    PREFIX, {"moe.norm": "post_attention_layernorm", "moe.router": "mlp.gate", **own_experts("mlp.experts")}
)

MIXTRAL_NAMES = in_layers(
    PREFIX,
    {
        "moe.norm": "post_attention_layernorm",
        "moe.router": ("block_sparse_moe.gate", "mlp.gate"),
        **own_experts("block_sparse_moe.experts", "w1", "w3", "w2", together="mlp.experts"),
    },
)


def groups(n: str = "n_group", top_k: str = "topk_group", score: str = "top2", method: str | None = None) -> Hole:
    """Group-limited routing, where there is more than one group (and topk_method is the one that uses them)."""

    def read(fields: Fields) -> dict[str, Any] | None:
        count, chosen = fields.size(n), fields.size(top_k)
        limited = method is None or fields.get("topk_method") == method
        return {"n": count, "top_k": chosen, "score": score} if limited and count and count > 1 else None

    return Hole(read)


MIXTRAL = LLAMA.but(
    document={
        "layers": stack("attn", "moe"),
        "attn": {"window": optional("sliding_window")},
        "moe": {"n_experts": size("num_local_experts", "num_experts"), "top_k": size("num_experts_per_tok")},
    },
    names=MIXTRAL_NAMES,
)

GPT_OSS = LLAMA.but(
    defaults={
        "rope_parameters": {
            "rope_type": "yarn",
            "factor": 32.0,
            "truncate": False,
            "original_max_position_embeddings": 4096,
        }
    },
    document={
        "layers": stack(listed("layer_types", TYPES, every(2, "attn", "local")), "moe"),
        "mlp": activation("hidden_act", gated=True),
        "bias": sites(attn="attention_bias", experts__router=True),
        "attn": {"sinks": True},
        "local": {"like": "attn", "window": size("sliding_window")},
        "moe": {
            "n_experts": size("num_local_experts", "num_experts"),
            "top_k": size("num_experts_per_tok", "experts_per_token"),
            "activation": "swiglu_oai",
            "clamp": number("swiglu_limit"),
            "router": "topk_softmax",
        },
    },
    only={"swiglu_alpha": 1.702, "initial_context_length": 4096},
    names=in_layers(
        PREFIX,
        {
            "attn.sinks": bare("self_attn.sinks"),
            "moe.norm": "post_attention_layernorm",
            "moe.router": "mlp.router",
            "moe.gate": bare("mlp.experts.gate_up_proj", parts=EXPERTS_GATE_UP, groups="d_ff", stored="in,out"),
            "moe.up": bare("mlp.experts.gate_up_proj", parts=EXPERTS_GATE_UP, groups="d_ff", stored="in,out"),
            "moe.down": bare("mlp.experts.down_proj", stored="in,out"),
        },
    ),
)

PHIMOE = MIXTRAL.but(
    document={
        "norm": layernorm("rms_norm_eps"),
        "bias": sites(attn="attention_bias", head="lm_head_bias"),
        "moe": {
            "n_experts": size("num_local_experts"),
            "top_k": size("num_experts_per_tok"),
            "router": "sparsemixer",
            "jitter": number("router_jitter_noise"),
            "normalize": False,
        },
    },
    irrelevant=("input_jitter_noise", "router_jitter_noise"),
    names=in_layers(PREFIX, {"moe.router": ("block_sparse_moe.gate", "mlp.router")}),
)


def switched_modules(fields: Fields) -> int | None:
    """Multi-token-prediction modules, where use_mtp switches them on."""
    modules = fields.size("num_mtp_modules", least=0)
    layers = fields.size("mtp_transformer_layers", least=0)
    if not fields.flag("use_mtp"):
        return None
    if layers not in (None, 1):
        raise fields.unsupported("mtp_transformer_layers", f"modules of {layers} layers are not understood")
    return modules


MINIMAX_M2 = MIXTRAL.but(
    document={
        "rope": rope(fraction=None, channels="rotary_dim"),
        "attn": {"qk_norm": "full"},
        "moe": {
            "n_experts": size("num_local_experts", "num_experts"),
            "top_k": size("num_experts_per_tok"),
            "router": "sigmoid",
            "selection_bias": True,
        },
        "mtp": Hole(switched_modules),
    },
    only={
        "use_qk_norm": True,
        "qk_norm_type": "per_layer",
        "use_routing_bias": True,
        "shared_intermediate_size": 0,
        "scoring_func": "sigmoid",
    },
    irrelevant=("attn_type_list", "layernorm_full_attention_alpha", "layernorm_linear_attention_alpha",
                "layernorm_mlp_alpha", "partial_rotary_factor"),
    names=in_layers(PREFIX, {"moe.selection_bias": (bare("block_sparse_moe.e_score_correction_bias"),
                                                    bare("mlp.e_score_correction_bias"))}),
)  # fmt: skip

_granite_inputs = (
    Held("block_sparse_moe.input_linear", parts=EXPERTS_GATE_UP),
    bare("block_sparse_moe.experts.gate_up_proj", parts=EXPERTS_GATE_UP),
)

GRANITEMOE = GRANITE.but(
    document={
        "layers": "n*attn+moe",
        "bias": sites(attn="attention_bias"),
        "moe": {
            "n_experts": size("num_local_experts"),
            "top_k": size("num_experts_per_tok"),
            "router": "topk_softmax",
            "d_shared": optional("shared_intermediate_size", least=0),
        },
    },
    names=in_layers(
        PREFIX,
        {
            "moe.norm": "post_attention_layernorm",
            "moe.router": ("block_sparse_moe.router.layer", "block_sparse_moe.router"),
            "moe.gate": _granite_inputs,
            "moe.up": _granite_inputs,
            "moe.down": ("block_sparse_moe.output_linear", bare("block_sparse_moe.experts.down_proj")),
            **fused("shared_mlp.input_linear", (("moe.shared.gate", 1), ("moe.shared.up", 1))),
            "moe.shared.down": "shared_mlp.output_linear",
        },
    ),
)

_jetmoe_experts = {"n_experts": size("num_local_experts"), "top_k": size("num_experts_per_tok")}

JETMOE = LLAMA.but(
    document={
        "n_heads": size("num_key_value_heads"),  # of each expert: a token's heads are those of its top_k
        "n_kv_heads": None,
        "d_head": size("kv_channels", "head_dim"),
        "layers": "n*attn+moe",
        "mlp": activation("activation_function", gated=True),
        "bias": None,
        "attn": {"experts": _jetmoe_experts, "bias": ["out"]},
        "moe": {**_jetmoe_experts, "router": "topk_softmax", "out_bias": True},
    },
    irrelevant=("num_attention_heads",),
    names=in_layers(
        PREFIX,
        {
            "attn.router": "self_attention.experts.router.layer",
            "attn.q": "self_attention.experts.input_linear",
            "attn.out": Held("self_attention.experts", weight=".output_linear.weight", bias=".bias"),
            **fused("self_attention.kv_proj", (("attn.k", 1), ("attn.v", 1))),
            "moe.norm": "post_attention_layernorm",
            "moe.router": "mlp.router.layer",
            **fused("mlp.input_linear", EXPERTS_GATE_UP),
            "moe.down": "mlp.output_linear",
            "moe.out": Held("mlp", bias=".bias"),
        },
    ),
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


def one_of_all(*names: str, default: int | None = None) -> Hole:
    """A size that may be written as a list with the same entry for every layer."""

    def read(fields: Fields) -> int | None:
        value = fields.get(*names)
        if not isinstance(value, list):
            found = fields.size(*names, least=0)
            return default if found is None else found
        if not value or any(type(item) is not int or item < 0 or item != value[0] for item in value):
            raise fields.unsupported(names[0], "layers that differ are not understood")
        return int(value[0])

    return Hole(read)


def ernie_layers(fields: Fields, n: int) -> Sequence[str]:
    """Experts in every moe_layer_interval-th layer from a first to a last one."""
    begin = fields.size("moe_layer_start_index", least=0) or 0
    end = fields.size("moe_layer_end_index", least=-1)
    last = n - 1 if end in (None, -1) else end
    step = fields.size("moe_layer_interval") or 1
    return ["moe" if (i + 1) % step == 0 and begin <= i <= last else "mlp" for i in range(n)]


ERNIE_MOE = ERNIE.but(
    document={
        "layers": stack("attn", ernie_layers),
        "bias": when("use_bias", ["attn", "mlp", "head"]),
        "moe": {
            "n_experts": size("moe_num_experts", "num_experts"),
            "top_k": size("moe_k", "num_experts_per_tok"),
            "d_ff": size("moe_intermediate_size"),
            "n_shared": optional("moe_num_shared_experts", least=0),
            "selection_bias": True,
            "bias": when("use_bias", ["shared"]),
        },
    },
    irrelevant=(
        "moe_norm_min",
        "moe_capacity",
        "moe_gate",
        "moe_use_aux_free",
        "moe_multimodal_dispatch_use_allgather",
    ),
    names={
        **EXPERT_NAMES,
        **in_layers(
            PREFIX,
            {
                **shared_experts("mlp.shared_experts"),
                "moe.selection_bias": (
                    bare("mlp.moe_statics.e_score_correction_bias"),
                    bare("mlp.gate.moe_statics.e_score_correction_bias"),
                ),
            },
        ),
    },
)

HUNYUAN_MOE = HUNYUAN.but(
    document={
        "layers": "n*attn+moe",
        "moe": {
            "n_experts": one_of_all("num_experts", "num_local_experts"),
            "top_k": one_of_all("moe_topk", "num_experts_per_tok"),
            "d_ff": one_of_all("moe_intermediate_size"),
            "n_shared": one_of_all("num_shared_expert", default=1),
        },
    },
    only={
        "use_mixed_mlp_moe": True,
        "use_mla": False,
        "group_limited_greedy": False,
        "norm_topk_prob": True,
        "routed_scaling_factor": 1.0,
        "moe_layer_num_skipped": 0,
    },
    irrelevant=("moe_drop_tokens", "moe_random_routing_dropped_token"),
    names={**EXPERT_NAMES, **in_layers(PREFIX, {"moe.router": "mlp.gate.wg", **shared_experts("mlp.shared_mlp")})},
)

# --- Llama 4: chunks with rotary positions, and layers without either -------------------------------------------------


def llama4_mixers(fields: Fields, n: int) -> Sequence[str]:
    """Rotary positions by no_rope_layers (1 where a layer has them), chunks by layer_types or with the positions."""
    step = fields.needed("no_rope_layer_interval")
    rotates = fields.items("no_rope_layers") or [int((i + 1) % step != 0) for i in range(n)]
    chunk = fields.size("attention_chunk_size") is not None
    kinds = fields.items("layer_types") or [CHUNKED if flag and chunk else FULL for flag in rotates]
    if len(rotates) != n or len(kinds) != n:
        raise InputError(f"{fields.within}no_rope_layers and layer_types: expected {n} entries each")
    known = {(1, CHUNKED): "chunk", (1, FULL): "rotary", (0, FULL): "nope"}
    for i, kind in enumerate(zip(rotates, kinds, strict=True)):
        if kind not in known:
            raise fields.unsupported(f"layer_types[{i}]", f"{shown(kind[1])} is not understood there")
    return [known[kind] for kind in zip(rotates, kinds, strict=True)]


def llama4_feed_forward(fields: Fields, n: int) -> Sequence[str]:
    step = fields.size("interleave_moe_layer_step", least=0) or 0
    given = fields.items("moe_layers")
    sparse = given if given is not None else list(range(step - 1, n, step)) if step else []
    return ["moe" if i in sparse else "mlp" for i in range(n)]


def llama4_temperature(fields: Fields) -> dict[str, Any] | None:
    floor, scale = fields.number("floor_scale"), fields.number("attn_scale")
    return {"floor": floor, "scale": scale} if fields.get("attn_temperature_tuning") else None


_chunked = {
    "like": "attn",
    "qk_norm": when("use_qk_norm", {"over": "head", "kind": "l2", "weight": False, "after_rope": True}),
}

LLAMA4 = LLAMA.but(
    document={
        "d_ff": size("intermediate_size_mlp"),
        "layers": stack(llama4_mixers, llama4_feed_forward),
        "rope": rope(pairing="adjacent"),
        "bias": sites(attn="attention_bias"),
        "chunk": {**_chunked, "chunk": size("attention_chunk_size")},
        "rotary": _chunked,
        "nope": {"like": "attn", "position": "none", "temperature": Hole(llama4_temperature)},
        "attn": {},
        "moe": {
            "n_experts": size("num_local_experts"),
            "top_k": size("num_experts_per_tok"),
            "d_ff": size("intermediate_size"),
            "n_shared": 1,
            "router": "topk_sigmoid",
            "normalize": False,
            "weight_at": "input",
        },
    },
    only={"for_llm_compressor": False},
    names=in_layers(
        PREFIX,
        {
            "mlp.gate": "feed_forward.gate_proj",
            "mlp.up": "feed_forward.up_proj",
            "mlp.down": "feed_forward.down_proj",
            "moe.norm": "post_attention_layernorm",
            "moe.router": "feed_forward.router",
            "moe.gate": bare("feed_forward.experts.gate_up_proj", parts=EXPERTS_GATE_UP, stored="in,out"),
            "moe.up": bare("feed_forward.experts.gate_up_proj", parts=EXPERTS_GATE_UP, stored="in,out"),
            "moe.down": bare("feed_forward.experts.down_proj", stored="in,out"),
            **shared_experts("feed_forward.shared_expert"),
        },
    ),
)

READERS = {
    "llama4_text": LLAMA4,
    "mixtral": MIXTRAL,
    "gpt_oss": GPT_OSS,
    "phimoe": PHIMOE,
    "minimax_m2": MINIMAX_M2,
    "granitemoe": GRANITEMOE,
    "granitemoeshared": GRANITEMOE,
    "jetmoe": JETMOE,
    "dbrx": DBRX,
    "ernie4_5_moe": ERNIE_MOE,
    "hunyuan_v1_moe": HUNYUAN_MOE,
}
