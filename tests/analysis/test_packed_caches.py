"""Caches of compressed entries (DeepSeek-V4): vLLM's blocks and llama.cpp's cells, against what they print and by hand.

Flash has 43 layers, all with a window; 21 have entries over 4 tokens and an indexer's, 20 entries over 128. In
DeepSeek's layout a latent is 448 + 2 · 64 + 8 = 584 bytes, an indexer's key 128 + 4, and pages are multiples of 576:

    entries over 4      256/4 · 584 = 37,376 → 37,440
    indexer             256/4 · 132 =  8,448 →  8,640
    entries over 128    256/128 · 584 = 1,168 → 1,728
    window              64 · 584 = 37,376 → 37,440
    state over 4        4 tokens · 2 halves · 512 · 2 · 4 bytes = 32,768 → 32,832; indexer's 4 · 2 · 128 · 2 · 4 → 8,640
    state over 128      8 tokens · 512 · 2 · 4 bytes = 32,768 → 32,832

Groups of 22 fill 43, 21 and 20 layers best: two of windows, one of each other kind.
"""

from __future__ import annotations

import json

import pytest

from tests.conftest import Command

#: before 0.29: 22 places of each size that entries have; since then the widest group, that of all entries
SLOTS = 22 * (37_440 + 8_640 + 1_728)
WIDEST = 21 * (37_440 + 8_640) + 20 * 1_728


def pages(context: int, flying: int) -> int:
    """Of all groups: entries; twice the last 127 tokens and those in flight; the last 7, the last 127 and those."""
    entries = -(-context // 256)
    windows = [
        -(-min(tokens + flying, context) // page) + 1 for tokens, page in ((127, 64), (127, 64), (7, 4), (127, 8))
    ]
    return entries + sum(windows)


@pytest.mark.parametrize(("context", "gib"), [(30_000, 6.66), (13_528, 5.44)])
def test_what_a_start_asked_for(context: int, gib: float, gptcalc: Command) -> None:
    """vllm#44376, 0.22, offline on a GH200, so in pieces of 16,384: 6.66 GiB needed for 30,000 tokens, and the 5.44 GiB
    that were there hold 13,528."""
    how = ("--engine", "vllm", "--engine-version", "0.22", "--prefill-chunk", "16384", "--kv-dtype", "fp8")
    asked = ("memory", "deepseek-v4-flash", *how, "--tp", "2", "--context", str(context))
    found = int(gptcalc(*asked, "--get", "per_device.kv")[1])
    assert found == SLOTS * pages(context, 16_384)
    assert found / 2**30 == pytest.approx(gib, abs=0.005)


def test_the_widest_group_since_0_29(gptcalc: Command) -> None:
    """Two passes in flight."""
    how = ("--engine", "vllm", "--engine-version", "0.33", "--prefill-chunk", "8192", "--kv-dtype", "fp8")
    found = int(gptcalc("memory", "deepseek-v4-flash", *how, "--context", "30000", "--get", "per_device.kv")[1])
    assert found == WIDEST * pages(30_000, 16_384)


def test_pro(gptcalc: Command) -> None:
    """61 layers with windows, 30 with entries over 4, 31 over 128: groups of 31, and 8,192 tokens in flight."""
    block = 30 * (37_440 + 8_640) + 31 * 1_728
    found = json.loads(gptcalc("kv", "deepseek-v4-pro", "--engine", "vllm", "--kv-dtype", "fp8_ds_mla", "--json")[1])
    assert found["bytes"] == block * pages(2**20, 8_192)
    assert sum(group["bytes"] for group in found["groups"]) == found["bytes"]


def test_plain_rows(gptcalc: Command) -> None:
    """In bf16 (FlashInfer's kernels) a latent is 1,024 bytes, and pages are multiples of 512: an indexer's 8,704."""
    block = 21 * (64 * 1_024 + 8_704) + 20 * 2 * 1_024
    found = int(gptcalc("kv", "deepseek-v4-flash", "--engine", "vllm", "--context", "30000", "--get", "bytes")[1])
    assert found == block * pages(30_000, 8_192)


def test_a_server_counts_these_blocks(gptcalc: Command) -> None:
    how = ("--engine", "vllm", "--engine-version", "0.33", "--kv-dtype", "fp8", "--context", "32K")
    asked = ("serve", "deepseek-v4-flash", "--device", "2xh200", "--tp", "2", "--ep", "2", *how)
    found = json.loads(gptcalc(*asked, "--json")[1])
    assert (found["block_bytes"], found["block_tokens"]) == (WIDEST, 256)
    assert found["blocks"] == found["available"] // WIDEST
    assert found["concurrency"] == pytest.approx(found["blocks"] / pages(2**15, 2 * 8_192))


def test_no_yes_without_an_if_where_that_start_had_no_room(gptcalc: Command) -> None:
    """The same start, of 95 % of a card: 5.44 GiB were left, too few for 30,000 tokens; 13,528 fit."""
    how = ("--engine", "vllm", "--engine-version", "0.22", "--prefill-chunk", "16384", "--kv-dtype", "fp8")
    asked = (
        "fit",
        "deepseek-v4-flash",
        *how,
        "--budget",
        "97871MiB",
        "--utilization",
        "0.95",
        "--tp",
        "2",
        "--ep",
        "2",
    )
    found = json.loads(gptcalc(*asked, "--context", "30000", "--json")[1])
    assert not found["fits"] or found["condition"] is not None
    assert json.loads(gptcalc(*asked, "--context", "13528", "--json")[1])["fits"]


IN_WINDOWS = "--engine vllm: it runs compressed entries in models of windows alone, some with entries over 4 tokens"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("csa.compress.every=8", "engines know entries over 4 and 128 tokens, none over 8"),
        ("layers=2*local+hashed n*hca+moe", IN_WINDOWS),
        ("csa.compress.index=none", IN_WINDOWS),
    ],
)
def test_others_are_refused(change: str, said: str, gptcalc: Command) -> None:
    found = gptcalc("kv", "deepseek-v4-flash", "--set", change, "--engine", "vllm")
    assert (found.status, found.out, len(found.lines)) == (2, "", 1)
    assert said in found.lines[0]


