"""Kimi K3 as llama.cpp's converter writes it (conversion/kimi_k3.py, src/models/kimi-k3.cpp)."""

from __future__ import annotations

import json
from pathlib import Path

from safetensors import safe_open

from gptcalc.analysis.flops import flops
from gptcalc.analysis.memory.cache import kv
from gptcalc.analysis.params import params
from gptcalc.analysis.stored import held
from gptcalc.sources import load
from tests.golden_models import FOLDER
from tests.sources.ggufs import written

#: what conversion/kimi_k3.py of llama.cpp calls a layer's tensors, which gguf 0.19 does not know yet
OF_KIMI = {
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attention_res_proj": "attn_res_score",
    "mlp_res_proj": "ffn_res_score", "self_attn.o_proj": "attn_output", "self_attn.q_a_proj": "attn_q_a",
    "self_attn.q_a_layernorm": "attn_q_a_norm", "self_attn.q_b_proj": "attn_q_b",
    "self_attn.kv_a_proj_with_mqa": "attn_kv_a_mqa", "self_attn.kv_a_layernorm": "attn_kv_a_norm",
    "self_attn.kv_b_proj": "attn_kv_b", "self_attn.f_a_proj": "ssm_f_a", "self_attn.f_b_proj": "ssm_f_b",
    "self_attn.b_proj": "ssm_beta", "self_attn.o_norm": "ssm_norm", "block_sparse_moe.gate": "ffn_gate_inp",
    **{f"self_attn.{x}_proj": f"attn_{x}" for x in "qkv"},
    **{f"self_attn.{x}_conv1d": f"ssm_conv1d_{x}" for x in "qkv"},
    **{f"mlp.{x}_proj": f"ffn_{x}" for x in ("gate", "up", "down")},
    **{f"block_sparse_moe.shared_experts.{x}_proj": f"ffn_{x}_shexp" for x in ("gate", "up", "down")},
    **{f"block_sparse_moe.routed_expert_{x}_proj": f"ffn_routed_{x}" for x in ("up", "down")},
    "block_sparse_moe.routed_expert_norm": "ffn_routed_norm",
}  # fmt: skip
#: tensors without `weight` behind their names there
BARE_OF_KIMI = {
    "self_attn.A_log": "ssm_a", "self_attn.dt_bias": "ssm_dt.bias",
    "block_sparse_moe.gate.e_score_correction_bias": "exp_probs_b.bias",
}  # fmt: skip


def of_kimi(shapes: dict[str, tuple[int, ...]], recurrent: set[int]) -> dict[str, tuple[int, ...]]:
    """Tensors as the converter writes them: a norm of sums times the query behind it is one vector, a gate is named by
    the kind of its layer, experts are one tensor."""
    outside = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
               "model.output_attn_res_proj": "output_res_score"}  # fmt: skip
    found: dict[str, tuple[int, ...]] = {}
    for name, shape in shapes.items():
        stem = name.removesuffix(".weight")
        if stem.endswith("_res_norm"):
            continue
        shape = (shape[1],) if stem.endswith("_res_proj") else shape
        if stem in outside:
            found[f"{outside[stem]}.weight"] = shape
            continue
        layer, local = stem.removeprefix("model.layers.").split(".", 1)
        if local in BARE_OF_KIMI:
            found[f"blk.{layer}.{BARE_OF_KIMI[local]}"] = shape
        elif local == "self_attn.g_proj":
            found[f"blk.{layer}.{'ssm_g' if int(layer) in recurrent else 'attn_gate'}.weight"] = shape
        elif ".experts." in local:
            word = {"w1": "gate", "w2": "down", "w3": "up"}[local.rpartition(".")[2]]
            key = f"blk.{layer}.ffn_{word}_exps.weight"
            found[key] = (found[key][0] + 1 if key in found else 1, *shape)
        else:
            found[f"blk.{layer}.{OF_KIMI[local]}.weight"] = shape
    return found


def test_a_converted_kimi_k3(tmp_path: Path) -> None:
    """All that the config's model has, less the norms that are one with their queries; the same cache and prefill."""
    folder = FOLDER / "kimi_k3"
    config = json.loads((folder / "config.json").read_text())
    own = config["linear_attn_config"]
    with safe_open(folder / "model.safetensors", "np") as file:
        shapes = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    metadata = {
        "block_count": 5, "context_length": 64, "embedding_length": 32, "feed_forward_length": 40,
        "attention.head_count": 3, "attention.head_count_kv": [0, 0, 1, 0, 1],
        "attention.layer_norm_rms_epsilon": 1e-5, "attention.q_lora_rank": 14, "attention.kv_lora_rank": 10,
        "attention.key_length": 14, "attention.value_length": 10, "attention.key_length_mla": 12,
        "attention.value_length_mla": 6, "rope.dimension_count": 4, "ssm.conv_kernel": 3, "kda.head_dim": 8,
        "kda.gate_lower_bound": own["gate_lower_bound"], "expert_count": 6, "expert_used_count": 2,
        "expert_shared_count": 2, "expert_feed_forward_length": 12, "leading_dense_block_count": 1,
        "expert_weights_scale": 1.5, "expert_weights_norm": True, "expert_gating_func": 2, "expert_latent_length": 20,
        "activation.situ_beta": 4.0, "activation.situ_linear_beta": 25.0, "attn_res.block_size": 2,
    }  # fmt: skip
    path = written(tmp_path / "k3.gguf", "kimi-k3", metadata, of_kimi(shapes, {0, 1, 3}), "F32")
    ours, theirs = load(str(path)), load(str(folder))
    assert params(ours.architecture).total == params(theirs.architecture).total - (2 * 5 + 1) * 32
    assert held(ours, str(path)).differ == ()
    for context in (5, 40):
        assert kv(ours.architecture, context=context).bytes == kv(theirs.architecture, context=context).bytes
        assert flops(ours.architecture, context=context).total == flops(theirs.architecture, context=context).total
    assert ours.document["mlp"]["softcaps"] == {"gate": 4, "up": 25}
    assert ours.document["kda"]["decay"]["form"] == "bounded"
