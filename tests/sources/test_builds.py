"""How often a document is turned into an architecture."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gptcalc import sources
from gptcalc.architecture import Architecture
from gptcalc.document.builder import Builder

CONFIG = {
    "model_type": "llama", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "vocab_size": 128,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64, "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0, "tie_word_embeddings": False,
}  # fmt: skip


def test_a_config_becomes_an_architecture_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shortest document, for which many are tried, is made only for who asks for it."""
    builds: list[Builder] = []
    build = Builder.architecture

    def counted(self: Builder) -> Architecture:
        builds.append(self)
        return build(self)

    monkeypatch.setattr(Builder, "architecture", counted)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG))
    model = sources.load(str(path))
    assert len(builds) == 1
    assert model.architecture.name == tmp_path.name
    assert list(model.document) == ["name", "d", "v", "c", "n_heads", "n_layers", "n_kv_heads", "d_ff"]
    assert len(builds) > 1
