"""GGUF files as models: tiny ones converted from measured checkpoints, full-size ones against published totals."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from gguf.constants import MODEL_ARCH_NAMES

from gptcalc.analysis.memory.cache import kv
from gptcalc.analysis.params import params
from gptcalc.analysis.stored import held
from gptcalc.errors import InputError
from gptcalc.sources import load
from gptcalc.sources.checkpoint import header
from gptcalc.sources.gguf.model import NO_MODEL
from gptcalc.sources.gguf.styles import STYLES, UNREAD
from tests.conftest import Command
from tests.golden_models import FOLDER
from tests.sources.gguf_conversion import ARCHITECTURES, ENCODERS, convert
from tests.sources.ggufs import blocks, written

#: golden models that llama.cpp's format can't say
BEYOND = {
    "gemma3_text": "every second layer sees all; llama.cpp has every sixth",
    "qwen3_moe": "a dense layer among experts; llama.cpp has none in qwen3moe",
    "bert_decoder": "a causal BERT",
    "lfm2_moe": "a head of its own; llama.cpp's lfm2moe is tied",
    "llama_reward": "a score in the head's place; llama.cpp's llama has none",
    "dflash": "a draft",
    "dspark": "a draft",
    "domino": "a draft",
    "domino_shifted": "a draft",
    "gemma3_text_bidirectional": "gemma-embedding by its class; here a converter goes by the type",
    "eagle3": "a draft",
    "eagle3_normed": "a draft",
    "llama4_text": "chunks of 5; llama.cpp has 8192",
    "kimi_k3": "norms and queries of sums are one: test_gguf_kimi.py",
}


def model_type(name: str) -> str:
    found: str = json.loads((FOLDER / name / "config.json").read_text())["model_type"]
    return found


NAMES = [path.parent.name for path in sorted(FOLDER.glob("*/config.json")) if path.parent.name not in BEYOND]
GOLDEN = [name for name in NAMES if model_type(name) in ARCHITECTURES]


@pytest.mark.parametrize("name", [name for name in GOLDEN if model_type(name) in ENCODERS])
def test_a_converted_encoder_is_the_bare_model(tmp_path: Path, name: str) -> None:
    """All of its tensors, and no more: the converter leaves a masked language model's head behind."""
    path = tmp_path / "model.gguf"
    assert convert(FOLDER / name, path) == []
    found = load(str(path))
    assert params(found.architecture).total == header(path).total
    assert found.document["causal"] is False
    assert held(found, str(path)).differ == ()


@pytest.mark.parametrize("name", [name for name in GOLDEN if model_type(name) not in ENCODERS])
def test_a_converted_checkpoint_is_the_same_model(tmp_path: Path, name: str) -> None:
    """The config's reading is held to transformers elsewhere; the file must give its counts with nothing beside it."""
    path = tmp_path / "model.gguf"
    assert convert(FOLDER / name, path) == []
    ours, theirs = load(str(path)), load(str(FOLDER / name))
    assert params(ours.architecture).total == params(theirs.architecture).total
    learned = ours.architecture.embedding.rows
    for context in (5, 30) if learned else (5, 40, 1000):
        assert kv(ours.architecture, context=context).bytes == kv(theirs.architecture, context=context).bytes
    assert held(ours, str(path)).differ == ()


def test_most_golden_models_are_tried() -> None:
    assert len(GOLDEN) >= 55


@pytest.mark.parametrize("name", MODEL_ARCH_NAMES.values())
def test_every_architecture_of_llama_cpp_is_read_or_listed_with_a_reason(tmp_path: Path, name: str) -> None:
    """Those of gguf 0.19; one that is read asks for a size that this file leaves out, another says why it isn't."""
    path = written(tmp_path / "model.gguf", name, {"block_count": 1}, {"token_embd.weight": (8, 4)}, "F32")
    assert (name in STYLES) + (name in UNREAD) + (name in NO_MODEL) == 1
    with pytest.raises(InputError) as caught:
        load(str(path))
    assert (name in STYLES) == ("is missing" in caught.value.message)
    assert UNREAD.get(name, "") in caught.value.message


# --- full size --------------------------------------------------------------------------------------------------------


def plain(d: int, d_ff: int, heads: int, kv_heads: int, d_head: int) -> dict[str, tuple[int, ...]]:
    """A layer of Llama's kind."""
    return {
        "attn_norm.weight": (d,), "attn_q.weight": (heads * d_head, d), "attn_k.weight": (kv_heads * d_head, d),
        "attn_v.weight": (kv_heads * d_head, d), "attn_output.weight": (d, heads * d_head), "ffn_norm.weight": (d,),
        "ffn_gate.weight": (d_ff, d), "ffn_up.weight": (d_ff, d), "ffn_down.weight": (d, d_ff),
    }  # fmt: skip


