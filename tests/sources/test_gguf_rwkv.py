"""RWKV-6 and 7 in GGUF files: tensors as llama.cpp's classes name them, architectures as the published models have."""

from __future__ import annotations

from math import prod
from pathlib import Path

from tests.conftest import Command
from tests.sources.ggufs import blocks, written

D, N, V = 768, 12, 65536
COMMON = {
    "context_length": 1048576, "embedding_length": D, "block_count": N, "attention.layer_norm_epsilon": 1e-5,
    "wkv.head_size": 64, "attention.head_count": 0, "general.file_type": 32,
}  # fmt: skip
Shapes = dict[str, tuple[int, ...]]

OUTSIDE: Shapes = {
    "token_embd.weight": (V, D), "output.weight": (V, D),
    **{f"{name}.{end}": (D,) for name in ("token_embd_norm", "output_norm") for end in ("weight", "bias")},
}  # fmt: skip
NORMS: Shapes = {
    f"{name}.{end}": (D,) for name in ("attn_norm", "attn_norm_2", "time_mix_ln") for end in ("weight", "bias")
}
SQUARE: Shapes = {f"time_mix_{name}.weight": (D, D) for name in ("key", "value", "receptance", "output")}


def ranks(letter: str, rank: int) -> Shapes:
    return {
        f"time_mix_{letter}0.weight": (D,),
        f"time_mix_{letter}1.weight": (rank, D),
        f"time_mix_{letter}2.weight": (D, rank),
    }


def total(tensors: Shapes) -> int:
    return sum(prod(shape) for shape in tensors.values())


def same_as(preset: str, path: Path, gptcalc: Command) -> None:
    """What the file and the preset say costs the same."""
    for command in (
        ("kv", "--context", "1024", "--get", "state_bytes"),
        ("flops", "--context", "64", "--get", "total"),
    ):
        name, *options = command
        assert gptcalc(name, path, *options).out == gptcalc(name, preset, *options).out, name


def test_rwkv_7(tmp_path: Path, gptcalc: Command) -> None:
    """The first layer mixes no values; the converter writes a copy of its rates in their place, which nothing reads."""
    layer = {
        **NORMS, **SQUARE, **ranks("w", 64), **ranks("a", 64), **ranks("v", 32),
        "time_mix_g1.weight": (128, D), "time_mix_g2.weight": (D, 128), "time_mix_lerp_fused.weight": (6, 1, 1, D),
        **{f"time_mix_{name}.weight": (D,) for name in ("k_k", "k_a", "r_k")},
        "channel_mix_lerp_k.weight": (1, 1, D), "channel_mix_key.weight": (4 * D, D),
        "channel_mix_value.weight": (D, 4 * D),
    }  # fmt: skip
    tensors: Shapes = {**OUTSIDE, **dict(blocks(N, layer))}
    learned = total(tensors) - total(ranks("v", 32))
    unread = {f"blk.0.{name}": shape for name, shape in ranks("v", 64).items()}
    path = written(tmp_path / "a.gguf", "rwkv7", COMMON, {**tensors, **unread})
    found = gptcalc("params", path, "--json")
    assert (found.status, found.err) == (0, "")
    assert (found.json["total"], found.json["differ"]) == (learned, [])
    assert {row["role"]: row["params"] for row in found.json["held"]} == {"main": learned, "unused": total(unread)}
    same_as("rwkv-7-world-0.1b", path, gptcalc)


def test_rwkv_6(tmp_path: Path, gptcalc: Command) -> None:
    layer = {
        **NORMS, **SQUARE, "time_mix_gate.weight": (D, D), "time_mix_w1.weight": (5 * 32, D),
        "time_mix_w2.weight": (5, D, 32), "time_mix_lerp_x.weight": (1, 1, D),
        "time_mix_lerp_fused.weight": (5, 1, 1, D), "time_mix_first.weight": (D // 64, 64),
        "time_mix_decay.weight": (D,), "time_mix_decay_w1.weight": (64, D), "time_mix_decay_w2.weight": (D, 64),
        "channel_mix_lerp_k.weight": (1, 1, D), "channel_mix_lerp_r.weight": (1, 1, D),
        "channel_mix_key.weight": (2688, D), "channel_mix_value.weight": (D, 2688),
        "channel_mix_receptance.weight": (D, D),
    }  # fmt: skip
    tensors: Shapes = {**OUTSIDE, **dict(blocks(N, layer))}
    path = written(tmp_path / "a.gguf", "rwkv6", COMMON, tensors)
    found = gptcalc("params", path, "--json")
    assert (found.status, found.err) == (0, "")
    assert (found.json["total"], found.json["stored"], found.json["differ"]) == (total(tensors), total(tensors), [])
    state = N * (D // 64 * 64 * 64 * 4 + 2 * D * 2)  # a matrix a head in fp32, two last tokens a layer in bf16
    assert gptcalc("kv", path, "--get", "state_bytes").out == f"{state}\n"
    assert gptcalc("validate", path, "--get", "0.ok").out == "true\n"
