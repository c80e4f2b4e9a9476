"""What llama.cpp sets aside, as its log says it (libllama of October 2026, commit 0c1e570, without data)."""

from __future__ import annotations

import pytest

from gptcalc.analysis.memory.cache import kv
from gptcalc.sources import load


@pytest.mark.parametrize(
    ("preset", "batch", "context", "size"),
    [
        ("minicpm3-4b", 1, 8192, 6_501_171_200),  # keys and values, not the latents
        ("gemma-3-27b", 8, 16384, 14_445_182_976),  # eight windows and one micro-batch
        ("gpt-oss-20b", 4, 8192, 830_472_192),
        ("command-a-111b", 8, 16384, 15_133_048_832),
    ],
)
def test_one_cache_for_all_sequences(preset: str, batch: int, context: int, size: int) -> None:
    found = kv(load(preset).architecture, engine="llama.cpp", kv_dtype="fp16", batch=batch, context=context)
    assert found.bytes == size


def test_windows_and_full_layers_of_one_sequence() -> None:
    """llama.cpp#21394: Gemma 4 31B with q5_0, K and V of ten full layers 1612.19 MiB each, 1,536 cells of windows."""
    found = kv(load("gemma-4-31b").architecture, engine="llama.cpp", kv_dtype="q5_0", context=120064)
    windows, full = found.groups
    assert windows.cached_tokens == 1536
    assert full.bytes == 10 * 120064 * 2 * 2048 * 22 // 32
