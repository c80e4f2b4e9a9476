"""What llama.cpp calls a model's weights (gguf-py/gguf/constants.py): one vocabulary for all its architectures."""

from __future__ import annotations

from gptcalc.sources.huggingface.tensors import (
    EXPERTS_GATE_UP,
    GATE_UP,
    QKV,
    Entry,
    Held,
    Names,
    Parts,
    bare,
    in_layers,
    likeliest,
)

PREFIX = "blk.{l}."


def together(module: str, parts: Parts, groups: str | int = 1) -> dict[str, Held]:
    """The parts of one matrix, each of which may also stand alone."""
    return {stem: Held(module, parts=parts, groups=groups) for stem, _ in parts}


_latent = together("attn_kv_a_mqa", (("attn.kv_a", "kv_rank"), ("attn.k_rope", "d_rope")))
_kv_b = together("attn_kv_b", (("attn.k_b", "d_nope"), ("attn.v_b", "d_v")), groups="n_heads")

_qkv = together("attn_qkv", QKV)
_gate_up = together("ffn_up", GATE_UP)
_experts = together("ffn_gate_up_exps", EXPERTS_GATE_UP)

#: queries and their gates in one matrix (Qwen3-Next)
QUERIES = together("attn_q", (("attn.q", 1), ("attn.gate", 1)), groups="n_heads")

_ba = together("ssm_ba", (("linear.beta", 1), ("linear.decay", 1)), groups="n_k_heads")
_keys: Parts = (("linear.q", "k_width"), ("linear.k", "k_width"), ("linear.v", "v_width"))
_delta = together("attn_qkv", _keys)
_delta_and_gate = together("ssm_in", (*_keys, ("linear.gate", "v_width")), groups="n_k_heads")
_convolved = together("ssm_conv1d", tuple((f"{stem}_conv", width) for stem, width in _keys))

RECURRENT: dict[str, Entry] = {
    "mamba.norm": "attn_norm",
    **together("ssm_in", (("mamba.x", 1), ("mamba.z", 1))),
    "mamba.inner_conv": "ssm_conv1d",
    **together("ssm_x", (("mamba.dt_a", "dt_rank"), ("mamba.B", "d_state"), ("mamba.C", "d_state"))),
    "mamba.dt_b": "ssm_dt",
    "mamba.A_log": bare("ssm_a"),
    "mamba.D": bare("ssm_d"),
    "mamba.dt_a_norm": "ssm_dt_norm",
    "mamba.B_norm": "ssm_b_norm",
    "mamba.C_norm": "ssm_c_norm",
    "mamba.out": "ssm_out",
    "mamba2.norm": "attn_norm",
    **together("ssm_in", (("mamba2.z", "d_inner"), ("mamba2.x", "d_inner"), ("mamba2.B", "d_shared"),
                       ("mamba2.C", "d_shared"), ("mamba2.dt", "n_heads"))),
    **together("ssm_conv1d", (("mamba2.x_conv", "d_inner"), ("mamba2.B_conv", "d_shared"),
                              ("mamba2.C_conv", "d_shared"))),
    "mamba2.A_log": bare("ssm_a"),
    "mamba2.D": bare("ssm_d"),
    "mamba2.dt_bias": bare("ssm_dt.bias"),
    "mamba2.out_norm": "ssm_norm",
    "mamba2.out": "ssm_out",
    "linear.norm": "attn_norm",
    **{f"linear.{x}": ("attn_" + x, _delta[f"linear.{x}"], _delta_and_gate[f"linear.{x}"]) for x in "qkv"},
    **{f"linear.{x}_conv": (f"ssm_conv1d_{x}", _convolved[f"linear.{x}_conv"]) for x in "qkv"},
    "linear.gate": ("attn_gate", "ssm_g", _delta_and_gate["linear.gate"]),
    "linear.beta": ("ssm_beta", _ba["linear.beta"]),
    "linear.decay": ("ssm_alpha", _ba["linear.decay"]),
    "linear.decay_a": "ssm_f_a",
    "linear.decay_b": "ssm_f_b",
    "linear.gate_a": "ssm_g_a",
    "linear.gate_b": "ssm_g_b",
    "linear.A_log": bare("ssm_a"),
    "linear.dt_bias": bare("ssm_dt.bias"),
    "linear.out_norm": "ssm_norm",
    "linear.out": ("ssm_out", "attn_output"),
    "conv.norm": "attn_norm",
    **together("shortconv.in_proj", (("conv.B", 1), ("conv.C", 1), ("conv.x", 1))),
    "conv.inner_conv": "shortconv.conv",
    "conv.out": "shortconv.out_proj",
}  # fmt: skip