LLAMA_3_8B = {
    "block_count": 32, "context_length": 8192, "embedding_length": 4096, "feed_forward_length": 14336,
    "attention.head_count": 32, "attention.head_count_kv": 8, "rope.freq_base": 500000.0,
    "rope.dimension_count": 128, "attention.layer_norm_rms_epsilon": 1e-5, "vocab_size": 128256,
    "tokenizer.ggml.tokens": ["a", "b"], "general.name": "Llama", "general.file_type": 7,
}  # fmt: skip


def llama_3_8b() -> dict[str, tuple[int, ...]]:
    outside = {"token_embd.weight": (128256, 4096), "output_norm.weight": (4096,), "output.weight": (128256, 4096)}
    return {**outside, **dict(blocks(32, plain(4096, 14336, 32, 8, 128)))}


def test_llama_3_8b(tmp_path: Path, gptcalc: Command) -> None:
    """8,030,261,248 parameters; a cache of 2 · 8 · 128 numbers a layer and token; the commands work on it alone."""
    path = written(tmp_path / "Llama-3-8B.Q8_0.gguf", "llama", LLAMA_3_8B, llama_3_8b(), "Q8_0")
    found = gptcalc("params", path, "--json")
    assert (found.status, found.err) == (0, "")
    assert (found.json["total"], found.json["stored"]) == (8_030_261_248, 8_030_261_248)
    packed = 8_030_261_248 - 65 * 4096  # norms are float32, the rest 34 bytes for 32 numbers
    assert found.json["held"][0]["bytes"] == packed // 32 * 34 + 4 * 65 * 4096
    assert gptcalc("kv", path, "--context", 8192, "--get", "bytes").out == f"{8192 * 32 * 2 * 8 * 128 * 2}\n"
    memory = gptcalc("memory", path, "--context", 1024, "--json")  # in the types that the file has
    assert memory.json["per_device"]["weights"] == found.json["held"][0]["bytes"]
    shown = gptcalc("show", path).out
    assert "rope: {theta: 500000}\n" in shown
    for command in (("memory",), ("fit", "--budget", "24GiB"), ("explain",), ("flops",)):
        assert gptcalc(command[0], path, *command[1:]).status == 0, command


def test_memory_goes_by_the_types_of_the_tensors(tmp_path: Path, gptcalc: Command) -> None:
    """Metadata that say Q8_0 over tensors in BF16: what is loaded are the tensors."""
    path = written(tmp_path / "a.gguf", "llama", LLAMA_3_8B, llama_3_8b(), "BF16")
    wide = 2 * (8_030_261_248 - 65 * 4096) + 4 * 65 * 4096
    found = gptcalc("memory", path, "--context", 1024, "--json").json
    assert (found["per_device"]["weights"], found["dtype"]) == (wide, "bf16")
    halves = gptcalc("memory", path, "--context", 1024, "--tp", 2, "--json").json
    assert halves["per_device"]["weights"] == wide // 2 + 4 * 65 * 4096 // 2  # norms are on both
    half = gptcalc("memory", path, "--context", 1024, "--engine", "llama.cpp", "--devices", 2, "--json").json
    assert half["sums"]["weights"] == wide - 2 * 128256 * 4096  # the table of tokens stays on the host


def test_gemma_3_4b(tmp_path: Path) -> None:
    """3,880,263,168 parameters of the text model; 29 of 34 layers keep 1,024 tokens."""
    d, n = 2560, 34
    layer = plain(d, 10240, 8, 4, 256)
    layer |= {f"{name}.weight": (256,) for name in ("attn_q_norm", "attn_k_norm")}
    layer |= {f"{name}.weight": (d,) for name in ("post_attention_norm", "post_ffw_norm")}
    metadata = {
        "block_count": n, "context_length": 131072, "embedding_length": d, "feed_forward_length": 10240,
        "attention.head_count": 8, "attention.head_count_kv": 4, "attention.key_length": 256,
        "attention.value_length": 256, "attention.sliding_window": 1024, "rope.freq_base": 1000000.0,
        "attention.layer_norm_rms_epsilon": 1e-6,
    }  # fmt: skip
    tensors = {"token_embd.weight": (262208, d), "output_norm.weight": (d,), **dict(blocks(n, layer))}
    model = load(str(written(tmp_path / "a.gguf", "gemma3", metadata, tensors, "Q4_0"))).architecture
    assert params(model).total == 3_880_263_168 == 262208 * d + d + n * (sum(map(_size, layer.values())))
    assert kv(model, context=8192).bytes == 2 * 2 * 4 * 256 * (29 * 1024 + 5 * 8192)


