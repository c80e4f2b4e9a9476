"""The user's wait: whole commands, from the start of the process to its end.

    python tests/benchmarks/bench_startup.py            start-up against a Typer application of one command
    pytest tests/benchmarks/bench_startup.py --benchmark-only

Start-up is compared with what Typer itself costs on the same interpreter: 21 runs of each, in turn, and the median of
the ratios. The target is 1.1. Both run byte-compiled, as an installed package does.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).parents[2]
RUNS = 21
TARGET = 1.1

TYPER = """import typer

app = typer.Typer()


@app.command()
def hello(name: str = "world") -> None:
    print("hello", name)


app()
"""
GPTCALC = "from gptcalc.__main__ import main; main()"


class Commands:
    """The two commands, with a folder for byte code of their own."""

    def __init__(self, folder: str) -> None:
        script = Path(folder, "hello.py")
        script.write_text(TYPER, encoding="utf-8")
        entry = Path(folder, "entry.py")
        entry.write_text(GPTCALC, encoding="utf-8")
        self.typer = [sys.executable, str(script)]
        self.gptcalc = [sys.executable, str(entry)]
        own = {"PYTHONPATH": str(REPOSITORY), "PYTHONPYCACHEPREFIX": str(Path(folder, "bytes"))}
        self.environment = {**os.environ, **own}
        self.environment.pop("PYTHONDONTWRITEBYTECODE", None)

    def seconds(self, command: list[str]) -> float:
        start = time.perf_counter()
        subprocess.run(command, env=self.environment, stdout=subprocess.DEVNULL, check=True)
        return time.perf_counter() - start


def startup(arguments: tuple[str, ...] = ("params", "gpt2", "--json")) -> tuple[float, float, float]:
    """Median seconds of the Typer application and of gptcalc, and the median of their ratios."""
    with tempfile.TemporaryDirectory() as folder:
        commands = Commands(folder)
        ours = [*commands.gptcalc, *arguments]
        commands.seconds(commands.typer), commands.seconds(ours)  # byte-compile both
        pairs = [(commands.seconds(commands.typer), commands.seconds(ours)) for _ in range(RUNS)]
    return (
        statistics.median(typer for typer, _ in pairs),
        statistics.median(gptcalc for _, gptcalc in pairs),
        statistics.median(gptcalc / typer for typer, gptcalc in pairs),
    )


@pytest.mark.parametrize("arguments", [
    ("params", "gpt2", "--json"),
    ("params", "llama-3-8b"),
    ("params", "Qwen/Qwen3-8B", "--json"),
    ("compare", "--all", "--json"),
    ("presets",),
], ids=" ".join)  # fmt: skip
def test_commands(benchmark: Any, arguments: tuple[str, ...]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        commands = Commands(folder)
        benchmark.pedantic(commands.seconds, [[*commands.gptcalc, *arguments]], rounds=11, warmup_rounds=1)


if __name__ == "__main__":
    typer_seconds, gptcalc_seconds, ratio = startup()
    print(f"Typer, one command: {typer_seconds * 1e3:.1f} ms; params gpt2 --json: {gptcalc_seconds * 1e3:.1f} ms")
    print(f"median ratio of {RUNS} pairs: {ratio:.2f} (target {TARGET})")
    sys.exit(ratio > TARGET)
