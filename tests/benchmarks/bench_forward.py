"""The witness's real forward pass of GPT-2 124M, 512 tokens, float32, beside PyTorch's where torch is installed.

    python tests/benchmarks/bench_forward.py            # medians of 7 alternating runs

Both sides get the same random weights, and their logits are compared before anything is timed.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from gptcalc.document import build
from gptcalc.reference.model import Model

GPT2 = {
    "d": 768, "v": 50257, "c": 1024, "n_heads": 12, "n_layers": 12, "tying": True, "position": "learned",
    "norm": "layernorm", "mlp": "gelu_tanh", "bias": "all",
}  # fmt: skip
TOKENS = 512
RUNS = 7


def torch_forward(weights: dict[str, np.ndarray]) -> Callable[[np.ndarray], Any]:
    """A plain GPT-2 on torch's own kernels: fused attention, layer norm, addmm."""
    import torch
    import torch.nn.functional as F

    w = {key: torch.from_numpy(np.ascontiguousarray(array)) for key, array in weights.items()}
    for layer in range(12):  # one matrix for q, k and v, as GPT-2 holds them
        p = f"layers.{layer}.attn"
        for end in ("", ".bias"):
            w[f"{p}.qkv{end}"] = torch.cat([w[f"{p}.{name}{end}"] for name in "qkv"], dim=-1)

    def linear(x: Any, key: str) -> Any:
        return torch.addmm(w[f"{key}.bias"], x, w[key])

    def norm(x: Any, key: str) -> Any:
        return F.layer_norm(x, (768,), w[f"{key}.weight"], w[f"{key}.bias"], 1e-5)

    @torch.inference_mode()
    def forward(tokens: np.ndarray) -> Any:
        ids = torch.from_numpy(tokens)
        n = len(tokens)
        x = w["embedding.token"][ids] + w["embedding.position"][:n]
        for layer in range(12):
            p = f"layers.{layer}"
            qkv = linear(norm(x, f"{p}.attn.norm"), f"{p}.attn.qkv")
            q, k, v = (part.view(1, n, 12, 64).transpose(1, 2) for part in qkv.split(768, dim=-1))
            o = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + linear(o.transpose(1, 2).reshape(n, 768), f"{p}.attn.out")
            inner = F.gelu(linear(norm(x, f"{p}.mlp.norm"), f"{p}.mlp.up"), approximate="tanh")
            x = x + linear(inner, f"{p}.mlp.down")
        return norm(x, "final_norm") @ w["embedding.token"].T

    return forward


def timed(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def main() -> None:
    tokens = np.random.default_rng(0).integers(0, 50257, TOKENS)
    model = Model(build(GPT2))
    logits = model.prefill(tokens).logits[0]
    print(f"parameters {model.weights.count:,}, FLOPs {model.tally.total:,}")
    try:
        forward = torch_forward(model.weights.arrays)
    except ImportError:
        seconds = statistics.median(timed(lambda: model.prefill(tokens)) for _ in range(RUNS))
        print(f"witness {seconds:.3f} s; torch is not installed")
        return
    apart = float(np.abs(forward(tokens).numpy() - logits).max())
    if apart > 1e-3:
        sys.exit(f"logits differ by {apart}")
    pairs = [(timed(lambda: model.prefill(tokens)), timed(lambda: forward(tokens))) for _ in range(RUNS)]
    witness, torch = (statistics.median(times) for times in zip(*pairs, strict=True))
    print(f"witness {witness:.3f} s, torch {torch:.3f} s: {witness / torch:.2f} times (logits {apart:.0e} apart)")


if __name__ == "__main__":
    main()