def _size(shape: tuple[int, ...]) -> int:
    from math import prod

    return prod(shape)


@pytest.mark.parametrize("split", [True, False])
def test_deepseek_v3_with_its_module(tmp_path: Path, split: bool, gptcalc: Command) -> None:
    """671,026,419,200 and 11,610,068,224, whether K's and V's up-projections are one tensor or, as newer files have
    them, two; the module for the next token but one is a further block."""
    d, heads, q_rank, kv_rank, rope, v, n, e = 7168, 128, 1536, 512, 64, 129280, 61, 256
    attention: dict[str, tuple[int, ...]] = {
        "attn_norm.weight": (d,), "attn_q_a.weight": (q_rank, d), "attn_q_a_norm.weight": (q_rank,),
        "attn_q_b.weight": (heads * 192, q_rank), "attn_kv_a_mqa.weight": (kv_rank + rope, d),
        "attn_kv_a_norm.weight": (kv_rank,), "attn_output.weight": (d, heads * 128), "ffn_norm.weight": (d,),
    }  # fmt: skip
    if split:
        attention |= {"attn_k_b.weight": (heads, kv_rank, 128), "attn_v_b.weight": (heads, 128, kv_rank)}
    else:
        attention |= {"attn_kv_b.weight": (heads * 256, kv_rank)}
    dense = {"ffn_gate.weight": (18432, d), "ffn_up.weight": (18432, d), "ffn_down.weight": (d, 18432)}
    sparse = {
        "ffn_gate_inp.weight": (e, d), "exp_probs_b.bias": (e,), "ffn_gate_exps.weight": (e, 2048, d),
        "ffn_up_exps.weight": (e, 2048, d), "ffn_down_exps.weight": (e, d, 2048), "ffn_gate_shexp.weight": (2048, d),
        "ffn_up_shexp.weight": (2048, d), "ffn_down_shexp.weight": (d, 2048),
    }  # fmt: skip
    module = {
        "nextn.eh_proj.weight": (d, 2 * d), "nextn.enorm.weight": (d,), "nextn.hnorm.weight": (d,),
        "nextn.embed_tokens.weight": (v, d), "nextn.shared_head_head.weight": (v, d),
        "nextn.shared_head_norm.weight": (d,),
    }  # fmt: skip
    tensors = {"token_embd.weight": (v, d), "output_norm.weight": (d,), "output.weight": (v, d)}
    for layer in range(n + 1):
        own = {**attention, **(dense if layer < 3 else sparse), **(module if layer == n else {})}
        tensors |= {f"blk.{layer}.{name}": shape for name, shape in own.items()}
    metadata = {
        "block_count": n + 1, "nextn_predict_layers": 1, "context_length": 163840, "embedding_length": d,
        "feed_forward_length": 18432, "attention.head_count": heads, "attention.q_lora_rank": q_rank,
        "attention.kv_lora_rank": kv_rank, "rope.dimension_count": rope, "attention.layer_norm_rms_epsilon": 1e-6,
        "expert_count": e, "expert_used_count": 8, "expert_shared_count": 1, "expert_gating_func": 2,
        "expert_weights_scale": 2.5, "expert_weights_norm": True, "leading_dense_block_count": 3,
    }  # fmt: skip
    if split:
        metadata |= {"attention.head_count_kv": 1, "attention.key_length": 576, "attention.value_length": 512,
                     "attention.key_length_mla": 192, "attention.value_length_mla": 128}  # fmt: skip
    else:
        metadata |= {"attention.head_count_kv": heads, "attention.key_length": 192, "attention.value_length": 128}
    path = written(tmp_path / "a.gguf", "deepseek2", metadata, tensors, "Q8_0")
    found = gptcalc("params", path, "--json")
    assert found.err == ""
    assert (found.json["total"], found.json["mtp"]) == (671_026_419_200, 11_610_068_224)
    assert found.json["active"] == 37_552_297_472
    assert {row["role"]: row["params"] for row in found.json["held"]} == {
        "main": 671_026_419_200, "mtp": 11_610_068_224, "copies": 2 * v * d,
    }  # fmt: skip
    assert kv(load(str(path)).architecture, context=1000).elements_per_token == n * 576


