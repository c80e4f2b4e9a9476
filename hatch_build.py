"""Build hook: a wheel gets the index of its presets (gptcalc/report/index.py), a cache that lists start faster with."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class IndexHook(BuildHookInterface):  # type: ignore[type-arg]
    """Computes the index with the code that the wheel has. An editable install reads its presets."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel" or version == "editable":
            return
        sys.path.insert(0, self.root)
        from gptcalc.report import index

        file = Path(tempfile.mkdtemp(), index.NAME)
        file.write_text(index.made(), encoding="utf-8")
        build_data["force_include"][str(file)] = f"gptcalc/presets/{index.NAME}"
