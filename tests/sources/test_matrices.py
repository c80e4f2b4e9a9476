"""Formats of single matrices, as configs give some of them another than most: bytes by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gptcalc.analysis.memory.account import memory
from gptcalc.analysis.memory.weights import total
from gptcalc.sources import load
from tests.conftest import Command

LLAMA = {
    "model_type": "llama", "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 12, "vocab_size": 64,
    "num_attention_heads": 4, "num_key_value_heads": 4, "max_position_embeddings": 64, "tie_word_embeddings": False,
}  # fmt: skip
#: numbers of a down projection, of a square matrix and of all matrices of a layer
DOWN, SQUARE = 512 * 256, 256 * 256
LAYER = 4 * SQUARE + 3 * DOWN
INT4 = {"num_bits": 4, "type": "int", "group_size": 128, "symmetric": True, "strategy": "group"}


@pytest.mark.parametrize(
    ("said", "base", "more"),
    [
        # AutoAWQ skips names that contain a word: of a layer's numbers 4.15625 bits are 16
        ({"quant_method": "awq", "bits": 4, "group_size": 128, "modules_to_not_convert": ["model.layers.1."]},
         "awq:128", LAYER * 2 - LAYER * 133 // 256),
        # bitsandbytes: a byte each and an fp16 scale a row
        ({"quant_method": "bitsandbytes", "load_in_8bit": True, "llm_int8_skip_modules": ["layers.3.mlp.down_proj"]},
         "int8", DOWN - 2 * 256),
        # fp8 in blocks of 128 × 128 with an fp32 scale
        ({"quant_method": "fp8", "weight_block_size": [128, 128],
          "modules_to_not_convert": ["model.layers.0.self_attn.q_proj"]}, "fp8-block", SQUARE - 4 * 4),
        # GPTQModel: one down projection wide, another in 8 bits; beside each group a scale and zero points
        ({"quant_method": "gptq", "bits": 4, "group_size": 128, "dynamic": {"-:.*layers\\.2\\.mlp.down": {},
          "+:.*layers\\.5\\.mlp.down": {"bits": 8}}}, "gptq:128",
         DOWN * 2 - DOWN // 2 - DOWN // 128 * 5 // 2 - 512 * 4 + DOWN // 2 + DOWN // 128 // 2),
        # AutoRound, by names
        ({"quant_method": "auto-round", "bits": 4, "group_size": 128,
          "extra_config": {"model.layers.1.mlp.down_proj": {"bits": 16}}}, "gptq:128",
         DOWN * 2 - DOWN // 2 - DOWN // 128 * 5 // 2 - 512 * 4),
        # compressed-tensors: a byte for what a pattern means
        ({"quant_method": "compressed-tensors", "format": "pack-quantized", "ignore": ["lm_head"], "config_groups": {
            "a": {"targets": ["Linear"], "weights": INT4},
            "b": {"targets": ["re:.*layers\\.4\\.mlp.down_proj$"], "weights": {**INT4, "num_bits": 8}}}},
         "w4a16:128", DOWN // 2),
        # MLX: False leaves a matrix wide, of which 4.5 bits would be; True says nothing
        ({"bits": 4, "group_size": 64, "model.layers.0.mlp.down_proj": False, "model.layers.1.mlp.up_proj": True},
         "mlx4:64", DOWN * 2 - DOWN * 9 // 16),
    ],
    ids=["awq", "bitsandbytes", "fp8", "gptqmodel", "auto-round", "compressed-tensors", "mlx"],
)  # fmt: skip
def test_single_matrices(said: dict[str, Any], base: str, more: int) -> None:
    key = "quantization_config" if "quant_method" in said else "quantization"
    model = load({**LLAMA, key: said}).architecture
    assert model.storage.weights == base
    assert not model.storage.mixed
    assert memory(model, context=1).per_device.weights == total(model, base) + more


@pytest.mark.parametrize(
    "said",
    [
        {"quant_method": "awq", "bits": 4, "modules_to_not_convert": ["mlp.nothing"]},
        {"bits": 4, "group_size": 64, "nothing.of.the.model": {"bits": 8, "group_size": 64}},
    ],
)
def test_what_names_no_matrix_is_an_estimate(said: dict[str, Any]) -> None:
    key = "quantization_config" if "quant_method" in said else "quantization"
    assert load({**LLAMA, key: said}).architecture.storage.mixed


def test_a_pattern_that_is_none(tmp_path: Path, gptcalc: Command) -> None:
    said = {"quant_method": "gptq", "bits": 4, "group_size": 128, "dynamic": {"-:(": {}}}
    (tmp_path / "config.json").write_text(json.dumps({**LLAMA, "quantization_config": said}))
    status, out, err = gptcalc("memory", tmp_path)
    assert (status, out) == (2, "")
    assert "config.json: quantization_config: '(' is no pattern" in err


def test_what_stands_behind_the_layers_is_none_of_them() -> None:
    """Multi-token-prediction modules are numbered behind the layers: what a config says of them leaves these alone."""
    words = ["model.layers.1.mlp*", "model.layers.12*"]
    said = {"quant_method": "modelopt", "quant_algo": "NVFP4", "exclude_modules": words}
    model = load({**LLAMA, "quantization_config": said}).architecture
    assert not model.storage.mixed
    wide = 3 * (2 * DOWN - DOWN * 9 // 16 - 2 * 4)
    # the first word is of layer 1 alone, as a dot follows
    assert memory(model, context=1).per_device.weights == total(model, "nvfp4") + wide


def test_a_pattern_that_may_take_for_ever_is_not_tried(tmp_path: Path, gptcalc: Command) -> None:
    """It would keep one name busy for many seconds; what it means is then not known, and said."""
    skipped = {"ignore": ["re:(.*a.*)*(.*e.*)*(.*l.*)*z"], "format": "pack-quantized"}
    weights = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32, "symmetric": True}
    groups = {"config_groups": {"g": {"targets": ["Linear"], "weights": weights}}}
    method = {"quant_method": "compressed-tensors", **skipped, **groups}
    (tmp_path / "config.json").write_text(json.dumps({**LLAMA, "quantization_config": method}))
    found = gptcalc("memory", tmp_path)
    assert found.status == 0
    assert "estimate: weights: all matrices in w4a16:32" in found.out
