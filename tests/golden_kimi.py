"""How tests/golden/kimi_k3 was made: by hand, in torch.

    python -m tests.golden_kimi FOLDER

transformers 5.24 has no class for it. These modules compute what modeling_kimi_linear.py beside moonshotai/Kimi-K3
computes, and are called as it calls them; its kernels of fla-core are a loop over the tokens here.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from tests.golden_loops import PROMPT, TOKENS, save, stir

#: five layers in blocks of two, the first dense; heads and widths are as many as tell them apart
CONFIG: dict[str, Any] = {
    "architectures": ["KimiLinearForCausalLM"], "model_type": "kimi_linear", "vocab_size": 97, "hidden_size": 32,
    "intermediate_size": 40, "num_hidden_layers": 5, "num_attention_heads": 3, "num_key_value_heads": 3,
    "hidden_act": "situ", "activation_situ_beta": 4.0, "activation_situ_linear_beta": 25.0, "rms_norm_eps": 1e-5,
    "max_position_embeddings": 64, "tie_word_embeddings": False, "attn_res_block_size": 2,
    "first_k_dense_replace": 1, "moe_layer_freq": 1, "num_experts": 6, "num_experts_per_token": 2,
    "num_shared_experts": 2, "moe_intermediate_size": 12, "routed_expert_hidden_size": 20, "latent_moe_use_norm": True,
    "moe_router_activation_func": "sigmoid", "moe_renormalize": True, "routed_scaling_factor": 1.5,
    "use_grouped_topk": True, "num_expert_group": 1, "topk_group": 1, "topk_method": "noaux_tc",
    "q_lora_rank": 14, "kv_lora_rank": 10, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 6,
    "mla_use_nope": True, "mla_use_output_gate": True, "num_nextn_predict_layers": 0,
    "linear_attn_config": {
        "full_attn_layers": [3, 5], "kda_layers": [1, 2, 4], "head_dim": 8, "num_heads": 3, "short_conv_kernel_size": 3,
        "gate_lower_bound": -5.0, "use_full_rank_gate": True,
    },
}  # fmt: skip


def linear(inputs: int, outputs: int) -> nn.Linear:
    return nn.Linear(inputs, outputs, bias=False)


class Norm(nn.Module):  # type: ignore[misc]
    def __init__(self, d: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(d)), eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.weight * x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps)


class ShortConv(nn.Module):  # type: ignore[misc]
    """One causal convolution a channel, then a SiLU."""

    def __init__(self, channels: int, kernel: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(channels, 1, kernel))

    def forward(self, x: torch.Tensor, before: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        whole = torch.cat([before, x], 1)  # the last kernel − 1 inputs stand in front
        made = F.conv1d(whole.transpose(1, 2), self.weight, groups=x.shape[-1]).transpose(1, 2)
        return F.silu(made), whole[:, x.shape[1] :]


class Delta(nn.Module):  # type: ignore[misc]
    """Kimi delta attention: a decay for each channel of the keys, bounded; an output gate of full rank."""

    def __init__(self, c: dict[str, Any]) -> None:
        super().__init__()
        own, d = c["linear_attn_config"], c["hidden_size"]
        self.heads, self.width, self.bound = own["num_heads"], own["head_dim"], own["gate_lower_bound"]
        whole = self.heads * self.width
        self.kernel = own["short_conv_kernel_size"]
        for x in "qkv":
            setattr(self, f"{x}_proj", linear(d, whole))
            setattr(self, f"{x}_conv1d", ShortConv(whole, self.kernel))
        self.A_log, self.dt_bias = nn.Parameter(torch.zeros(self.heads)), nn.Parameter(torch.zeros(whole))
        self.f_a_proj, self.f_b_proj = linear(d, self.width), linear(self.width, whole)
        self.b_proj, self.g_proj, self.o_proj = linear(d, self.heads), linear(d, whole), linear(whole, d)
        self.o_norm = Norm(self.width, c["rms_norm_eps"])

    def forward(self, x: torch.Tensor, past: dict[str, torch.Tensor]) -> torch.Tensor:
        batch, new, _ = x.shape
        made = {}
        for name in "qkv":
            flat = getattr(self, f"{name}_proj")(x)
            before = past.get(name, flat.new_zeros(batch, self.kernel - 1, flat.shape[-1]))
            flat, past[name] = getattr(self, f"{name}_conv1d")(flat, before)
            made[name] = flat.view(batch, new, self.heads, self.width)
        q, k = (made[name] * torch.rsqrt(made[name].square().sum(-1, keepdim=True) + 1e-6) for name in "qk")
        f = (self.f_b_proj(self.f_a_proj(x)) + self.dt_bias).view(batch, new, self.heads, self.width)
        left = torch.exp(self.bound * torch.sigmoid(self.A_log.exp()[:, None] * f))
        beta = torch.sigmoid(self.b_proj(x))
        state = past.get("state", x.new_zeros(batch, self.heads, self.width, self.width))
        read = []
        for t in range(new):
            state = state * left[:, t, :, :, None]
            lacks = made["v"][:, t] - (k[:, t, :, :, None] * state).sum(-2)
            state = state + k[:, t, :, :, None] * (beta[:, t, :, None] * lacks)[:, :, None]
            read.append((q[:, t, :, :, None] * self.width**-0.5 * state).sum(-2))
        past["state"] = state
        gate = self.g_proj(x).view(batch, new, self.heads, self.width)
        return self.o_proj((self.o_norm(torch.stack(read, 1)) * torch.sigmoid(gate)).flatten(2))


class Latent(nn.Module):  # type: ignore[misc]
    """Latent attention without positions, its output gated."""

    def __init__(self, c: dict[str, Any]) -> None:
        super().__init__()
        d, self.heads = c["hidden_size"], c["num_attention_heads"]
        self.rank, self.nope, self.rope = c["kv_lora_rank"], c["qk_nope_head_dim"], c["qk_rope_head_dim"]
        self.width = c["v_head_dim"]
        self.q_a_proj, self.q_a_layernorm = linear(d, c["q_lora_rank"]), Norm(c["q_lora_rank"])
        self.q_b_proj = linear(c["q_lora_rank"], self.heads * (self.nope + self.rope))
        self.kv_a_proj_with_mqa, self.kv_a_layernorm = linear(d, self.rank + self.rope), Norm(self.rank)
        self.kv_b_proj = linear(self.rank, self.heads * (self.nope + self.width))
        self.g_proj, self.o_proj = linear(d, self.heads * self.width), linear(self.heads * self.width, d)

    def forward(self, x: torch.Tensor, past: dict[str, torch.Tensor]) -> torch.Tensor:
        batch, new, _ = x.shape
        q = self.q_b_proj(self.q_a_layernorm(self.q_a_proj(x))).view(batch, new, self.heads, -1)
        latent, shared = self.kv_a_proj_with_mqa(x).split([self.rank, self.rope], -1)
        both = self.kv_b_proj(self.kv_a_layernorm(latent)).view(batch, new, self.heads, -1)
        k, v = both.split([self.nope, self.width], -1)
        k = torch.cat([k, shared[:, :, None].expand(-1, -1, self.heads, -1)], -1)
        for name, made in (("k", k), ("v", v)):
            past[name] = torch.cat([past[name], made], 1) if name in past else made
        scores = torch.einsum("bthc,bshc->bhts", q, past["k"]) * (self.nope + self.rope) ** -0.5
        seen = torch.ones(new, past["k"].shape[1], dtype=torch.bool).tril(past["k"].shape[1] - new)
        share = scores.masked_fill(~seen, -torch.inf).softmax(-1)
        out = torch.einsum("bhts,bshw->bthw", share, past["v"]).flatten(2)
        return self.o_proj(out * torch.sigmoid(self.g_proj(x)))


class Mlp(nn.Module):  # type: ignore[misc]
    names = ("gate_proj", "up_proj", "down_proj")

    def __init__(self, c: dict[str, Any], d: int, inner: int) -> None:
        super().__init__()
        self.beta, self.linear_beta = c["activation_situ_beta"], c["activation_situ_linear_beta"]
        for name, sizes in zip(self.names, ((d, inner), (d, inner), (inner, d)), strict=True):
            setattr(self, name, linear(*sizes))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate, up, down = (getattr(self, name) for name in self.names)
        g, u = gate(x), up(x)
        situ = self.beta * torch.tanh(g / self.beta) * torch.sigmoid(g)
        return down(situ * (self.linear_beta * torch.tanh(u / self.linear_beta)))


class Expert(Mlp):
    names = ("w1", "w3", "w2")


class Gate(nn.Module):  # type: ignore[misc]
    def __init__(self, c: dict[str, Any]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(c["num_experts"], c["hidden_size"]) * 0.3)
        self.e_score_correction_bias = nn.Parameter(torch.zeros(c["num_experts"]))
        self.k, self.scale = c["num_experts_per_token"], c["routed_scaling_factor"]

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        scores = torch.sigmoid(x @ self.weight.T)
        chosen = (scores + self.e_score_correction_bias).topk(self.k, -1).indices
        weights = scores.gather(-1, chosen)
        return chosen, weights / (weights.sum(-1, keepdim=True) + 1e-20) * self.scale


class Mixture(nn.Module):  # type: ignore[misc]
    def __init__(self, c: dict[str, Any]) -> None:
        super().__init__()
        d, latent, inner = c["hidden_size"], c["routed_expert_hidden_size"], c["moe_intermediate_size"]
        self.gate = Gate(c)
        self.experts = nn.ModuleList(Expert(c, latent, inner) for _ in range(c["num_experts"]))
        self.shared_experts = Mlp(c, d, inner * c["num_shared_experts"])
        self.routed_expert_down_proj, self.routed_expert_up_proj = linear(d, latent), linear(latent, d)
        self.routed_expert_norm = Norm(latent, c["rms_norm_eps"])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        chosen, weights = self.gate(x)
        narrow = self.routed_expert_down_proj(x)
        each = torch.stack([expert(narrow) for expert in self.experts], -2)  # of all experts, of which most are unused
        picked = each.gather(-2, chosen[..., None].expand(*chosen.shape, each.shape[-1]))
        made = self.routed_expert_up_proj(self.routed_expert_norm((picked * weights[..., None]).sum(-2)))
        return made + self.shared_experts(x)


def mixed(sums: list[torch.Tensor], query: nn.Linear, norm: Norm) -> torch.Tensor:
    """Sums, compared as they are normed, mixed as they are."""
    every = torch.stack(sums, -2)
    return (query(norm(every)).softmax(-2) * every).sum(-2)


class Layer(nn.Module):  # type: ignore[misc]
    def __init__(self, c: dict[str, Any], number: int) -> None:
        super().__init__()
        d, eps = c["hidden_size"], c["rms_norm_eps"]
        self.begins = number % c["attn_res_block_size"] == 0
        self.self_attn = (Delta if number + 1 in c["linear_attn_config"]["kda_layers"] else Latent)(c)
        if number < c["first_k_dense_replace"]:
            self.mlp = Mlp(c, d, c["intermediate_size"])
        else:
            self.block_sparse_moe = Mixture(c)
        self.input_layernorm, self.post_attention_layernorm = Norm(d, eps), Norm(d, eps)
        self.self_attention_res_norm, self.mlp_res_norm = Norm(d, eps), Norm(d, eps)
        self.self_attention_res_proj, self.mlp_res_proj = linear(d, 1), linear(d, 1)

    def forward(self, x: torch.Tensor, aside: list[torch.Tensor], past: dict[str, torch.Tensor]) -> torch.Tensor:
        read = mixed([*aside, x], self.self_attention_res_proj, self.self_attention_res_norm) if aside else x
        if self.begins:
            aside.append(x)
        y = self.self_attn(self.input_layernorm(read), past)
        x = y if self.begins else x + y
        read = mixed([*aside, x], self.mlp_res_proj, self.mlp_res_norm)
        feed_forward = self.mlp if hasattr(self, "mlp") else self.block_sparse_moe
        return x + feed_forward(self.post_attention_layernorm(read))


class Stack(nn.Module):  # type: ignore[misc]
    def __init__(self, c: dict[str, Any]) -> None:
        super().__init__()
        d, eps = c["hidden_size"], c["rms_norm_eps"]
        self.embed_tokens = nn.Embedding(c["vocab_size"], d)
        self.layers = nn.ModuleList(Layer(c, number) for number in range(c["num_hidden_layers"]))
        self.norm, self.output_attn_res_norm, self.output_attn_res_proj = Norm(d, eps), Norm(d, eps), linear(d, 1)


class Language(nn.Module):  # type: ignore[misc]
    def __init__(self, c: dict[str, Any]) -> None:
        super().__init__()
        self.model, self.lm_head = Stack(c), linear(c["hidden_size"], c["vocab_size"])

    def forward(self, tokens: torch.Tensor, past: list[dict[str, torch.Tensor]]) -> torch.Tensor:
        """Logits. What `past` holds of each layer goes on."""
        own = self.model
        aside: list[torch.Tensor] = []
        x = own.embed_tokens(tokens)
        for layer, state in zip(own.layers, past, strict=True):
            x = layer(x, aside, state)
        return self.lm_head(own.norm(mixed([*aside, x], own.output_attn_res_proj, own.output_attn_res_norm)))


def logits(model: Any, tokens: torch.Tensor, end: str) -> dict[str, np.ndarray]:
    def nothing() -> list[dict[str, torch.Tensor]]:
        return [{} for _ in model.model.layers]

    past = nothing()
    model(tokens[:, :PROMPT], past)
    steps = [model(tokens[:, at : at + 1], past) for at in range(PROMPT, TOKENS)]
    return {"logits" + end: model(tokens, nothing()).numpy(), "decode_logits" + end: torch.cat(steps, 1).numpy()}


@torch.no_grad()
def make(folder: Path) -> None:
    torch.manual_seed(0)
    model = Language(CONFIG).eval()
    stir(model)
    tokens = torch.randint(3, CONFIG["vocab_size"], (1, TOKENS))
    save(folder / "kimi_k3", model, tokens, logits, CONFIG)


if __name__ == "__main__":
    make(Path(sys.argv[1]))
