"""llama.cpp's compute buffer, held to its own scheduler and to the logs that people published."""

from __future__ import annotations

import json
from statistics import median
from typing import Any

import pytest

from gptcalc.analysis.memory.account import memory
from gptcalc.analysis.memory.arena import Arena
from gptcalc.analysis.memory.inference import Inference
from gptcalc.conventions import InferenceRun
from gptcalc.errors import InputError
from gptcalc.sources import load
from tests import TESTS

LINES = (TESTS / "data" / "llamacpp_compute.jsonl").read_text(encoding="utf-8").splitlines()
CASES: dict[str, list[list[Any]]] = {case["preset"]: case["rows"] for case in map(json.loads, LINES)}
MIB = 2**20


def buffer(preset: str, cells: int, piece: int, sequences: int, outputs: int, flash: bool, **options: Any) -> float:
    """Ours over the scheduler's, as its arguments say it."""
    found = memory(
        load(preset).architecture, engine="llama.cpp", kv_dtype="fp16", batch=sequences, context=cells // sequences,
        prefill_chunk=piece, logits="last" if outputs else "all", flash_attn="on" if flash else "off", **options,
    )  # fmt: skip
    return found.per_device.activations / MIB


@pytest.mark.parametrize("preset", CASES)
def test_what_the_scheduler_sets_aside(preset: str) -> None:
    """8 % off at most, 16 with logits of a whole pass."""
    for *how, size in CASES[preset]:
        ours = buffer(preset, *how)
        least = 0.94 if how[3] else 0.84
        assert least <= ours / size <= 1.08, (how, ours, size)


def test_most_are_exact() -> None:
    """Three quarters to 0.5 %; logs round to 0.01 MiB, and positions and the like are not counted."""
    off = [abs(buffer(preset, *how) / size - 1) for preset, rows in CASES.items() for *how, size in rows if how[3]]
    assert median(off) < 0.001
    assert sum(x < 0.005 for x in off) > 0.75 * len(off)


@pytest.mark.parametrize(
    ("preset", "cells", "values", "size"),
    [
        # logs of CUDA devices, of before logits were limited (llama.cpp#23861): those of every token. values: of a
        # token in a layer without flash attention, whose places those versions did not copy in
        ("mistral-7b-v0.3", 2048, 1024, 164.00),  # v0.2, with the same layers; fedora-copr/logdetective#106
        ("mistral-7b-v0.3", 32768, 1024, 2144.00),
        ("llama-2-7b", 2048, 4096, 164.00),  # llama.cpp's own CI, in f16
        ("llama-3-8b", 512, 1024, 258.50),  # a Q4_K_M of 4,403.49 MiB on the card
        ("qwen2.5-3b", 4096, 0, 300.75),  # SciSharp/LLamaSharp#1099
        ("qwen3-4b", 4096, 0, 301.75),  # flash attention was auto, set to enabled
    ],
)
def test_published_logs(preset: str, cells: int, values: int, size: float) -> None:
    """To 2 %: masks may have gone before the logits come."""
    places = 8 * values * 512 / MIB
    assert buffer(preset, cells, 512, 1, 0, not values) - places == pytest.approx(size, rel=0.02)


@pytest.mark.parametrize("preset", ["mamba-2.8b", "mamba2-2.7b", "falcon-mamba-7b", "jamba-v0.1", "lfm2-1.2b",
                                    "qwen3-next-80b-a3b", "kimi-linear-48b-a3b"])  # fmt: skip
def test_recurrent_mixers_are_exact(preset: str) -> None:
    """With flash attention and one row of logits, to 0.5 %; the states of four sequences among them."""
    for *how, size in CASES[preset]:
        if how[3] and how[4]:
            assert buffer(preset, *how) == pytest.approx(size, rel=0.005)


@pytest.mark.parametrize("preset", ["falcon-7b", "gpt-neox-20b", "command-r-plus", "command-r-08-2024"])
def test_feed_forward_layers_that_come_before_the_projection_beside_them(preset: str) -> None:
    """Their graphs add what the feed-forward layer makes first (src/models/)."""
    for *how, size in CASES[preset]:
        if how[3]:
            assert buffer(preset, *how) == pytest.approx(size, rel=0.005)


