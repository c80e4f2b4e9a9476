"""Anything a user may type or hand over is answered, or refused in one line: thousands of drawn lines and broken files.

Heavy: `pytest -m heavy tests/cli/test_fuzz.py`; FUZZ_EXAMPLES says how many of each kind (2000).
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gptcalc.sources import preset
from tests.cli.changed import changed, damaged
from tests.cli.lines import answered, faults, lines, surroundings
from tests.golden_models import FOLDER
from tests.reference_cases import DOCUMENTS
from tests.sources.checkpoints import sharded
from tests.sources.gguf_conversion import convert
from tests.sources.test_packed import FORMATS, save

pytestmark = pytest.mark.heavy

MANY: dict[str, Any] = {
    "max_examples": int(os.environ.get("FUZZ_EXAMPLES", 2000)),
    "deadline": None,
    "suppress_health_check": list(HealthCheck),
}

#: how a model that may be broken is asked about
ASKED = """
params --by tensor
params --json
kv --json
kv --why bytes
flops
flops --phase decode --scan chunked
memory
memory --training
memory --engine llama.cpp
memory --dtype q4_k_m
explain
explain --format html
explain --format latex --phase decode
trace
trace --tokens 1,2
validate
show
show --json
compare
time --device h100-sxm
train --device 8xh100-sxm --tokens 1T
serve --device h100-sxm --engine vllm
sweep --set n_layers=1..4
flops --with gqa:2
params --with moe:4:2
kv --with mla
diff gpt2
memory --training --lora 8:all --engine transformers
fit --device h100-sxm
validate --checkpoint .
""".strip().splitlines()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GPTCALC_PRESETS", str(tmp_path / "own"))
    return tmp_path


def asked(how: str, file: str) -> None:
    command, *rest = how.split()
    words = [command, file, *rest]
    result = answered(words)
    assert faults(words, result) is None, (words, result)


def test_command_lines(place: Path) -> None:
    places = surroundings(place)

    @given(lines(places))
    @settings(**MANY)
    def test(words: list[str]) -> None:
        result = answered(words)
        assert faults(words, result) is None, result

    test()


def golden() -> list[dict[str, Any]]:
    return [json.loads(file.read_text(encoding="utf-8")) for file in sorted(FOLDER.glob("*/config.json"))]


def presets() -> list[dict[str, Any]]:
    return [
        {key: value for key, value in preset.named(name).items() if key not in ("source", "aliases")}
        for name in preset.names()
    ]


def documents() -> list[dict[str, Any]]:
    return [{"name": name, **document} for name, document in DOCUMENTS.items()]


@pytest.mark.parametrize("models", [golden, presets, documents])
def test_changed_models(models: Any, place: Path) -> None:
    file = place / "model.json"

    @given(changed(models()), st.sampled_from(ASKED))
    @settings(**MANY)
    def test(document: dict[str, Any], how: str) -> None:
        file.write_text(json.dumps(document), encoding="utf-8")
        asked(how, "./model.json")

    test()


def headers(kind: str, place: Path) -> tuple[list[bytes], Path]:
    """Checkpoint files of a kind, and where a damaged one is to stand."""
    if kind == "bin":
        return [file.read_bytes() for file in (FOLDER.parent / "data" / "torch").glob("*.bin")], place / "x.bin"
    if kind == "gguf":
        for name in ("llama_gqa", "gemma3n_text", "deepseek_v3", "gpt_oss", "gemma4_text_moe", "mpt_alibi"):
            convert(FOLDER / name, place / f"{name}.gguf")
    elif kind == "safetensors":
        for number, (tensors, _) in enumerate(FORMATS.values()):
            save(place / f"{number}.safetensors", tensors)
    else:
        index = sharded(place, {f"h.{i}.weight": ("F16", (16, 48)) for i in range(4)}, 2)
        return [index.read_bytes()], index
    return [file.read_bytes()[: 2**15] for file in sorted(place.glob(f"*.{kind}"))], place / f"x.{kind}"


@pytest.mark.parametrize("kind", ["bin", "safetensors", "gguf", "index"])
def test_damaged_checkpoints(kind: str, place: Path) -> None:
    samples, file = headers(kind, place)

    @given(damaged(samples, 2**13), st.sampled_from(ASKED), st.booleans())
    @settings(**MANY)
    def test(data: bytes, how: str, hole: bool) -> None:
        file.write_bytes(data)
        if hole and kind != "index":  # room for the data, so that what the header says is reached
            os.truncate(file, 2**20)
        asked(how, str(file))
        words = ["validate", "llama-3-8b", "--checkpoint", str(file)]
        assert faults(words, answered(words)) is None

    test()
