"""T5 and encoders in GGUF files: published totals, from tensors as llama.cpp's classes name them."""

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


def test_an_encoder_alone(tmp_path: Path, gptcalc: Command) -> None:
    """T5 1.1 XXL's, by which image models read their text: 24 layers of 4·d² and 3·d·d_ff and two norms, the token
    table, one table of distances, the last norm."""
    d, heads, d_ff, n = 4096, 64, 10240, 24
    layer: Shapes = {f"attn_{name}": (d, d) for name in "qkvo"} | {"attn_norm": (d,), "ffn_norm": (d,)}
    layer |= {"ffn_gate": (d_ff, d), "ffn_up": (d_ff, d), "ffn_down": (d, d_ff)}
    tensors: Shapes = {f"enc.blk.{i}.{name}.weight": shape for i in range(n) for name, shape in layer.items()}
    tensors |= {"enc.blk.0.attn_rel_b.weight": (32, heads), "enc.output_norm.weight": (d,)}
    tensors["token_embd.weight"] = (V, d)
    metadata = {
        "context_length": 512, "embedding_length": d, "feed_forward_length": d_ff, "block_count": n,
        "attention.head_count": heads, "attention.key_length": 64, "attention.value_length": 64,
        "attention.layer_norm_epsilon": 1e-6, "attention.layer_norm_rms_epsilon": 1e-6,
        "attention.relative_buckets_count": 32, "general.file_type": 1,
    }  # fmt: skip
    path = written(tmp_path / "a.gguf", "t5encoder", metadata, tensors)
    found = gptcalc("params", path, "--json")
    total = V * d + n * (4 * d * d + 3 * d * d_ff + 2 * d) + 32 * heads + d
    assert (found.status, found.err) == (0, "")
    assert (found.json["total"], found.json["stored"], found.json["differ"]) == (total, total, [])
    assert gptcalc("kv", path, "--get", "bytes").out.strip() == "0"


def test_a_decoder_that_sees_all(tmp_path: Path, gptcalc: Command) -> None:
    """EmbeddingGemma 300M: its class has 302,863,104 parameters; windows of 512 reach 256 tokens to either side."""
    d, d_ff, n, inner = 768, 1152, 24, 3 * 256
    layer: Shapes = {"attn_q": (inner, d), "attn_k": (256, d), "attn_v": (256, d), "attn_output": (d, inner)}
    layer |= dict.fromkeys(("attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"), (d,))
    layer |= {"attn_q_norm": (256,), "attn_k_norm": (256,), "ffn_gate": (d_ff, d), "ffn_up": (d_ff, d)}
    layer["ffn_down"] = (d, d_ff)
    tensors: Shapes = {f"blk.{i}.{name}.weight": shape for i in range(n) for name, shape in layer.items()}
    tensors |= {"token_embd.weight": (262144, d), "output_norm.weight": (d,)}
    metadata = {
        "context_length": 2048, "embedding_length": d, "feed_forward_length": d_ff, "block_count": n,
        "attention.head_count": 3, "attention.head_count_kv": 1, "attention.key_length": 256,
        "attention.value_length": 256, "attention.layer_norm_rms_epsilon": 1e-6, "attention.sliding_window": 512,
        "rope.freq_base": 1e6, "general.file_type": 1,
    }  # fmt: skip
    path = written(tmp_path / "a.gguf", "gemma-embedding", metadata, tensors)
    found = gptcalc("params", path, "--json")
    assert (found.status, found.json["total"], found.json["differ"]) == (0, 302_863_104, [])
    shown = gptcalc("show", path).out
    assert "causal: false" in shown
    assert "window: 257" in shown
    assert "n*[5*local+mlp attn+mlp]" in shown


