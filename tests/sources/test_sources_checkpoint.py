"""safetensors and GGUF files: headers that lie, and weights under their keys whatever their layout."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from gptcalc.analysis.params import params
from gptcalc.analysis.stored import by_name
from gptcalc.document import build
from gptcalc.errors import InputError
from gptcalc.sources.checkpoint import Checkpoint, header, tensors
from gptcalc.sources.huggingface import read, tensor_names
from gptcalc.sources.packed import contents
from tests.conftest import Command
from tests.golden_models import FOLDER, golden
from tests.sources.checkpoints import sparse

Header = dict[str, Any]


BF16 = {"torch_dtype": "bfloat16"}


def write(path: Path, entries: Header, data: bytes = b"", length: int | None = None) -> Path:
    text = json.dumps(entries).encode()
    path.write_bytes(struct.pack("<Q", len(text) if length is None else length) + text + data)
    return path


def entry(shape: list[Any], start: int, end: int, dtype: str = "F32") -> Header:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


def save(path: Path, arrays: dict[str, np.ndarray[Any, Any]]) -> Path:
    """A true file of float32 (or, as U16, bfloat16) arrays."""
    entries, data = {}, b""
    for name, array in arrays.items():
        raw = array.tobytes()
        dtype = "BF16" if array.dtype == np.uint16 else "F32"
        entries[name] = entry(list(array.shape), len(data), len(data) + len(raw), dtype)
        data += raw
    return write(path, entries, data)


def problem(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        header(path)
    assert caught.value.message.startswith(str(path.parent))
    return caught.value.message


# --- headers ----------------------------------------------------------------------------------------------------------


def test_names_shapes_and_types(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.safetensors",
        {"w": entry([2, 3], 0, 24), "s": entry([], 24, 28), "e": entry([0], 28, 28)},
        bytes(28),
    )
    assert tensors(path) == [("w", (2, 3), "F32"), ("s", (), "F32"), ("e", (0,), "F32")]
    assert header(path).total == 7


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ({"w": entry([2], 0, 2**31)}, "data_offsets 0..2147483648 reach beyond the 8 bytes of data"),
        ({"w": entry([2], 8, 0)}, "reach beyond"),
        ({"w": entry([3], 0, 8)}, "shape [3] of F32 needs 96 bits, data_offsets give 64"),
        ({"w": entry([2**62, 2**62, 2**32], 0, 8)}, "needs"),
        ({"w": entry([2], 0, 8, "Q7")}, "element type 'Q7' is not known"),
        ({"w": entry([-1, 4], 0, 8)}, "is not a list of sizes"),
        ({"w": entry([True], 0, 4)}, "is not a list of sizes"),
        ({"a": entry([2], 0, 8), "b": entry([1], 4, 8)}, "tensors 'a' and 'b' overlap"),
        ({"w": 3}, "expected dtype, shape and data_offsets"),
        ({"__metadata__": {"a": 1}}, "__metadata__ must hold strings"),
        ([], "expected an object"),
    ],
)
def test_headers_that_lie(tmp_path: Path, entries: Any, said: str) -> None:
    assert said in problem(write(tmp_path / "a.safetensors", entries, bytes(8)))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "empty file"),
        (b"1234567", "7 bytes are too few"),
        (struct.pack("<Q", 2**63) + b"{}", "exceeds the limit of 100000000 bytes"),
        (struct.pack("<Q", 1000) + b"{}", "header length 1000 exceeds the file's 10 bytes"),
        (struct.pack("<Q", 2) + b"\xff\xfe", "not UTF-8"),
        (struct.pack("<Q", 5) + b'{"a":', "not valid JSON"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 4976698672\n", "4,976,698,672 bytes"),
    ],
)
def test_files_that_are_no_checkpoint(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "a.safetensors"
    path.write_bytes(content)
    assert said in problem(path)


def test_metadata_that_disagrees_is_noted(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.safetensors", {"__metadata__": {"total_parameters": "9"}, "w": entry([2], 0, 8)}, bytes(8)
    )
    assert header(path).total == 2
    assert header(path).notes == ("a.safetensors: metadata says 9 total_parameters, the tensors have 2",)


def test_masks_and_rotary_tables_are_left_out_of_the_total(tmp_path: Path) -> None:
    arrays = {
        "h.0.attn.bias": np.zeros((1, 1, 4, 4), np.float32),
        "h.0.attn.masked_bias": np.zeros((), np.float32),
        "layers.0.rotary_emb.inv_freq": np.zeros(2, np.float32),
        "h.0.attn.c_attn.bias": np.zeros(12, np.float32),
    }
    assert header(save(tmp_path / "a.safetensors", arrays)).total == 12


def test_shards(tmp_path: Path) -> None:
    save(tmp_path / "one.safetensors", {"a": np.ones(2, np.float32)})
    save(tmp_path / "two.safetensors", {"b": np.ones(3, np.float32), "c": np.ones(5, np.float32)})
    index = tmp_path / "model.safetensors.index.json"

    def shards(**where: str) -> Path:
        index.write_text(json.dumps({"weight_map": where}))
        return index

    assert header(shards(a="one.safetensors", b="two.safetensors").parent).total == 5
    assert header(index).notes == (
        "model.safetensors.index.json: 1 tensors of the shards are not in the index; left out",
    )
    assert "shard three.safetensors is missing" in problem(shards(a="three.safetensors"))
    assert "not a .safetensors file beside it" in problem(shards(a="../../../../etc/hostname"))
    assert "not a .safetensors file beside it" in problem(shards(a="../other.safetensors"))
    assert "tensor 'z' is not in one.safetensors" in problem(shards(z="one.safetensors"))


def test_a_folder_without_a_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no model\.safetensors"):
        header(tmp_path)


# --- weights ----------------------------------------------------------------------------------------------------------

D, HEADS, KV, HEAD, FF = 12, 6, 3, 4, 10


def numbered(*shape: int) -> np.ndarray[Any, Any]:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def opened(folder: Path, model_type: str, arrays: dict[str, np.ndarray[Any, Any]], **document: Any) -> Checkpoint:
    sizes = {"d": D, "v": 7, "c": 8, "n_heads": HEADS, "n_layers": 1, "n_kv_heads": KV, "d_head": HEAD, "d_ff": FF}
    save(folder / "model.safetensors", arrays)
    return Checkpoint(folder, tensor_names(model_type, build({**sizes, **document})))


def test_a_linear_matrix_is_turned_and_an_embedding_is_not(tmp_path: Path) -> None:
    gate, table = numbered(FF, D), numbered(7, D)
    checkpoint = opened(
        tmp_path, "llama", {"model.layers.0.mlp.gate_proj.weight": gate, "model.embed_tokens.weight": table}
    )
    assert np.array_equal(checkpoint.get("layers.0.mlp.gate", (D, FF)), gate.T)
    assert np.array_equal(checkpoint.get("embedding.token", (7, D)), table)
    with pytest.raises(InputError, match=r"the checkpoint has no model\.norm\.weight"):
        checkpoint.get("final_norm.weight", (D,))
    with pytest.raises(InputError, match="the architecture"):
        checkpoint.get("embedding.token", (8, D))


def test_other_words_in_front_of_a_name(tmp_path: Path) -> None:
    norm = numbered(D)
    for prefix in ("norm", "language_model.model.norm", "model.language_model.norm"):
        checkpoint = opened(tmp_path, "llama", {f"{prefix}.weight": norm})
        assert np.array_equal(checkpoint.get("final_norm.weight", (D,)), norm)


def test_bfloat16_is_widened(tmp_path: Path) -> None:
    exact = np.array([1.0, -2.5, 0.0078125], np.float32)
    checkpoint = opened(tmp_path, "llama", {"model.norm.weight": (exact.view(np.uint32) >> 16).astype(np.uint16)})
    assert np.array_equal(checkpoint.get("final_norm.weight", (3,)), exact)


def test_parts_side_by_side(tmp_path: Path) -> None:
    whole = numbered((HEADS + 2 * KV) * HEAD, D)
    checkpoint = opened(tmp_path, "phi3", {"model.layers.0.self_attn.qkv_proj.weight": whole})
    q, k = HEADS * HEAD, (HEADS + KV) * HEAD
    assert np.array_equal(checkpoint.get("layers.0.attn.q", (D, q)), whole[:q].T)
    assert np.array_equal(checkpoint.get("layers.0.attn.k", (D, KV * HEAD)), whole[q:k].T)
    assert np.array_equal(checkpoint.get("layers.0.attn.v", (D, KV * HEAD)), whole[k:].T)


def test_gpt_2_stores_inputs_first(tmp_path: Path) -> None:
    whole, bias = numbered(D, 3 * HEADS * HEAD), numbered(3 * HEADS * HEAD)
    names = {"transformer.h.0.attn.c_attn.weight": whole, "transformer.h.0.attn.c_attn.bias": bias}
    checkpoint = opened(tmp_path, "gpt2", names, n_kv_heads=HEADS, bias="all", mlp="gelu")
    width = HEADS * HEAD
    assert np.array_equal(checkpoint.get("layers.0.attn.k", (D, width)), whole[:, width : 2 * width])
    assert np.array_equal(checkpoint.get("layers.0.attn.v.bias", (width,)), bias[2 * width :])


def test_parts_that_alternate_by_group(tmp_path: Path) -> None:
    """Falcon: the queries of each KV head, then its key, then its value."""
    whole = numbered((HEADS + 2 * KV) * HEAD, D)
    checkpoint = opened(tmp_path, "falcon", {"transformer.h.0.self_attention.query_key_value.weight": whole})
    by_group = whole.reshape(KV, HEADS // KV + 2, HEAD, D)
    q = by_group[:, :-2].reshape(HEADS * HEAD, D).T
    assert np.array_equal(checkpoint.get("layers.0.attn.q", (D, HEADS * HEAD)), q)
    assert np.array_equal(checkpoint.get("layers.0.attn.k", (D, KV * HEAD)), by_group[:, -2].reshape(-1, D).T)


def test_a_latent_and_its_rotary_key_share_a_matrix(tmp_path: Path) -> None:
    mla = {"kv_rank": 5, "d_nope": 3, "d_rope": 2, "d_v": 4}
    down, up = numbered(5 + 2, D), numbered(HEADS * (3 + 4), 5)
    sections = {"layers": "n*mla+mlp", "mla": mla, "n_kv_heads": None, "d_head": None}
    names = {"kv_a_proj_with_mqa": down, "kv_b_proj": up}
    arrays = {f"model.layers.0.self_attn.{name}.weight": array for name, array in names.items()}
    checkpoint = opened(tmp_path, "deepseek_v3", arrays, **sections)
    assert np.array_equal(checkpoint.get("layers.0.attn.k_rope", (D, 2)), down[5:].T)
    values = up.reshape(HEADS, 7, 5)[:, 3:].reshape(-1, 5).T
    assert np.array_equal(checkpoint.get("layers.0.attn.v_b", (5, HEADS * 4)), values)


EXPERTS = {"layers": "n*attn+moe", "moe": {"n_experts": 2, "top_k": 1, "d_ff": FF}}


def test_experts_apart_and_together(tmp_path: Path) -> None:
    apart = numbered(2, FF, D)
    names = {f"model.layers.0.block_sparse_moe.experts.{e}.w3.weight": apart[e] for e in range(2)}
    checkpoint = opened(tmp_path, "mixtral", names, **EXPERTS)
    assert np.array_equal(checkpoint.get("layers.0.moe.up", (2, D, FF)), apart.swapaxes(1, 2))
    together = numbered(2, 2 * FF, D)
    checkpoint = opened(tmp_path, "mixtral", {"model.layers.0.mlp.experts.gate_up_proj": together}, **EXPERTS)
    assert np.array_equal(checkpoint.get("layers.0.moe.up", (2, D, FF)), together[:, FF:].swapaxes(1, 2))


def test_gate_and_up_alternate_in_gpt_oss(tmp_path: Path) -> None:
    both, bias = numbered(2, D, 2 * FF), numbered(2, 2 * FF)
    names = {"gate_up_proj": both, "gate_up_proj_bias": bias}
    arrays = {f"model.layers.0.mlp.experts.{name}": array for name, array in names.items()}
    checkpoint = opened(tmp_path, "gpt_oss", arrays, bias=["experts"], **EXPERTS)
    assert np.array_equal(checkpoint.get("layers.0.moe.gate", (2, D, FF)), both[..., ::2])
    assert np.array_equal(checkpoint.get("layers.0.moe.up.bias", (2, FF)), bias[..., 1::2])


# --- GGUF -------------------------------------------------------------------------------------------------------------


def text(word: str) -> bytes:
    return struct.pack("<Q", len(word)) + word.encode()


def gguf(path: Path, pairs: list[bytes], found: list[bytes], data: bytes = b"", version: int = 3) -> Path:
    start = b"GGUF" + struct.pack("<IQQ", version, len(found), len(pairs)) + b"".join(pairs) + b"".join(found)
    path.write_bytes(start + bytes(-len(start) % 32) + data)
    return path


def listed(name: str, kind: int, start: int, *shape: int) -> bytes:
    return (
        text(name)
        + struct.pack("<I", len(shape))
        + struct.pack(f"<{len(shape)}Q", *shape)
        + struct.pack("<IQ", kind, start)
    )


def test_a_gguf_file(tmp_path: Path) -> None:
    pairs = [
        text("general.architecture") + struct.pack("<I", 8) + text("llama"),
        text("llama.block_count") + struct.pack("<II", 4, 32),
        text("tokens") + struct.pack("<IIQ", 9, 8, 2) + text("a") + text("b"),
        text("scores") + struct.pack("<IIQ", 9, 6, 2) + bytes(8),
    ]
    tensors_ = [listed("token_embd.weight", 8, 0, 64, 3), listed("output_norm.weight", 0, 224, 64)]
    found = header(gguf(tmp_path / "a.gguf", pairs, tensors_, bytes(224 + 256)))
    assert [(t.name, t.shape, t.dtype) for t in found.tensors] == [
        ("token_embd.weight", (3, 64), "Q8_0"),
        ("output_norm.weight", (64,), "FP32"),
    ]
    assert found.total == 3 * 64 + 64
    assert found.metadata == {"general.architecture": "llama", "llama.block_count": "32"}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"GGJT" + bytes(20), "not a GGUF file"),
        (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "big-endian"),
        (b"GGUF" + struct.pack("<IQQ", 99, 0, 0), "GGUF version 99 is not known"),
        (b"GGUF" + struct.pack("<IQQ", 3, 2**64 - 1, 0), "18446744073709551615 tensors do not fit"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 2**64 - 1), "18446744073709551615 metadata entries do not fit"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 2**60) + bytes(20), "do not fit"),
        (
            b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("k") + struct.pack("<IIQ", 9, 9, 2**40) + bytes(9),
            "do not fit",
        ),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("k") + struct.pack("<I", 77) + bytes(9), "value type 77"),
        (b"GGUF" + struct.pack("<IQQ", 3, 1, 0) + listed("w", 9999, 0, 32), "ggml type 9999 is not known"),
        (b"GGUF" + struct.pack("<IQQ", 3, 1, 0) + listed("w", 8, 0, 33), "not whole blocks of 32"),
        (b"GGUF" + struct.pack("<IQQ", 3, 1, 0) + listed("w", 0, 0, 2**40, 2**40), "reach beyond"),
        (b"GGUF" + struct.pack("<IQQ", 3, 1, 0) + listed("w", 0, 0, *[1] * 5), "5 dimensions"),
        (b"GGUF", "reaches beyond"),
    ],
)
def test_gguf_files_that_lie(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "a.gguf"
    path.write_bytes(content)
    assert said in problem(path)


@pytest.mark.parametrize("name", ["gpt2", "gpt_oss", "deepseek_v3"])
def test_arrays_are_those_that_the_safetensors_library_reads(name: str) -> None:
    architecture, checkpoint, _ = golden(name)
    theirs = load_file(FOLDER / name / "model.safetensors")
    assert {tensor.name for tensor in checkpoint.header.tensors} == set(theirs)
    assert checkpoint.header.total >= params(architecture).total
    for tensor in checkpoint.header.tensors:
        assert np.array_equal(checkpoint.array(tensor), theirs[tensor.name])


@pytest.mark.parametrize(("stored", "said", "form"), [("F32", {}, "fp32"), ("F16", {}, "fp16"), ("F32", BF16, "bf16")])
def test_a_header_says_the_weights_type_where_the_config_does_not(
    tmp_path: Path, gptcalc: Command, stored: str, said: dict[str, str], form: str
) -> None:
    """4, 2 and 2 bytes for each of 2 · 100 · 64 numbers of tables and 2 layers; a norm's few are the same."""
    config = {
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 100, "hidden_size": 64,
        "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 128,
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps({**config, **said}))
    sparse(tmp_path / "model.safetensors", {"model.embed_tokens.weight": (stored, (100, 64))})
    total = 2 * 100 * 64 + 2 * (4 * 64 * 64 + 3 * 64 * 96 + 2 * 64) + 64
    found = gptcalc("memory", tmp_path, "--json")
    assert found.json["per_device"]["weights"] == total * {"fp32": 4, "fp16": 2, "bf16": 2}[form]
    assert (f"weights are {form}, as the checkpoint's header says" in found.err) == (not said)


