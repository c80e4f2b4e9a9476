"""The class that a config's `architectures` names is the one counted: bare model, head for language, for labels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gptcalc.analysis.params import params
from gptcalc.document import build
from gptcalc.sources.huggingface import read

CLASSES: list[dict[str, Any]] = json.loads((Path(__file__).parent.parent / "data" / "class_totals.json").read_text())


def named(entry: dict[str, Any]) -> str:
    classes = entry["config"].get("architectures")
    return "+".join(classes) if classes else f"no class of {entry['config']['model_type']}"


@pytest.mark.parametrize("entry", CLASSES, ids=named)
def test_the_total_of_a_class(entry: dict[str, Any]) -> None:
    assert params(build(read(entry["config"]).document)).total == entry["total"]
