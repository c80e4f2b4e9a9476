"""Caches of models with recurrent layers: figures that engines have logged, and deliberate errors that they notice."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache as once
from types import ModuleType

import pytest

from gptcalc.analysis.memory import cache, engines
from gptcalc.analysis.memory.cache import kv, pools, types
from gptcalc.analysis.memory.engines import Held, Paging, held
from gptcalc.analysis.memory.inference import Inference
from gptcalc.analysis.memory.pools import CONSTANT
from gptcalc.analysis.memory.sharding import Layout
from gptcalc.analysis.memory.vllm import generation
from gptcalc.analysis.why import why_kv
from gptcalc.architecture import Architecture
from gptcalc.conventions import Engine, InferenceRun, RoomRun
from gptcalc.document import build
from gptcalc.equations import equations
from gptcalc.sources import preset
from tests.mutation import mutate

MIB, GIB = 2**20, 2**30


@once
def model(name: str) -> Architecture:
    """A preset, or Falcon-H1-1.5B as far as a cache is concerned: attention beside Mamba-2 in all of 24 layers."""
    if name != "falcon-h1-1.5b":
        return build(preset.named(name))
    return build(
        {
            "d": 2048, "v": 65537, "c": 131072, "n_heads": 8, "n_kv_heads": 2, "d_head": 128, "d_ff": 4096,
            "n_layers": 24, "layers": "n*(attn|mamba2)+mlp",
            "mamba2": {"n_heads": 48, "d_head": 64, "d_state": 256, "kernel": 4, "gate_first": False},
        }
    )  # fmt: skip


def block(name: str, state: str) -> int:
    """Tokens of a page in vLLM."""
    parts = held("vllm", pools(equations(model(name)), types("bf16", state)), 1)
    return next(part.tokens for part in parts if part.pool.grows)


def state(name: str, engine: Engine, batch: int = 1) -> float:
    return kv(model(name), context=32768, batch=batch, engine=engine).state_bytes / MIB


#: what a log says, its number, and how it is found here
LOGGED: dict[str, tuple[float, Callable[[], float]]] = {
    "llama.cpp, Qwen3.6-27B, 262144 cells: KV buffer 16384 MiB": (
        16384, lambda: (kv(model("qwen3.6-27b"), context=262144, engine="llama.cpp").bytes / MIB
                        - state("qwen3.6-27b", "llama.cpp"))),
    "llama.cpp, Qwen3.6-27B, 4 sequences: RS buffer 598.50 MiB": (
        598.5, lambda: state("qwen3.6-27b", "llama.cpp", batch=4)),
    "llama.cpp, Falcon-H1-1.5B, 32768 cells: KV buffer 768 MiB and 72.98 MiB": (
        768 + 72.984375, lambda: kv(model("falcon-h1-1.5b"), context=32768, engine="llama.cpp").bytes / MIB),
    "llama.cpp, Falcon-H1-1.5B: R and S": (72.984375, lambda: state("falcon-h1-1.5b", "llama.cpp")),
    "Kimi-Linear-48B: bytes a token of 7 latent caches": (
        8064, lambda: float(kv(model("kimi-linear-48b-a3b"), context=4096).bytes_per_token)),
    "Qwen3.5-9B, 262144 tokens: 8 GiB": (
        8 * GIB, lambda: float(262144 * kv(model("qwen3.5-9b"), context=262144).bytes_per_token)),
    "vLLM, Nemotron-Nano-9B-v2, states in bf16: attention block size 672 (issue 24280)": (
        672, lambda: block("nemotron-nano-9b-v2", "bf16")),
    "vLLM, Qwen3-Next-80B, states in bf16: attention block size 544": (
        544, lambda: block("qwen3-next-80b-a3b", "bf16")),
    "vLLM, Qwen3.5-9B, states in fp32: attention block size 528 (pull request 37467)": (
        528, lambda: block("qwen3.5-9b", "fp32")),
    # not logged, but by hand: 27 layers, three pages each (MambaSpec, num_prefill_checkpoint_blocks, 0.33)
    "vLLM, Nemotron-Nano-9B-v2: three pages of states": (
        27 * 3 * 672 * 2 * 8 * 128 * 2 / MIB,
        lambda: kv(model("nemotron-nano-9b-v2"), context=1, engine="vllm", state_dtype="bf16").state_bytes / MIB),
    "transformers, Mamba-130M: states of 24 layers in fp32, convolutions over the last 4 in bf16": (
        24 * 1536 * (16 * 4 + 4 * 2) / MIB, lambda: state("mamba-130m", "transformers")),
    "ideal, Mamba-130M: the last 3": (24 * 1536 * (16 * 4 + 3 * 2) / MIB, lambda: state("mamba-130m", "ideal")),
}  # fmt: skip


@pytest.mark.parametrize("log", LOGGED)
def test_logged(log: str) -> None:
    expected, found = LOGGED[log]
    assert found() == expected


def test_pages_of_states_are_padded_in_vllm() -> None:
    """Of a page of Qwen3.5-9B 0.76% is padding (pull request 37467)."""
    parts = held("vllm", pools(equations(model("qwen3.5-9b")), types("bf16", "fp32")), 1, paging=Paging(states=1))
    page = next(part.bytes // part.pool.layers for part in parts if part.pool.grows)
    constant = [part for part in parts if part.pool.kind in CONSTANT and part.pool.layers]
    layers = constant[0].pool.layers
    assert sum(part.bytes for part in constant if part.pool.kind != "padding") == layers * page
    used = sum(part.pool.bytes for part in constant if part.pool.kind != "padding")
    assert round(100 * (page / used - 1), 2) == 0.76


def test_layers_fill_groups_in_vllm() -> None:
    """Groups of 4 layers, as many as attend; 27 of Mamba-2 lack one."""
    found = kv(model("nemotron-nano-9b-v2"), context=672, engine="vllm", state_dtype="bf16")
    attention, mamba = 4, 27
    assert {group.kind: group.layers for group in found.groups if group.kind != "conv"} == {
        "full": attention, "state": mamba, "padding": -mamba % attention
    }  # fmt: skip
    page = 672 * 2 * 8 * 128 * 2
    assert found.bytes == (attention + 3 * (mamba + 1)) * page


def logged(name: str, kv_dtype: str, context: int, states: int, latents: int = 64, tp: int = 1) -> list[Held]:
    """What vLLM sets aside for a sequence on one device."""
    found = pools(equations(model(name)), types(kv_dtype, "fp32", "vllm"), Layout(tp=tp))
    return held("vllm", found, context, paging=Paging(1, states, latents))


def test_recurrent_layers_had_one_page() -> None:
    """vLLM 0.19, Qwen3.5-27B (issue 40691): 290,864 tokens are 371 pages in each of four groups, 33.04 requests."""
    parts = logged("qwen3.5-27b", "bf16", 32768, states=1)
    full = next(part for part in parts if part.pool.grows)
    tokens, page = 784, 784 * 2 * 4 * 256 * 2
    assert full.tokens == 42 * tokens
    assert 371 * tokens == 290864
    blocks = sum(part.bytes for part in parts) // (16 * page)
    assert blocks == 42 + 3
    assert any(round(number / blocks, 2) == 33.04 for number in range(4 * 371, 4 * 372))


def test_latents_beside_recurrent_layers() -> None:
    """vLLM 0.11, Kimi-Linear-48B on two devices (issue 28228): 75,840 tokens in 2.30 GiB, 2.48 requests of 120,000.
    They are 79 pages of 960 in each of four groups of 7 layers, 7 of latents and 20 of states: 316 to 319 in all."""
    parts = logged("kimi-linear-48b-a3b", "bf16", 120000, states=1, tp=2)
    assert 79 * 960 == 75840
    assert next(part.tokens for part in parts if part.pool.grows) == 125 * 960
    page = 7 * 960 * 576 * 2
    blocks, rest = divmod(sum(part.bytes for part in parts), page)
    assert (blocks, rest) == (125 + 3, 0)
    # so many pages are those requests, and fill what is 2.30 GiB to two places
    fit = [n for n in range(4 * 79, 4 * 80) if n * page < 2.305 * GIB and (n + 1) * page > 2.295 * GIB]
    assert 2.48 in [round(n / blocks, 2) for n in fit]
    assert next(part.tokens for part in logged("kimi-linear-48b-a3b", "bf16", 1, 2, 128, 2) if part.pool.grows) == 1024


@pytest.mark.parametrize(("kv_dtype", "tokens", "bytes_a_number"), [("bf16", 768, 2), ("fp8", 1536, 1)])
def test_pages_of_kimi_k3(kv_dtype: str, tokens: int, bytes_a_number: int) -> None:
    """vLLM on eight devices (docs.lmcache.ai, recipes/kimi_k3; SemiAnalysis' InferenceX, runs 30453589555 and on):
    "attention block size to 768 tokens" in 16 bits, 1536 in fp8, "Padding mamba page size by 8.68%". A device has 12
    heads of 128 by 128 in fp32, and three tokens of their queries, keys and values."""
    parts = logged("kimi-k3", kv_dtype, 1, 2, 128, 8)
    assert next(part.tokens for part in parts if part.pool.grows) == tokens
    state = 12 * 128 * 128 * 4 + 3 * 3 * 12 * 128 * 2
    assert round(100 * (tokens * 576 * bytes_a_number / state - 1), 2) == 8.68
    constant = [part for part in parts if part.pool.kind in CONSTANT]
    used = {part.pool.kind: part.pool.bytes for part in constant}
    assert used["state"] + used["conv"] == state


def test_recurrent_layers_have_two_pages_where_prefixes_are_cached() -> None:
    """vLLM 0.24, Qwen3.6-35B-A3B in fp8 (club-3090, issues 612 and 652): 567,978 tokens, 4.33 requests of 131,072, in
    5.98 GiB, 569,878 in 6.01. Its tokens are requests times their length, requests all pages of ten layers over those
    of one request. What is kept before the convolutions stays in bf16."""
    parts = logged("qwen3.6-35b-a3b", "fp8", 131072, states=2)
    assert next(part.tokens for part in parts if part.pool.grows) == 63 * 2096
    page = 10 * 2096 * 2 * 2 * 256
    blocks, rest = divmod(sum(part.bytes for part in parts), page)
    assert (blocks, rest) == (63 + 3 * 2, 0)
    for gib, tokens in ((5.98, 567_978), (6.01, 569_878)):
        assert gib * GIB // page * 131072 // blocks == tokens


def test_pages_by_version() -> None:
    """Two where prefixes are cached (vllm#30877), as they are by default from 0.23 to 0.26 on; since 0.33 a third
    (MambaSpec, num_prefill_checkpoint_blocks). With two passes in flight and two stages there are three; and a page
    more for each token that is guessed."""
    assert [generation(version).states for version in ("0.11", "0.19", "0.26", "0.29", "0.33")] == [1, 1, 2, 2, 3]
    assert generation("0.33").paging(stages=2, guessed=1) == Paging(3, 4, 128)


def test_mamba_keeps_a_state_for_every_page_until_0_28() -> None:
    """--mamba-cache-mode all, by hand from 0.26's code (get_mamba_chunk_size, _align_hybrid_block_size, MambaSpec).
    Nemotron 3 Nano: a state of 64 · 64 · 128 numbers in fp32 and three tokens of 4,096 + 2 · 8 · 128 channels in 16
    bits are as much as 2,084 tokens of two heads of 128; a page is a multiple of 128 tokens. 23 layers of Mamba and 6
    that attend are groups of six."""
    token = 2 * 2 * 128 * 2
    tokens = -(-(64 * 64 * 128 * 4 + 3 * (4096 + 2 * 8 * 128) * 2) // token)
    page = -(-tokens // 128) * 128
    assert (tokens, page) == (2084, 2176)
    layers = -(-23 // 6) * 6 + 6
    how = InferenceRun(engine="vllm", engine_version="0.26", context=32768)
    found = Inference(model("nemotron-3-nano-30b-a3b"), how).device(0, 1, 32768)
    assert found.kv == layers * -(-32768 // page) * page * token
    assert Inference(model("qwen3.5-9b"), how).paging == Paging(1, 2, 64, slots=True)  # others have two


@pytest.mark.parametrize(
    ("name", "version", "exact"),
    [("qwen3.5-9b", "0.33", False), ("qwen3.5-9b", "0.29", True), ("nemotron-3-nano-30b-a3b", "0.33", True),
     ("llama-3-8b", "0.33", True)],
)  # fmt: skip
def test_a_third_page_is_an_estimate_where_it_hangs_on_the_kernel(name: str, version: str, exact: bool) -> None:
    run = Inference(model(name), InferenceRun(engine="vllm", engine_version=version, context=4096))
    assert any(line.startswith("kv: ") for line in run.exact()) == exact
    assert any(line.startswith("kv: ") for line in run.estimated(0, 1, 4096)) != exact


MUTANTS = [
    (engines, "FP32.block_bytes * pool.elements", "2 * pool.elements", "llama.cpp, Falcon-H1-1.5B: R and S"),
    (engines, 'pool.kind in RECURRENT and engine == "llama.cpp"', 'pool.kind == "state" and engine == "llama.cpp"',
     "llama.cpp, Qwen3.6-27B, 4 sequences: RS buffer 598.50 MiB"),
    (engines, "size // pool.taps * (pool.taps + 1)", "size",
     "transformers, Mamba-130M: states of 24 layers in fp32, convolutions over the last 4 in bf16"),
    (engines, "least * -(-max(states.values()) // (least * token))", "least",
     "vLLM, Qwen3.5-9B, states in fp32: attention block size 528 (pull request 37467)"),
    (engines, "states.get(pool.name, 0) + pool.bytes", "max(states.get(pool.name, 0), pool.bytes)",
     "vLLM, Qwen3-Next-80B, states in bf16: attention block size 544"),
    (engines, "times * pool.layers", "pool.layers", "vLLM, Nemotron-Nano-9B-v2: three pages of states"),
    (cache, "if part.pool.kind in CONSTANT", 'if part.pool.kind == "state"',
     "llama.cpp, Falcon-H1-1.5B: R and S"),
]  # fmt: skip


@pytest.mark.parametrize(("module", "old", "new", "log"), MUTANTS)
def test_deliberate_errors_are_noticed(
    module: ModuleType, old: str, new: str, log: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutate(module, old, new, monkeypatch)
    expected, found = LOGGED[log]
    assert found() != expected


@pytest.mark.parametrize(
    ("name", "how", "constant"),
    [
        # 69 layers of 96 states, and three tokens of queries, keys and values in 16 bits
        ("kimi-k3", RoomRun(context=100), 69 * (96 * 128 * 128 * 4 + 3 * 3 * 12288 * 2)),
        ("kimi-k3", RoomRun(context=100, state_dtype="bf16"), 69 * (96 * 128 * 128 * 2 + 3 * 3 * 12288 * 2)),
        # keys and values of 1,500 frames, 768 channels in 12 layers
        ("whisper-small", RoomRun(context=100, batch=3), 3 * 12 * 2 * 768 * 1500 * 2),
        ("deepseek-v3", RoomRun(context=100, mtp=True), 0),
    ],
)
def test_what_does_not_grow_line_by_line(name: str, how: RoomRun, constant: int) -> None:
    found = cache.cached(model(name), how)
    ledgers = {key: why_kv(model(name), how, found, key) for key in ("state_bytes", "bytes", "bytes_per_token")}
    for key, ledger in ledgers.items():
        assert sum(row.amount for row in ledger.rows) == ledger.value == getattr(found, key)
    assert ledgers["state_bytes"].value == constant