@pytest.mark.parametrize(
    ("model_type", "key", "name"),
    [
        ("hy_v3", "layers.1.moe.router", "model.layers.1.mlp.router.gate.weight"),
        ("hy_v3", "layers.1.moe.selection_bias", "model.layers.1.mlp.expert_bias"),
        ("hy_v3", "layers.1.moe.shared.up", "model.layers.1.mlp.shared_mlp.up_proj.weight"),
        ("exaone_moe", "layers.1.moe.selection_bias", "model.layers.1.mlp.e_score_correction_bias"),
        ("laguna", "layers.1.moe.selection_bias", "model.layers.1.mlp.experts.e_score_correction_bias"),
        ("laguna", "layers.1.moe.shared.gate", "model.layers.1.mlp.shared_expert.gate_proj.weight"),
        ("kolibri1", "layers.0.attn.post_norm.weight", "model.layers.0.post_attn_norm.weight"),
        ("kolibri1", "layers.0.moe.selection_bias", "model.layers.0.moe.router.expert_bias"),
        ("sarvam_moe", "layers.1.attn.k", "model.layers.1.attention.query_key_value.weight"),
        ("sarvam_moe", "layers.1.attn.out", "model.layers.1.attention.dense.weight"),
        ("sarvam_moe", "embedding.token", "model.word_embeddings.weight"),
    ],
)
def test_names_that_transformers_saves_under(model_type: str, key: str, name: str) -> None:
    """save_pretrained of small models of 5.24's classes, which then have the publishers' names."""
    names = tensor_names(model_type, read({"model_type": model_type}).architecture)
    assert name in {place.name for place in names.places(key)}


def test_constants_of_xielu_are_no_weights(tmp_path: Path) -> None:
    """ApertusForCausalLM stores β and ε of its activation beside the two α that are learned."""
    stem = "model.layers.0.mlp.act_fn"
    arrays = {f"{stem}.{name}": np.ones(1, np.float32) for name in ("alpha_p", "alpha_n", "beta", "eps")}
    save_file(arrays, tmp_path / "model.safetensors")
    found = header(tmp_path / "model.safetensors")
    assert found.total == 2
    assert by_name(contents(found)).main == 2
