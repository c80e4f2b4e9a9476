"""In which form a config says that its weights are published, and that memory and fit take it so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gptcalc.analysis.memory.cache import kept_in
from gptcalc.sources import load
from gptcalc.sources.huggingface.quantization import stored
from tests.conftest import Command

GROUP = {"num_bits": 4, "type": "int", "group_size": 128, "symmetric": True, "strategy": "group"}


def groups(format: str = "", **weights: Any) -> dict[str, Any]:
    return {"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": weights}}, "format": format}


def packed(**more: Any) -> dict[str, Any]:
    return groups("pack-quantized", **{**GROUP, **more})


#: of Kimi K2 Thinking, K2.5 and K2.6
BUT_EXPERTS = ["lm_head", "re:.*self_attn.*", "re:.*shared_experts.*", r"re:.*mlp\.(gate|up|gate_up|down)_proj.*"]


@pytest.mark.parametrize(
    ("config", "name"),
    [
        ({}, None),
        ({"dtype": "float16"}, "fp16"),
        ({"torch_dtype": "torch.float32"}, "fp32"),
        ({"torch_dtype": "bfloat16"}, None),
        ({"text_config": {"dtype": "float32"}}, "fp32"),
        ({"quantization_config": {"quant_method": "mxfp4"}}, "mxfp4"),
        ({"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}, "fp8-block"),
        (
            {"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}, "expert_dtype": "fp4"},
            "fp8-mxfp4",
        ),
        ({"quantization_config": {"quant_method": "fbgemm_fp8"}}, "fp8"),
        ({"quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 32, "sym": True}}, "gptq:32"),
        ({"quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}}, "awq:128"),
        ({"quantization_config": {"quant_method": "bitsandbytes", "load_in_8bit": True}}, "int8"),
        ({"quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True}}, "nf4"),
        ({"quantization_config": packed()}, "w4a16:128"),
        ({"quantization_config": packed(symmetric=False, actorder="group")}, "w4a16:128:asym:order"),
        ({"quantization_config": packed(num_bits=8, strategy="channel", group_size=None)}, "w8a16"),
        ({"quantization_config": {**packed(group_size=32), "ignore": BUT_EXPERTS}}, "w4a16:32:experts"),
        ({"quantization_config": groups("int-quantized", **GROUP)}, "int8:128"),  # W4A8: a byte each all the same
        ({"quantization_config": groups(num_bits=8, type="int")}, "int8"),
        ({"quantization_config": groups(num_bits=8, type="float")}, "fp8"),
        ({"quantization_config": groups(num_bits=8, type="float", strategy="channel")}, "fp8-channel"),
        ({"quantization_config": groups(num_bits=4, type="float", group_size=16)}, "nvfp4"),
        ({"quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4"}}, "nvfp4"),
        ({"quantization_config": {"quantization": {"quant_algo": "FP8", "exclude_modules": ["lm_head"]}}}, "fp8"),
        ({"quantization_config": {"quant_method": "gptq", "bits": 8, "group_size": 32}}, "gptq8:32"),
        ({"quantization_config": {"quant_method": "intel/auto-round", "bits": 2, "group_size": 64}}, "gptq2:64"),
        ({"quantization": {"group_size": 64, "bits": 4}}, "mlx4:64"),
        ({"quantization": {"group_size": 32, "bits": 6, "mode": "affine"}}, "mlx6:32"),
        ({"quantization": {"group_size": 32, "bits": 4, "mode": "mxfp4"}}, "mlx-mxfp4"),
        ({"quantization_config": {"load_in_4bit": True, "bnb_4bit_use_double_quant": False}}, "nf4"),
        ({"quantization_config": {"quant_method": "exl2", "bits": 4.65, "head_bits": 6}}, "exl2:4.65"),
        ({"quantization_config": {"quant_method": "eetq"}}, "int8"),
        ({"quantization_config": {"quant_method": "torchao", "quant_type": "int8_weight_only"}}, "torchao-int8"),
        (
            {
                "quantization_config": {
                    "quant_method": "torchao",
                    "quant_type": {"default": {"_type": "Int4WeightOnlyConfig", "_data": {"group_size": 128}}},
                }
            },
            "torchao-int4",
        ),
    ],
)
def test_formats(config: dict[str, Any], name: str | None) -> None:
    assert stored(config).weights == name


@pytest.mark.parametrize(
    "method",
    [
        {"quant_method": "gptq", "bits": 5, "group_size": 128},
        {"quant_method": "aqlm", "nbits_per_codebook": 16},
        {"group_size": 48, "bits": 4},
        {"quant_method": "torchao", "quant_type": {"modules_to_not_convert": None}},
        {
            "quant_method": "torchao",
            "quant_type": {"default": {"_type": "Int4WeightOnlyConfig", "_data": {"group_size": 64}}},
        },
    ],
)
def test_what_is_not_known_is_said(method: dict[str, Any]) -> None:
    found = stored({"quantization_config": method})
    assert found.weights is None
    assert found.note is not None


def test_a_matrix_of_its_own_width_makes_mlx_mixed() -> None:
    plain = {"group_size": 64, "bits": 4}
    assert not stored({"quantization": plain}).mixed
    assert stored({"quantization": {**plain, "model.layers.0.mlp.down_proj": {"group_size": 64, "bits": 8}}}).mixed


@pytest.mark.parametrize("bits", [2, 3, 8])
def test_bytes_of_gptq_in_other_widths(bits: int, tmp_path: Path, gptcalc: Command) -> None:
    """qweight has bits/8 bytes a number; a group of 64 an fp16 scale and a zero point of as many bits; g_idx an int32
    an input (AutoGPTQ, nn_modules/qlinear)."""
    method = {"quant_method": "gptq", "bits": bits, "group_size": 64}
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**LLAMA, "quantization_config": method}))
    shapes = [(256, 256)] * 4 + [(256, 512)] * 2 + [(512, 256)]
    layer = sum(i * o * bits // 8 + i // 64 * o * (16 + bits) // 8 + 4 * i for i, o in shapes)
    assert gptcalc("memory", path, "--get", "per_device.weights")[1] == f"{2 * layer + 2 * (128 * 256 + 5 * 256)}\n"


def test_matrices_that_stay_wide() -> None:
    """The head, norms and routers stay wide in every format; attention is no exception that formats here know."""
    method = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    assert not stored({"quantization_config": {**method, "modules_to_not_convert": ["lm_head", "gate"]}}).mixed
    left = ["lm_head", "model.layers.0.self_attn.q_proj"]
    assert stored({"quantization_config": {**method, "modules_to_not_convert": left}}).mixed


LLAMA: dict[str, Any] = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 256, "intermediate_size": 512,
    "num_attention_heads": 4, "num_key_value_heads": 4, "num_hidden_layers": 2, "vocab_size": 128,
    "max_position_embeddings": 64, "tie_word_embeddings": True,
}  # fmt: skip


def test_memory_takes_a_config_as_published(tmp_path: Path, gptcalc: Command) -> None:
    """2 layers of 4 · 256² + 3 · 256 · 512 numbers in a byte each, a scale for 128²; table and norms in 16 bits."""
    method = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**LLAMA, "quantization_config": method}))
    packed = 2 * (4 * 256**2 + 3 * 256 * 512)
    expected = packed + packed // 128**2 * 4 + 2 * (128 * 256 + 5 * 256)
    assert gptcalc("memory", path, "--get", "per_device.weights") == (0, f"{expected}\n", "")
    assert gptcalc("memory", path, "--get", "dtype")[1] == "fp8-block\n"
    wide = 2 * (packed + 128 * 256 + 5 * 256)
    assert gptcalc("memory", path, "--dtype", "bf16", "--get", "per_device.weights")[1] == f"{wide}\n"


MOE: dict[str, Any] = {
    "model_type": "qwen3_5_moe_text", "hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 64, "linear_num_value_heads": 4, "linear_num_key_heads": 2,
    "linear_key_head_dim": 32, "linear_value_head_dim": 32, "linear_conv_kernel_dim": 4, "moe_intermediate_size": 64,
    "shared_expert_intermediate_size": 64, "num_experts": 8, "num_experts_per_tok": 2, "vocab_size": 128,
    "max_position_embeddings": 64, "full_attention_interval": 4,
}  # fmt: skip
NVFP4 = {"quant_method": "modelopt", "quant_algo": "NVFP4"}
#: as nvidia/Qwen3.5-122B-A10B-NVFP4 has them
LINEAR = [f"model.language_model.layers.{n}.linear_attn*" for n in range(3)]
SHARED = [f"model.language_model.layers.{n}.mlp.shared_expert*" for n in range(4)]
ATTENTION = ["model.language_model.layers.3.self_attn*"]


def read(tmp_path: Path, config: dict[str, Any], method: dict[str, Any]) -> tuple[str | None, bool]:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**config, "quantization_config": method}))
    storage = load(str(path)).architecture.storage
    return storage.weights, storage.mixed


@pytest.mark.parametrize(
    ("left", "name", "mixed"),
    [
        (["lm_head", "model.visual*", *ATTENTION], "nvfp4,attention=bf16", False),
        ([*LINEAR, *ATTENTION, *SHARED], "nvfp4,attention=bf16,recurrent=bf16,shared_experts=bf16", False),
        (["re:.*self_attn.*"], "nvfp4,attention=bf16", False),
        (["model.layers.*.self_attn"], "nvfp4,attention=bf16", False),
        ([*LINEAR, "model.layers.4*", "mtp*"], "nvfp4,recurrent=bf16", False),  # layer 4 is the module behind them
        (LINEAR[:2], "nvfp4", False),  # matrix by matrix
        ([*ATTENTION, "model.layers.1*"], "nvfp4", False),
        ([*ATTENTION, "model.layers.2.mlp.experts.3.down_proj"], "nvfp4,attention=bf16", True),
        (["model.layers.0.*", "model.layers.1*", "model.layers.2.mlp*", "model.layers.2.linear_attn*", *ATTENTION,
          "model.layers.3.mlp.experts*", "model.layers.3.mlp.shared_expert*"],
         "nvfp4,attention=bf16,experts=bf16,recurrent=bf16,shared_experts=bf16", False),
    ],
)  # fmt: skip
def test_components_that_stay_wide(left: list[str], name: str, mixed: bool, tmp_path: Path) -> None:
    assert read(tmp_path, MOE, {**NVFP4, "ignore": left}) == (name, mixed)


def test_dense_and_recurrent_layers_that_stay_wide(tmp_path: Path) -> None:
    """Kimi's and GLM's first layers are dense."""
    dense = {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["model.layers.*.mlp"]}
    assert read(tmp_path, LLAMA, dense) == ("nvfp4,mlp=bf16", False)
    every = {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["model.layers.0*", "model.layers.1.*"]}
    assert read(tmp_path, LLAMA, every) == ("nvfp4,attention=bf16,mlp=bf16", False)


def test_modules_with_a_format_each(tmp_path: Path) -> None:
    """ModelOpt's MIXED_PRECISION, as in nvidia/Qwen3.6-27B-NVFP4."""
    own = {f"model.language_model.layers.{n}.linear_attn.{part}": "FP8" for n in range(3) for part in ("out", "in_z")}
    own |= {f"model.layers.{n}.mlp.experts.{k}.up_proj": "W4A16_NVFP4" for n in range(4) for k in range(8)}
    own |= {"model.layers.3.mlp.shared_expert.up_proj": "FP8", "model.layers.3.self_attn.q_proj": "UNKNOWN"}
    own |= {"mtp.layers.0.mlp.up_proj": "NVFP4", "lm_head": "FP8", "model.layers.9.self_attn.q_proj": "FP8"}
    each = {module: {"quant_algo": name} for module, name in own.items()}
    method = {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "quantized_layers": each}
    assert read(tmp_path, MOE, method) == ("bf16,experts=nvfp4,recurrent=fp8,shared_experts=fp8", True)


