"""`show` writes a preset file: what it prints loads back to the same architecture, from wherever the model came."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from gptcalc.document import build
from gptcalc.document.resolved import resolved
from gptcalc.sources import load, preset, text
from tests.conftest import Command
from tests.oracle import ENTRIES, model
from tests.strategies import documents, every_document

#: the fixtures here keep nothing from one example to the next
REUSED: dict[str, Any] = {"suppress_health_check": [HealthCheck.function_scoped_fixture], "deadline": None}

words = st.text(min_size=1, max_size=30)
plain = st.text(st.characters(codec="utf-8"), max_size=200)
numbers = st.one_of(
    st.integers(-(10**12), 10**12), st.floats(allow_nan=False, allow_infinity=False), st.sampled_from([1e-5, 1e4, 1e22])
)
values = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, plain),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(words, inner, max_size=4)),
    max_leaves=12,
)


@given(st.dictionaries(words, values, max_size=6))
@settings(max_examples=150, deadline=None)
def test_any_text_is_written_so_that_it_reads_back(document: dict[str, Any]) -> None:
    written = preset.dump(document)
    assert text.parse_full_yaml(written) == (document or None)
    if document:
        assert text.parse_yaml(written) == document


@given(
    document=documents(),
    about=st.fixed_dictionaries({"name": words, "note": plain, "aliases": st.lists(plain, max_size=3)}),
)
@settings(max_examples=60, **REUSED)
def test_a_document_comes_back(
    document: dict[str, Any], about: dict[str, Any], tmp_path: Path, gptcalc: Command
) -> None:
    document = {**document, **about}
    expected = build(document)
    (tmp_path / "drawn.json").write_text(json.dumps(document), encoding="utf-8")
    shown = gptcalc("show", tmp_path / "drawn.json")
    assert shown.status == 0
    (tmp_path / "shown.yaml").write_text(shown.out, encoding="utf-8")
    again = load(str(tmp_path / "shown.yaml"))
    assert again.architecture == expected
    assert again.document == document
    assert gptcalc("show", tmp_path / "shown.yaml").out == shown.out
    assert gptcalc("show", tmp_path / "shown.yaml", "--json").json == document


@pytest.mark.parametrize("name", sorted(ENTRIES))
def test_a_config_comes_back_as_a_preset(name: str, tmp_path: Path, gptcalc: Command) -> None:
    folder = tmp_path / name
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(ENTRIES[name]["config"]))
    shown = gptcalc("show", folder)
    assert shown.status == 0
    (tmp_path / "shown.yaml").write_text(shown.out)
    assert load(str(tmp_path / "shown.yaml")).architecture == replace(model(name), name=name)
    assert max(map(len, shown.out.splitlines())) <= preset.WIDTH


@pytest.mark.parametrize("name", preset.names())
def test_a_preset_comes_back(name: str) -> None:
    document = preset.named(name)
    assert preset.parse(preset.dump(document), name) == document


def test_standard_input_to_standard_output(gptcalc: Command) -> None:
    first = gptcalc("show", "deepseek-v3")
    second = gptcalc("show", "-", stdin=first.out.encode())
    assert second.out == first.out


def test_edits_are_shown(gptcalc: Command) -> None:
    shown = gptcalc("show", "gpt2", "--set", "n_layers=2", "--set", "attn.window=16")
    document = preset.parse(shown.out, "shown")
    assert document["n_layers"] == 2
    assert document["attn"] == {"window": 16}


def test_every_default_is_filled_in(gptcalc: Command) -> None:
    """GPT-2 by its paper and config: heads of 64 channels, an MLP of 4·768, biases everywhere, a learned table."""
    found = gptcalc("show", "gpt2", "--resolved", "--json").json
    assert (found["attn"]["d_head"], found["attn"]["n_kv_heads"], found["mlp"]["d_ff"]) == (64, 12, 4 * 768)
    assert (found["attn"]["bias"], found["mlp"]["bias"]) == (["q", "k", "v", "out"], ["up", "down"])
    assert (found["embedding"]["width"], found["embedding"]["rows"]) == (768, 1024)
    assert (found["layers"], found["norm_at"], found["causal"], found["mtp"]) == ("n*attn+mlp", "pre", True, 0)


@given(every_document())
@settings(max_examples=60, deadline=None)
def test_filled_in_it_is_the_same_model(document: dict[str, Any]) -> None:
    full = resolved(document)
    assert build(text.parse_yaml(preset.dump(full))) == build(document)
    assert full.keys() >= document.keys()
    assert len(full) > len(document)


@pytest.mark.parametrize("name", preset.names()[::8])
def test_a_preset_filled_in_is_the_same_model(name: str) -> None:
    document = load(name).document
    assert build(resolved(document)) == build(document)