def test_cells_of_llama_cpp(gptcalc: Command) -> None:
    """llama.cpp#27680: 64,000 cells and micro-batches of 4,096 have windows of 4,352 cells in 43 layers, 182.75 MiB.

    16,000 entries over 4 tokens are padded to 16,128 cells, 500 over 128 to 512. States in fp32, content and weight:
    8 tokens of both halves of 512 channels, and of the indexer's 128; 128 tokens of 512 channels."""
    asked = ("kv", "deepseek-v4-flash", "--engine", "llama.cpp", "--context", "64000", "--prefill-chunk", "4096")
    groups = json.loads(gptcalc(*asked, "--json")[1])["groups"]
    held = {kind: sum(g["bytes"] for g in groups if g["kind"] == kind) for kind in {g["kind"] for g in groups}}
    assert held == {
        "window": 43 * 4_352 * 512 * 2,
        "compressed": (21 * 16_128 + 20 * 512) * 512 * 2,
        "index": 21 * 16_128 * 128 * 2,
        "open": 4 * 2 * (21 * 8 * 2 * (512 + 128) + 20 * 128 * 512),
    }
    assert held["window"] == 182.75 * 2**20
    assert int(gptcalc(*asked, "--batch", "3", "--get", "bytes")[1]) == 3 * sum(held.values())


def test_a_file_of_llama_cpp(gptcalc: Command) -> None:
    """Its converter leaves experts and what is in 16 or 32 bits as it is, and makes Q8_0 of what is in 8: 155 GB."""
    asked = ("memory", "deepseek-v4-flash", "--engine", "llama.cpp", "--context", "4096", "--json")
    rows = json.loads(gptcalc(*asked)[1])["tensors"]
    types = {row["name"]: row["type"] for row in rows}
    known = {"moe.up": "mxfp4", "moe.shared.up": "q8_0", "attn.q_b": "q8_0", "attn.compress.kv": "bf16"}
    assert {name: types[name] for name in known} == known
