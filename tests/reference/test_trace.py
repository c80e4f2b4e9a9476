"""The witness from the command line: trace and validate."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from gptcalc import cli, tracing
from gptcalc.analysis.flops import flops
from gptcalc.sources import load
from gptcalc.validate import real_forward
from tests.conftest import Command
from tests.golden_models import FOLDER

GOLDEN = str(FOLDER / "deepseek_v3")


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert cli.run(words) == 0
    return capsys.readouterr().out


def test_true_weights_give_transformers_logits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with np.load(FOLDER / "deepseek_v3" / "io.npz") as truth:
        tokens = ",".join(map(str, truth["input_ids"][0]))
        out = tmp_path / "out.npz"
        said(capsys, "trace", GOLDEN, "--tokens", tokens, "--decode", "3", "--save", str(out), "--attention")
        with np.load(out) as found:
            assert np.abs(found["logits"] - truth["logits"][0]).max() < 1e-4
            assert np.abs(found["hidden"] - truth["hidden_after_block"][:, 0]).max() < 1e-4
            assert np.abs(found["decode_logits"] - truth["decode_logits"][0]).max() < 1e-4
            weights = found["attention.0"]
    assert weights.shape[-2:] == (13, 13)
    assert np.allclose(weights.sum(-1), 1, atol=1e-6)


def test_float64_is_closer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with np.load(FOLDER / "gpt2" / "io.npz") as truth:
        tokens = ",".join(map(str, truth["input_ids"][0]))
        out = tmp_path / "out.npz"
        said(capsys, "trace", str(FOLDER / "gpt2"), "--tokens", tokens, "--float64", "--save", str(out))
        with np.load(out) as found:
            assert found["logits"].dtype == np.float64
            assert np.abs(found["logits"] - truth["logits_f64"][0]).max() < 1e-9


def test_generation_is_greedy_and_repeatable(capsys: pytest.CaptureFixture[str]) -> None:
    first = json.loads(said(capsys, "trace", GOLDEN, "--tokens", "5,23,7", "--generate", "4", "--json"))
    again = json.loads(said(capsys, "trace", GOLDEN, "--tokens", "5,23,7", "--generate", "4", "--json"))
    assert first == again
    assert first["weights"] == "checkpoint"
    assert len(first["generated"]) == 4
    assert first["generated"][0] == first["top"][0][0]
    tokens = [5, 23, 7, *first["generated"][:3]]
    longer = json.loads(said(capsys, "trace", GOLDEN, "--tokens", ",".join(map(str, tokens)), "--json"))
    assert longer["top"][0][0] == first["generated"][3]


def test_a_preset_runs_as_a_seeded_small_copy(capsys: pytest.CaptureFixture[str]) -> None:
    runs = [
        json.loads(said(capsys, "trace", "llama-3-8b", "--tokens", "1,2,3", "--seed", seed, "--json"))
        for seed in ("1", "1", "2")
    ]
    assert runs[0] == runs[1] != runs[2]
    assert runs[0]["weights"] == "random"


@pytest.mark.parametrize("name", ["gpt2", "mixtral-8x7b", "deepseek-v3"])
def test_shapes_of_the_whole_model_add_up(name: str) -> None:
    model = load(name).architecture
    prefill = tracing.shapes(model, 64)
    assert prefill.flops == flops(model, context=64, pairs="full").total
    assert sum(step.flops * step.layers for step in prefill.steps) == prefill.flops
    decoded = tracing.shapes(model, 64, decode=1)
    assert sum(s.flops * s.layers for s in decoded.steps) == flops(model, context=64, phase="decode").total


def test_learned_positions_are_a_sum_of_context_by_width(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "trace", "gpt2", "--context", "1024")
    assert "(1024 × 768) + (1024 × 768) = (1024 × 768)" in text


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["gpt2", "--generate", "3"], "--generate needs --tokens"),
        (["gpt2", "--save", "x.npz"], "--save needs --tokens"),
        (["gpt2", "--tokens", "1,x"], "'x' is not a token's number"),
        (["gpt2", "--tokens", ""], "tokens"),
        (["gpt2", "--tokens", "1,2", "--decode", "2"], "must be less than the 2 tokens"),
        (["gpt2", "--tokens", "1,2", "--decode", "-1"], "--decode -1"),
        (["gpt2", "--tokens", "1,2", "--context", "9"], "--context goes without --tokens"),
        ([GOLDEN, "--tokens", "1,999999"], "outside the vocabulary"),
        (["gpt2", "--context", "2048"], "learned table of 1024 positions"),
    ],
)
def test_wrong_usage_is_one_line(words: list[str], part: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["trace", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert part in err
    assert err.count("\n") == 1


def test_a_failed_run_leaves_no_file(tmp_path: Path) -> None:
    out = tmp_path / "out.npz"
    assert cli.run(["trace", GOLDEN, "--tokens", "1,999999", "--save", str(out)]) == 2
    assert not list(tmp_path.iterdir())


def test_validate_says_what_agrees(capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = json.loads(said(capsys, "validate", "gpt2", "--json"))
    assert row["ok"]
    names = [check["name"] for check in row["checks"]]
    assert {"parameters", "active parameters", "published total", "every weight matters"} <= set(names)


def test_validate_fails_where_a_published_total_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    preset = tmp_path / "odd.yaml"
    preset.write_text("d: 8\nv: 11\nc: 16\nn_heads: 2\nn_layers: 1\nd_ff: 5\npublished: {total: 12, source: nowhere}\n")
    assert cli.run(["validate", str(preset)]) == 1
    assert "published total" in capsys.readouterr().out


def test_validate_names_the_tensor_that_a_checkpoint_lacks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = json.loads((FOLDER / "llama_gqa" / "config.json").read_text())
    config["num_hidden_layers"] += 1
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert cli.run(["validate", str(tmp_path), "--checkpoint", str(FOLDER / "llama_gqa")]) == 1
    text = capsys.readouterr().out
    assert f"layers.{config['num_hidden_layers'] - 1}." in text
    assert cli.run(["validate", str(FOLDER / "llama_gqa"), "--checkpoint", str(FOLDER / "llama_gqa")]) == 0


def test_validate_materialises_what_fits(capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = json.loads(said(capsys, "validate", str(FOLDER / "gpt2"), "--materialize", "--json"))
    assert row["checks"][-1]["found"] == "finite logits"
    (row,) = json.loads(said(capsys, "validate", "deepseek-v3", "--materialize", "--json"))
    assert "not run" in row["checks"][-1]["found"]


def test_a_process_that_may_not_have_the_memory_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit of the shell or the container, beside which the system has plenty."""

    def short(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("gptcalc.validate.Model", short)
    check = real_forward(load("gpt2").architecture)
    assert (check.ok, check.found) == (
        True,
        "needs 497,759,232 bytes of memory, more than it may have",
    )  # 4 × 124439808


def test_recurrences_that_take_many_steps_are_bounded(gptcalc: Command) -> None:
    """Jamba: 28 layers with Mamba, whose scan takes 32 steps for 256 tokens; 2¹⁶ steps are 18,724 tokens, and 16,384
    the power of two below. Falcon Mamba: 64 layers, so 2¹⁸ tokens are 2²¹ steps."""
    assert gptcalc("trace", "jamba-v0.1", "--get", "context").out == "16384\n"
    assert gptcalc("trace", "mamba2-130m", "--context", "64K", "--get", "context").out == "65536\n"  # by chunks of 256
    refused = gptcalc("trace", "falcon-mamba-7b", "--context", "256K")
    assert (refused.status, refused.out) == (2, "")
    assert "2,097,152 steps one by one" in refused.err


def test_logits_of_an_encoder_are_of_the_positions_themselves(gptcalc: Command) -> None:
    """A masked-language-model head guesses the last token; a pooler guesses none."""
    masked = gptcalc("trace", FOLDER / "bert", "--tokens", "3,4,5").out
    assert "likeliest tokens at the last position: " in masked
    assert "likeliest" not in gptcalc("trace", FOLDER / "bert_pooler", "--tokens", "3,4,5").out
    assert "likeliest next tokens: " in gptcalc("trace", FOLDER / "gpt2", "--tokens", "3,4,5").out
