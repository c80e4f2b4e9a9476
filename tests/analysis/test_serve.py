"""What is left for a cache, and what it holds: as vLLM's logs print it. Contexts that a model can't have."""

from __future__ import annotations

import json

import pytest

from gptcalc.analysis.memory.serve import served
from gptcalc.conventions import FitRun
from gptcalc.errors import InputError
from gptcalc.sources import load
from tests.conftest import Command
from tests.truth import test_drafts

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


def test_modules_for_multi_token_prediction(gptcalc: Command) -> None:
    """DeepSeek-V3's module: a layer more of the cache, 576 numbers a token, and 11,610,068,224 weights, of which the
    router's 256 biases are fp32."""
    plain, more = (
        json.loads(gptcalc("memory", "deepseek-v3", "--dtype", "bf16", "--context", "1K", *extra, "--json")[1])
        for extra in ((), ("--mtp",))
    )
    assert more["per_device"]["kv"] - plain["per_device"]["kv"] == 1024 * 576 * 2
    assert more["per_device"]["weights"] - plain["per_device"]["weights"] == 2 * (11_610_068_224 + 256)
    assert gptcalc("kv", "gpt2", "--mtp")[0] == 2
    arguments = ("serve", "deepseek-v3", "--device", "8xh200", "--engine", "vllm", "--context", "8K")
    assert float(gptcalc(*arguments, "--mtp", "--get", "concurrency")[1]) < float(
        gptcalc(*arguments, "--get", "concurrency")[1]
    )


# --- devices and training ---------------------------------------------------------------------------------------------


def test_zero_is_over_the_devices(gptcalc: Command) -> None:
    """--devices means data parallel ranks where ZeRO divides over them; a count in --device as well."""
    arguments = ("--training", "--zero", "3", "--context", "128", "--get", "parallel")
    assert json.loads(gptcalc("memory", "gpt2", *arguments, "--devices", "8")[1]) == {
        "tp": 1,
        "pp": 1,
        "ep": 1,
        "dp": 8,
    }
    assert json.loads(gptcalc("fit", "gpt2", *arguments, "--device", "8xh100-sxm")[1])["dp"] == 8
    assert json.loads(gptcalc("fit", "gpt2", *arguments, "--device", "2xh100-sxm", "--tp", "2")[1])["dp"] == 1
    plain = ("--training", "--context", "128", "--get", "parallel.tp")
    assert gptcalc("memory", "gpt2", *plain, "--devices", "2")[1] == "2\n"


@pytest.mark.parametrize(
    ("optimizer", "weights", "gradients", "states"),
    [
        ("sgd-bf16", 2, 2, 0),  # pytorch/torchtune#389: 13.5 + 13.5 GB of Llama 2 7B, no states
        ("sgd-momentum-bf16", 2, 2, 2),
        ("adam-bf16", 2, 2, 4),
        ("lion", 2, 4, 4 + 4),  # a master copy and one moment
        ("lion-bf16", 2, 2, 2),
    ],
)
def test_optimisers_in_pure_16_bits(
    optimizer: str, weights: int, gradients: int, states: int, gptcalc: Command
) -> None:
    arguments = ("memory", "llama-2-7b", "--training", "--optimizer", optimizer, "--context", "8", "--json")
    held = json.loads(gptcalc(*arguments)[1])["per_device"]
    n = 6_738_415_616
    assert (held["weights"], held["gradients"], held["optimizer"]) == (weights * n, gradients * n, states * n)


