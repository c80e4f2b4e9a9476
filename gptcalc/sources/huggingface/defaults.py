"""What the classes of transformers assume for fields that a config.json leaves out: facts, in defaults.json."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any


@cache
def _table() -> dict[str, dict[str, Any]]:
    table: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))
    return table


def class_defaults(model_type: str) -> dict[str, Any]:
    """Field -> value for the class of a model_type; empty where transformers has no such class."""
    return _table().get(model_type, {})
