"""The witness's real forward pass of GPT-2 124M in float32, beside PyTorch's where torch is installed.

    OPENBLAS_NUM_THREADS=1 python tests/benchmarks/bench_forward.py [TOKENS…]

Of 128, 512 and 1,024 tokens: processor seconds on one thread, the least of 7 alternating runs each. Then tokens a
second behind so many, beside the products with weights alone. Both sides get the same random weights, and their logits
are compared before anything is timed. At most 1.15 times PyTorch's time at all three is the aim.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from gptcalc.document import build
from gptcalc.reference.model import Model

GPT2: dict[str, Any] = {
    "d": 768, "v": 50257, "c": 1024, "n_heads": 12, "n_layers": 12, "tying": True, "position": "learned",
    "norm": "layernorm", "mlp": "gelu_tanh", "bias": "all",
}  # fmt: skip
TOKENS = (128, 512, 1024)
RUNS = 7
STEPS = 20


def torch_forward(weights: dict[str, np.ndarray]) -> Callable[[np.ndarray], Any]:
    """A plain GPT-2 on torch's own kernels: fused attention, layer norm, addmm."""
    import torch
    import torch.nn.functional as F

    torch.set_num_threads(1)

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
    start = time.process_time()
    run()
    return time.process_time() - start


def prefills(model: Model, n: int) -> None:
    """Both sides' time for n tokens, and how far apart their logits are."""
    tokens = np.random.default_rng(0).integers(0, GPT2["v"], n)
    logits = model.prefill(tokens).logits[0]
    try:
        forward = torch_forward(model.weights.arrays)
    except ImportError:
        print(f"{n} tokens: {min(timed(lambda: model.prefill(tokens)) for _ in range(RUNS)):.3f} s; no torch beside it")
        return
    apart = float(np.abs(forward(tokens).numpy() - logits).max())
    if apart > 1e-3:
        sys.exit(f"logits differ by {apart}")
    del logits
    pairs = [(timed(lambda: model.prefill(tokens)), timed(lambda: forward(tokens))) for _ in range(RUNS)]
    own, torch = (min(times) for times in zip(*pairs, strict=True))
    print(f"{n} tokens: {own:.3f} s, torch {torch:.3f} s: {own / torch:.2f} times (logits {apart:.0e} apart)")


def decoding(model: Model, n: int) -> None:
    """Steps behind n tokens, beside the products of one token with all weights."""
    model.prefill(np.arange(n))
    step = min(timed(lambda: model.decode(0)) for _ in range(STEPS))
    table = model.weights.arrays["embedding.token"].T
    matrices = [w for key, w in model.weights.arrays.items() if w.ndim == 2 and key.startswith("layers.")]
    rows = [np.ones((1, len(w)), np.float32) for w in (*matrices, table)]

    def products() -> None:
        for row, w in zip(rows, (*matrices, table), strict=True):
            np.matmul(row, w)

    alone = min(timed(products) for _ in range(STEPS))
    print(f"behind {n} tokens: {1 / step:.1f} tokens a second; the products with weights alone {1 / alone:.1f}")


def main() -> None:
    model = Model(build(GPT2))
    sizes = [int(word) for word in sys.argv[1:]] or TOKENS
    for n in sizes:
        prefills(model, n)
    for n in sizes:
        decoding(model, min(n, GPT2["c"] - STEPS))


if __name__ == "__main__":
    main()
