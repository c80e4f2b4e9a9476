"""SGLang's cache: against what its logs print, and by hand from how it sizes its pools."""

from __future__ import annotations

import json

import pytest

from gptcalc.analysis.memory.account import memory
from gptcalc.analysis.memory.cache import kv
from gptcalc.sources import load
from tests.conftest import Command


def test_scaled_latents_and_an_indexer_of_a_log() -> None:
    """sglang#11309: 975,424 tokens of DeepSeek-V3.2 in fp8 are 43.67 GiB, 656 + 132 bytes in 61 layers."""
    found = kv(load("deepseek-v3.2").architecture, engine="sglang", kv_dtype="fp8", context=975_424)
    assert found.bytes == 61 * (656 + 132) * 975_424
    assert round(found.bytes / 2**30, 2) == 43.67


def test_keys_and_values_of_a_log() -> None:
    """vllm#21348: Qwen3-235B-A22B on four devices, 367,404 tokens as K and V of 8.23 GiB each."""
    found = memory(load("qwen3-235b-a22b").architecture, engine="sglang", tp=4, context=367_404)
    assert round(found.per_device.kv / 2 / 2**30, 2) == 8.23


def test_pages_of_64_where_an_indexer_chooses() -> None:
    model = load("deepseek-v3.2").architecture
    found = [kv(model, engine="sglang", kv_dtype="fp8", context=n).bytes for n in (64, 65, 128)]
    assert found == [61 * 788 * 64, 61 * 788 * 128, 61 * 788 * 128]


def test_requests_share_the_tokens() -> None:
    model = load("llama-3-8b").architecture
    assert kv(model, engine="sglang", batch=3, context=1000).bytes == 3000 * 131_072


def test_windows_have_a_share_of_the_tokens() -> None:
    """gpt-oss-20b at 10,000 tokens: 8,000 in twelve windowed layers, as --swa-full-tokens-ratio is 0.8."""
    found = kv(load("gpt-oss-20b").architecture, engine="sglang", context=10_000)
    assert found.bytes == 12 * 2 * 8 * 64 * 2 * (10_000 + 8_000)


def test_windows_alone_have_all_tokens() -> None:
    found = kv(load("mistral-7b").architecture, engine="sglang", context=16_384)
    assert found.bytes == 131_072 * 16_384


def test_compressed_entries(gptcalc: Command) -> None:
    """DeepSeek-V4-Flash at 131,072 tokens, 512 pages of 256; windows of a tenth, 51 pages. A page of 64 entries over 4
    tokens is 37,376 bytes, padded to 37,440, of 2 over 128 tokens 1,168, padded to 1,728, of latents 149,504, padded to
    149,760. States in fp32: 51 rings of 8 rows of both halves of 512 and 128 channels, content and weight; for one
    request and one more 385 rows of 512 channels, padded to 512."""
    asked = ("kv", "deepseek-v4-flash", "--engine", "sglang", "--kv-dtype", "fp8", "--context", "131072", "--json")
    groups = json.loads(gptcalc(*asked)[1])["groups"]
    held = {kind: sum(g["bytes"] for g in groups if g["kind"] == kind) for kind in {g["kind"] for g in groups}}
    assert held == {
        "window": 43 * 51 * 149_760,
        "compressed": 512 * (21 * 37_440 + 20 * 1_728),
        "index": 21 * 131_072 // 4 * 132,
        "open": 4 * 2 * (21 * 51 * 8 * 2 * (512 + 128) + 20 * 512 * 512),
    }


@pytest.mark.parametrize("model", ["rwkv-7-world-0.1b", "inkling-2-mini"])
def test_what_it_does_not_run(model: str, gptcalc: Command) -> None:
    found = gptcalc("kv", model, "--engine", "sglang")
    assert (found.status, found.out, len(found.lines)) == (2, "", 1)


def test_what_it_takes_beside_is_an_estimate(gptcalc: Command) -> None:
    found = json.loads(gptcalc("memory", "llama-3-8b", "--engine", "sglang", "--json")[1])
    assert "kv: what sglang sets aside, in bf16" in found["exact"]
    assert any(line.startswith("activations: ") and "engines differ" in line for line in found["estimated"])


# --- its start --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "tokens"),
    [
        # aisimulate#263: some 509,000 tokens
        ("deepseek-r1 --device 8xh200 --prefill-chunk 32768 --utilization 0.82", 509_000),
        # vllm#21348: 367,404 tokens of the FP8 checkpoint
        ("qwen3-235b-a22b --dtype fp8 --device 4xh100-sxm --utilization 0.93", 367_404),
    ],
)
def test_tokens_of_logs(words: str, tokens: int, gptcalc: Command) -> None:
    """--mem-fraction-static as --utilization; at most 5 % below, and not above what is written down."""
    found = json.loads(gptcalc("serve", *words.split(), "--engine", "sglang", "--context", "8K", "--json")[1])
    assert 0.95 * tokens <= found["tokens"] <= 1.002 * tokens


def test_its_own_fraction(gptcalc: Command) -> None:
    """An H100 of 81,079 MiB that a program sees, alone: 0.5 GiB, 1.5 MiB for each of 8,192 tokens, an eighth of a GiB,
    2 MiB for each of 256 sequences, 8 MiB for each of 58 lengths of graphs: 13,904 MiB are left, a fraction of 0.829.
    0.5 GiB are gone at the start."""
    left = 512 + 8192 * 1.5 + 128 + 256 * 2 + 58 * 8
    assert round((81079 - left) / 81079, 3) == 0.829
    found = json.loads(gptcalc("serve", "llama-3-8b", "--engine", "sglang", "--device", "h100-sxm", "--json")[1])
    static = int((81079 - 512) * 2**20 * 829 / 1000)
    assert found["available"] == pytest.approx(static - found["beside"]["weights"], abs=2)
    assert found["beside"]["activations"] == 0


def test_pieces_by_the_device(gptcalc: Command) -> None:
    def pieces(device: str) -> str:
        return str(gptcalc("serve", "llama-3.2-1b", "--engine", "sglang", "--device", device, "--get", "passes")[1])

    assert [pieces(d) for d in ("rtx-4080", "rtx-4090", "l40s", "h200", "b200")] == [
        f"in pieces of {n} tokens\n" for n in ("2,048", "4,096", "4,096", "8,192", "16,384")
    ]
