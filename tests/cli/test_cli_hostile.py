"""Malformed and hostile inputs: one line on stderr, nothing on stdout, exit 2, no traceback, no wait."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests import TESTS
from tests.conftest import Command, Result

SAMPLES = sorted((TESTS / "hostile").iterdir())

#: samples that look odd and are right
FINE = {
    "05b_infinity_elsewhere.json",
    "06b_heads_not_dividing_but_head_dim.json",
    "09i_st_metadata_lies.safetensors",
    "09j_st_empty_dim_and_scalar.safetensors",
    "12_bom.json",
}
#: an answer (with a note where a guess was made) and a refusal are both good
EITHER = {
    "04d_integral_float.json",
    "07b_first_dense_gt_layers.json",
    "09f_st_overlap.safetensors",
    "12b_utf16.json",
    "15_control_chars.json",
    "15b_contradiction.json",
    "15c_two_expert_counts.json",
    "15d_encoder_only.json",
}
#: what the line must name, where a user could not mend the file without it
NAMED = {
    "01_truncated.json": ("line 1", "column"),
    "01b_empty.json": ("empty",),
    "01c_trailing_comma.json": ("comma", "line 1"),
    "02_dup_keys.yaml": ("hidden_size", "4096", "8192"),
    "02b_dup_keys.json": ("hidden_size", "4096", "8192"),
    "03_huge_int.json": ("num_hidden_layers",),
    "03b_5000_digits.json": ("hidden_size", "5000 digits"),
    "03c_1e400.json": ("hidden_size",),
    "04_negative.json": ("num_hidden_layers", "-2"),
    "04b_zero_heads.json": ("num_attention_heads", "0"),
    "04c_float.json": ("num_hidden_layers", "31.5"),
    "04e_string.json": ("hidden_size", "'4096'"),
    "04f_bool.json": ("num_hidden_layers", "true"),
    "06_heads_not_dividing.json": ("4096", "30"),
    "06c_kv_not_dividing.json": ("32", "5"),
    "06d_kv_more_than_heads.json": ("32", "64"),
    "07_topk_gt_experts.json": ("9", "8"),
    "07c_layer_types_wrong_length.json": ("layer_types", "31", "32"),
    "07d_layer_types_unknown.json": ("layer_types", "chunky_attention"),
    "08_alias_bomb.yaml": ("anchor",),
    "08b_python_tag.yaml": ("tag",),
    "08c_deep_nesting.json": ("nested too deeply",),
    "09l_lfs_pointer.safetensors": ("Git LFS", "4,976,698,672"),
    "11_list.json": ("list",),
    "11b_null.json": ("null",),
    "11c_string.json": ("string",),
    "11e_html_404.json": ("web page",),
    "12c_latin1.json": ("offset 17",),
    "12d_crlf_comments.json": ("comments", "line 1"),
    "14_no_config": ("config.json", "*.safetensors"),
    "14b_index_missing_shard": ("model-00002-of-00002.safetensors",),
    "14c_index_path_escape": ("../../../../etc/hostname",),
    "15e_adapter_only": ("LoRA adapter",),
}


def refused_well(result: Result) -> None:
    assert result.status == 2
    assert result.out == ""
    assert len(result.lines) == 1
    assert result.lines[0].startswith("gptcalc: ")
    assert result.lines[0].isprintable()
    assert "Traceback" not in result.err


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.name)
def test_every_sample_gets_its_answer(sample: Path, gptcalc: Command) -> None:
    start = time.perf_counter()
    result = gptcalc("params", sample)
    assert time.perf_counter() - start < 1
    if sample.name in FINE or (sample.name in EITHER and result.status == 0):
        assert result.status == 0
        assert result.out
        return
    refused_well(result)
    for word in NAMED.get(sample.name, ()):
        assert word in result.err


def test_the_lists_name_samples() -> None:
    names = {path.name for path in SAMPLES}
    assert names >= FINE | EITHER | NAMED.keys()


def test_a_lying_header_is_counted_and_reported(gptcalc: Command) -> None:
    result = gptcalc("params", TESTS / "hostile" / "09i_st_metadata_lies.safetensors", "--get", "total")
    assert result.out == "200\n"
    assert "999000000000" in result.err


def test_a_loop_of_links(gptcalc: Command, tmp_path: Path) -> None:
    (tmp_path / "config.json").symlink_to("other.json")
    (tmp_path / "other.json").symlink_to("config.json")
    result = gptcalc("params", tmp_path)
    refused_well(result)
    assert "symbolic links" in result.err


def test_an_empty_folder(gptcalc: Command, tmp_path: Path) -> None:
    result = gptcalc("params", tmp_path)
    refused_well(result)
    assert "config.json" in result.err


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no FIFOs here")
def test_a_pipe_and_a_device_are_not_opened(gptcalc: Command, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "config.json")
    for path in (tmp_path / "config.json", tmp_path, "/dev/zero"):
        result = gptcalc("params", path)
        refused_well(result)
        assert "not a regular file" in result.err


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"\xff", b"[]", b"- 1", b"d: 1\nd: 2", b"d: &x 1", b"{", b"\0\0", b"a\x07: 1"]
)
def test_hostile_standard_input(content: bytes, gptcalc: Command) -> None:
    result = gptcalc("params", "-", stdin=content)
    refused_well(result)
    assert "standard input" in result.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("kv", "llama-3-8b", "--context", "0"),
        ("kv", "llama-3-8b", "--context", "-1"),
        ("kv", "llama-3-8b", "--context", "1e6"),
        ("kv", "llama-3-8b", "--context", "8.5K"),
        ("kv", "llama-3-8b", "--context", "8 K"),
        ("kv", "llama-3-8b", "--context", "8KB"),
        ("kv", "llama-3-8b", "--context", "9" * 100),
        ("kv", "llama-3-8b", "--batch", "0"),
        ("kv", "llama-3-8b", "--batch", "-3"),
        ("kv", "llama-3-8b", "--batch", "1.5"),
        ("kv", "llama-3-8b", "--kv-dtype", "bf61"),
        ("kv", "gpt2", "--context", "1025"),
        ("flops", "gpt2", "--phase", "dcode"),
    ],
)
def test_wrong_sizes(arguments: tuple[str, ...], gptcalc: Command) -> None:
    refused_well(gptcalc(*arguments))


@pytest.mark.parametrize(
    "name", ["", " ", "..x", "a\0b", "gpt2\n", "nosuch", "../nosuch", "gpt2 ", "é", "\udcff", "a" * 5000]
)
def test_names_that_are_none(name: str, gptcalc: Command) -> None:
    refused_well(gptcalc("params", name))
