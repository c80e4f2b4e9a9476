"""The Python API: what the command line answers, as objects."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

import gptcalc as library
from gptcalc.errors import InputError
from tests.conftest import Command

LLAMA: dict[str, Any] = {
    "d": 4096, "v": 128256, "c": 8192, "n_heads": 32, "n_layers": 32, "n_kv_heads": 8, "d_ff": 14336,
}  # fmt: skip
#: of llama-3-8b: tables and output, then a layer's projections and norms, and the last norm
TOTAL = 2 * 128256 * 4096 + 32 * (2 * 4096**2 + 2 * 4096 * 1024 + 3 * 4096 * 14336 + 2 * 4096) + 4096


def test_a_model_is_a_name_a_path_or_a_document(tmp_path: Path) -> None:
    file = tmp_path / "llama"  # a Path is a path, with or without a suffix
    file.write_text(json.dumps(LLAMA))
    for reference in ("llama-3-8b", LLAMA, file, library.load(LLAMA), library.load(LLAMA).architecture):
        assert library.params(reference).total == TOTAL
    config = {"model_type": "gpt2", "n_embd": 8, "n_layer": 1, "n_head": 2, "n_positions": 16, "vocab_size": 32}
    assert library.params(config).total == 32 * 8 + 16 * 8 + 12 * 8 * 8 + 13 * 8 + 2 * 8
    with pytest.raises(InputError, match="no such file"):
        library.load(tmp_path / "nothing")
    with pytest.raises(InputError, match="unknown key 'dd'"):
        library.load({**LLAMA, "dd": 1})


ANSWERS = {
    "params": (library.params("gpt2"), ("params", "gpt2")),
    "kv": (library.kv("gpt-oss-20b", context=1024), ("kv", "gpt-oss-20b", "--context", "1K")),
    "flops": (library.flops("gpt2", phase="decode"), ("flops", "gpt2", "--phase", "decode")),
    "memory": (library.memory("gpt2", tp=2), ("memory", "gpt2", "--tp", "2")),
    "training": (library.training("gpt2", zero=1, dp=2), ("memory", "gpt2", "--training", "--zero", "1", "--dp", "2")),
    "fit": (library.fit("gpt2", "1GiB"), ("fit", "gpt2", "--budget", "1GiB")),
    "memory with a draft": (library.memory("gpt2-medium", draft="gpt2"), ("memory", "gpt2-medium", "--draft", "gpt2")),
    "fit with a draft": (
        library.fit("gpt2-medium", "1GiB", draft="gpt2", utilization=0.9),
        ("fit", "gpt2-medium", "--draft", "gpt2", "--budget", "1GiB", "--utilization", "0.9"),
    ),
    "serve": (
        library.serve("llama-3-8b", "2xh100-sxm", engine="vllm", context=8192),
        ("serve", "llama-3-8b", "--device", "2xh100-sxm", "--engine", "vllm", "--context", "8K"),
    ),
    "explain": (library.explain("gpt2", context=8), ("explain", "gpt2", "--context", "8")),
    "trace": (library.trace("gpt2", context=8, decode=2), ("trace", "gpt2", "--context", "8", "--decode", "2")),
    "time": (library.time("gpt2", "h100-sxm", batch=2), ("time", "gpt2", "--device", "h100-sxm", "--batch", "2")),
    "train": (
        library.train("gpt2", "8xh100-sxm", tokens=10**9),
        ("train", "gpt2", "--device", "8xh100-sxm", "--tokens", "1B"),
    ),
    "diff": (library.diff("gpt2", "llama-3-8b"), ("diff", "gpt2", "llama-3-8b")),
    "design": (
        library.design("gpt2", {"n_layers": [6, 12]}, where="total < 1e9"),
        ("design", "--like", "gpt2", "--free", "n_layers=6,12", "--where", "total < 1e9"),
    ),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_answers_are_those_of_the_command_line(name: str, gptcalc: Command) -> None:
    found, words = ANSWERS[name]
    assert json.loads(json.dumps(found.to_dict())) == gptcalc(*words, "--json").json


@pytest.mark.parametrize("name", ANSWERS)
def test_answers_in_a_notebook(name: str) -> None:
    found, _ = ANSWERS[name]
    html = found._repr_html_()
    assert html is not None
    assert html.count("<table>") == html.count("</table>") > 0
    assert len(repr(found)) < 300
    assert repr(found).startswith(type(found).__name__ + "(")


def test_a_short_repr() -> None:
    assert repr(library.params("gpt2")).startswith("Params(model='gpt2', total=124439808, active=124439808")


def test_no_markup_comes_from_a_name() -> None:
    html = library.params({**LLAMA, "name": "<script>"})._repr_html_()
    assert html is not None
    assert "<script>" not in html
    assert "&lt;script&gt;" in html


def test_compare() -> None:
    rows = library.compare(["gpt2", LLAMA], columns="model,total")
    assert rows == [{"model": "gpt2", "total": 124439808}, {"model": "model", "total": TOTAL}]
    assert "<td" in rows._repr_html_()
    assert list(library.compare(["gpt2"], context=8)[0])[:2] == ["model", "total"]
    with pytest.raises(InputError, match="no column"):
        library.compare(["gpt2"], columns="totl")


def test_a_grid_is_rows() -> None:
    rows = library.sweep("gpt2", {"n_layers": [12, 24]}, columns=["n_layers", "total"])
    assert rows == [{"n_layers": 12, "total": 124439808}, {"n_layers": 24, "total": 124439808 + 12 * 7_087_872}]
    assert rows._repr_html_().count("<tr>") == 3
    assert library.sweep(LLAMA, {"n_layers": [32]}, columns=["total"]) == [{"total": TOTAL}]


def test_presets() -> None:
    assert {"gpt2", "llama-3-8b"} <= set(library.presets())
    assert library.presets("gpt2-x*") == ["gpt2-xl"]
    assert "mixtral-8x7b" in library.presets(family="mistral", feature=["moe"], size="40B..50B", year="2023")
    with pytest.raises(InputError, match="no preset has it"):
        library.presets(family="nonesuch")


def test_what_the_library_offers() -> None:
    assert library.__version__ == version("gptcalc")
    assert set(library.__all__) <= set(dir(library))
    assert all(getattr(library, name) is not None for name in library.__all__)
    with pytest.raises(AttributeError):
        library.nonesuch  # noqa: B018
