"""The index of presets in a wheel: lists say the same with it and without it, and nothing that isn't so any more."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from zipfile import ZipFile

import pytest

from gptcalc.report import index
from gptcalc.sources import preset
from gptcalc.sources.preset import folder
from tests.conftest import Result

SOME = ("gpt2", "llama-3-8b", "deepseek-v3", "mamba-2.8b", "bert-base-uncased", "t5-small")
ASKED = (
    ("presets",), ("presets", "--feature", "moe"), ("presets", "--size", "7B..9B", "--sort", "-total"),
    ("presets", "--family", "llama"), ("presets", "--year", "2024"), ("presets", "--where", "kv_bytes<1GiB"),
    ("presets", "--fits", "24GiB"), ("presets", "--context", "4K", "--columns", "model,kv_bytes,total"),
    ("compare", "--all"), ("compare", "--all", "--context", "1K"), ("compare", "--all", "--with", "mha"),
    ("compare", "gpt2", "--all", "--columns", "model,total,weights_bytes"),
)  # fmt: skip


@pytest.fixture
def few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with some of the presets."""
    found = [name for name in SOME if Path(folder(), f"{name}.yaml").exists()]
    assert len(found) >= 4
    for name in found:
        (tmp_path / f"{name}.yaml").write_bytes(Path(folder(), f"{name}.yaml").read_bytes())
    monkeypatch.setattr(preset, "folder", lambda: str(tmp_path))
    monkeypatch.setattr(index, "folder", lambda: str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("words", ASKED, ids=" ".join)
def test_lists_are_the_same(words: tuple[str, ...], few: Path, gptcalc: Callable[..., Result]) -> None:
    without = gptcalc(*words, "--json")
    (few / index.NAME).write_text(index.made(), encoding="utf-8")
    within = gptcalc(*words, "--json")
    assert (within.status, within.out, within.err) == (without.status, without.out, without.err)


@pytest.mark.parametrize("words", [("presets",), ("compare", "--all"), ("presets", "--feature", "moe")], ids=" ".join)
def test_no_preset_is_read(
    words: tuple[str, ...], few: Path, gptcalc: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    (few / index.NAME).write_text(index.made(), encoding="utf-8")
    monkeypatch.setattr(index, "load", lambda name: pytest.fail(f"{name} was read"))
    assert gptcalc(*words, "--json").status == 0


def test_a_preset_that_has_changed_is_read(few: Path, gptcalc: Callable[..., Result]) -> None:
    """As large as before, one figure of it another one."""
    (few / index.NAME).write_text(index.made(), encoding="utf-8")
    text = (few / "gpt2.yaml").read_text(encoding="utf-8")
    assert "n_layers: 12" in text
    (few / "gpt2.yaml").write_text(text.replace("n_layers: 12", "n_layers: 13"), encoding="utf-8")
    rows = {row["model"]: row for row in gptcalc("presets", "--columns", "model,n_layers", "--json").json}
    assert rows["gpt2"]["n_layers"] == 13
    assert rows["llama-3-8b"]["n_layers"] == 32


@pytest.mark.parametrize("content", ["", "{", '{"columns": [], "presets": {}}'])
def test_an_index_of_other_columns_or_none(content: str, few: Path, gptcalc: Callable[..., Result]) -> None:
    (few / index.NAME).write_text(content, encoding="utf-8")
    assert "gpt2" in [row["model"] for row in gptcalc("presets", "--columns", "model,total", "--json").json]


@pytest.mark.heavy
def test_a_wheel_has_the_index_of_its_presets(tmp_path: Path) -> None:
    """Every preset of the wheel with the figures that reading it gives."""
    root = Path(__file__).parents[2]
    words = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(words, cwd=root, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with ZipFile(wheel) as archive:
        found = json.loads(archive.read(f"gptcalc/presets/{index.NAME}"))
    assert found == json.loads(index.made())
    assert set(found["presets"]) == set(preset.names(folder()))
