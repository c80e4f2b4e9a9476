"""Kimi K3 as its files have it, and small models that have a part of what it has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from gptcalc.analysis.memory.weights import total
from gptcalc.analysis.params import params
from gptcalc.analysis.stored import held
from gptcalc.architecture import Architecture
from gptcalc.document import build
from gptcalc.errors import InputError
from gptcalc.sources import load
from gptcalc.sources.checkpoint import Checkpoint
from gptcalc.sources.huggingface import read, tensor_names
from tests import TESTS

#: huggingface.co/api/models/moonshotai/Kimi-K3, safetensors.parameters: two packed weights in a byte are two
PACKED, BF16, FP32 = 2_722_740_830_208, 57_179_884_544, 11_122_432
#: metadata.total_size of its index
BYTES = 1_560_860_324_864
#: 27 blocks of a tower 1024 wide whose heads are 1536 wide together, a norm, 64 × 64 positions, patches of 14 × 14;
#: two matrices that join 2 × 2 patches, and a norm
TOWER = 27 * (4 * 1536 * 1024 + 2 * 1024 * 4096 + 2 * 1024) + 1024 + 64 * 64 * 1024 + 3 * 14 * 14 * 1024
PROJECTOR = 4096 * 4096 + 4096 * 7168 + 7168
#: A_log has a number a channel of a head; its class has one a head, and the others are 0
ZEROS = 69 * (128 - 96)


def kimi() -> Architecture:
    return load("kimi-k3").architecture


def test_all_that_is_published_is_counted() -> None:
    assert params(kimi()).total == PACKED + BF16 + FP32 - TOWER - PROJECTOR - ZEROS


def test_what_a_token_touches() -> None:
    """Of 896 experts 16; its card's 104.2 B leave the table of tokens out."""
    found = params(kimi())
    assert found.active == found.total - PACKED * 880 // 896
    assert round((found.active - found.embedding) / 1e9, 1) == 104.2


def test_experts_alone_are_packed() -> None:
    """The matrices around their latent space stay wide, though no pattern of the config says so. Convolutions, rates,
    offsets of steps and norms of heads lie in fp32, where every other checkpoint has 16 bits."""
    in_fp32 = 69 * (3 * 12288 * 4 + 12288 + 96 + 128)
    assert total(kimi(), "mxfp4") == BYTES - 2 * (TOWER + PROJECTOR) - 2 * in_fp32 - 4 * ZEROS


SMALL: dict[str, Any] = json.loads((TESTS / "golden" / "kimi_k3" / "config.json").read_text(encoding="utf-8"))
LINEAR = SMALL["linear_attn_config"]


def counted(**changes: Any) -> int:
    return params(build(read({**SMALL, **changes}).document)).total


@pytest.mark.parametrize(
    ("changes", "difference"),
    [
        # three layers have three heads of 8 channels: a matrix of 32 × 24, or one of 32 × 8 and one of 8 × 24
        ({"linear_attn_config": {**LINEAR, "use_full_rank_gate": False}}, 3 * (32 * 8 + 8 * 24 - 32 * 24)),
        ({"linear_attn_config": {**LINEAR, "gate_lower_bound": None}}, 0),
        # two layers have three heads of 6 channels
        ({"mla_use_output_gate": False}, -2 * 32 * 18),
        # a query and a norm for each of ten sublayers and for the end
        ({"attn_res_block_size": None}, -(2 * 5 + 1) * 2 * 32),
        ({"attn_res_block_size": 12}, 0),
        # four layers, six experts of three matrices 12 wide
        ({"latent_moe_use_norm": False}, -4 * 20),
        ({"routed_expert_hidden_size": None}, 4 * (6 * 3 * 12 * (32 - 20) - 2 * 32 * 20 - 20)),
        ({"activation_situ_linear_beta": None}, 0),
        ({"hidden_act": "silu"}, 0),
        ({"q_lora_rank": None}, 2 * (32 * 3 * 12 - 32 * 14 - 14 - 14 * 3 * 12)),
        # every second layer from the first sparse one on is dense
        ({"moe_layer_freq": 2}, None),
    ],
)
def test_each_part_is_a_field(changes: dict[str, Any], difference: int | None) -> None:
    mixture = 6 * 33 + 2 * 32 * 20 + 20 + 6 * 3 * 20 * 12 + 3 * 32 * 24
    expected = 2 * (3 * 32 * 40 - mixture) if difference is None else difference
    assert counted(**changes) - counted() == expected


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"linear_attn_config": {**LINEAR, "kda_layers": [1, 2]}}, "do not name each of 5 layers, from 1, once"),
        ({"linear_attn_config": {**LINEAR, "gate_lower_bound": 5}}, "gate_lower_bound: expected a number below 0"),
        ({"mla_use_nope": False}, "mla_use_nope: only true is understood"),
        ({"attn_res_block_size": 0}, "attn_res_block_size: expected an integer from 1"),
        ({"hidden_act": "situ2"}, "activation 'situ2' is not understood"),
    ],
)
def test_what_is_wrong_is_said(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        counted(**changes)


def test_zeros_behind_the_rates_are_none_of_its_weights(tmp_path: Path) -> None:
    """A number a channel where there is one a head, as in the published files: 8 for 3 heads, in three layers."""
    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).write_bytes((TESTS / "golden" / "kimi_k3" / name).read_bytes())
    weights = load_file(tmp_path / "model.safetensors")
    filled = {name: np.pad(w, (0, 5)) if name.endswith("A_log") else w for name, w in weights.items()}
    save_file({f"language_model.{name}": weight for name, weight in filled.items()}, tmp_path / "model.safetensors")
    model = load(str(tmp_path))
    found = held(model, str(tmp_path))
    assert found.differ == ()
    assert (found.main, found.stored) == (counted(), counted() + 3 * 5)
    assert model.model_type is not None
    checkpoint = Checkpoint(tmp_path, tensor_names(model.model_type, model.architecture))
    own = checkpoint.get("layers.0.linear.A_log", (3,))
    assert own.tolist() == weights["model.layers.0.self_attn.A_log"].tolist()


def test_inside_a_larger_model() -> None:
    """The published file's form; what is around it is left out."""
    whole = {"model_type": "kimi_k3", "architectures": ["KimiK3ForConditionalGeneration"], "text_config": SMALL}
    found = read({**whole, "vision_config": {"vt_hidden_size": 1024}})
    assert params(build(found.document)).total == counted()
