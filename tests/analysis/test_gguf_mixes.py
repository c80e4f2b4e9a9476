"""GGUF files of small models, byte by byte as llama.cpp's quantiser sizes them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gptcalc.analysis.memory.weights import total
from gptcalc.document import build
from gptcalc.sources.huggingface import read
from tests import TESTS

LINES = (TESTS / "data" / "gguf_mixes.jsonl").read_text(encoding="utf-8").splitlines()
CASES: dict[str, dict[str, Any]] = {case["id"]: case for case in map(json.loads, LINES)}


@pytest.mark.parametrize("name", CASES)
def test_a_file_is_as_large_as_the_quantiser_says(name: str) -> None:
    case = CASES[name]
    assert total(build(read(case["config"]).document), case["dtype"]) == case["bytes"]
