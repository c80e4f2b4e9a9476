"""Feed-forward parts of a GGUF file's layers: MLPs and experts."""

from __future__ import annotations

from typing import Any

from gptcalc.sources.gguf.attention import norm_at
from gptcalc.sources.gguf.metadata import Facts
from gptcalc.sources.gguf.rwkv import channel_mixing
from gptcalc.sources.gguf.styles import Style

#: llama.cpp's numbers for how experts are weighed
GATING = {1: "softmax", 2: "sigmoid", 3: "topk_softmax", 4: "sqrtsoftplus"}
#: the gated form of an activation function
GATED = {
    "silu": "swiglu",
    "gelu": "geglu",
    "gelu_tanh": "geglu_tanh",
    "relu": "reglu",
    "relu2": "relu2glu",
    "silu_oai": "swiglu_oai",
}

#: routers that weigh the chosen experts alone: their weights sum to 1 already
OF_CHOSEN = ("topk_softmax", "sparsemixer")
BIASED = {"router": "ffn_gate_inp", "shared": "ffn_down_shexp"}


def feed_forward(facts: Facts, style: Style, layer: int) -> list[dict[str, Any]]:
    """The units of a layer's feed-forward part: an MLP, experts, both side by side, or none."""
    found = []
    if facts.has(layer, "ffn_down"):
        found.append(mlp(facts, style, layer))
    if facts.has(layer, "ffn_gate_inp"):
        found.append(experts(facts, style, layer))
    if facts.has(layer, "channel_mix_key"):
        found.append(channel_mixing(facts, layer))
    return found


def mlp(facts: Facts, style: Style, layer: int) -> dict[str, Any]:
    d_ff = facts.width(layer, "ffn_down", -1)
    return {
        "kind": "mlp",
        "word": "mlp",
        "d_ff": d_ff,
        "activation": activation(style, is_gated(facts, layer, d_ff)),
        "bias": [site for site in ("gate", "up", "down") if facts.has(layer, f"ffn_{site}", "bias")],
        "mid_norm": {} if facts.has(layer, "ffn_sub_norm") else None,
        "softcaps": softcaps(facts),
        **norms(facts, style, layer),
    }


def is_gated(facts: Facts, layer: int, d_ff: int) -> bool:
    """A gate of its own, or in one matrix with the up projection."""
    return facts.has(layer, "ffn_gate") or facts.width(layer, "ffn_up", 0) == 2 * d_ff


def activation(style: Style, gated: bool) -> str:
    return GATED.get(style.function, style.function) if gated else style.function


def softcaps(facts: Facts) -> dict[str, float] | None:
    """SiTU's bounds, the second of which is there where it is positive (Kimi K3)."""
    gate, up = (facts.number(f"activation.situ_{word}") for word in ("beta", "linear_beta"))
    return {"gate": gate, **({"up": up} if up and up > 0 else {})} if gate else None


def latent(facts: Facts, layer: int) -> dict[str, Any]:
    """The space that routed experts work in, where it is another than the stream's."""
    down = next((stem for stem in ("ffn_latent_down", "ffn_routed_down") if facts.has(layer, stem)), None)
    if down is None:
        return {}
    behind: dict[str, Any] = {"latent_out_norm": {}} if facts.has(layer, "ffn_routed_norm") else {}
    return {"d_latent": facts.width(layer, down, 0), **behind}


def norms(facts: Facts, style: Style, layer: int) -> dict[str, Any]:
    has = facts.has
    behind = has(layer, "post_ffw_norm") or has(layer, "layer_output_norm")
    before = has(layer, "ffn_norm") or (has(layer, "post_attention_norm") and not behind)
    return {"norm_at": norm_at(before, behind, style.post)}


def experts(facts: Facts, style: Style, layer: int) -> dict[str, Any]:
    has = facts.has
    number = facts.optional("expert_gating_func", least=0)
    router = GATING.get(number or 0, style.router)
    scale = facts.number("expert_weights_scale")
    split = has(layer, "ffn_down.0")  # a tensor for each expert, as old files have it
    d_ff = facts.width(layer, "ffn_down.0" if split else "ffn_down_exps", -1)
    gated = has(layer, "ffn_gate_exps") or has(layer, "ffn_gate_up_exps") or split
    sites = [site for site in ("gate", "up", "down") if has(layer, f"ffn_{site}_exps", "bias")]
    sites += [site for site, stem in BIASED.items() if has(layer, stem, "bias")]
    return {
        "kind": "moe",
        "word": "moe",
        "n_experts": facts.size("expert_count"),
        "top_k": facts.size("expert_used_count"),
        "d_ff": d_ff,
        "activation": activation(style, gated),
        **shared(facts, layer, d_ff),
        "router": router,
        **({"normalize": facts.flag("expert_weights_norm", style.normalize)} if router not in OF_CHOSEN else {}),
        **({"selection_bias": True} if has(layer, "exp_probs_b", "bias") else {}),
        "route_scale": scale if scale else 1.0,
        **groups(facts),
        **latent(facts, layer),
        "softcaps": softcaps(facts),
        "bias": sites,
        "weight_at": "input" if style.at_input else "output",
        **({"router_scale": True} if has(layer, "ffn_gate_inp", "scale") else {}),
        "clamp": 7.0 if style.function == "silu_oai" else None,
        **norms(facts, style, layer),
    }


def shared(facts: Facts, layer: int, d_ff: int) -> dict[str, Any]:
    """Shared experts: one tensor for all of them, as wide as they are together."""
    shape = facts.shape(layer, "ffn_down_shexp")
    if shape is None:
        return {}
    n = facts.size("expert_shared_count", max(1, shape[-1] // d_ff), least=0) or 1
    gate = {"shared_gate": True} if facts.has(layer, "ffn_gate_inp_shexp") else {}
    return {"n_shared": n, "d_shared": shape[-1], **gate}


def groups(facts: Facts) -> dict[str, Any]:
    """Routing by groups, where there are several and fewer are used."""
    n, used = facts.size("expert_group_count", 0, least=0), facts.size("expert_group_used_count", 0, least=0)
    return {"groups": {"n": n, "top_k": used, "score": "top2"}} if n > 1 and used > 0 else {}