@pytest.mark.parametrize("preset", ["phi-3-mini-4k", "phi-4", "dbrx", "bloom-7b1", "qwen3.5-9b"])
def test_one_matrix_of_queries_and_more(preset: str) -> None:
    """Its result is there until the last part is read: keys and values, or the gate on what heads have read."""
    for *how, size in CASES[preset]:
        if how[3]:
            assert buffer(preset, *how) == pytest.approx(size, rel=0.005)


def test_a_mixer_whose_operations_are_not_written_down_says_so() -> None:
    def margin(preset: str) -> str:
        found = memory(load(preset).architecture, engine="llama.cpp", context=4096)
        return next(line for line in found.estimated if "compute buffer" in line)

    assert margin("mamba2-2.7b").endswith("to 16 %")
    assert margin("rwkv-7-world-0.4b").endswith("to 16 %")
    assert margin("rwkv-6-world-1b6").endswith("to 50 %")


SPLIT = [json.loads(line) for line in (TESTS / "data" / "llamacpp_split.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("case", SPLIT, ids=lambda case: " ".join(map(str, list(case.values())[:-1])))
def test_several_devices_and_the_host(case: dict[str, Any]) -> None:
    """Of several devices 4 % below at most; where the host has layers up to 11 above, as a copied matrix may take room
    that is free."""
    run = Inference(
        load(case["preset"]).architecture,
        InferenceRun(
            engine="llama.cpp", dtype="gguf-bf16", kv_dtype="fp16", context=8192, pp=case["devices"],
            flash_attn="on" if case["flash"] else "off", tensor_split=case["split"] or None,
            ngl=case["ngl"], override_tensor=f"{case['override']}=CPU" if case["override"] else None,
        ),
    )  # fmt: skip
    for number, size in enumerate(case["sizes"]):
        ours = run.device(number, 1, 8192).activations / MIB
        assert 0.96 <= ours / size <= 1.11


def test_quantised_caches_are_copied_for_flash_attention() -> None:
    """Keys and values of one layer in 16 bits beside the result: Llama 3 8B over 131,072 cells."""
    found = memory(load("llama-3.1-8b").architecture, engine="llama.cpp", kv_dtype="q8_0", context=131072)
    copies = 131072 * 2 * 1024 * 2
    mask, stream = 131072 * 512 * 2, 512 * 4096 * 4
    assert found.per_device.activations >= mask + 3 * stream + copies


def test_experts_on_the_host_are_copied_in() -> None:
    """The largest matrix as it is: 128 experts of 2880 × 2880 in mxfp4, 17 bytes for 32 numbers."""
    model = load("gpt-oss-120b").architecture
    plain = memory(model, engine="llama.cpp", dtype="mxfp4_moe", context=8192)
    spared = memory(model, engine="llama.cpp", dtype="mxfp4_moe", context=8192, n_cpu_moe=36)
    matrix = 128 * 2880 * 2880 // 32 * 17
    assert spared.per_device.activations == plain.per_device.activations + matrix
    few = memory(model, engine="llama.cpp", dtype="mxfp4_moe", context=8192, n_cpu_moe=36, prefill_chunk=16)
    assert few.per_device.activations < 64 * MIB  # under 32 tokens the host multiplies


def test_only_llama_cpp_has_the_choice() -> None:
    model = load("gpt2").architecture
    with pytest.raises(InputError, match="--flash-attn off: --engine vllm has no such choice"):
        memory(model, engine="vllm", flash_attn="off")
    with pytest.raises(InputError, match="keeps no values in q8_0"):
        memory(model, engine="llama.cpp", flash_attn="off", kv_dtype="q8_0")


def test_an_arena_takes_the_smallest_block_that_is_large_enough() -> None:
    arena = Arena()
    blocks = [arena.take(size) for size in (10, 1, 5, 1, 7, 1)]
    for block in blocks[::2]:
        arena.give(block)
    assert arena.take(6) == (17, 6)
    assert arena.take(5) == (11, 5)
    assert arena.take(11) == (25, 11)
    assert arena.peak == 36


def test_freed_blocks_join_their_neighbours_and_the_end() -> None:
    arena = Arena()
    blocks = [arena.take(10) for _ in range(4)]
    arena.give(blocks[0])
    arena.give(blocks[1])
    assert arena.take(20) == (0, 20)
    arena.give(blocks[3])
    arena.give(blocks[2])
    assert arena.take(30) == (20, 30)
    assert arena.peak == 50
