"""Headers of large checkpoints: `python -m pytest tests/benchmarks/bench_headers.py --benchmark-only`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gptcalc.analysis.stored import by_name
from gptcalc.sources.checkpoint import header
from gptcalc.sources.packed import contents
from tests.sources.checkpoints import sharded

TENSORS, SHARDS = 100_000, 200


def test_a_terabyte_in_100_000_tensors(benchmark: Any, tmp_path: Path) -> None:
    """2 bytes for each of 2,000 · 2,500 numbers a tensor, as sparse files; under 3 s and 300 MB are wanted."""
    words = ("gate", "up", "down")
    names = (f"model.layers.{i // 1000}.mlp.experts.{i % 1000}.{words[i % 3]}_proj.weight" for i in range(TENSORS))
    sharded(tmp_path, dict.fromkeys(names, ("BF16", (2000, 2500))), SHARDS)
    found = benchmark.pedantic(lambda: by_name(contents(header(tmp_path))), rounds=3)
    assert found.main == TENSORS * 2000 * 2500