@pytest.mark.parametrize(
    ("optimizer", "states"), [("adam-8bit-bf16", 2), ("lion-8bit-bf16", 1), ("sgd-momentum-8bit-bf16", 1)]
)
def test_8_bit_states_without_a_master_copy(optimizer: str, states: int, gptcalc: Command) -> None:
    """States of a byte a number and 4 bytes for 256, norms of 4,096 included (bitsandbytes, min_8bit_size)."""
    arguments = ("memory", "llama-2-7b", "--training", "--optimizer", optimizer, "--context", "8", "--json")
    held = json.loads(gptcalc(*arguments)[1])["per_device"]
    n = 6_738_415_616
    assert held["optimizer"] == states * (n + n // 64)
    assert held["gradients"] == 2 * n


def test_devices_in_lists(gptcalc: Command) -> None:
    alone = json.loads(gptcalc("compare", "llama-3-8b", "--device", "h100-sxm", "--json")[1])[0]
    both = json.loads(gptcalc("compare", "llama-3-8b", "--device", "2xh100-sxm", "--json")[1])[0]
    assert both["kv_bytes"] == alone["kv_bytes"]
    assert both["weights_bytes"] < 0.51 * alone["weights_bytes"]
    three = json.loads(gptcalc("compare", "llama-3-8b", "gpt2", "--device", "3xh100-sxm", "--json")[1])
    assert [row["fits"] for row in three] == [None, True]
    assert gptcalc("presets", "gpt2*", "--device", "3xh100-sxm", "--columns", "model")[0] == 0
    assert gptcalc("compare", "gpt2", "--devices", "2")[0] == 2


def test_a_quiet_verdict_asks_for_no_advice(gptcalc: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    from gptcalc.analysis.memory import fit

    def advised(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(fit, "advised", advised)
    assert gptcalc("fit", "gpt2", "--budget", "24GiB", "--quiet") == (0, "", "")


@pytest.mark.parametrize(
    "arguments", [("serve", "bert-base", "--device", "l4"), ("kv", "bert-base", "--bytes", "1GiB")]
)
def test_a_model_without_a_cache_is_told_so(gptcalc: Command, arguments: tuple[str, ...]) -> None:
    found = gptcalc(*arguments)
    assert (found.status, found.out, len(found.lines)) == (2, "", 1)
    assert "no cache" in found.err


@pytest.mark.parametrize("engine", ["vllm", "llama.cpp"])
def test_engines_that_run_no_rwkv_4(gptcalc: Command, engine: str) -> None:
    """vLLM has no model of the kind, llama.cpp RWKV-6 and 7 alone (LLM_ARCH_RWKV6, LLM_ARCH_RWKV7)."""
    found = gptcalc("kv", "rwkv-4-169m", "--engine", engine)
    assert (found.status, found.out, len(found.lines)) == (2, "", 1)
    assert "RWKV" in found.err
    later = gptcalc("kv", "rwkv-7-world-0.1b", "--engine", engine, "--get", "bytes")
    # n_embd_r = 2 · n_embd and n_embd_s = n_embd · wkv_head_size in fp32 (src/llama-hparams.cpp)
    expected = (0, [str(12 * (2 * 768 + 768 * 64) * 4)]) if engine == "llama.cpp" else (2, [])
    assert (later.status, later.out.split()) == expected


def test_a_draft_made_for_another_model_is_refused() -> None:
    """One that reads the model's tables takes its own weights alone."""
    draft, how = test_drafts.draft("qwen3-8b-dflash"), FitRun(context=8192)
    model = load("qwen3-8b").architecture
    alone, both = served(model, 80 * 2**30, how), served(model, 80 * 2**30, how, "", draft)
    assert both.beside.weights - alone.beside.weights == 2 * 1_048_626_432
    assert both.notes == (
        "beside it model in bf16, its weights and its cache",
        "model reads the embedding and output matrix of qwen3-8b, counted once",
    )
    with pytest.raises(InputError, match="hidden states of 4,096 channels, llama-3-70b has 8,192"):
        served(load("llama-3-70b").architecture, 80 * 2**30, how, "", draft)
    with pytest.raises(InputError, match="tables of 151,936 rows, those of llama-3-8b have 128,256"):
        served(load("llama-3-8b").architecture, 80 * 2**30, how, "", draft)
