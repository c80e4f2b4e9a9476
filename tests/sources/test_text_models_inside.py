"""Every model_type of transformers' image-, audio- and video-text models: its text model is read, or it stands in the
list with its reason.

The totals of default configs' text models are measured on transformers' own classes: see data/README.md.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from gptcalc.analysis.params import params
from gptcalc.errors import InputError
from gptcalc.sources.huggingface import read
from gptcalc.sources.huggingface.unsupported import UNSUPPORTED
from tests import TESTS

TYPES: dict[str, dict[str, Any]] = json.loads((TESTS / "data" / "text_models_inside.json").read_text("utf-8"))

#: default configs that are not held against their class, and why
APART = {
    "deepseek_ocr2": "its class can't be made without a list of layers",
    "glm4v_moe": "by default 21 of the 42 channels of a head would turn",
    "qwen3_omni_moe": "by default all 73 channels of a head would turn",
    "qwen3_omni_moe_thinker": "by default all 73 channels of a head would turn",
    "qwen4_exp": "the class can't be made of its defaults",
}


def test_both_mappings_are_whole() -> None:
    assert len(TYPES) == 116


@pytest.mark.parametrize("model_type", TYPES)
def test_a_type_is_read_or_listed_with_a_reason(model_type: str) -> None:
    row = TYPES[model_type]
    config = {"model_type": model_type, "architectures": [row["class"]]}
    if "needs" in row:
        config["text_config"] = row["needs"]
    if model_type in UNSUPPORTED:
        with pytest.raises(InputError) as caught:
            read(config)
        assert UNSUPPORTED[model_type] in caught.value.message
        return
    if model_type in APART:
        pytest.skip(APART[model_type])
    found = params(read(config).architecture).total
    assert found == TYPES[model_type].get("total", found) > 0