def test_memory_of_components_that_stay_wide(tmp_path: Path, gptcalc: Command) -> None:
    """2 layers: 4 · 256² in 2 bytes, 3 · 256 · 512 in 9 bytes for 16 and two scales of a matrix."""
    path = tmp_path / "config.json"
    method = {**NVFP4, "ignore": ["lm_head", *(f"model.layers.{n}.self_attn*" for n in range(2))]}
    path.write_text(json.dumps({**LLAMA, "quantization_config": method}))
    rest = 2 * (128 * 256 + 5 * 256)
    expected = 2 * (2 * 4 * 256**2 + 3 * (256 * 512 // 16 * 9 + 8)) + rest
    assert gptcalc("memory", path, "--get", "per_device.weights") == (0, f"{expected}\n", "")
    _, out, _ = gptcalc("memory", path)
    assert "exact: weights: every tensor as nvfp4,attention=bf16 stores it, as published" in out
    asked = gptcalc("memory", path, "--dtype", "nvfp4,attention=bf16", "--get", "per_device.weights")
    assert asked == (0, f"{expected}\n", "")
    _, out, _ = gptcalc("memory", path, "--dtype", "bf16,mlp=NVFP4", "--get", "per_device.weights")
    assert out == f"{expected}\n"


#: its module: fc; queries with a gate, keys, values, output, two norms of heads; experts, router, shared expert with
#: a gate; two norms of sublayers and three of the module
MODULE = (
    512 * 256
    + 256 * 512
    + 2 * 256 * 128
    + 256 * 256
    + 2 * 64
    + 8 * 3 * 256 * 64
    + 256 * 8
    + 3 * 256 * 64
    + 256
    + 5 * 256
)


@pytest.mark.parametrize(
    ("left", "name", "exact"),
    [
        (["mtp*"], "nvfp4,mtp=bf16", True),
        ([*LINEAR, "re:.*mtp.*"], "nvfp4,recurrent=bf16,mtp=bf16", True),
        ([*ATTENTION, "model.layers.4*"], "nvfp4,attention=bf16,mtp=bf16", True),  # as DeepSeek's layer 61
        (["*.mtp.layers.0*", "mtp.fc"], "nvfp4,mtp=bf16", True),
        (["mtp.fc"], "nvfp4", False),
        (["mtp.layers.0.self_attn*"], "nvfp4", False),
        (["model.layers.4.self_attn*"], "nvfp4", False),
        (ATTENTION, "nvfp4,attention=bf16", False),  # of the module's attention nothing is said
        (["re:.*self_attn.*"], "nvfp4,attention=bf16", True),
        (["lm_head", "mtp.norm"], "nvfp4", True),
    ],
)
def test_modules_that_stay_wide(left: list[str], name: str, exact: bool, tmp_path: Path, gptcalc: Command) -> None:
    path = tmp_path / "config.json"
    config = {**MOE, "mtp_num_hidden_layers": 1, "quantization_config": {**NVFP4, "ignore": left}}
    path.write_text(json.dumps(config))
    _, out, _ = gptcalc("memory", path)
    assert f"exact: weights: every tensor as {name} stores it, as published" in out
    _, out, _ = gptcalc("memory", path, "--mtp")
    assert (f"exact: weights: every tensor as {name} stores it, as published" in out) is exact
    assert (f"estimate: weights: all matrices in {name}, though the files keep some of them wide" in out) is not exact
    if "mtp=" in name:
        _, with_module, _ = gptcalc("memory", path, "--mtp", "--get", "per_device.weights")
        _, without, _ = gptcalc("memory", path, "--get", "per_device.weights")
        assert int(with_module) - int(without) == 2 * MODULE


def test_a_name_that_says_more_than_the_config(tmp_path: Path, gptcalc: Command) -> None:
    """Weights stay wide, which is never too little, but aren't exact."""
    path = tmp_path / "glm-nvfp4.json"
    path.write_text(json.dumps(LLAMA))
    _, out, err = gptcalc("memory", path)
    assert "note: the name says nvfp4, the config doesn't; weights are taken as bf16 (--dtype)" in err
    assert "estimate: weights: all matrices in bf16, though the files pack them" in out
    _, out, _ = gptcalc("memory", path, "--dtype", "nvfp4")
    assert "exact: weights: every tensor as nvfp4 stores it" in out


def test_a_file_of_modelopt_beside_the_config(tmp_path: Path, gptcalc: Command) -> None:
    folder = tmp_path / "Llama-NVFP4"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({**LLAMA, "torch_dtype": "bfloat16"}))
    left = ["lm_head", "model.layers.0.self_attn*", "model.layers.1.self_attn*"]
    own = {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8", "group_size": 16, "exclude_modules": left}
    beside = folder / "hf_quant_config.json"
    beside.write_text(json.dumps({"producer": {"name": "modelopt"}, "quantization": own}))
    _, out, err = gptcalc("memory", folder, "--engine", "vllm")
    assert "exact: weights: every tensor as nvfp4,attention=bf16 stores it, as published" in out
    assert "fp8 cache" in out
    assert err == ""
    beside.write_text("{")
    status, _, err = gptcalc("memory", folder)
    assert status == 2
    assert "hf_quant_config.json" in err


PACKED = packed()
SCHEME = {"dynamic": False, "num_bits": 8, "type": "float"}


@pytest.mark.parametrize(
    ("method", "engine", "kept"),
    [
        ({**NVFP4, "kv_cache_scheme": SCHEME}, "vllm", "fp8"),
        ({**NVFP4, "kv_cache_scheme": SCHEME}, "sglang", "fp8"),
        ({**NVFP4, "kv_cache_scheme": SCHEME}, "ideal", "bf16"),
        ({**NVFP4, "kv_cache_scheme": SCHEME}, "llama.cpp", "bf16"),
        ({**NVFP4, "kv_cache_quant_algo": "FP8"}, "vllm", "fp8"),
        ({"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}}, "vllm", "fp8"),
        ({**NVFP4, "kv_cache_scheme": {**SCHEME, "dynamic": True}}, "vllm", "bf16"),
        ({**NVFP4, "kv_cache_quant_algo": None}, "vllm", "bf16"),
        ({"quant_method": "fp8", "kv_cache_scheme": SCHEME}, "vllm", "bf16"),
        (NVFP4, "vllm", "bf16"),
        ({**PACKED, "kv_cache_scheme": SCHEME}, "vllm", "fp8"),
        ({**PACKED, "kv_cache_scheme": {"num_bits": 8, "type": "float"}}, "vllm", "fp8"),
        ({**PACKED, "kv_cache_scheme": {**SCHEME, "strategy": "attn_head"}}, "vllm", "fp8"),
        ({**PACKED, "kv_cache_scheme": {"num_bits": 4, "type": "int"}}, "vllm", "bf16"),  # which vLLM refuses
        ({**PACKED, "kv_cache_scheme": None}, "vllm", "bf16"),
        ({**PACKED, "kv_cache_scheme": SCHEME}, "sglang", "bf16"),
        ({**PACKED, "kv_cache_scheme": SCHEME}, "ideal", "bf16"),
    ],
)
def test_the_cache_that_a_config_names(
    method: dict[str, Any], engine: str, kept: str, tmp_path: Path, gptcalc: Command
) -> None:
    """vLLM's --kv-cache-dtype auto (resolve_kv_cache_dtype_string; Attention's, of compressed-tensors) and SGLang's
    (configure_kv_cache_dtype)."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**LLAMA, "quantization_config": method}))
    asked = (path, "--context", "64", "--engine", engine, "--get", "kv_dtype")
    for command in ("memory", "kv"):
        assert gptcalc(command, *asked)[1] == f"{kept}\n"
    for command in ("fit", "serve"):
        assert gptcalc(command, *asked, "--device", "l40s")[1] == f"{kept}\n"
    assert gptcalc("memory", *asked, "--kv-dtype", "bf16")[1] == "bf16\n"


LATENT: dict[str, Any] = {
    "model_type": "deepseek_v2", "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 4, "q_lora_rank": None, "kv_lora_rank": 64, "qk_nope_head_dim": 32,
    "qk_rope_head_dim": 16, "v_head_dim": 32, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_shared_experts": 1,
    "moe_intermediate_size": 64, "first_k_dense_replace": 1, "vocab_size": 128, "max_position_embeddings": 64,
}  # fmt: skip


@pytest.mark.parametrize(("method", "kept"), [(PACKED, "bf16"), (NVFP4, "fp8")])
def test_the_cache_of_latent_attention(method: dict[str, Any], kept: str, tmp_path: Path, gptcalc: Command) -> None:
    """vLLM's MLAAttention takes the cache's type as the start has it, which knows ModelOpt's scheme alone."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**LATENT, "quantization_config": {**method, "kv_cache_scheme": SCHEME}}))
    _, out, err = gptcalc("memory", path, "--engine", "vllm", "--context", "64")
    assert f" {kept} cache of " in out.partition("\n")[0], err


@pytest.mark.parametrize("dtype", ["nvfp4,attention", "nvfp4,norm=bf16", "nvfp4,mlp=q4_k_m", "nvfp4,mlp="])
def test_a_component_that_is_none(dtype: str, gptcalc: Command) -> None:
    status, _, err = gptcalc("memory", "llama-3.1-8b", "--dtype", dtype)
    assert status == 2
    assert "is no format of a component" in err
    assert "write attention=bf16; attention, recurrent, mlp, experts, shared_experts, router, embedding, output" in err


def test_weights_by_component_are_not_trained(gptcalc: Command) -> None:
    status, _, err = gptcalc("memory", "gpt2", "--training", "--dtype", "bf16,mlp=nvfp4")
    assert status == 2
    assert "weights are trained in bf16, fp16 or fp32" in err


@pytest.mark.parametrize(("model", "name"), [("gpt-oss-20b", "mxfp4"), ("deepseek-v3", "fp8-block"), ("gpt2", "bf16")])
def test_presets_as_published(model: str, name: str, gptcalc: Command) -> None:
    assert gptcalc("memory", model, "--context", "16", "--get", "dtype")[1] == f"{name}\n"
    assert gptcalc("compare", model, "--budget", "2000GiB", "--context", "16", "--get", "0.fits")[1] == "true\n"


def test_gpt_oss_fits_a_card_of_24_gb(gptcalc: Command) -> None:
    """As shipped: 12.8 GiB."""
    status, out, _ = gptcalc("fit", "gpt-oss-20b", "--device", "rtx-4090", "--context", "8K")
    assert status == 0
    assert out.startswith("yes: gpt-oss-20b in mxfp4 as published with ")


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ({"kv_cache_quant_algo": "NVFP4"}, ("nvfp4", "bf16")),
        ({"kv_cache_scheme": {"num_bits": 4, "type": "float", "dynamic": False}}, ("nvfp4", "bf16")),
        ({"kv_cache_quant_algo": "FP8"}, ("fp8", "fp8")),
        ({"kv_cache_quant_algo": None}, ("bf16", "bf16")),
    ],
)
def test_caches_that_modelopt_names(said: dict[str, Any], kept: tuple[str, str]) -> None:
    """vLLM's MODELOPT_TO_VLLM_KV_CACHE_DTYPE_MAP and get_kv_cache_quant_algo_string (vllm/utils/torch_utils.py)."""
    architecture = load({**MOE, "quantization_config": {**NVFP4, **said}}).architecture
    assert tuple(kept_in(architecture, engine) for engine in ("vllm", "sglang")) == kept
    assert kept_in(architecture, "ideal") == "bf16"
