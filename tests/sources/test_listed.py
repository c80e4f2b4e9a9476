"""Indices without their files, as a repository is cloned without its large ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Command

CONFIG = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 64, "intermediate_size": 96,
    "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2, "vocab_size": 48,
    "max_position_embeddings": 32, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
}  # fmt: skip
LAYER = [
    *(f"self_attn.{name}_proj.weight" for name in "qkvo"),
    *(f"mlp.{name}_proj.weight" for name in ("gate", "up", "down")),
    "input_layernorm.weight", "post_attention_layernorm.weight",
]  # fmt: skip
NAMES = [f"model.layers.{n}.{name}" for n in range(2) for name in LAYER]
NAMES += ["model.embed_tokens.weight", "model.norm.weight", "lm_head.weight"]
PARAMS = 2 * 48 * 64 + 2 * (2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 96 + 2 * 64) + 64
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12345\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    return tmp_path


def index(folder: Path, names: list[str], size: float) -> Path:
    path = folder / "model.safetensors.index.json"
    weight_map = dict.fromkeys(names, "model-00001-of-00001.safetensors")
    path.write_text(json.dumps({"metadata": {"total_size": size}, "weight_map": weight_map}))
    return path


def checks(found: str) -> dict[str, Any]:
    return {check["name"]: check for check in json.loads(found)[0]["checks"] if check["witness"] == "index"}


@pytest.mark.parametrize("pointer", [False, True])
def test_an_index_alone(folder: Path, pointer: bool, gptcalc: Command) -> None:
    path = index(folder, NAMES, 2.0 * PARAMS if pointer else 2 * PARAMS)
    if pointer:
        (folder / "model-00001-of-00001.safetensors").write_bytes(POINTER)
    status, out, err = gptcalc("params", folder, "--get", "total")
    assert (status, out) == (0, f"{PARAMS}\n")
    assert "were not compared" in err
    status, out, _ = gptcalc("validate", folder, "--checkpoint", path, "--json")
    found = checks(out)
    assert status == 0
    assert (found["bytes"]["expected"], found["bytes"]["found"]) == (2 * PARAMS, 2 * PARAMS)
    assert "what else is in the index" not in found


def test_what_else_is_inside(folder: Path, gptcalc: Command) -> None:
    packed = [name.replace("q_proj.weight", "q_proj.qweight") for name in NAMES]
    more = ["vision_tower.patches.weight", "model.layers.0.self_attn.rotary_emb.inv_freq"]
    path = index(folder, [*packed, *more], 2 * PARAMS + 10)
    status, out, _ = gptcalc("validate", folder, "--checkpoint", path, "--json")
    assert status == 0
    assert checks(out)["what else is in the index"]["found"] == "vision_tower.patches, … rotary_emb.inv_freq"


def test_what_is_missing(folder: Path, gptcalc: Command) -> None:
    path = index(folder, NAMES[1:], 2 * PARAMS - 2)
    status, out, _ = gptcalc("validate", folder, "--checkpoint", path, "--json")
    found = checks(out)
    assert status == 1
    assert found["names that the index lacks"]["found"] == "1, model.layers.0.self_attn.q_proj.weight"
    assert not found["bytes"]["ok"]


def test_a_part_of_a_download_is_none(folder: Path, gptcalc: Command) -> None:
    """Where some files are there and one is missing, the answer is refused and the file named."""
    path = index(folder, NAMES, 2 * PARAMS)
    content = json.loads(path.read_text())
    content["weight_map"][NAMES[0]] = "other.safetensors"
    path.write_text(json.dumps(content))
    (folder / "other.safetensors").write_bytes(b"\x02\0\0\0\0\0\0\0{}")
    status, out, err = gptcalc("params", folder)
    assert (status, out) == (2, "")
    assert "model-00001-of-00001.safetensors is missing" in err
