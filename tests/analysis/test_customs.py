"""The ways that people count a model's parameters, by figures that were published and by hand."""

from __future__ import annotations

import pytest

from gptcalc.analysis.customs import CUSTOMS, customs
from gptcalc.sources import load
from tests.conftest import Command

#: GPT-2: tables of 50257 and 1024 rows of 768
TOKENS, POSITIONS = 50257 * 768, 1024 * 768

QUOTED = [
    ("gpt2", "total", 124_439_808),
    ("gpt2", "without_embedding", 124_439_808 - TOKENS - POSITIONS),
    ("gpt2", "untied", 163_037_184),  # the sum over a state dict that has lm_head.weight, too
    ("gpt2", "padded", 124_475_904),  # with the 50304 rows of nanoGPT and llm.c
    ("gpt2", "with_mtp", 124_439_808),
    ("gpt2", "active", 124_439_808),
    ("gpt2", "active_without_lookup", 124_439_808 - POSITIONS),
    ("gpt2", "active_without_tables", 124_439_808 - TOKENS - POSITIONS),
    ("llama-3-8b", "untied", 8_030_261_248),
    ("llama-3-8b", "without_embedding", 8_030_261_248 - 128256 * 4096),
    ("llama-3-8b", "without_tables", 8_030_261_248 - 2 * 128256 * 4096),
    ("llama-3-8b", "padded", 8_030_261_248),  # 128256 = 1002 · 128
    ("deepseek-v3", "active", 37_552_297_472),
    ("deepseek-v3", "active_without_lookup", 37_552_297_472 - 129280 * 7168),
    # DeepSeek-V3's card: 671 B of main model, 14 B more of the module, its tables among them
    ("deepseek-v3", "with_mtp_tables", 671_026_419_200 + 11_610_068_224 + 2 * 129280 * 7168),
]


@pytest.mark.parametrize(("model", "custom", "count"), QUOTED)
def test_a_figure_that_is_quoted(model: str, custom: str, count: int) -> None:
    assert customs(load(model).architecture)[custom] == count


def test_all_are_named_and_shown(gptcalc: Command) -> None:
    found = gptcalc("diff", "gpt2", "deepseek-v3", "--conventions", "--json").json["customs"]
    assert [row["custom"] for row in found] == list(CUSTOMS)
    shown = gptcalc("diff", "gpt2", "deepseek-v3", "--conventions").out
    assert all(name in shown for name, _ in CUSTOMS.values())
    assert "124,475,904" in shown
    assert "customs" not in gptcalc("diff", "gpt2", "deepseek-v3", "--json").json
