"""Inkling: positions by a learned relative bias, short convolutions behind keys, values and every sublayer. Inkling 2:
residuals by attention over blocks of layers, heads of a limited length, taps of convolutions that each token makes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gptcalc.sources.huggingface.experts import DENSE_OR_SPARSE, EXPERT_NAMES
from gptcalc.sources.huggingface.fields import Fields
from gptcalc.sources.huggingface.llama import LLAMA, PREFIX
from gptcalc.sources.huggingface.pattern import Units, each, every, first, listed, stack
from gptcalc.sources.huggingface.reader import Hole, Reader, choice, number, optional, rmsnorm, size
from gptcalc.sources.huggingface.tensors import EXPERTS_GATE_UP, Entry, Held, Names, bare, in_layers

_kernel = size("conv_kernel_size", "sconv_kernel_size")


def whole_past(fields: Fields) -> str:
    """The section of layers without a window, of which queries may grow beyond a length."""
    return "attn" if fields.get("log_scaling_n_floor") is None else "growing"


def mixers(fields: Fields, n: int) -> Sequence[str]:
    """Windows where layer_types or local_layer_ids say so, else in all layers but every sixth."""
    whole = whole_past(fields)
    words = {"hybrid": whole, "hybrid_sliding": "local"}
    windowed = fields.items("local_layer_ids")

    def numbered(_: Fields, n: int) -> Sequence[str]:
        chosen = [i for i in range(n) if (i + 1) % 6] if windowed is None else windowed
        return ["local" if i in chosen else whole for i in range(n)]

    return listed("layer_types", words, numbered)(fields, n)


def growth(fields: Fields) -> dict[str, Any] | None:
    floor, scale = fields.number("log_scaling_n_floor"), fields.number("log_scaling_alpha")
    return None if floor is None else {"floor": floor, "scale": scale, "form": "beyond"}


def inverse(name: str) -> Hole:
    def read(fields: Fields) -> float | None:
        value = fields.number(name)
        if value is not None and value <= 0:
            fields.wrong((name,), "a positive number", value)
        return None if value is None else 1 / value

    return Hole(read)


def dense_width(fields: Fields) -> int:
    """Where dense_intermediate_size is given, intermediate_size is that of an expert."""
    return fields.size("dense_intermediate_size") or fields.needed("intermediate_size")


def expert_width(fields: Fields) -> int:
    given, own = fields.size("intermediate_size"), fields.size("moe_intermediate_size")
    if fields.present("dense_intermediate_size") and given is not None:
        return given
    return own or fields.needed("moe_intermediate_size")


def no_modules(fields: Fields) -> None:
    if fields.size("num_mtp_layers", least=0):
        fields.notes.append(f"{fields.within}num_mtp_layers: multi-token prediction of this type is left out")


#: a model of further tokens that the class doesn't build
MODULES = Hole(no_modules)

INKLING = LLAMA.but(
    document={
        "d_ff": Hole(dense_width),
        "layers": stack(mixers, listed("mlp_layer_types", DENSE_OR_SPARSE, first("dense_mlp_idx", "mlp", "moe"))),
        "tying": None,
        "rope": None,
        "position": "none",
        "bias": None,
        "logit_scale": inverse("logits_mup_width_multiplier"),
        "embedding": {"norm": True},
        "attn": {
            "qk_norm": "head",
            "scale": inverse("head_dim"),
            "relative": {"d": size("d_rel"), "extent": size("rel_extent")},
            "kv_conv": _kernel,
            "out_conv": _kernel,
        },
        "growing": {"like": "attn", "temperature": Hole(growth)},
        "local": {
            "like": "attn",
            "n_heads": size("swa_num_attention_heads"),
            "n_kv_heads": size("swa_num_key_value_heads"),
            "d_head": size("swa_head_dim"),
            "scale": inverse("swa_head_dim"),
            "window": size("sliding_window_size", "sliding_window"),
            "relative": {"d": size("d_rel"), "extent": size("sliding_window_size", "sliding_window")},
        },
        "mlp": {"activation": LLAMA.document["mlp"], "out_scale": True, "out_conv": _kernel},
        "moe": {
            "n_experts": size("n_routed_experts", "num_local_experts"),
            "top_k": size("num_experts_per_tok"),
            "d_ff": Hole(expert_width),
            "activation": LLAMA.document["mlp"],
            "n_shared": optional("n_shared_experts"),
            "router": "sigmoid",
            "selection_bias": True,
            "route_scale": number("route_scale"),
            "shared_sink": True,
            "learned_route_scale": True,
            "out_conv": _kernel,
        },
        "mtp": MODULES,
    },
    defaults={"dense_mlp_idx": 0},
    only={"shared_expert_sink": True, "tie_word_embeddings": False},
    # unpadded_vocab_size: the class makes the logits of all rows and then takes the first of them
    irrelevant=(
        "local_layer_ids",
        "dense_mlp_idx",
        "unpadded_vocab_size",
        "rms_norm_eps_moe_gate",
        "number_of_conv_states",
        "log_scaling_alpha",
        "chain_hidden_post_norm",
        "mtp_hidden_states_first",
        "mtp_local_layer_ids",
    ),
    names={
        "embedding.norm": "model.embed_tokens.embed_norm",
        **EXPERT_NAMES,
        **in_layers(
            PREFIX,
            {
                "attn.relative.states": "self_attn.r_proj",
                "attn.relative.profiles": bare("self_attn.rel_logits_proj.proj", stored="in,out"),
                "attn.k_conv": "self_attn.k_sconv.conv1d",
                "attn.v_conv": "self_attn.v_sconv.conv1d",
                "attn.conv": "attn_sconv.conv1d",
                "mlp.conv": "mlp_sconv.conv1d",
                "mlp.out_scale": bare("mlp.global_scale"),
                "moe.conv": "mlp_sconv.conv1d",
                "moe.route_scale": bare("mlp.gate.global_scale"),
                "moe.selection_bias": bare("mlp.gate.e_score_correction_bias"),
                "moe.shared.gate": bare("mlp.shared_experts.gate_proj"),
                "moe.shared.up": bare("mlp.shared_experts.up_proj"),
                "moe.shared.down": Held("mlp.shared_experts.down_proj", stored="each out,in", weight=""),
            },
        ),
    },
)


def _relative(extent: Hole) -> dict[str, Any]:
    return {"d": size("d_rel"), "extent": extent, "limit": number("rel_l2_clip_threshold")}


_window = size("sliding_window_size", "sliding_window")

#: as published checkpoints store them
RELEASED = "model.llm.layers.{l}."


def _two(released: Names, ours: Names) -> Names:
    """As checkpoints have them, or as the class in transformers calls them."""

    def several(entry: Entry) -> tuple[str | Held, ...]:
        return (entry,) if isinstance(entry, (str, Held)) else tuple(entry)

    return {stem: (*several(entry), *several(ours[stem])) for stem, entry in released.items()}


_both_experts = bare("mlp.experts.w13_weight", parts=EXPERTS_GATE_UP, groups="d_ff")

INKLING2_NAMES: Names = {
    "embedding.token": ("model.llm.embed", "model.embed_tokens"),
    "embedding.norm": ("model.llm.embed_norm", "model.embed_tokens.embed_norm"),
    "sums.query": (bare("model.llm.attn_res.output_query"), bare("model.final_input.query")),
    "final_norm": ("model.llm.norm", "model.norm"),
    "head": ("model.llm.unembed", "lm_head"),
    "attn.sums.query": (
        bare("model.llm.attn_res.attn_queries.{before}"),
        bare("model.layers.{l}.attention_input.query"),
    ),
    "moe.sums.query": (bare("model.llm.attn_res.mlp_queries.{l}"), bare("model.layers.{l}.mlp_input.query")),
    **_two(
        in_layers(
            RELEASED,
            {
                "attn.norm": ("attn_norm", "q_input_norm"),
                "attn.k_input_norm": "k_input_norm",
                "attn.v_input_norm": "v_input_norm",
                "attn.q": "attn.wq_du",
                "attn.k": "attn.wk_dv",
                "attn.v": "attn.wv_dv",
                "attn.out": "attn.wo_ud",
                "attn.gate": "attn.gate_attn",
                "attn.token_sinks": "attn.attn_sink_proj",
                "attn.q_factor": bare("attn.q_l2_clip.scale"),
                "attn.k_conv": "attn.k_sconv",
                "attn.k_conv.own": bare("attn.k_sconv.static_w"),
                "attn.v_conv": "attn.v_sconv",
                "attn.v_conv.own": bare("attn.v_sconv.static_w"),
                "attn.k_conv.taps": bare("attn.k_sconv.weight_proj"),
                "attn.v_conv.taps": bare("attn.v_sconv.weight_proj"),
                "attn.relative.states": "attn.wr_du",
                "attn.relative.factor": bare("attn.rel_l2_clip.scale"),
                "attn.relative.profiles": bare("attn.rel_logits_proj.proj", stored="in,out"),
                "attn.conv": "attn_sconv",
                "moe.norm": "mlp_norm",
                "moe.router": "mlp.gate",
                "moe.selection_bias": bare("mlp.gate.bias"),
                "moe.gate": _both_experts,
                "moe.up": _both_experts,
                "moe.down": bare("mlp.experts.w2_weight"),
                "moe.conv": "mlp_sconv",
            },
        ),
        in_layers(
            PREFIX,
            {
                "attn.norm": ("input_layernorm", "q_input_layernorm"),
                "attn.k_input_norm": "k_input_layernorm",
                "attn.v_input_norm": "v_input_layernorm",
                "attn.q": "self_attn.q_proj.linear",
                "attn.k": "self_attn.k_proj.linear",
                "attn.v": "self_attn.v_proj.linear",
                "attn.out": "self_attn.o_proj.linear",
                "attn.gate": "self_attn.o_proj.gate_proj",
                "attn.token_sinks": "self_attn.sink_proj",
                "attn.q_factor": bare("self_attn.q_proj.norm.scale"),
                "attn.k_conv": "self_attn.k_proj.sconv.conv1d",
                "attn.k_conv.own": bare("self_attn.k_proj.sconv.static_weight"),
                "attn.v_conv": "self_attn.v_proj.sconv.conv1d",
                "attn.v_conv.own": bare("self_attn.v_proj.sconv.static_weight"),
                "attn.k_conv.taps": "self_attn.k_proj.sconv.weight_proj",
                "attn.v_conv.taps": "self_attn.v_proj.sconv.weight_proj",
                "attn.relative.states": "self_attn.relative_position_bias.linear",
                "attn.relative.factor": bare("self_attn.relative_position_bias.norm.scale"),
                "attn.relative.profiles": bare("self_attn.relative_position_bias.proj", stored="in,out"),
                "attn.conv": "post_attention_convolution.conv1d",
                "moe.norm": "post_attention_layernorm",
                "moe.router": "mlp.gate",
                "moe.selection_bias": bare("mlp.gate.e_score_correction_bias"),
                "moe.gate": bare("mlp.experts.gate_up_proj", parts=EXPERTS_GATE_UP),
                "moe.up": bare("mlp.experts.gate_up_proj", parts=EXPERTS_GATE_UP),
                "moe.down": bare("mlp.experts.down_proj"),
                "moe.conv": "post_mlp_convolution.conv1d",
            },
        ),
    ),
}

INKLING2_MIXERS = listed("layer_types", {"hybrid": "whole", "hybrid_sliding": "local"}, every(6, "whole", "local"))

INKLING2 = Reader(
    document={
        "d": size("hidden_size"),
        "v": size("vocab_size"),
        "c": size("max_position_embeddings"),
        "n_heads": size("num_attention_heads"),
        "n_layers": size("num_hidden_layers"),
        "n_kv_heads": optional("num_key_value_heads"),
        "d_head": optional("head_dim"),
        "layers": stack(INKLING2_MIXERS, "moe"),
        "position": "none",
        "norm": rmsnorm(),
        "softcap": number("final_logit_softcapping"),
        "embedding": {"norm": True},
        "head": {"rows": size("unpadded_vocab_size")},
        "attention_residuals": {
            "every": size("n_layers_per_attn_res_block"),
            "norm": {"kind": "rmsnorm", "weight": False, "eps": 1e-6},
        },
        "attn": {
            "qk_limit": number("qk_l2_clip_threshold"),
            "v_norm": {"weight": False, "eps": number("rms_norm_eps")},
            "token_sinks": True,
            "gate": "full",
            "kv_conv": _kernel,
            "kv_conv_scaled": True,
            "out_conv": _kernel,
            "out_conv_scaled": True,
        },
        "whole": {
            "like": "attn",
            "own_inputs": True,
            "kv_conv_token_taps": True,
            "relative": _relative(size("rel_extent")),
            "temperature": Hole(growth),
        },
        "local": {
            "like": "attn",
            "n_heads": size("swa_num_attention_heads"),
            "n_kv_heads": size("swa_num_key_value_heads"),
            "d_head": size("swa_head_dim"),
            "window": _window,
            "relative": _relative(_window),
        },
        "moe": {
            "n_experts": size("n_routed_experts", "num_local_experts"),
            "top_k": size("num_experts_per_tok"),
            "d_ff": size("moe_intermediate_size"),
            "activation": "swiglu",
            "router": choice("scoring_func", sigmoid="sigmoid"),
            "selection_bias": True,
            "route_scale": number("route_scale", "routed_scaling_factor"),
            "softcaps": {"gate": number("mlp_gate_softcap"), "up": number("mlp_up_softcap")},
            "out_conv": _kernel,
            "out_conv_scaled": True,
        },
        "mtp": MODULES,
    },
    names=INKLING2_NAMES,
    only={"tie_word_embeddings": False},
    irrelevant=frozenset({"log_scaling_alpha", "number_of_conv_states", "rope_theta", "rope_parameters"}),
)


def _of_loop(fields: Fields, key: str, name: str) -> int:
    """A number of the loop: by its key in loop_config, or by a field of its own."""
    inner = fields.get("loop_config")
    if inner is not None and not isinstance(inner, Mapping):
        fields.wrong(("loop_config",), "an object", inner)
    given = None if inner is None else inner.get(key)
    if given is None:
        return fields.needed(name)
    fields.get(name)
    if type(given) is not int or given < 1:
        fields.wrong(("loop_config",), f"a positive integer as {key}", given)
    return int(given)


def _loop_bounds(fields: Fields) -> tuple[int, int]:
    """The first looped layer, and the one behind the last."""
    start = _of_loop(fields, "core_start", "loop_layer_index_start")
    stop = _of_loop(fields, "core_end", "loop_layer_index_end")
    block, n = fields.needed("n_layers_per_attn_res_block"), fields.needed("num_hidden_layers")
    for name, value in (("loop_layer_index_start", start), ("loop_layer_index_end", stop)):
        if value % block or value > n:
            fields.wrong((name,), f"a multiple of n_layers_per_attn_res_block = {block}, up to the {n} layers", value)
    if start >= stop:
        fields.wrong(("loop_layer_index_end",), f"more than loop_layer_index_start = {start}", stop)
    return start, stop


def _loop(fields: Fields) -> dict[str, Any]:
    start, stop = _loop_bounds(fields)
    passes = _of_loop(fields, "num_passes", "loop_num_passes")
    if passes == 1:
        raise fields.unsupported("loop_num_passes", "with one pass the weights of message gates are there for nothing")
    return {"first": start, "layers": stop - start, "passes": passes, "entry": "anew"}


def _in_loop(units: Units) -> Units:
    """Sections of their own for the looped layers."""

    def read(fields: Fields, n: int) -> Sequence[str]:
        start, stop = _loop_bounds(fields)
        names = each(units, fields, n)
        return [f"{name}_loop" if start <= number < stop else name for number, name in enumerate(names)]

    return read


_messages = {
    "rank": Hole(lambda fields: _of_loop(fields, "gate_rank", "loop_gate_rank")),
    "norm": {"weight": False, "eps": number("rms_norm_eps")},
}

_QUERIES = ("attn.messages.q.query", "attn.messages.k.query", "attn.messages.v.query", "moe.messages.query")


def _query(which: int) -> Entry:
    """Of each looped layer the queries for messages: in two tensors, in the class in one."""
    pair = (0, 3) if which in (0, 3) else (1, 2)
    of_keys = "" if which in (0, 3) else "kv_"
    return (
        bare(f"model.llm.middle_cycle_cross_pass_{of_keys}queries", looped=[_QUERIES[n] for n in pair]),
        bare("model.message_input.query", looped=_QUERIES),
    )


def _gates(part: str, word: str) -> dict[str, Entry]:
    controller = {"q": "attn"}.get(word, word)
    stems = {"down": "down_proj", "forget": "forget_gate_proj", "gain": "message_gate_proj"}
    return {
        f"{part}.{stem}": (
            f"model.layers.{{l}}.{word}_message_gate.{name}",
            bare(f"{RELEASED}controllers.{controller}.{stem}_weight"),
        )
        for stem, name in stems.items()
    }


INKLING2_LOOP = INKLING2.but(
    document={
        "layers": stack(_in_loop(INKLING2_MIXERS), _in_loop("moe")),
        "loop": Hole(_loop),
        "whole_loop": {"like": "whole", "messages": _messages},
        "local_loop": {"like": "local", "messages": _messages},
        "moe_loop": {"like": "moe", "messages": _messages},
    },
    names={
        **{stem: _query(number) for number, stem in enumerate(_QUERIES)},
        **_gates("attn.messages.q", "q"),
        **_gates("attn.messages.k", "k"),
        **_gates("attn.messages.v", "v"),
        **_gates("moe.messages", "mlp"),
    },
)

READERS: dict[str, Reader] = {
    "inkling2_loop_text": INKLING2_LOOP,
    "inkling2_text": INKLING2,
    "inkling_text": INKLING,
}
