"""`trace` as a lesson: attention by hand, step by step; a text as bytes; a small model as itself."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.conftest import Command

STEPS = ("x", "q", "k", "v", "scores", "scaled", "masked", "softmax", "output")


def matrices(found: Any) -> dict[tuple[str, str], list[Any]]:
    return {(one["place"], one["name"]): one["heads"] for one in found["values"]}


def test_attention_by_hand(gptcalc: Command) -> None:
    """Scores I, scaled by 1/√2; e^0.7071 = 2.0281, so the weights are 2.0281/3.0281 = 0.6698 and 0.3302."""
    found = matrices(gptcalc("trace", "--example", "--json").json)
    assert [name for _, name in found] == list(STEPS)
    large = math.exp(1 / math.sqrt(2))
    p, q = large / (large + 1), 1 / (large + 1)
    np.testing.assert_allclose(found["layers.0.attn", "softmax"][0], [[p, q], [q, p]], rtol=1e-12)
    by_hand = [[2 * p + q, p + 3 * q], [2 * q + p, q + 3 * p]]
    np.testing.assert_allclose(found["layers.0.attn", "output"][0], by_hand, rtol=1e-12)
    shown = gptcalc("trace", "--example").out
    assert "  0.6698   0.3302\n  0.3302   0.6698" in shown
    assert "  1.6698   1.6605\n  1.3302   2.3395" in shown


def test_a_text_is_its_bytes_and_a_small_model_runs_as_itself(gptcalc: Command) -> None:
    found = gptcalc("trace", "byte-demo", "--text", "hé", "--values", "--json").json
    assert (found["text"], found["tokens"]) == ("hé", [104, 195, 169])
    assert "sizes" not in found
    # two tables of 256 rows of 64; four blocks of 12·d² + 13·d; a norm
    assert found["parameters"] == 2 * 256 * 64 + 4 * (12 * 64**2 + 13 * 64) + 2 * 64
    values = matrices(found)
    assert len(values) == 4 * len(STEPS)
    weights = np.array(values["layers.3.attn", "softmax"])
    assert weights.shape == (4, 3, 3)
    np.testing.assert_allclose(weights.sum(-1), 1, rtol=1e-5)
    assert not np.triu(weights, 1).any()
    scores, scaled = (np.array(values["layers.3.attn", name]) for name in ("scores", "scaled"))
    np.testing.assert_allclose(scaled * math.sqrt(16), scores, rtol=1e-5)
    queries, keys = (np.array(values["layers.3.attn", name]) for name in ("q", "k"))
    np.testing.assert_allclose(queries @ keys.swapaxes(1, 2), scores, rtol=1e-4, atol=1e-5)


def test_a_heatmap_has_a_row_a_token(gptcalc: Command) -> None:
    shown = gptcalc("trace", "byte-demo", "--text", "hello", "--heatmap").out
    blocks = [block.splitlines() for block in shown.split("\n\n") if block.startswith("layers.")]
    assert len(blocks) == 4 * 4
    assert all(len(block) == 6 and {len(row) for row in block[1:]} == {8} for block in blocks)
    assert all("".join(row[0] for row in block[1:]) == "hello" for block in blocks)
    assert all(block[1] == "h│█    │" for block in blocks)  # the first token sees itself alone
    numbers = gptcalc("trace", "byte-demo", "--tokens", "104,195", "--heatmap").out
    assert "\n│█ │\n" in numbers  # numbers have no letters


def test_a_small_copy_says_its_sizes(gptcalc: Command) -> None:
    found = gptcalc("trace", "gpt2", "--tokens", "1,2", "--json").json
    assert found["sizes"]["d"] < 768
    assert f"a small copy, d = {found['sizes']['d']}" in gptcalc("trace", "gpt2", "--tokens", "1,2").out


def test_what_the_table_sums_is_said_beside_the_whole(gptcalc: Command) -> None:
    found = gptcalc("trace", "gpt2", "--context", "8", "--decode", "2", "--json").json
    steps = sum(row["flops"] * row["layers"] for row in found["steps"])
    assert steps < found["flops"]
    assert f"FLOPs of the steps: {steps:,}" in gptcalc("trace", "gpt2", "--context", "8", "--decode", "2").out
    assert "FLOPs of the steps" not in gptcalc("trace", "gpt2", "--context", "8").out


def test_the_cache_grows_token_by_token(gptcalc: Command) -> None:
    """A token: four layers of 12·d² and a table of 256 rows, and scores and sums over n tokens; their keys and values
    are kept."""
    step = 2 * (4 * 12 * 64**2 + 256 * 64)
    first = {"tokens": 3, "flops": 3 * step + 4 * 4 * 64 * 3 * 3, "cache_elements": 2 * 4 * 64 * 3}
    later = [{"tokens": 1, "flops": step + 4 * 4 * 64 * n, "cache_elements": 2 * 4 * 64 * n} for n in (4, 5)]
    decoded = gptcalc("trace", "byte-demo", "--text", "To be", "--decode", "2", "--json").json
    assert decoded["passes"] == [first, *later]
    assert decoded["flops"] == sum(one["flops"] for one in decoded["passes"])
    assert sum(row["flops"] * row["layers"] for row in decoded["steps"]) == later[-1]["flops"]
    generated = gptcalc("trace", "byte-demo", "--text", "To ", "--generate", "3", "--json").json
    assert generated["passes"] == [first, *later]
    assert "passes" not in gptcalc("trace", "byte-demo", "--text", "To be", "--json").json


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ((), "trace: no MODEL"),
        (("gpt2", "--values"), "--values needs --tokens"),
        (("gpt2", "--heatmap"), "--heatmap needs --tokens"),
        (("byte-demo", "--text", "a", "--tokens", "1"), "--text: "),
        (("byte-demo", "--text", ""), "--text: there are none"),
        (("deepseek-v3", "--tokens", "1,2", "--values"), "--values: deepseek-v3 has no attention"),
    ],
)
def test_what_does_not_go_is_refused(arguments: tuple[str, ...], problem: str, gptcalc: Command) -> None:
    found = gptcalc("trace", *arguments)
    assert (found.status, found.out) == (2, "")
    assert problem in found.err