_mixed = together(
    "time_mix_lerp_fused",
    tuple((f"deltamix.{part}_mix", 1) for part in ("receptance", "decay", "k", "v", "rate", "gate")),
)

#: RWKV's, whose biases of bottlenecks have names of their own
MIXING: dict[str, Entry] = {
    **{f"{kind}.norm": "attn_norm" for kind in ("matrixmix", "deltamix")},
    **{
        f"{kind}.{key}": f"time_mix_{name}"
        for kind in ("matrixmix", "deltamix")
        for key, name in {
            "receptance": "receptance",
            "k": "key",
            "v": "value",
            "out": "output",
            "out_norm": "ln",
        }.items()
    },
    "matrixmix.gate": "time_mix_gate",
    "matrixmix.bonus": "time_mix_first",
    "matrixmix.decay_a": "time_mix_decay_w1",
    "matrixmix.decay_b": Held("time_mix_decay", weight="_w2.weight", bias=".weight"),
    "matrixmix.shift_mix": "time_mix_lerp_x",
    "matrixmix.shift_a": "time_mix_w1",
    "matrixmix.shift_b": Held("time_mix_", weight="w2.weight", bias="lerp_fused.weight"),
    "deltamix.bonus": "time_mix_r_k",
    "deltamix.key_direction": "time_mix_k_k",
    "deltamix.key_rate": "time_mix_k_a",
    **{
        f"deltamix.{key}_{half}": Held(f"time_mix_{name}", weight=f"{number}.weight", bias="0.weight")
        for key, name in {"decay": "w", "rate": "a", "gate": "g", "value": "v"}.items()
        for half, number in (("a", 1), ("b", 2))
    },
    **_mixed,
    "channelmix.norm": "attn_norm_2",
    "channelmix.up": "channel_mix_key",
    "channelmix.down": "channel_mix_value",
    "channelmix.receptance": "channel_mix_receptance",
    "channelmix.up_mix": "channel_mix_lerp_k",
    "channelmix.receptance_mix": "channel_mix_lerp_r",
}