def test_a_llama_that_sees_all(tmp_path: Path, gptcalc: Command) -> None:
    """nvidia/llama-embed-nemotron-8b: Llama 3.1 8B, which has 8,030,261,248 parameters, without its output matrix."""
    d, d_ff, n, kv, v = 4096, 14336, 32, 1024, 128256
    layer: Shapes = {"attn_q": (d, d), "attn_k": (kv, d), "attn_v": (kv, d), "attn_output": (d, d), "attn_norm": (d,)}
    layer |= {"ffn_norm": (d,), "ffn_gate": (d_ff, d), "ffn_up": (d_ff, d), "ffn_down": (d, d_ff)}
    tensors: Shapes = {f"blk.{i}.{name}.weight": shape for i in range(n) for name, shape in layer.items()}
    tensors |= {"token_embd.weight": (v, d), "output_norm.weight": (d,)}
    metadata = {
        "context_length": 131072, "embedding_length": d, "feed_forward_length": d_ff, "block_count": n,
        "attention.head_count": 32, "attention.head_count_kv": 8, "attention.layer_norm_rms_epsilon": 1e-5,
        "rope.freq_base": 5e5, "rope.dimension_count": 128, "attention.causal": False, "general.file_type": 1,
    }  # fmt: skip
    path = written(tmp_path / "a.gguf", "llama-embed", metadata, tensors)
    found = gptcalc("params", path, "--json")
    assert (found.status, found.json["total"], found.json["differ"]) == (0, 8_030_261_248 - v * d, [])
    assert "causal: false" in gptcalc("show", path).out
    assert gptcalc("kv", path, "--get", "bytes").out.strip() == "0"


def test_a_decoder_that_ranks(tmp_path: Path, gptcalc: Command) -> None:
    """Qwen3-Reranker-0.6B in GGUF: Qwen3-0.6B's 596,049,920 with 151,669 words instead of 151,936, and rows for yes and
    no in place of logits."""
    d, n, v = 1024, 28, 151_669
    layer = {
        "attn_norm": (d,), "attn_q": (2 * d, d), "attn_k": (d, d), "attn_v": (d, d), "attn_output": (d, 2 * d),
        "attn_q_norm": (128,), "attn_k_norm": (128,), "ffn_norm": (d,), "ffn_gate": (3072, d), "ffn_up": (3072, d),
        "ffn_down": (d, 3072),
    }  # fmt: skip
    tensors: Shapes = {f"blk.{i}.{name}.weight": shape for i in range(n) for name, shape in layer.items()}
    tensors |= {"token_embd.weight": (v, d), "output_norm.weight": (d,), "cls.output.weight": (2, d)}
    metadata = {
        "context_length": 40960, "embedding_length": d, "feed_forward_length": 3072, "block_count": n,
        "attention.head_count": 16, "attention.head_count_kv": 8, "attention.key_length": 128,
        "attention.value_length": 128, "attention.layer_norm_rms_epsilon": 1e-6, "rope.freq_base": 1e6,
        "pooling_type": 4, "classifier.output_labels": ["yes", "no"],
    }  # fmt: skip
    path = written(tmp_path / "a.gguf", "qwen3", metadata, tensors)
    found = gptcalc("params", path, "--json")
    total = 596_049_920 - (151_936 - v) * d + 2 * d
    assert (found.status, found.err) == (0, "")
    assert (found.json["total"], found.json["stored"], found.json["differ"]) == (total, total, [])


def test_files_without_a_language_model(tmp_path: Path, gptcalc: Command) -> None:
    """A tower's file has keys of its own; a vocabulary's has no tensors."""
    tower = written(tmp_path / "mmproj.gguf", "clip", {"vision.block_count": 1}, {"v.patch_embd.weight": (64, 64)})
    assert "'clip': a projector for images or sound" in gptcalc("kv", tower).err
    words = written(tmp_path / "words.gguf", "llama", {"block_count": 2, "embedding_length": 64}, {})
    found = gptcalc("params", words)
    assert (found.status, found.out) == (2, "")
    assert "it holds a vocabulary alone: no weights" in found.err
