"""Youtu: DeepSeek-V3's attention before plain MLPs."""

from __future__ import annotations

from gptcalc.sources.huggingface.deepseek import DEEPSEEK_V3
from gptcalc.sources.huggingface.pattern import stack
from gptcalc.sources.huggingface.reader import Reader

YOUTU = DEEPSEEK_V3.but(document={"layers": stack("mla", "mlp"), "moe": None, "mtp": None})

READERS: dict[str, Reader] = {"youtu": YOUTU}