NAMES: Names = {
    "embedding.token": "token_embd",
    "embedding.position": "position_embd",
    "embedding.norm": "token_embd_norm",
    "embedding.types": "token_types",
    "final_norm": ("output_norm", "token_embd_norm"),
    "head": "output",
    "pooler.dense": "cls",
    "pooler.dense.norm": "cls.norm",
    "pooler.labels": "cls.output",
    "sums.query": "output_res_score",
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
            "attn.q": ("attn_q", _qkv["attn.q"]),
            **RECURRENT,
            **MIXING,
            "attn.k": ("attn_k", _qkv["attn.k"]),
            "attn.v": ("attn_v", _qkv["attn.v"]),
            "attn.out": "attn_output",
            "attn.q_norm": "attn_q_norm",
            "attn.k_norm": "attn_k_norm",
            "attn.out_norm": "attn_sub_norm",
            "attn.post_norm": ("post_attention_norm", "attn_output_norm"),
            "attn.sinks": "attn_sinks",
            "attn.gate": ("attn_gate", QUERIES["attn.gate"]),
            "attn.q_a": "attn_q_a",
            "attn.q_a_norm": "attn_q_a_norm",
            "attn.q_b": "attn_q_b",
            **_latent,
            "attn.kv_a_norm": "attn_kv_a_norm",
            "attn.k_b": ("attn_k_b", _kv_b["attn.k_b"]),
            "attn.v_b": ("attn_v_b", _kv_b["attn.v_b"]),
            "attn.index.q": "indexer.attn_q_b",
            "attn.index.k": "indexer.attn_k",
            "attn.index.k_norm": "indexer.k_norm",
            "attn.index.weights": "indexer.proj",
            "attn.laurel.left": "laurel_l",
            "attn.laurel.right": "laurel_r",
            "attn.laurel.norm": "laurel_post_norm",
            "mlp.norm": ("ffn_norm", bare("ffn_norm"), "attn_norm_2", "post_attention_norm", "attn_norm"),
            "mlp.post_norm": ("post_ffw_norm_1", "post_ffw_norm", "layer_output_norm"),
            "mlp.gate": ("ffn_gate", _gate_up["mlp.gate"]),
            "mlp.up": ("ffn_up", _gate_up["mlp.up"]),
            "mlp.down": "ffn_down",
            "mlp.mid_norm": "ffn_sub_norm",
            "moe.norm": ("pre_ffw_norm_2", "ffn_norm", "post_attention_norm", "attn_norm"),
            "moe.post_norm": ("post_ffw_norm_2", "post_ffw_norm", "layer_output_norm"),
            "moe.router": "ffn_gate_inp",
            "moe.router_scale": bare("ffn_gate_inp.scale"),
            "moe.expert_scale": bare("ffn_down_exps.scale"),
            "moe.selection_bias": bare("exp_probs_b.bias"),
            "moe.gate": ("ffn_gate_exps", "ffn_gate.{e}", _experts["moe.gate"]),
            "moe.up": ("ffn_up_exps", "ffn_up.{e}", _experts["moe.up"]),
            "moe.down": ("ffn_down_exps", "ffn_down.{e}"),
            "moe.latent_down": ("ffn_latent_down", "ffn_routed_down"),
            "moe.latent_up": ("ffn_latent_up", "ffn_routed_up"),
            "moe.latent_out_norm": "ffn_routed_norm",
            **{f"{kind}.sums.query": "attn_res_score" for kind in ("attn", "linear")},
            **{f"{kind}.sums.query": "ffn_res_score" for kind in ("mlp", "moe")},
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


def _of_stack(side: str) -> dict[str, str]:
    """T5's names of a stack's weights by ours."""
    layer = f"{side}.{PREFIX}"
    cross = {f"cross.{ours}": f"{layer}cross_attn_{name}" for ours, name in ATTENTION.items()}
    return {
        **{f"attn.{ours}": f"{layer}attn_{name}" for ours, name in ATTENTION.items()},
        **(cross if side == "dec" else {}),
        "attn.relative.buckets": f"{layer}attn_rel_b",
        "relative.buckets": f"{side}.blk.0.attn_rel_b",
        **{f"mlp.{part}": f"{layer}ffn_{part}" for part in ("norm", "gate", "up", "down")},
        "final_norm": f"{side}.output_norm",
    }


def _either(known: Entry | None, other: str) -> Entry:
    """Places of which a file has one."""
    if known is None:
        return other
    return (*([known] if isinstance(known, (str, Held)) else known), other)


ATTENTION = {"norm": "norm", "q": "q", "k": "k", "v": "v", "out": "o"}

NAMES = {
    **NAMES,
    **{
        stem: _either(_either(NAMES.get(stem), place), _of_stack("enc").get(stem, place))
        for stem, place in _of_stack("dec").items()
    },
    **{f"encoder.{stem}": place for stem, place in _of_stack("enc").items()},
}


def tensor_name(key: str, fused: bool, layer: int) -> str:
    """What llama.cpp calls the weight of a key; what it has no name for by ours."""
    stem, _, kind = key.rpartition(".")
    stem, ending = (stem, f".{kind}") if kind in ("weight", "bias") else (key, ".weight")
    entry = NAMES.get(stem)
    if entry is None:
        return f"{PREFIX}{stem}{ending}".format(l=layer)
    places = [entry] if isinstance(entry, (str, Held)) else entry
    whole = [place for place in places if isinstance(place, Held) and place.parts]
    held = whole[0] if fused and whole else likeliest(entry)
    ending = held.bias if ending == ".bias" else held.weight
    return f"{held.module}{ending}".format(l=layer)