def test_sizes_of_each_layer(tmp_path: Path) -> None:
    """Lists in the metadata: heads and widths that a search chose, layers without attention (Nemotron)."""
    d, v = 64, 100
    tensors: dict[str, tuple[int, ...]] = {"token_embd.weight": (v, d), "output_norm.weight": (d,)}
    tensors |= {f"blk.0.{name}": shape for name, shape in plain(d, 96, 4, 2, 16).items()}
    tensors |= {f"blk.1.{name}": s for name, s in plain(d, 32, 4, 4, 16).items() if name.startswith("ffn")}
    tensors |= {f"blk.2.{name}": shape for name, shape in plain(d, 32, 4, 4, 16).items()}
    metadata = {
        "block_count": 3, "context_length": 50, "embedding_length": d, "feed_forward_length": [96, 32, 32],
        "attention.head_count": [4, 0, 4], "attention.head_count_kv": [2, 0, 4], "rope.freq_base": 10000.0,
        "attention.layer_norm_rms_epsilon": 1e-5,
    }  # fmt: skip
    model = load(str(written(tmp_path / "a.gguf", "deci", metadata, tensors, "F32")))
    assert params(model.architecture).total == sum(map(_size, tensors.values()))
    assert kv(model.architecture, context=10).bytes == 10 * 2 * 2 * 16 * (2 + 4)
    assert model.document["layers"] == "attn+mlp mlp_2 n*attn_2+mlp_2"


# --- several files, other things than models --------------------------------------------------------------------------


def parts(folder: Path) -> list[Path]:
    """Llama 3 8B in two files, as gguf-split writes them: all metadata in the first."""
    names = list(llama_3_8b())
    shapes = llama_3_8b()
    split: dict[str, Any] = {"split.count": 2, "split.tensors.count": len(names)}
    first = {**LLAMA_3_8B, **split, "split.no": 0}
    halves = ({name: shapes[name] for name in names[:100]}, {name: shapes[name] for name in names[100:]})
    return [
        written(folder / "llama-00001-of-00002.gguf", "llama", first, halves[0]),
        written(folder / "llama-00002-of-00002.gguf", "llama", {**split, "split.no": 1}, halves[1]),
    ]


def test_a_model_in_parts(tmp_path: Path, gptcalc: Command) -> None:
    paths = parts(tmp_path)
    for reference in (*paths, tmp_path):
        assert gptcalc("params", reference, "--get", "total").out == "8030261248\n"
        assert gptcalc("kv", reference, "--context", 1024, "--get", "bytes").out == f"{1024 * 131072}\n"
    paths[1].unlink()
    found = gptcalc("params", paths[0])
    assert (found.status, found.out) == (2, "")
    assert "file llama-00002-of-00002.gguf of 2 is missing" in found.err
    renamed = paths[0].rename(tmp_path / "other.gguf")
    assert "not called NAME-00001-of-00002.gguf" in gptcalc("params", renamed).err


def test_an_unknown_architecture_is_counted_by_its_tensors(tmp_path: Path, gptcalc: Command) -> None:
    tensors = {"token_embd.weight": (8, 32), "blk.0.odd.weight": (3, 32)}
    path = written(tmp_path / "a.gguf", "novel", {"block_count": 1}, tensors, "Q4_0")
    found = gptcalc("params", path, "--json")
    assert (found.status, found.json["total"]) == (0, 11 * 32)
    assert "general.architecture 'novel' is not known; its tensors are counted by name" in found.err
    found = gptcalc("kv", path)
    assert (found.status, found.out) == (2, "")
    assert "general.architecture 'novel' is not known" in found.err


