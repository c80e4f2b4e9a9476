"""Build hook: a wheel gets the index of its presets (gptcalc/report/index.py), a cache that lists start faster with,
and the manual page.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class MadeFiles(BuildHookInterface):  # type: ignore[type-arg]
    """Computes the index and the manual with the code that the wheel has. An editable install reads its presets."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel" or version == "editable":
            return
        sys.path.insert(0, self.root)
        from gptcalc.cli.man import manual
        from gptcalc.report import index

        folder = Path(tempfile.mkdtemp())
        file, page = folder / index.NAME, folder / "gptcalc.1"
        file.write_text(index.made(), encoding="utf-8")
        page.write_text(manual(self.metadata.version), encoding="utf-8")
        build_data["force_include"][str(file)] = f"gptcalc/presets/{index.NAME}"
        build_data["shared_data"][str(page)] = "share/man/man1/gptcalc.1"
