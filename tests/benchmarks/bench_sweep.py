"""The rate of a sweep, and its memory.

    python -m pytest tests/benchmarks/bench_sweep.py --benchmark-only
    python -m tests.benchmarks.bench_sweep               peak memory at 10⁶, 10⁷ and 10⁸ points, each in its own process

Targets: 10⁶ points a second on a core with five figures, 5·10⁶ hoped for; memory that does not grow with the points.
"""

from __future__ import annotations

import subprocess
import sys

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from gptcalc.analysis.sweep.piece import Axis
from gptcalc.analysis.sweep.run import Grid, Sweep
from gptcalc.sources import load

FIGURES = ("total", "active", "kv_bytes", "prefill_flops", "decode_flops")
MILLION = 10**6


def grid(points: int, model: str = "llama-3-8b", where: str = "total < 1e9 and kv_bytes < 100MiB") -> Sweep:
    """So many points of depths, widths and vocabularies, of which few are wanted."""
    width = tuple(range(64, 64 + 64 * (points // 10_000), 64))
    axes = (Axis("n_layers", tuple(range(1, 101))), Axis("d_ff", width), Axis("v", tuple(range(1000, 101_000, 1000))))
    how = {
        "contexts": (8192,),
        "columns": ("n_layers", "d_ff", "v", *FIGURES),
        "where": (where,),
        "sort": "-total",
        "top": 5,
    }
    return Sweep(Grid(document=load(model).document, axes=axes, **how))  # type: ignore[arg-type]


@pytest.mark.parametrize("model", ["llama-3-8b", "gpt-oss-20b"])
def test_five_figures(benchmark: BenchmarkFixture, model: str) -> None:
    """Every figure of every point, none of them wanted: seconds for 10⁶ points."""
    sweep = grid(MILLION, model)

    def every() -> int:
        return sum(len(piece.values(key)) for piece in sweep.space.pieces(0, MILLION) for key in FIGURES)

    assert benchmark(every) == MILLION * len(FIGURES)


def test_beyond_64_bits(benchmark: BenchmarkFixture) -> None:
    """FLOPs of a million tokens of wide models need more."""
    document = {**load("llama-3-8b").document, "d_ff": 10**6}
    axes = (Axis("n_layers", tuple(range(1000, 1100))), Axis("d_ff", tuple(range(10**6, 10**6 + 100))),
            Axis("v", tuple(range(10**6, 10**6 + 100))))  # fmt: skip
    sweep = Sweep(Grid(document=document, axes=axes, contexts=(2**24,), columns=("prefill_flops",)))

    def every() -> int:
        return sum(len(piece.values("prefill_flops")) for piece in sweep.space.pieces(0, MILLION))

    assert benchmark(every) == MILLION


def test_conditions(benchmark: BenchmarkFixture) -> None:
    """The five largest that meet two conditions."""
    assert len(benchmark(grid(MILLION).rows)) == 5


PEAK = """
import resource, sys
from tests.benchmarks.bench_sweep import grid
rows = grid(int(sys.argv[1])).rows()
assert len(rows) == 5
print(sys.argv[1], "points:", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024, "MiB")
"""

if __name__ == "__main__":
    for points in (MILLION, 10 * MILLION, 100 * MILLION):
        subprocess.run([sys.executable, "-c", PEAK, str(points)], check=True)
