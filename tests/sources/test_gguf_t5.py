"""T5 in GGUF files: published totals of two generations, from tensors as llama.cpp's class names them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Command
from tests.sources.ggufs import written

V, D = 32128, 512
Shapes = dict[str, tuple[int, ...]]


def stack(side: str, n: int, inner: int, d_ff: int, gated: bool) -> Shapes:
    """A stack's tensors: attention, to the encoder too in a decoder, and an MLP with one matrix in front or two."""
    kinds = ["attn", *(["cross_attn"] if side == "dec" else [])]
    layer: Shapes = {}
    for kind in kinds:
        layer |= {f"{kind}_{name}": (inner, D) for name in "qkv"} | {f"{kind}_o": (D, inner), f"{kind}_norm": (D,)}
    layer.update({"ffn_norm": (D,), "ffn_up": (d_ff, D), "ffn_down": (D, d_ff)})
    if gated:
        layer["ffn_gate"] = (d_ff, D)
    found: Shapes = {f"{side}.blk.{i}.{name}.weight": shape for i in range(n) for name, shape in layer.items()}
    return {**found, f"{side}.blk.0.attn_rel_b.weight": (32, inner // 64), f"{side}.output_norm.weight": (D,)}


@pytest.mark.parametrize(
    ("preset", "n", "heads", "d_ff", "gated", "total"),
    [("t5-small", 6, 8, 2048, False, 60_506_624), ("flan-t5-small", 8, 6, 1024, True, 76_961_152)],
)
def test_totals_as_published(
    tmp_path: Path, gptcalc: Command, preset: str, n: int, heads: int, d_ff: int, gated: bool, total: int
) -> None:
    """The older one is tied; the newer one has an output matrix and a gate."""
    tensors: Shapes = {"token_embd.weight": (V, D)}
    if gated:
        tensors["output.weight"] = (V, D)
    for side in ("enc", "dec"):
        tensors |= stack(side, n, heads * 64, d_ff, gated)
    metadata = {
        "context_length": 512, "embedding_length": D, "feed_forward_length": d_ff, "block_count": n,
        "decoder_block_count": n, "attention.head_count": heads, "attention.key_length": 64,
        "attention.value_length": 64, "attention.layer_norm_epsilon": 1e-6, "attention.layer_norm_rms_epsilon": 1e-6,
        "attention.relative_buckets_count": 32, "general.file_type": 32,
    }  # fmt: skip
    path = written(tmp_path / "a.gguf", "t5", metadata, tensors)
    found = gptcalc("params", path, "--json")
    assert (found.status, found.err) == (0, "")
    assert (found.json["total"], found.json["stored"], found.json["differ"]) == (total, total, [])
    for command in (("kv", "--get", "bytes"), ("flops", "--source", "64", "--context", "32", "--get", "total")):
        name, *options = command
        assert gptcalc(name, path, *options).out == gptcalc(name, preset, *options).out
