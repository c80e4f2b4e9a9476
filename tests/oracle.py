"""Measured truths of full-size public configs: see data/README.md."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from gptcalc.architecture import Architecture
from gptcalc.document import build
from gptcalc.sources.huggingface import read

ENTRIES: dict[str, dict[str, Any]] = {
    entry["id"]: entry for entry in json.loads((Path(__file__).parent / "data" / "oracle_totals.json").read_text())
}


@cache
def model(name: str) -> Architecture:
    return build(read(ENTRIES[name]["config"]).document)
