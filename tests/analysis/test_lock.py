"""What fits as a table, and lock files of costs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import gptcalc
from gptcalc.cli import run

GIB = 2**30


def command(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = run(arguments)
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def rows(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, dict[str, Any]]:
    status, out, _ = command(capsys, *arguments, "--json")
    assert status == 0
    return {row["model"]: row for row in json.loads(out)}


def test_compare_with_a_budget(capsys: pytest.CaptureFixture[str]) -> None:
    """In 16 bits 8 B parameters are 16.06 GB and 70 B 141 GB; 24 GiB are 25.8 GB."""
    found = rows(capsys, "compare", "llama-3-8b", "llama-3-70b", "--budget", "24GiB", "--context", "8K")
    assert {name: row["fits"] for name, row in found.items()} == {"llama-3-8b": True, "llama-3-70b": False}
    assert found["llama-3-8b"]["weights_bytes"] == 16_060_522_496
    for row in found.values():
        assert row["headroom_bytes"] == 24 * GIB - row["needed_bytes"]
    assert found["llama-3-70b"]["max_context"] == 0


def test_compare_without_a_budget_asks_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert "fits" not in rows(capsys, "compare", "gpt2", "llama-3-8b")["gpt2"]


def test_presets_that_fit(capsys: pytest.CaptureFixture[str]) -> None:
    """Models whose own context is shorter are left out: GPT-2 has positions for 1024 tokens."""
    found = rows(capsys, "presets", "--fits", "24GiB", "--context", "8K")
    assert "llama-3-8b" in found
    assert not {"gpt2", "llama-3-70b", "deepseek-v3"} & found.keys()
    assert all(row["needed_bytes"] <= 24 * GIB and row["c"] >= 8192 for row in found.values())
    more = rows(capsys, "presets", "--fits", "24GiB", "--context", "8K", "--dtype", "int4")
    assert found.keys() < more.keys()
    assert "qwen3-30b-a3b" in more


def test_presets_that_fit_agree_with_fit(capsys: pytest.CaptureFixture[str]) -> None:
    listed = rows(capsys, "presets", "llama", "--device", "rtx-4090", "--context", "2K").keys()
    for name in ("llama-3-8b", "llama-2-7b", "llama-3-70b", "llama-2-13b"):
        fits = run(["fit", name, "--device", "rtx-4090", "--context", "2K", "--quiet"]) == 0
        assert (name in listed) == fits, name


def test_python_calls() -> None:
    assert gptcalc.memory("llama-3-8b", dtype="fp32").per_device.weights == 4 * 8_030_261_248
    assert gptcalc.memory("llama-3-8b", tp=2).devices == 2
    assert gptcalc.fit("llama-3-8b", "20GiB").fits
    assert not gptcalc.fit("llama-3-8b", 10**10).fits


# --- lock files -------------------------------------------------------------------------------------------------------


@pytest.fixture
def lock(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    path = tmp_path / "costs.lock"
    assert command(capsys, "check", "llama-3-8b", "--write", str(path), "--context", "4K")[0] == 0
    return path


def test_lock_file_is_reviewable(lock: Path) -> None:
    """One figure a line, the settings with them."""
    lines = lock.read_text(encoding="utf-8").splitlines()
    assert "  total: 8030261248" in lines
    assert "  attn+mlp × 32 attn.k: 4096 × 1024" in lines
    assert any(line.startswith("settings:") and "context: 4096" in line for line in lines)


def test_unchanged_model_passes(lock: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The lock's settings hold, not those of the command."""
    assert command(capsys, "check", "llama-3-8b", "--expect", str(lock), "--context", "1K", "-q") == (0, "", "")


def test_difference_names_its_terms(lock: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Half the KV heads: the two projections, the component, the cache; nothing of the MLP."""
    arguments = ["check", "llama-3-8b", "--expect", str(lock), "--set", "n_kv_heads=4"]
    status, out, _ = command(capsys, *arguments)
    assert status == 1
    assert "attn.k" in out
    assert "mlp.up" not in out
    status, out, _ = command(capsys, *arguments, "--json")
    checks = {row["name"]: row for row in json.loads(out)["checks"]}
    wrong = {name for name, row in checks.items() if not row["ok"]}
    assert {"tensors.attn+mlp × 32 attn.k", "tensors.attn+mlp × 32 attn.v", "components.attention", "params.total",
            "kv.bytes_per_token", "memory.weights"} <= wrong  # fmt: skip
    assert not {"components.mlp", "tensors.attn+mlp × 32 mlp.up"} & wrong
    total = checks["params.total"]
    assert total["expected"] - total["found"] == 32 * 2 * 4096 * 512


def test_tensor_that_came_or_went(lock: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = command(capsys, "check", "llama-3-8b", "--expect", str(lock), "--set", "bias=qkv", "--json")
    checks = {row["name"]: row for row in json.loads(out)["checks"]}
    assert checks["tensors.attn+mlp × 32 attn.q.bias"]["expected"] is None
    assert checks["tensors.attn+mlp × 32 attn.q.bias"]["found"] == "4096"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("d: 4096\n", "no section 'd'"),
        ("settings: {batch: 0}\n", "settings.batch: '0' is less than 1"),
        ("settings: {contexts: 4096}\n", "unknown key 'contexts'; did you mean context?"),
        ("params: 5\n", "params: expected keys and values"),
        ("- 1\n", "broken.lock"),
    ],
)
def test_broken_lock_file(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, problem: str) -> None:
    path = tmp_path / "broken.lock"
    path.write_text(text, encoding="utf-8")
    status, out, err = command(capsys, "check", "llama-3-8b", "--expect", str(path))
    assert (status, out) == (2, "")
    assert problem in err
    assert err.count("\n") == 1


def test_memory_is_a_figure_to_expect(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["check", "llama-3-8b", "--dtype", "q8_0", "--quiet", "--expect"]
    assert command(capsys, *arguments, "memory.per_device.weights=8532934656")[0] == 0
    assert command(capsys, *arguments, "memory.per_device.weights=8030261248")[0] == 1
