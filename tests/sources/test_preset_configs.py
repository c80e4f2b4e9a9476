"""Every preset whose config.json is known, by name: the reader of that type comes to the same model."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gptcalc.analysis.memory.cache import kv
from gptcalc.analysis.params import params
from gptcalc.architecture import Architecture
from gptcalc.document import build
from gptcalc.sources import preset
from gptcalc.sources.huggingface import read
from tests import TESTS

#: preset -> config.json; many were written down without the fields that equal a class's default, some without others
CONFIGS: dict[str, dict[str, Any]] = json.loads((TESTS / "data" / "preset_configs.json").read_text(encoding="utf-8"))

#: configs that say something else than the model does, and what
DIFFER: dict[str, str] = {
    "deepseek-v2-lite": "q_lora_rank: null left out, so that the class's 1536 counts",
    "glm-4-32b-0414": "8 key heads, as some tables have it; 2 in the config.json files of its fine-tunes",
    "laguna-xs.2": "48 query heads in every layer, the class's default",
    "minicpm-2b": "vocab_size 122760 of the long-context variant; 122753 rows here",
    "moonlight-16b-a3b": "q_lora_rank: null left out, so that the class's 1536 counts",
    "step-3.7-flash": "a copy without attention_other_setting: 64 query heads in sliding layers instead of 96",
}


def figures(model: Architecture) -> tuple[int, int, int]:
    counted = params(model)
    return counted.total, counted.active, kv(model).elements_per_token


@pytest.mark.parametrize("name", sorted(CONFIGS))
def test_reader_and_preset_agree(name: str) -> None:
    of_config, of_preset = figures(build(read(CONFIGS[name]).document)), figures(build(preset.named(name)))
    assert (of_config == of_preset) == (name not in DIFFER)


def test_modules_of_their_own_choice() -> None:
    """GLM-5.2's multi-token-prediction module has an indexer, though the model's last layer has none."""
    for name in ("glm-5.2", "glm-5.3"):
        assert params(build(read(CONFIGS[name]).document)).mtp == params(build(preset.named(name))).mtp