def test_an_adapter_and_a_projector_are_no_models(tmp_path: Path, gptcalc: Command) -> None:
    weights = {"blk.0.attn_q.weight.lora_a": (4, 32)}
    adapter = written(tmp_path / "a.gguf", "llama", {"general.type": "adapter"}, weights)
    assert "this is a LoRA adapter" in gptcalc("kv", adapter).err
    projector = written(tmp_path / "b.gguf", "clip", {"block_count": 1}, {"v.blk.0.w.weight": (4, 32)})
    assert "a projector for images or sound" in gptcalc("kv", projector).err


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"block_count": 0}, "llama.block_count: expected an integer from 1 to 10000, found 0"),
        ({"block_count": 2**31}, "llama.block_count: expected an integer from 1 to 10000, found 2147483648"),
        ({"block_count": [1, 2]}, "llama.block_count: expected an integer"),
        ({"attention.head_count": "many"}, "llama.attention.head_count: expected an integer"),
        ({"attention.head_count_kv": [8] * 31}, "llama.attention.head_count_kv: expected 32 entries"),
        ({"rope.freq_base": float("nan")}, "llama.rope.freq_base: expected a number"),
        ({"context_length": True}, "llama.context_length: expected an integer"),
        ({"attention.head_count": 33}, "llama.attention.key_length is missing"),
        ({"nextn_predict_layers": 32}, "llama.nextn_predict_layers: expected fewer than the 32 blocks"),
    ],
)
def test_metadata_that_are_wrong(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    path = written(tmp_path / "a.gguf", "llama", {**LLAMA_3_8B, **change}, llama_3_8b())
    with pytest.raises(InputError) as caught:
        load(str(path))
    assert said in caught.value.message


def test_tensors_that_the_metadata_do_not_account_for_are_said(tmp_path: Path, gptcalc: Command) -> None:
    tensors = {**llama_3_8b(), "blk.5.odd.weight": (4096,), "blk.7.attn_q.weight": (4096, 2048)}
    path = written(tmp_path / "a.gguf", "llama", LLAMA_3_8B, tensors)
    found = gptcalc("params", path, "--get", "total")
    assert found.status == 0
    assert "blk.7.attn_q.weight 16,777,216 by the config, 8,388,608 in the file" in found.err
    assert "blk.5.odd.weight none by the config, 4,096 in the file" in found.err


# --- the binary format ------------------------------------------------------------------------------------------------


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def tensor(name: str, n: int, start: int) -> bytes:
    return text(name) + struct.pack("<IQIQ", 1, n, 0, start)


def pair(key: str, value: int) -> bytes:
    return text(key) + struct.pack("<II", 4, value)


@pytest.mark.parametrize(
    ("pairs", "tensors", "said"),
    [
        ([], [tensor("a", 8, 0), tensor("a", 8, 32)], "tensor 'a' stands twice"),
        ([], [tensor("a", 16, 0), tensor("b", 8, 32)], "tensor 'b' overlaps another"),
        ([], [tensor("a", 8, 0), tensor("b", 8, 33)], "tensor 'b': byte 33 is no multiple of the alignment 32"),
        ([pair("x", 1), pair("x", 2)], [], "metadata 'x' stands twice"),
    ],
)
def test_names_stand_once_and_data_apart(tmp_path: Path, pairs: list[bytes], tensors: list[bytes], said: str) -> None:
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(pairs)) + b"".join(pairs) + b"".join(tensors)
    path = tmp_path / "a.gguf"
    path.write_bytes(head + bytes(-len(head) % 32 + 256))
    with pytest.raises(InputError) as caught:
        header(path)
    assert said in caught.value.message


def test_a_tokenizer_is_passed_over_quickly(tmp_path: Path) -> None:
    """As many texts as Gemma's tokenizer has; their number is kept."""
    from gptcalc.sources.gguf.reader import Length, read

    tokens = [f"token {number}" for number in range(262_144)]
    path = written(tmp_path / "a.gguf", "llama", {"tokenizer.ggml.tokens": tokens}, {})
    assert read(path)[0].metadata["tokenizer.ggml.tokens"] == Length(262_144)


def test_a_preset_or_a_config_is_held_against_a_gguf_file(tmp_path: Path, gptcalc: Command) -> None:
    """llama.cpp calls the same weights the same in every model, so that a preset needs no names of its own."""
    path = written(tmp_path / "a.gguf", "llama", LLAMA_3_8B, llama_3_8b(), "Q8_0")
    assert gptcalc("validate", "llama-3-8b", "--checkpoint", path).status == 0
    found = gptcalc("validate", "llama-3-8b", "--checkpoint", path, "--set", "n_kv_heads=16", "--json")
    wrong = [check for check in found.json[0]["checks"] if not check["ok"]]
    assert found.status == 1
    assert wrong[1] == {
        "name": "tensor blk.0.attn_k.weight", "expected": 2 * 1024 * 4096, "found": 1024 * 4096, "ok": False,
        "witness": "checkpoint",
    }  # fmt: skip
    convert(FOLDER / "qwen3_qknorm", tmp_path / "b.gguf")
    assert gptcalc("validate", FOLDER / "qwen3_qknorm", "--checkpoint", tmp_path / "b.gguf").status == 0
