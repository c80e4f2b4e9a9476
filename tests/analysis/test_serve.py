"""What is left for a cache, and what it holds: as vLLM's logs print it. Contexts that a model can't have."""

from __future__ import annotations

import json

import pytest

from tests.conftest import Command

GIB = 2**30


def test_blocks_tokens_and_concurrency_of_a_log(gptcalc: Command) -> None:
    """Gemma 4 E2B at 32,768: 10,200 blocks of 98,304 bytes, 3,140 a request: 106,443 tokens, 3.25x."""
    size = f"{10_200 * 98_304 + 98_303}B"
    arguments = ("kv", "gemma-4-e2b", "--engine", "vllm", "--context", "32768", "--bytes", size, "--json")
    found = json.loads(gptcalc(*arguments)[1])["room"]
    assert (found["blocks"], found["block_bytes"], found["tokens"]) == (10_200, 98_304, 106_443)
    assert found["request_bytes"] == 3_140 * 98_304
    assert f"{found['concurrency']:.2f}" == "3.25"
    assert found["requests"] == 3


def test_tokens_of_another_log(gptcalc: Command) -> None:
    """redhat-performance/configiq#112: 64.68 GiB of Gemma 4 31B's cache are 626,949 tokens at 262,144."""
    arguments = ("kv", "gemma-4-31b", "--engine", "vllm", "--context", "262144", "--bytes", "64.68GiB")
    assert gptcalc(*arguments, "--get", "room.tokens")[1] == "626949\n"


def test_the_longest_request_is_bytes_over_bytes_a_token(gptcalc: Command) -> None:
    """vllm#2132 of kaito: 18,667,192,320 bytes of 23,040 a token (36 · (256 + 64) · 2): 810,208."""
    arguments = ("kv", "mistral-small-4-119b", "--bytes", "18667192320B", "--get", "room.longest")
    assert gptcalc(*arguments)[1] == "810208\n"


def test_what_is_left_on_an_h100(gptcalc: Command) -> None:
    """Llama 3.1 8B with vLLM 0.11: 51.38 GiB are left (llm-d-benchmark)."""
    arguments = ("serve", "llama-3.1-8b", "--device", "h100-sxm", "--engine", "vllm", "--context", "16000")
    left = int(gptcalc(*arguments, "--get", "available")[1])
    assert left == pytest.approx(51.38 * GIB, rel=2e-3)
    assert left < 51.38 * GIB
    tokens = int(gptcalc(*arguments, "--get", "tokens")[1])
    assert tokens == left // (16 * 131_072) * 16


def test_a_draft_takes_weights_and_cache(gptcalc: Command) -> None:
    """Two of the same model: the weights once more, a request's cache twice."""
    arguments = ("serve", "gpt2", "--budget", "8GiB", "--context", "1024")
    alone = json.loads(gptcalc(*arguments, "--json")[1])
    both = json.loads(gptcalc(*arguments, "--draft", "gpt2", "--json")[1])
    assert both["beside"]["weights"] == 2 * alone["beside"]["weights"]
    assert both["request_bytes"] == 2 * alone["request_bytes"]


def test_what_can_not_start_is_no(gptcalc: Command) -> None:
    status, out, _ = gptcalc("serve", "llama-3.3-70b", "--device", "h100-sxm", "--engine", "vllm")
    assert status == 1
    assert "does not start" in out


def test_counts_in_a_device(gptcalc: Command) -> None:
    arguments = ("fit", "llama-3-8b", "--context", "8K", "--get", "devices")
    assert gptcalc(*arguments, "--device", "4xh100-sxm")[1] == "4\n"
    status, _, error = gptcalc(*arguments, "--device", "4xh100-sxm", "--devices", "2")
    assert (status, error) == (2, "gptcalc: --devices 2: --device names 4; leave one of them out\n")


# --- contexts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "context", "size"),
    [
        ("gpt-oss-20b", "64", 24 * 2 * 8 * 64 * 2),  # 24 layers of 8 heads, windows of 128
        ("gpt-oss-20b", "128K", 12 * 2 * 8 * 64 * 2),  # 12 of them are full
        ("mistral-7b", "4095", 32 * 2 * 8 * 128 * 2),  # windows of 4,096
        ("mistral-7b", "4096", 0),
    ],
)
def test_the_next_token_adds_the_slope(model: str, context: str, size: int, gptcalc: Command) -> None:
    assert gptcalc("kv", model, "--context", context, "--get", "next_token_bytes", "--quiet")[1] == f"{size}\n"


def test_no_context_beyond_a_learned_table(gptcalc: Command) -> None:
    assert gptcalc("fit", "gpt2", "--device", "rtx-4090", "--get", "max_context")[1] == "1024\n"
    assert gptcalc("kv", "gpt2", "--bytes", "24GiB", "--get", "room.longest")[1] == "1024\n"
    assert gptcalc("compare", "gpt2", "--budget", "24GiB", "--get", "0.max_context")[1] == "1024\n"


def test_a_longest_context_beyond_the_trained_one_says_so(gptcalc: Command) -> None:
    out = gptcalc("fit", "llama-3-8b", "--device", "h100-sxm")[1]
    assert "(made for 8,192)" in out


def test_compare_goes_on_where_a_model_can_not(gptcalc: Command) -> None:
    status, out, error = gptcalc(
        "compare", "gpt2", "llama-3.1-8b", "--context", "32K", "--columns", "model,kv_bytes", "--json"
    )
    assert status == 0
    assert json.loads(out) == [
        {"model": "gpt2", "kv_bytes": None},
        {"model": "llama-3.1-8b", "kv_bytes": 32768 * 131_072},
    ]
    assert error == "gptcalc: warning: --context 32768: gpt2 has a learned table of 1024 positions\n"
    assert gptcalc("compare", "gpt2", "--context", "32K")[0] == 2
