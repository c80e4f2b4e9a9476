"""Eleven models that sizing tools are tried on: totals, active parameters and cache, exact, from the preset alone.

Totals and active parameters were counted twice, from checkpoints' headers and by formula; the caches are worked out
here, beside what is expected.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest

import gptcalc
from tests.conftest import Command


class Truth(NamedTuple):
    total: int
    active: int
    bytes_per_token: int
    context: int  # the model's own
    full_length: int  # bytes of one sequence of that length


TRUTHS = {
    # 12 layers · (K and V) · 12 heads · 64 channels · 2 bytes = 36,864
    "gpt2": Truth(124_439_808, 124_439_808, 36_864, 1_024, 36_864 * 1_024),
    # 32 · 2 · 8 · 128 · 2 = 131,072
    "llama-3-8b": Truth(8_030_261_248, 8_030_261_248, 131_072, 8_192, 131_072 * 8_192),
    # 16 · 2 · 8 · 64 · 2 = 32,768
    "llama-3.2-1b": Truth(1_235_814_400, 1_235_814_400, 32_768, 131_072, 32_768 * 131_072),
    # 32 · 2 · 8 · 128 · 2 = 131,072, of at most 4,096 tokens
    "mistral-7b": Truth(7_241_732_096, 7_241_732_096, 131_072, 32_768, 536_870_912),
    # as Mistral 7B, without a window
    "mixtral-8x7b": Truth(46_702_792_704, 12_879_925_248, 131_072, 32_768, 131_072 * 32_768),
    # 28 · 2 · 4 · 128 · 2 = 57,344
    "qwen2.5-7b": Truth(7_615_616_512, 7_615_616_512, 57_344, 131_072, 57_344 * 131_072),
    # 48 · 2 · 4 · 128 · 2 = 98,304: heads of 128 channels, not of 2048 / 32 = 64
    "qwen3-30b-a3b": Truth(30_532_122_624, 3_353_032_704, 98_304, 40_960, 98_304 * 40_960),
    # 42 · 2 · 8 · 256 · 2 = 344,064: 21 layers keep all 8,192 tokens, 21 the last 4,096, each 8,192 bytes a token
    "gemma-2-9b": Truth(9_241_705_984, 9_241_705_984, 344_064, 8_192, 2_113_929_216),
    # 27 · (512 + 64) · 2 = 31,104: the latent and the rotary key
    "deepseek-v2-lite": Truth(15_706_484_224, 2_661_150_208, 31_104, 163_840, 31_104 * 163_840),
    # 61 · (512 + 64) · 2 = 70,272; the module for multi-token prediction is not counted
    "deepseek-v3": Truth(671_026_419_200, 37_552_297_472, 70_272, 163_840, 70_272 * 163_840),
    # 24 · 2 · 8 · 64 · 2 = 49,152: 12 layers keep all 131,072 tokens, 12 the last 128, each 2,048 bytes a token
    "gpt-oss-20b": Truth(20_914_757_184, 4_187_440_704, 49_152, 131_072, 3_224_371_200),
}
#: windows cut the cache below this many tokens, full layers and windowed ones with equally many bytes
AT_1024 = {"gpt-oss-20b": 12 * 2_048 * (1_024 + 128)}


@pytest.mark.parametrize("name", TRUTHS)
def test_parameters(name: str) -> None:
    found = gptcalc.params(name)
    assert found.total == TRUTHS[name].total
    assert found.active == TRUTHS[name].active


@pytest.mark.parametrize("name", TRUTHS)
def test_cache(name: str) -> None:
    truth = TRUTHS[name]
    short, whole = gptcalc.kv(name, context=1_024), gptcalc.kv(name)
    assert short.bytes_per_token == truth.bytes_per_token
    assert short.bytes == AT_1024.get(name, truth.bytes_per_token * 1_024)
    assert (whole.context, whole.bytes) == (truth.context, truth.full_length)
    assert whole.full_bytes == truth.bytes_per_token * truth.context


@pytest.mark.parametrize(("name", "expanded"), [("deepseek-v2-lite", 276_480), ("deepseek-v3", 4_997_120)])
def test_latents_expanded(name: str, expanded: int) -> None:
    # 27 layers · 16 heads · (128 + 64 + 128) · 2 bytes, and 61 · 128 · (128 + 64 + 128) · 2
    assert gptcalc.kv(name, mla_cache="expanded").bytes_per_token == expanded


def test_multi_token_prediction_stands_apart() -> None:
    # with its embedding and head copied, 2 · 129,280 · 7,168 more, a checkpoint holds 684,489,845,504
    assert gptcalc.params("deepseek-v3").mtp == 11_610_068_224
    assert 671_026_419_200 + 11_610_068_224 + 2 * 129_280 * 7_168 == 684_489_845_504


@pytest.mark.parametrize("name", TRUTHS)
def test_on_the_command_line(name: str, gptcalc: Command) -> None:
    truth = TRUTHS[name]
    assert gptcalc("params", name, "--get", "total").out == f"{truth.total}\n"
    assert gptcalc("params", name, "--json").json["active"] == truth.active
    assert gptcalc("kv", name, "--json").json["bytes"] == truth.full_length
