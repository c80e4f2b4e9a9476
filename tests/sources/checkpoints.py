"""Checkpoint files for tests: headers over sparse data, so that a terabyte takes no room."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path

BITS = {"F32": 32, "BF16": 16, "F16": 16, "F8_E4M3": 8, "F8_E8M0": 8, "I64": 64, "I32": 32, "U32": 32, "U8": 8, "I8": 8,
        "BOOL": 8}  # fmt: skip

Tensors = Mapping[str, tuple[str, tuple[int, ...]]]


def sparse(path: Path, tensors: Tensors) -> Path:
    """A safetensors file of these tensors (name: element type, shape) whose data are one hole."""
    entries, at = {}, 0
    for name, (dtype, shape) in tensors.items():
        end = at + prod(shape) * BITS[dtype] // 8
        entries[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, end]}
        at = end
    header = json.dumps(entries).encode()
    with path.open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + at)
    return path


def sharded(folder: Path, tensors: Tensors, shards: int) -> Path:
    """The same in several files behind an index."""
    names = list(tensors)
    per = -(-len(names) // shards)
    weight_map: dict[str, str] = {}
    for i in range(shards):
        file = f"model-{i + 1:05d}-of-{shards:05d}.safetensors"
        own = names[i * per : (i + 1) * per]
        sparse(folder / file, {name: tensors[name] for name in own})
        weight_map |= dict.fromkeys(own, file)
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    return index


# --- as torch writes --------------------------------------------------------------------------------------------------

STORAGES = {"F32": b"FloatStorage", "BF16": b"BFloat16Storage", "F16": b"HalfStorage"}


def _word(text: str) -> bytes:
    return b"X" + len(text).to_bytes(4, "little") + text.encode()


def _numbers(values: tuple[int, ...]) -> bytes:
    return b"(" + b"".join(b"J" + value.to_bytes(4, "little") for value in values) + b"t"


def pickled(tensors: Tensors) -> bytes:
    """The pickle of a state dict (protocol 2), each tensor in a storage of its own."""
    out = b"\x80\x02}("
    for key, (name, (dtype, shape)) in enumerate(tensors.items()):
        strides = tuple(prod(shape[i + 1 :]) for i in range(len(shape)))
        size = b"J" + prod(shape).to_bytes(4, "little")
        storage = (
            b"(" + _word("storage") + b"ctorch\n" + STORAGES[dtype] + b"\n" + _word(str(key)) + _word("cpu") + size
        )
        out += _word(name) + b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + b"tQK\x00"
        out += _numbers(shape) + _numbers(strides) + b"\x89ccollections\nOrderedDict\n)RtR"
    return out + b"u."


def torch_archive(path: Path, tensors: Tensors, between: int = 0) -> Path:
    """A file of torch 1.6 and later; so many more bytes lie between what describes the tensors and the directory."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", pickled(tensors))
        for key, (dtype, shape) in enumerate(tensors.values()):
            archive.writestr(f"archive/data/{key}", bytes(prod(shape) * BITS[dtype] // 8))
        archive.writestr("archive/more", bytes(between))
    return path


def torch_stream(path: Path, tensors: Tensors, behind: int = 0) -> Path:
    """A file of torch before 1.6: a number, a version, the machine, the tensors, and so many bytes of data."""
    magic = (0x1950A86A20F9469CFC6C).to_bytes(10, "little")
    start = b"\x80\x02\x8a\x0a" + magic + b".\x80\x02M\xe9\x03.\x80\x02}."
    path.write_bytes(start + pickled(tensors) + b"\x80\x02]." + bytes(behind))
    return path


# --- DeepSeek-V3 as it was published: fp8, a float32 scale for 128 × 128 ----------------------------------------------

D, V, HEADS, Q_RANK, KV_RANK, NOPE, ROPE, D_V = 7168, 129280, 128, 1536, 512, 128, 64, 128
D_FF, D_EXPERT, EXPERTS, DENSE, LAYERS = 18432, 2048, 256, 3, 61

DEEPSEEK_V3 = {
    "model_type": "deepseek_v3", "architectures": ["DeepseekV3ForCausalLM"], "hidden_size": D, "vocab_size": V,
    "max_position_embeddings": 163840, "num_attention_heads": HEADS, "num_key_value_heads": HEADS,
    "num_hidden_layers": LAYERS, "intermediate_size": D_FF, "q_lora_rank": Q_RANK, "kv_lora_rank": KV_RANK,
    "qk_nope_head_dim": NOPE, "qk_rope_head_dim": ROPE, "v_head_dim": D_V, "n_routed_experts": EXPERTS,
    "num_experts_per_tok": 8, "moe_intermediate_size": D_EXPERT, "n_shared_experts": 1, "first_k_dense_replace": DENSE,
    "n_group": 8, "topk_group": 4, "routed_scaling_factor": 2.5, "num_nextn_predict_layers": 1, "moe_layer_freq": 1,
    "topk_method": "noaux_tc", "scoring_func": "sigmoid", "norm_topk_prob": True, "tie_word_embeddings": False,
    "quantization_config": {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128]},
}  # fmt: skip


def fp8(name: str, rows: int, columns: int) -> Iterator[tuple[str, tuple[str, tuple[int, ...]]]]:
    yield f"{name}.weight", ("F8_E4M3", (rows, columns))
    yield f"{name}.weight_scale_inv", ("F32", (-(-rows // 128), -(-columns // 128)))


def gated(name: str, d_ff: int) -> Iterator[tuple[str, tuple[str, tuple[int, ...]]]]:
    for word, rows, columns in (("gate", d_ff, D), ("up", d_ff, D), ("down", D, d_ff)):
        yield from fp8(f"{name}.{word}_proj", rows, columns)


def deepseek_v3() -> Iterator[tuple[str, tuple[str, tuple[int, ...]]]]:
    """Its tensors, from the model's code and the shapes in its paper (arXiv:2412.19437, §4.2)."""
    yield "model.embed_tokens.weight", ("BF16", (V, D))
    yield "model.norm.weight", ("BF16", (D,))
    yield "lm_head.weight", ("BF16", (V, D))
    for layer in range(LAYERS + 1):
        at = f"model.layers.{layer}"
        yield f"{at}.input_layernorm.weight", ("BF16", (D,))
        yield f"{at}.post_attention_layernorm.weight", ("BF16", (D,))
        yield from fp8(f"{at}.self_attn.q_a_proj", Q_RANK, D)
        yield f"{at}.self_attn.q_a_layernorm.weight", ("BF16", (Q_RANK,))
        yield from fp8(f"{at}.self_attn.q_b_proj", HEADS * (NOPE + ROPE), Q_RANK)
        yield from fp8(f"{at}.self_attn.kv_a_proj_with_mqa", KV_RANK + ROPE, D)
        yield f"{at}.self_attn.kv_a_layernorm.weight", ("BF16", (KV_RANK,))
        yield from fp8(f"{at}.self_attn.kv_b_proj", HEADS * (NOPE + D_V), KV_RANK)
        yield from fp8(f"{at}.self_attn.o_proj", D, HEADS * D_V)
        if layer < DENSE:
            yield from gated(f"{at}.mlp", D_FF)
            continue
        yield f"{at}.mlp.gate.weight", ("BF16", (EXPERTS, D))
        yield f"{at}.mlp.gate.e_score_correction_bias", ("F32", (EXPERTS,))
        yield from gated(f"{at}.mlp.shared_experts", D_EXPERT)
        for e in range(EXPERTS):
            yield from gated(f"{at}.mlp.experts.{e}", D_EXPERT)
    mtp = f"model.layers.{LAYERS}"
    yield f"{mtp}.embed_tokens.weight", ("BF16", (V, D))
    yield f"{mtp}.enorm.weight", ("BF16", (D,))
    yield f"{mtp}.hnorm.weight", ("BF16", (D,))
    yield f"{mtp}.eh_proj.weight", ("BF16", (D, 2 * D))
    yield f"{mtp}.shared_head.norm.weight", ("BF16", (D,))
    yield f"{mtp}.shared_head.head.weight", ("BF16", (V, D))
