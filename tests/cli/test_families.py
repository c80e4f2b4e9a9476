"""Encoders, encoder-decoders and decoders, side by side."""

from __future__ import annotations

import json

from tests.conftest import Command


def test_the_three_families_in_one_table(gptcalc: Command) -> None:
    rows = json.loads(gptcalc("compare", "bert-base", "t5-base", "gpt2", "--json").out)
    assert [row["total"] for row in rows] == [109_514_298, 222_903_552, 124_439_808]
    # keys and values of 512 tokens each of target and source, in 12 layers
    assert [row["kv_bytes"] for row in rows] == [0, 2 * 2 * 12 * 2 * 768 * 512, 1024 * 36_864]
    assert rows[0]["decode_flops"] is None


def test_layers_that_share_weights_are_explained_with_them_once(gptcalc: Command) -> None:
    found = json.loads(gptcalc("explain", "albert-base-v2", "--context", "128", "--json").out)
    assert (found["params"], found["flops"]) == (11_221_680, 23_380_623_360)


def test_an_encoder_has_no_cache(gptcalc: Command) -> None:
    assert "no cache" in gptcalc("kv", "bert-base").out


def test_the_source_is_stored_once(gptcalc: Command) -> None:
    short, long = (
        json.loads(gptcalc("kv", "t5-base", "--context", context, "--source", "1000", "--json").out)
        for context in ("10", "20")
    )
    assert long["bytes"] - short["bytes"] == 10 * 12 * 2 * 768 * 2
    assert short["bytes"] == (10 + 1000) * 12 * 2 * 768 * 2
