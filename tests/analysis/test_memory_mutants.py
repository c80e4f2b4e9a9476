"""Tests of memory must be seen to fail: deliberate errors, each noticed by a number from elsewhere."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

import gptcalc
from gptcalc.analysis.memory import account, cache, weights
from gptcalc.analysis.memory.room import largest
from gptcalc.analysis.memory.sharding import Layout
from gptcalc.conventions import ALL
from gptcalc.document import build
from gptcalc.errors import InputError
from tests.analysis.test_memory import LLAMA_3_8B, LLAMA_3_70B, MIXTRAL
from tests.analysis.test_memory_cache import DEEPSEEK, GPT_OSS, alternating, decoder
from tests.analysis.test_memory_weights import DEEPSEEK_V3, LLAMA_31_8B
from tests.analysis.test_memory_weights import GPT_OSS as GPT_OSS_MODEL
from tests.mutation import mutate

MIB, GIB = 2**20, 2**30
HYBRID = alternating(24, 8, 64, 128, GPT_OSS)
OSS_20B = build({**GPT_OSS_MODEL, "n_layers": 24, "moe": {"n_experts": 32, "top_k": 4, "d_ff": 2880}})


def kv(model: Any, context: int, **how: Any) -> int:
    return cache.kv(model, context=context, **how).bytes


def refused(model: Any, **ways: Any) -> bool:
    try:
        account.memory(model, **ways)
    except InputError:
        return True
    return False


def figures() -> dict[str, Any]:
    """Every figure anew."""
    on_16 = account.memory(LLAMA_3_70B, context=1000, tp=16)
    stages = account.memory(LLAMA_3_8B, context=1000, pp=3)
    experts = account.memory(build(MIXTRAL), tp=8, ep=2)
    ranks = account.memory(LLAMA_3_8B, batch=7, context=1000, dp=4)
    found = gptcalc.fit(LLAMA_3_8B, 20 * GIB, context=8192, advice=False, prefill_chunk=ALL)
    v3 = weights.Weights(build({**DEEPSEEK_V3, "n_layers": 61}), "q4_k_m", Layout())
    return {
        "q4_k_m": weights.total(LLAMA_31_8B, "q4_k_m"),
        "q3_k_m bits": round(weights.total(LLAMA_31_8B, "q3_k_m") * 8 / 8_030_261_248, 4),
        "q2_k bits": round(weights.total(LLAMA_31_8B, "q2_k") * 8 / 8_030_261_248, 4),
        "q8_0": weights.total(LLAMA_31_8B, "q8_0"),
        "k_b": next(s.row.bytes for s in v3.stage(0) if s.row.name == "attn.k_b"),
        "mxfp4": weights.total(OSS_20B, "mxfp4"),
        "nf4": weights.total(LLAMA_31_8B, "nf4-double"),
        "q8_0 cache": kv(DEEPSEEK, 32768, kv_dtype="q8_0", engine="llama.cpp"),
        "llama.cpp window": kv(HYBRID, 131072, engine="llama.cpp"),
        "llama.cpp mistral": kv(decoder(32, 8, 128, attn={"window": 4096}), 32768, engine="llama.cpp"),
        "vllm pages": largest(lambda n: kv(decoder(48, 4, 128), n, engine="vllm") <= int(3.1803 * GIB)),
        "vllm window": kv(HYBRID, 131072, engine="vllm"),
        "vllm padding": kv(alternating(62, 16, 128, 1024, "n*[5*local+mlp attn+mlp]"), 131072, engine="vllm"),
        "transformers window": kv(HYBRID, 1000, engine="transformers"),
        "heads on 16": on_16.per_device.kv,
        "norms on 16": {row.name: row.bytes for row in on_16.replicated}["norms"],
        "28 heads on 8": refused(build({"d": 3584, "v": 8, "c": 8, "n_heads": 28, "n_kv_heads": 4, "n_layers": 1,
                                        "d_ff": 8}), tp=8),
        "stages": stages.per_device.weights,
        "experts": experts.pieces["weights.experts"],
        "ranks": ranks.per_device.kv,
        "pass": account.memory(LLAMA_3_8B, batch=3, context=1000).per_device.activations,
        "pass of experts": account.memory(build(MIXTRAL), context=100).per_device.activations,
        "max_context": found.max_context,
        "max_batch": found.max_batch,
    }  # fmt: skip


#: what it must be; the working stands in the tests of each
RIGHT: dict[str, Any] = {
    "q4_k_m": 4_912_898_048,
    "q3_k_m bits": 3.9960,
    "q2_k bits": 3.1593,
    "q8_0": 8_532_934_656,
    "k_b": int(5.5 * MIB),
    "mxfp4": 9_555_148_800 + 597_196_800 + 2 * 1_804_459_584,
    "nf4": 2 * 1_050_939_392 + 3_489_660_928 + 109_051_904 + 4 * 425_984 + 224 * 4 * (16 + 257),
    "q8_0 cache": int(1166.625 * MIB),
    "llama.cpp window": 3090 * MIB,
    "llama.cpp mistral": 4 * GIB,
    "vllm pages": 34_736,
    "vllm window": 12 * 32_768 * (521 + 8192),
    "vllm padding": 10 * 131_072 * (6 * 577 + 8192),
    "transformers window": 12 * 2048 * (127 + 1000),
    "heads on 16": 80 * 2 * 128 * 2 * 1000,
    "norms on 16": 15 * 2 * 161 * 8192,
    "28 heads on 8": True,
    "stages": 2 * (11 * 218_112_000 + 525_336_576),
    "experts": 2 * 32 * 4 * 3 * 4096 * 14336 // 4,
    "ranks": 2 * 1000 * 131_072,
    "pass": 2 * 3000 * 36_864,
    "pass of experts": 2 * 100 * (2 * 4096 + 2 * 2 * 14336 + 8),
    "max_context": (20 * GIB - 16_060_522_496) // 204_800,
    "max_batch": (20 * GIB - 16_060_522_496) // (8192 * 204_800),
}

MUTANTS = [
    ("mixes", "i < n // 8 or i >=", "i < n // 16 or i >=", "q4_k_m"),
    ("mixes", "or i >= 7 * n // 8", "", "q4_k_m"),
    ("mixes", "else Q6_K", "else default", "q4_k_m"),  # the output like the rest
    ("mixes", "if i < n // 16:\n                return Q5_K", "if i < 0:\n                return Q5_K", "q3_k_m bits"),
    ("mixes", "Q4_K if few else Q3_K", "Q3_K", "q2_k bits"),
    ("weights", "return FP32\n        of_", "return BF16\n        of_", "q8_0"),  # norms in 16 bits
    ("weights", 'equations(self.architecture, "absorbed")', "equations(self.architecture)", "k_b"),
    ("weights", 'component in ("embedding", "output", "router")', 'component in ("embedding", "router")', "nf4"),
    ("weights", 'return component == "experts" and entry.tensor.each_expert', "return True", "mxfp4"),  # all
    ("dtypes", "if self.nested:", "if False:", "nf4"),
    ("dtypes", "-(-elements // self.block) * self.block_bytes", "elements * self.block_bytes // self.block - 1",
     "q8_0 cache"),
    ("engines", "pool.limit + chunk))", "pool.limit))", "llama.cpp window"),
    ("engines", "pool.limit is not None and any(other.limit is None for other in pools)", "pool.limit is not None",
     "llama.cpp mistral"),
    ("engines", "pool.limit - 1 + chunk, context) // block) + 1", "pool.limit - 1 + chunk, context) // block)",
     "vllm window"),
    ("engines", "size)] if size else", "size)] if False else", "vllm padding"),
    ("engines", "pool.limit - 1)", "pool.limit)", "transformers window"),
    ("sharding", "taken = min(rest, index.size)", "taken = 1", "heads on 16"),
    ("sharding", "if index.size % taken or rest % taken:", "if False:", "28 heads on 8"),
    ("sharding", "pp - 1 - left <= stage < pp - 1", "stage >= pp - left", "stages"),
    ("sharding", "return min(self.tp, self.tp * self.dp // self.ep)", "return self.tp", "experts"),
    ("sharding", "share, left = divmod(batch, self.dp)", "share, left = batch, 0", "ranks"),
    ("live", "found[value.last].append(value)", "found[-1].append(value)", "pass"),  # all is held to the end
    ("sharding", "chosen.active *", "chosen.total *", "pass of experts"),
    ("inference", "Stage(sum([row.total for", "Stage(sum([row.bytes for", "stages"),
    ("account", "within - share.whole.total", "within", "norms on 16"),
    ("room", "return low", "return high", "max_context"),
]  # fmt: skip


def test_clean_code_is_right() -> None:
    assert figures() == RIGHT


@pytest.mark.parametrize(("module", "old", "new", "notices"), MUTANTS, ids=lambda text: text[:40])
def test_mutant_is_noticed(module: str, old: str, new: str, notices: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place = "gptcalc.dtypes" if module == "dtypes" else f"gptcalc.analysis.memory.{module}"
    mutate(importlib.import_module(place), old, new, monkeypatch)
    try:
        found = figures()
    except Exception:
        return
    assert found[notices] != RIGHT[notices]
