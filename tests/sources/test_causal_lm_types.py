"""Every model_type of transformers' causal language models is read, or stands in the list with its reason.

The totals of default configs are measured on transformers' own classes: see data/README.md.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from gptcalc.analysis.params import params
from gptcalc.errors import InputError
from gptcalc.sources.huggingface import read
from gptcalc.sources.huggingface.families import READERS
from gptcalc.sources.huggingface.unsupported import UNSUPPORTED
from tests import TESTS
from tests.conftest import Command

TYPES: dict[str, dict[str, Any]] = json.loads((TESTS / "data" / "causal_lm_types.json").read_text("utf-8"))

#: default configs that are not held against their class, and why
APART = {
    "deepseek_v2": "the class leaves num_experts_per_tok open",
    "glm4_moe": "by default its 96 heads do not divide its width",
    "longcat_flash": "the class allocates weights for experts that have none",
    "marian": "the class holds a table of fixed sines as a parameter",
    "roformer": "the class holds a table of fixed sines as a parameter",
}


#: fields without which a type's class can't be made
NEEDED: dict[str, dict[str, Any]] = {
    "qwen4_exp": {"indexer_n_heads": 8, "indexer_kv_heads": 1, "indexer_head_dim": 128, "indexer_budget": 2048,
                  "indexer_compress_ratio": 16, "rope_parameters": {"partial_rotary_factor": 0.25}},
}  # fmt: skip


def inner(model_type: str) -> str:
    """The type of the text model."""
    return str(TYPES[model_type].get("text", model_type))


def test_the_mapping_is_whole() -> None:
    assert len(TYPES) == 196


@pytest.mark.parametrize("model_type", TYPES)
def test_a_type_is_read_or_listed_with_a_reason(model_type: str) -> None:
    listed = model_type in UNSUPPORTED
    assert (inner(model_type) in READERS) != listed or model_type != inner(model_type)
    if listed:
        config = {"model_type": model_type, "text_config": {"model_type": inner(model_type)}}
        for given in (config, {"model_type": model_type}):
            with pytest.raises(InputError) as caught:
                read(given)
            assert UNSUPPORTED[model_type] in caught.value.message
    elif model_type != inner(model_type):
        text = {"model_type": inner(model_type), **NEEDED.get(model_type, {})}
        assert read({"model_type": model_type, "text_config": text}).architecture.d


@pytest.mark.parametrize("model_type", [t for t, row in TYPES.items() if "total" in row and t not in UNSUPPORTED])
def test_default_configs_count_as_their_class(model_type: str) -> None:
    if model_type in APART:
        pytest.skip(APART[model_type])
    row = TYPES[model_type]
    found = read({"model_type": model_type, "architectures": [row["class"]]})
    assert params(found.architecture).total == row["total"]


#: golden models of concepts that no preset has
WITHOUT_PRESETS = (
    "axk2",
    "cohere2_moe",
    "diffllama",
    "diffusion_gemma",
    "doge",
    "doge_masked",
    "dory",
    "dory_last_loop",
    "dots3_note",
    "ernie4_5_vl_moe",
    "esmc",
    "flint",
    "hrm_text",
    "hy_v4",
    "qwen4_exp",
    "rembert",
    "roformer",
    "voxtral_realtime",
    "zaya_sliding",
)


@pytest.mark.parametrize("name", WITHOUT_PRESETS)
def test_analysis_and_witness_agree_where_there_is_no_preset(name: str, gptcalc: Command) -> None:
    found = gptcalc("validate", TESTS / "golden" / name / "config.json")
    assert found.status == 0, found.out
