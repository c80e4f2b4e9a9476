"""How tests/golden/hgrn, hgrn2 and gsa were made: by hand, in torch.

    python -m tests.golden_fla FOLDER

with PyTorch 2.13.0 on a CPU: fla-core's classes need kernels, so these modules are written for this, from what its
classes compute (fla/layers/hgrn.py, hgrn2.py and gsa.py, fla/models/hgrn, hgrn2 and gsa) and the recurrences of
fla/ops/hgrn/naive.py, gla/naive.py and gsa/naive.py. Nothing of the program is imported. The norm in front of `o_proj`
is in the last two one kernel with it, whose ε is 1e-5, whatever the config says.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import nn

TOKENS = 13
FUSED_EPS = 1e-5
HGRN2: dict[str, Any] = {
    "architectures": ["HGRN2ForCausalLM"], "model_type": "hgrn2", "vocab_size": 97, "hidden_size": 32,
    "num_hidden_layers": 3, "expand_ratio": 8, "use_short_conv": True, "conv_size": 3, "intermediate_size": 40,
    "max_position_embeddings": 64, "norm_eps": 1e-2, "tie_word_embeddings": False,
}  # fmt: skip
HGRN: dict[str, Any] = {
    "architectures": ["HGRNForCausalLM"], "model_type": "hgrn", "vocab_size": 97, "hidden_size": 32,
    "num_hidden_layers": 3, "use_short_conv": True, "conv_size": 3, "intermediate_size": 40,
    "max_position_embeddings": 64, "norm_eps": 1e-2, "tie_word_embeddings": False,
}  # fmt: skip
GSA: dict[str, Any] = {
    "architectures": ["GSAForCausalLM"], "model_type": "gsa", "vocab_size": 97, "hidden_size": 32,
    "num_hidden_layers": 2, "num_heads": 4, "num_kv_heads": 2, "num_slots": 6, "expand_k": 0.5, "use_short_conv": True,
    "conv_size": 3, "gate_logit_normalizer": 2, "intermediate_size": 40, "max_position_embeddings": 64,
    "norm_eps": 1e-2, "tie_word_embeddings": False,
}  # fmt: skip


class Norm(nn.Module):  # type: ignore[misc]
    def __init__(self, n: int, eps: float) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(n))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps) * self.weight


class Convolution(nn.Conv1d):  # type: ignore[misc]
    """Each channel over each token and those before it."""

    def __init__(self, n: int, kernel: int) -> None:
        super().__init__(n, n, kernel, groups=n, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(F.pad(x.transpose(1, 2), (self.kernel_size[0] - 1, 0))).transpose(1, 2)


class HeldByDecay(nn.Module):  # type: ignore[misc]
    """HGRN2's mixer."""

    def __init__(self, c: dict[str, Any]) -> None:
        super().__init__()
        d = c["hidden_size"]
        self.width = c["expand_ratio"]
        self.q_proj, self.f_proj, self.i_proj, self.o_proj = (nn.Linear(d, d, bias=False) for _ in range(4))
        self.q_conv1d, self.f_conv1d, self.i_conv1d = (Convolution(d, c["conv_size"]) for _ in range(3))
        self.g_norm = Norm(d, FUSED_EPS)

    def forward(self, x: torch.Tensor, bound: torch.Tensor) -> torch.Tensor:
        batch, new, d = x.shape
        q, f, i = self.q_conv1d(self.q_proj(x)), self.f_conv1d(self.f_proj(x)), self.i_conv1d(self.i_proj(x))
        left = bound + (1 - bound) * torch.sigmoid(f)
        q, left, i = (y.view(batch, new, -1, self.width) for y in (F.silu(q), left, i))
        state = torch.zeros(batch, d // self.width, self.width, self.width, dtype=x.dtype)
        read = []
        for t in range(new):
            state = state * left[:, t, :, :, None] + (1 - left[:, t])[..., None] * i[:, t, :, None]
            read.append(torch.einsum("bhk,bhkv->bhv", q[:, t] * self.width**-0.5, state))
        return self.o_proj(self.g_norm(torch.stack(read, 1).reshape(batch, new, d)))


class Channels(nn.Module):  # type: ignore[misc]
    """HGRN's mixer."""

    def __init__(self, c: dict[str, Any]) -> None:
        super().__init__()
        d = c["hidden_size"]
        self.i_proj, self.f_proj, self.g_proj, self.o_proj = (nn.Linear(d, d, bias=False) for _ in range(4))
        self.f_conv1d, self.i_conv1d = (Convolution(d, c["conv_size"]) for _ in range(2))
        self.g_norm = Norm(d, c["norm_eps"])

    def forward(self, x: torch.Tensor, bound: torch.Tensor) -> torch.Tensor:
        left = bound + (1 - bound) * torch.sigmoid(self.f_conv1d(self.f_proj(x)))
        taken = F.silu(self.i_conv1d(self.i_proj(x))) * (1 - left)
        state, read = torch.zeros_like(x[:, 0]), []
        for t in range(x.shape[1]):
            state = left[:, t] * state + taken[:, t]
            read.append(state)
        return self.o_proj(self.g_norm(torch.stack(read, 1)) * F.silu(self.g_proj(x)))


class Slots(nn.Module):  # type: ignore[misc]
    """GSA's mixer."""

    def __init__(self, c: dict[str, Any]) -> None:
        super().__init__()
        d, kernel = c["hidden_size"], c["conv_size"]
        self.heads, self.shared, self.slots = c["num_heads"], c["num_kv_heads"], c["num_slots"]
        self.divisor = c["gate_logit_normalizer"]
        keys = int(d * c["expand_k"])
        widths = (keys, keys * self.shared // self.heads, d * self.shared // self.heads)
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(d, width, bias=False) for width in widths)
        self.f_proj = nn.Linear(d, self.shared * self.slots, bias=False)
        self.q_conv1d, self.k_conv1d, self.v_conv1d = (Convolution(width, kernel) for width in widths)
        self.g_norm = Norm(d, FUSED_EPS)
        self.o_proj = nn.Linear(d, d, bias=False)

    def forward(self, x: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
        batch, new, d = x.shape
        q, k, v = (
            F.silu(F.silu(conv(proj(x))))
            for conv, proj in (
                (self.q_conv1d, self.q_proj),
                (self.k_conv1d, self.k_proj),
                (self.v_conv1d, self.v_proj),
            )
        )
        g = F.logsigmoid(self.f_proj(x)) / self.divisor
        q = q.view(batch, new, self.heads, -1)
        k, v, g = (
            y.view(batch, new, self.shared, -1).repeat_interleave(self.heads // self.shared, 2) for y in (k, v, g)
        )
        taken, left = 1 - g.exp(), g.exp()
        keys = torch.zeros(batch, self.heads, q.shape[-1], self.slots, dtype=x.dtype)
        values = torch.zeros(batch, self.heads, self.slots, v.shape[-1], dtype=x.dtype)
        read = []
        for t in range(new):
            keys = keys * left[:, t, :, None, :] + k[:, t, :, :, None] * taken[:, t, :, None, :]
            values = values * left[:, t, :, :, None] + taken[:, t, :, :, None] * v[:, t, :, None, :]
            share = torch.einsum("bhk,bhkm->bhm", q[:, t], keys).softmax(-1)
            read.append(torch.einsum("bhm,bhmv->bhv", share, values))
        return self.o_proj(self.g_norm(F.silu(torch.stack(read, 1).reshape(batch, new, d))))


MIXERS: dict[str, type[nn.Module]] = {"hgrn": Channels, "hgrn2": HeldByDecay, "gsa": Slots}


class Mlp(nn.Module):  # type: ignore[misc]
    def __init__(self, d: int, inner: int) -> None:
        super().__init__()
        self.gate_proj, self.up_proj = nn.Linear(d, inner, bias=False), nn.Linear(d, inner, bias=False)
        self.down_proj = nn.Linear(inner, d, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Block(nn.Module):  # type: ignore[misc]
    def __init__(self, c: dict[str, Any]) -> None:
        super().__init__()
        d = c["hidden_size"]
        self.attn_norm, self.mlp_norm = Norm(d, c["norm_eps"]), Norm(d, c["norm_eps"])
        self.attn, self.mlp = MIXERS[c["model_type"]](c), Mlp(d, c["intermediate_size"])

    def forward(self, x: torch.Tensor, bound: torch.Tensor) -> torch.Tensor:
        x = x + self.attn(self.attn_norm(x), bound)
        return x + self.mlp(self.mlp_norm(x))


class Stack(nn.Module):  # type: ignore[misc]
    def __init__(self, c: dict[str, Any]) -> None:
        super().__init__()
        self.embeddings = nn.Embedding(c["vocab_size"], c["hidden_size"])
        if c["model_type"] != "gsa":
            self.lower_bounds = nn.Parameter(torch.zeros(c["num_hidden_layers"], c["hidden_size"]))
        self.layers = nn.ModuleList(Block(c) for _ in range(c["num_hidden_layers"]))
        self.norm = Norm(c["hidden_size"], c["norm_eps"])

    def bounds(self) -> torch.Tensor:
        """Of each layer what is least left of a state; zeros where nothing learns it."""
        if not hasattr(self, "lower_bounds"):
            return torch.zeros(len(self.layers), 1)
        shares = self.lower_bounds.softmax(0)
        return shares.cumsum(0) - shares[0]


class Language(nn.Module):  # type: ignore[misc]
    def __init__(self, c: dict[str, Any]) -> None:
        super().__init__()
        self.model = Stack(c)
        self.lm_head = nn.Linear(c["hidden_size"], c["vocab_size"], bias=False)

    def forward(self, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        bounds = self.model.bounds()
        x = entered = self.model.embeddings(tokens)
        hidden = []
        for layer, bound in zip(self.model.layers, bounds, strict=True):
            x = layer(x, bound)
            hidden.append(x)
        return self.lm_head(self.model.norm(x)), torch.stack(hidden), entered


@torch.no_grad()
def make(folder: Path, config: dict[str, Any]) -> None:
    model, generator = Language(config), torch.Generator().manual_seed(11)
    for name, parameter in model.named_parameters():
        noise = 0.3 * torch.randn(parameter.shape, generator=generator)
        parameter.copy_(noise + (1.0 if name.endswith("norm.weight") else 0.0))
    folder = folder / config["model_type"]
    folder.mkdir(parents=True, exist_ok=True)
    save_file(model.state_dict(), folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    tokens = torch.randint(3, config["vocab_size"], (1, TOKENS), generator=generator)
    truths = {"input_ids": tokens.numpy()}
    for end, dtype in (("", torch.float32), ("_f64", torch.float64)):
        logits, hidden, entered = model.to(dtype)(tokens)
        truths |= {"logits" + end: logits.numpy(), "hidden_after_block" + end: hidden.numpy()}
        truths |= {} if end else {"embeds": entered.numpy()}
    np.savez_compressed(folder / "io.npz", **truths)


if __name__ == "__main__":
    for each in (HGRN, HGRN2, GSA):
        make(Path(sys.argv[1]), each)
