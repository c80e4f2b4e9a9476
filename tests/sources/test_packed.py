"""Parameters behind packed weights: files built by the safetensors library in each quantiser's layout.

Expected counts are those of the matrices before packing; the layouts are those of the libraries that write them.
"""

from __future__ import annotations

import json
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import TensorSpec, serialize

from gptcalc.analysis.stored import by_name, held
from gptcalc.errors import InputError
from gptcalc.sources import load
from gptcalc.sources.checkpoint import config_beside, header
from gptcalc.sources.packed import contents
from tests.conftest import Command
from tests.golden_models import FOLDER
from tests.sources.checkpoints import BITS, DEEPSEEK_V3, deepseek_v3, sharded, sparse

SAFETENSORS = {"F32": "float32", "F16": "float16", "BF16": "bfloat16", "I32": "int32", "I64": "int64", "U32": "uint32",
               "U8": "uint8", "I8": "int8", "F8_E4M3": "float8_e4m3fn", "F8_E8M0": "float8_e8m0fnu"}  # fmt: skip

Tensors = dict[str, tuple[str, tuple[int, ...]]]


def save(path: Path, tensors: Tensors, data: dict[str, bytes] | None = None) -> Path:
    """A file as the library writes it, of zeros where no data are given."""
    entries, kept = {}, []
    for name, (dtype, shape) in tensors.items():
        raw = np.frombuffer((data or {}).get(name, bytes(prod(shape) * BITS[dtype] // 8)), np.uint8)
        kept.append(raw)  # the library is given an address
        entries[name] = TensorSpec(
            dtype=SAFETENSORS[dtype], shape=list(shape), data_ptr=raw.ctypes.data, data_len=raw.nbytes
        )
    path.write_bytes(serialize(entries))
    return path


#: an input and an output size; groups of 64 inputs
IN, OUT, G = 256, 96, 4
M = "model.layers.0.mlp.up_proj"
NORM: Tensors = {"model.norm.weight": ("F16", (IN,))}

FORMATS: dict[str, tuple[Tensors, dict[str, int]]] = {
    # AutoGPTQ packs along the inputs, 3 bits in threes of words
    **{
        f"gptq {bits} bits": (
            {
                f"{M}.qweight": ("I32", (IN * bits // 32, OUT)),
                f"{M}.qzeros": ("I32", (G, OUT * bits // 32)),
                f"{M}.scales": ("F16", (G, OUT)),
                f"{M}.g_idx": ("I32", (IN,)),
            },
            {"zero_points": G * OUT * bits // 32, "scales": G * OUT, "g_idx": IN},
        )
        for bits in (2, 3, 4, 8)
    },
    "gptq without order": (
        {
            f"{M}.qweight": ("I32", (IN // 8, OUT)),
            f"{M}.qzeros": ("I32", (G, OUT // 8)),
            f"{M}.scales": ("F16", (G, OUT)),
        },
        {"zero_points": G * OUT // 8, "scales": G * OUT},
    ),
    "awq": (  # along the outputs
        {
            f"{M}.qweight": ("I32", (IN, OUT // 8)),
            f"{M}.qzeros": ("I32", (G, OUT // 8)),
            f"{M}.scales": ("F16", (G, OUT)),
        },
        {"zero_points": G * OUT // 8, "scales": G * OUT},
    ),
    "bitsandbytes nf4, nested": (
        {
            f"{M}.weight": ("U8", (IN * OUT // 2, 1)),
            f"{M}.weight.absmax": ("U8", (IN * OUT // 64,)),
            f"{M}.weight.nested_absmax": ("F32", (2,)),
            f"{M}.weight.nested_quant_map": ("F32", (256,)),
            f"{M}.weight.quant_map": ("F32", (16,)),
            f"{M}.weight.quant_state.bitsandbytes__nf4": ("U8", (90,)),
        },
        {"absmax": IN * OUT // 64 + 2, "bookkeeping": 256 + 16 + 90},
    ),
    "bitsandbytes 8 bits": (
        {f"{M}.weight": ("I8", (OUT, IN)), f"{M}.SCB": ("F32", (OUT,)), f"{M}.weight_format": ("U8", ())},
        {"scales": OUT, "bookkeeping": 1},
    ),
    "fp8 in blocks": (
        {f"{M}.weight": ("F8_E4M3", (OUT, IN)), f"{M}.weight_scale_inv": ("F32", (1, 2))},
        {"scales": 2},
    ),
    "fp8 by channel": (
        {
            f"{M}.weight": ("F8_E4M3", (OUT, IN)),
            f"{M}.weight_scale": ("BF16", (OUT, 1)),
            f"{M}.input_scale": ("BF16", (1,)),
            "model.layers.0.self_attn.k_scale": ("BF16", (1,)),
        },
        {"scales": OUT + 2},
    ),
    "mxfp4 as gpt-oss has it": (
        {
            "model.layers.0.mlp.experts.gate_up_proj_blocks": ("U8", (3, OUT // 3, IN // 32, 16)),
            "model.layers.0.mlp.experts.gate_up_proj_scales": ("U8", (3, OUT // 3, IN // 32)),
        },
        {"scales": OUT * IN // 32},
    ),
    "mxfp4 of DeepSeek-V4": (
        {f"{M}.weight": ("I8", (OUT, IN // 2)), f"{M}.scale": ("F8_E8M0", (OUT, IN // 32))},
        {"scales": OUT * IN // 32},
    ),
    "nvfp4 of ModelOpt": (
        {
            f"{M}.weight": ("U8", (OUT, IN // 2)),
            f"{M}.weight_scale": ("F8_E4M3", (OUT, IN // 16)),
            f"{M}.weight_scale_2": ("F32", ()),
            f"{M}.input_scale": ("F32", ()),
        },
        {"scales": OUT * IN // 16 + 2},
    ),
    "nvfp4 of compressed-tensors": (
        {
            f"{M}.weight_packed": ("U8", (OUT, IN // 2)),
            f"{M}.weight_scale": ("F8_E4M3", (OUT, IN // 16)),
            f"{M}.weight_global_scale": ("F32", (1,)),
            f"{M}.input_global_scale": ("F32", (1,)),
        },
        {"scales": OUT * IN // 16 + 2},
    ),
    "compressed-tensors, 4 bits with zero points": (
        {
            f"{M}.weight_packed": ("I32", (OUT, IN // 8)),
            f"{M}.weight_scale": ("BF16", (OUT, G)),
            f"{M}.weight_zero_point": ("I32", (OUT // 8, G)),
        },
        {"scales": OUT * G, "zero_points": OUT // 8 * G},
    ),
    "compressed-tensors, 8 bits": (
        {f"{M}.weight": ("I8", (OUT, IN)), f"{M}.weight_scale": ("BF16", (OUT, 1))},
        {"scales": OUT},
    ),
    "BitNet": ({f"{M}.weight": ("U8", (OUT // 4, IN)), f"{M}.weight_scale": ("BF16", (1,))}, {"scales": 1}),
    "MLX mxfp4": (
        {f"{M}.weight": ("U32", (OUT, IN // 8)), f"{M}.scales": ("U8", (OUT, IN // 32))},
        {"scales": OUT * IN // 32},
    ),
    "an adapter beside its base": (
        {
            f"base_model.model.{M}.base_layer.weight": ("BF16", (OUT, IN)),
            f"base_model.model.{M}.lora_A.default.weight": ("BF16", (8, IN)),
            f"base_model.model.{M}.lora_B.default.weight": ("BF16", (OUT, 8)),
        },
        {"adapters": 8 * IN + OUT * 8},
    ),
    "masks and rotary tables": (
        {
            f"{M}.weight": ("F16", (OUT, IN)),
            "transformer.h.0.attn.bias": ("U8", (1, 1, 8, 8)),
            "transformer.h.0.attn.masked_bias": ("F32", ()),
            "model.layers.0.self_attn.rotary_emb.inv_freq": ("F32", (4,)),
        },
        {"masks": 65, "rotary_tables": 4},
    ),
}


def roles(path: Path) -> dict[str, int]:
    return {row.role: row.params for row in by_name(contents(header(path), config_beside(path))).held}


@pytest.mark.parametrize("name", FORMATS)
def test_packed_weights_count_as_what_they_stand_for(tmp_path: Path, name: str) -> None:
    tensors, apart = FORMATS[name]
    assert roles(save(tmp_path / "a.safetensors", {**NORM, **tensors})) == {"main": IN * OUT + IN, **apart}


def test_the_config_says_how_wide_packed_integers_are(tmp_path: Path) -> None:
    """MLX: bits and group only in the config, other ones for a module by its name; compressed-tensors: num_bits."""
    table = "model.embed_tokens"
    mlx: Tensors = {
        f"{M}.weight": ("U32", (OUT, IN * 4 // 32)), f"{M}.scales": ("F16", (OUT, G)), f"{M}.biases": ("F16", (OUT, G)),
        f"{table}.weight": ("U32", (OUT, IN * 6 // 32)), f"{table}.scales": ("F16", (OUT, G)),
        f"{table}.biases": ("F16", (OUT, G)),
    }  # fmt: skip
    path = save(tmp_path / "model.safetensors", mlx)
    assert [w.elements for w in contents(header(path)).unclear] == [None, None]
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"quantization": {"bits": 4, "group_size": 64, table: {"bits": 6, "group_size": 64}}}))
    assert roles(path) == {"main": 2 * OUT * IN, "scales": 2 * OUT * G, "zero_points": 2 * OUT * G}

    packed: Tensors = {f"{M}.weight_packed": ("I32", (OUT, IN // 8)), f"{M}.weight_scale": ("BF16", (OUT, G))}
    path = save(tmp_path / "model.safetensors", packed)
    weights = {"num_bits": 4, "group_size": 64}
    config.write_text(json.dumps({"quantization_config": {"config_groups": {"group_0": {"weights": weights}}}}))
    assert roles(path)["main"] == OUT * IN


def test_compressed_tensors_stores_the_shape_itself(tmp_path: Path) -> None:
    packed: Tensors = {f"{M}.weight_packed": ("I32", (OUT, 33)), f"{M}.weight_shape": ("I64", (2,))}
    shape = OUT.to_bytes(8, "little") + (260).to_bytes(8, "little")
    path = save(tmp_path / "model.safetensors", packed, {f"{M}.weight_shape": shape})
    assert roles(path) == {"main": OUT * 260, "bookkeeping": 2}


def test_what_no_header_says_is_refused(tmp_path: Path, gptcalc: Command) -> None:
    path = save(tmp_path / "a.safetensors", {f"{M}.weight": ("U32", (OUT, IN // 8)), f"{M}.scales": ("F16", (OUT, G))})
    status, out, err = gptcalc("params", str(path))
    assert (status, out) == (2, "")
    assert f"how many weights {M}.weight packs" in err
    assert "config.json" in err


def test_deepseek_v3_as_published(tmp_path: Path) -> None:
    """684,531,386,000 elements on the hub, in 163 files: 671,026,419,200 of the main model (its paper's 671 B),
    11,610,068,224 of the module for the next token but one, two tables twice, scales."""
    sharded(tmp_path, dict(deepseek_v3()), 163)
    (tmp_path / "config.json").write_text(json.dumps(DEEPSEEK_V3))
    found = held(load(str(tmp_path)), str(tmp_path))
    assert {row.role: row.params for row in found.held} == {
        "main": 671_026_419_200, "mtp": 11_610_068_224, "copies": 2 * 129280 * 7168, "scales": 41_540_496,
    }  # fmt: skip
    assert sum(row.params for row in found.held) == 684_531_386_000
    assert found.stored == 684_531_386_000 - 41_540_496
    assert found.differ == ()
    assert roles(tmp_path) == {row.role: row.params for row in found.held}  # names alone tell the same


# --- a config and its tensors -----------------------------------------------------------------------------------------

TINY = {"model_type": "llama", "hidden_size": 8, "vocab_size": 12, "max_position_embeddings": 16, "head_dim": 4,
        "num_attention_heads": 2, "num_hidden_layers": 2, "num_key_value_heads": 1, "intermediate_size": 16,
        "tie_word_embeddings": False}  # fmt: skip


def tiny(v: int = 12, layers: int = 2, tied: bool = False) -> Tensors:
    found: Tensors = {"model.embed_tokens.weight": ("BF16", (v, 8)), "model.norm.weight": ("BF16", (8,))}
    if not tied:
        found["lm_head.weight"] = ("BF16", (v, 8))
    for layer in range(layers):
        shapes = {
            "input_layernorm": (8,), "post_attention_layernorm": (8,), "self_attn.q_proj": (8, 8),
            "self_attn.k_proj": (4, 8), "self_attn.v_proj": (4, 8), "self_attn.o_proj": (8, 8),
            "mlp.gate_proj": (16, 8), "mlp.up_proj": (16, 8), "mlp.down_proj": (8, 16),
        }  # fmt: skip
        found |= {f"model.layers.{layer}.{name}.weight": ("BF16", shape) for name, shape in shapes.items()}
    return found


def folder(at: Path, tensors: Tensors, **config: Any) -> str:
    sparse(at / "model.safetensors", tensors)
    (at / "config.json").write_text(json.dumps({**TINY, **config}))
    return str(at)


LAYER = 2 * 8 + 2 * 64 + 2 * 32 + 3 * 128


def test_config_and_tensors_agree(tmp_path: Path, gptcalc: Command) -> None:
    status, out, err = gptcalc("params", folder(tmp_path, tiny()), "--json")
    found = json.loads(out)
    assert (status, err) == (0, "")
    assert found["total"] == found["stored"] == 2 * 96 + 8 + 2 * LAYER
    assert [row["role"] for row in found["held"]] == ["main"]
    assert found["differ"] == []


def test_memory_goes_by_the_bytes_that_the_tensors_have(tmp_path: Path, gptcalc: Command) -> None:
    """One matrix of 8 × 16 packed, all else bf16: 4 bits a number, 2 zero points of 8, 16 scales, an order of 8."""
    tensors = tiny()
    stem = "model.layers.0.mlp.up_proj"
    del tensors[f"{stem}.weight"]
    packed: Tensors = {"qweight": ("I32", (1, 16)), "qzeros": ("I32", (1, 2)), "scales": ("F16", (1, 16))}
    tensors |= {f"{stem}.{name}": entry for name, entry in (packed | {"g_idx": ("I32", (8,))}).items()}
    at = folder(tmp_path, tensors, quantization_config={"quant_method": "gptq", "bits": 4, "group_size": 8})
    plain = 2 * (2 * 96 + 8 + 2 * LAYER)
    own = plain - 2 * 128 + 8 * 16 // 2 + 4 * 2 + 2 * 16 + 4 * 8
    found = gptcalc("memory", at, "--json").json
    assert found["per_device"]["weights"] == own
    assert [(t["type"], t["count"]) for t in found["tensors"] if t["name"] == "mlp.up"] == [("int4", 1), ("bf16", 1)]
    assert any("as its file has it, bf16" in line for line in found["exact"])
    assert gptcalc("memory", at, "--dtype", "bf16", "--get", "per_device.weights").out == f"{plain}\n"
    assert gptcalc("fit", at, "--budget", "1MiB", "--get", "needed").out == f"{found['per_device']['total']}\n"
    (tmp_path / "model.safetensors").unlink()
    sparse(tmp_path / "model.safetensors", {**tensors, "more": ("BF16", (3,))})
    assert gptcalc("memory", at, "--get", "per_device.weights").out != f"{own}\n"  # not what the config describes


def test_rows_that_the_config_does_not_know_are_counted_and_said(tmp_path: Path, gptcalc: Command) -> None:
    status, out, err = gptcalc("params", folder(tmp_path, tiny(v=13)), "--json")
    found = json.loads(out)
    assert (status, found["total"]) == (0, 2 * 104 + 8 + 2 * LAYER)
    assert sum(found["components"].values()) == found["total"]
    assert "model.embed_tokens.weight 96 by the config, 104 in the file" in err
    assert "the total is that of the tensors" in err
    strict = gptcalc("params", tmp_path, "--strict", "--get", "total")
    assert (strict.status, strict.out) == (1, f"{found['total']}\n")
    assert gptcalc("params", folder(tmp_path, tiny()), "--strict", "--get", "total").status == 0


def test_a_layer_too_many_or_too_few_is_said(tmp_path: Path, gptcalc: Command) -> None:
    status, out, err = gptcalc(
        "params", folder(tmp_path, {**tiny(), "model.layers.1.more.weight": ("BF16", (3,))}), "--json"
    )
    assert (status, json.loads(out)["total"]) == (0, 2 * 96 + 8 + 2 * LAYER)
    assert "model.layers.1.more.weight none by the config, 3 in the file" in err
    _, out, err = gptcalc("params", folder(tmp_path, tiny(layers=1)), "--json")
    assert "model.layers.1.input_layernorm.weight 8 by the config, none in the file; " in err
    assert "and 6 more; the total is that of the config" in err


def test_a_tied_table_stored_twice_is_named(tmp_path: Path, gptcalc: Command) -> None:
    status, out, err = gptcalc("params", folder(tmp_path, tiny(), tie_word_embeddings=True), "--json")
    found = json.loads(out)
    assert (status, err) == (0, "")
    assert (found["total"], found["stored"]) == (96 + 8 + 2 * LAYER, 2 * 96 + 8 + 2 * LAYER)
    assert {row["role"]: row["params"] for row in found["held"]}["copies"] == 96


def test_an_adapter_is_named_with_its_base(tmp_path: Path, gptcalc: Command) -> None:
    name = f"base_model.model.{M}"
    save(tmp_path / "adapter_model.safetensors", {
        f"{name}.lora_A.weight": ("F32", (8, IN)), f"{name}.lora_B.weight": ("F32", (OUT, 8)),
    })  # fmt: skip
    (tmp_path / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "base_model_name_or_path": "a/b"}))
    status, out, err = gptcalc("kv", tmp_path)
    assert (status, out) == (2, "")
    assert "this is a LoRA adapter, without an architecture of its own; its base model is a/b" in err
    status, out, err = gptcalc("params", tmp_path, "--json")
    assert (status, json.loads(out)["total"]) == (0, 0)
    assert [(row["role"], row["params"]) for row in json.loads(out)["held"]] == [("adapters", 8 * IN + 8 * OUT)]
    assert "this is a LoRA adapter" in err


def test_other_modalities_are_no_part_of_the_text_model(tmp_path: Path, gptcalc: Command) -> None:
    more: Tensors = {"vision_tower.blocks.0.weight": ("BF16", (5,)), "multi_modal_projector.weight": ("BF16", (7,))}
    renamed = {name.replace("model.", "language_model.model.", 1): entry for name, entry in tiny().items()}
    _, out, err = gptcalc("params", folder(tmp_path, {**renamed, **more}), "--json")
    assert err == ""
    assert {row["role"]: row["params"] for row in json.loads(out)["held"]}["other_modalities"] == 12


def test_validate_goes_tensor_by_tensor(tmp_path: Path, gptcalc: Command) -> None:
    path = folder(tmp_path, tiny())
    assert gptcalc("validate", path, "--checkpoint", path)[0] == 0
    tensors = tiny()
    tensors["model.layers.1.mlp.down_proj.weight"] = ("BF16", (8, 15))
    status, out, _ = gptcalc("validate", folder(tmp_path, tensors), "--checkpoint", path, "--json")
    wrong = [check for check in json.loads(out)[0]["checks"] if not check["ok"]]
    assert status == 1
    assert [(c["name"], c["expected"], c["found"]) for c in wrong] == [
        ("parameters in the checkpoint", 2 * 96 + 8 + 2 * LAYER, 2 * 96 + 8 + 2 * LAYER - 8),
        ("tensor model.layers.1.mlp.down_proj.weight", 128, 120),
    ]


def test_validate_reads_packed_tensors(tmp_path: Path, gptcalc: Command) -> None:
    tensors = tiny()
    for layer in range(2):
        name = f"model.layers.{layer}.mlp.up_proj"
        del tensors[f"{name}.weight"]
        tensors |= {f"{name}.weight_packed": ("U8", (16, 4)), f"{name}.weight_scale": ("F8_E4M3", (16, 1))}
    path = folder(tmp_path, tensors)
    assert gptcalc("validate", path, "--checkpoint", path)[0] == 0


def test_an_unreadable_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    path = sparse(tmp_path / "a.safetensors", tiny())
    opened = os.open

    def denied(name: Any, *rest: Any) -> int:
        if str(name) == str(path):
            raise PermissionError(13, "Permission denied")
        return opened(name, *rest)

    monkeypatch.setattr(os, "open", denied)
    with pytest.raises(InputError, match=r"a\.safetensors: permission denied"):
        header(path)


def gemma_3n(n: int, d_ff: int) -> Tensors:
    """Gemma 3n as it was published: every layer has K and V projections, also those that reuse another layer's."""
    d, v, ple, streams = 2048, 262400, 256, 4
    found: Tensors = {
        "embed_tokens.weight": ("BF16", (v, d)), "embed_tokens_per_layer.weight": ("BF16", (262144, n * ple)),
        "per_layer_model_projection.weight": ("BF16", (n * ple, d)), "norm.weight": ("BF16", (d,)),
        "per_layer_projection_norm.weight": ("BF16", (ple,)),
    }  # fmt: skip
    for i in range(streams - 1):
        found |= {f"altup_{word}.{i}.weight": ("BF16", (d, d)) for word in ("projections", "unembed_projections")}
    layer: dict[str, tuple[int, ...]] = {
        "altup.correct_output_scale": (d,), "altup.correction_coefs.weight": (streams, streams),
        "altup.modality_router.weight": (streams, d), "altup.prediction_coefs.weight": (streams**2, streams),
        "altup.router_norm.weight": (d,), "input_layernorm.weight": (d,), "laurel.linear_left.weight": (64, d),
        "laurel.linear_right.weight": (d, 64), "laurel.post_laurel_norm.weight": (d,),
        "mlp.down_proj.weight": (d, d_ff), "mlp.gate_proj.weight": (d_ff, d), "mlp.up_proj.weight": (d_ff, d),
        "per_layer_input_gate.weight": (ple, d), "per_layer_projection.weight": (d, ple),
        "post_attention_layernorm.weight": (d,), "post_feedforward_layernorm.weight": (d,),
        "post_per_layer_input_norm.weight": (d,), "pre_feedforward_layernorm.weight": (d,),
        "self_attn.q_proj.weight": (2048, d), "self_attn.k_proj.weight": (512, d), "self_attn.v_proj.weight": (512, d),
        "self_attn.o_proj.weight": (d, 2048), "self_attn.q_norm.weight": (256,), "self_attn.k_norm.weight": (256,),
    }  # fmt: skip
    for i in range(n):
        found |= {f"layers.{i}.{name}": ("BF16", shape) for name, shape in layer.items()}
    outside: Tensors = {"model.vision_tower.x.weight": ("BF16", (10,)), "model.embed_audio.y.weight": ("BF16", (6,))}
    return {**{f"model.language_model.{name}": entry for name, entry in found.items()}, **outside}


@pytest.mark.parametrize(
    ("name", "n", "d_ff", "shared", "total", "stored"),
    [
        ("gemma-3n-e2b", 30, 8192, 10, 4_435_182_688, 4_456_156_768),
        ("gemma-3n-e4b", 35, 16384, 15, 6_835_235_568, 6_866_696_688),
    ],
)
def test_weights_that_nothing_uses_are_named(
    tmp_path: Path, name: str, n: int, d_ff: int, shared: int, total: int, stored: int
) -> None:
    """4.456 and 6.867 billion in the files; a layer's idle K, V and norm of K are 2 · 512 · 2048 + 256."""
    config = json.loads((Path(__file__).parents[1] / "data" / "preset_configs.json").read_text())[name]
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "gemma3n", "text_config": config}))
    sparse(tmp_path / "model.safetensors", gemma_3n(n, d_ff))
    found = held(load(str(tmp_path)), str(tmp_path))
    assert {row.role: row.params for row in found.held} == {
        "main": total, "unused": shared * (2 * 512 * 2048 + 256), "other_modalities": 16,
    }  # fmt: skip
    assert (found.main, found.stored, found.differ) == (total, stored, ())


#: what classes store beside weights: RoFormer's a table of fixed sines, of 64 positions and 8 channels
BESIDE = {"roformer": {"rotary_tables": 64 * 8}}


@pytest.mark.parametrize("name", [path.parent.name for path in sorted(FOLDER.glob("*/model.safetensors"))])
def test_golden_checkpoints_hold_what_their_configs_say(name: str) -> None:
    """Tensor by tensor, as transformers (or torch) saved them; buffers are told apart."""
    found = held(load(str(FOLDER / name)), str(FOLDER / name))
    assert found.differ == ()
    copies = {"copies"} if load(str(FOLDER / name)).architecture.target is not None else set()  # of a target's tables
    beside = {row.role: row.params for row in found.held if row.role not in {"main", "bookkeeping"} | copies}
    assert beside == BESIDE.get(name, {})
