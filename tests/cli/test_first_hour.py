"""What somebody tried who saw the program for the first time: each misled, or was left without a next step."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import Command

ERRORS = [
    ("fit gpt2 --device 512h100-sxm", "did you mean 512xh100-sxm?"),
    ("kv gpt2 --ctx 5", "did you mean --ctx-size?"),
    ("params gpt2 gpt2-xl", "gptcalc compare sets several models side by side"),
    ("flops gpt2 --batch 4.5", "write 8192"),
    ("train gpt2 --device 8xh100-sxm --tokens 15", "less than one sequence of 1,024"),
    ("check gpt2 --expect total=124M", "held to their last digit"),
    ("compare gpt2 gpt2-xl --get total", "counted from 0: 0.total"),
]


@pytest.mark.parametrize(("line", "hint"), ERRORS)
def test_what_is_wrong_says_what_would_be_right(line: str, hint: str, gptcalc: Command) -> None:
    found = gptcalc(*line.split())
    assert (found.status, found.out, len(found.lines)) == (2, "", 1)
    assert hint in found.err


@pytest.mark.parametrize(
    ("word", "name"), [("rtx4090", "rtx-4090"), ("H100SXM", "h100-sxm"), ("2xrtx4090", "rtx-4090")]
)
def test_devices_without_their_hyphens(word: str, name: str, gptcalc: Command) -> None:
    """24 and 80 GB cards: what may be used of each is the same by both names."""
    line = ("fit", "gpt2")
    assert (
        gptcalc(*line, "--device", word, "--get", "capacity").out
        == gptcalc(*line, "--device", name, "--get", "capacity").out
    )


def test_a_word_that_no_name_has(gptcalc: Command) -> None:
    found = gptcalc("presets", "qwen3-8c", "--json")
    assert (found.status, found.json) == (0, [])
    assert found.lines == ["gptcalc: note: no preset's name has 'qwen3-8c' in it; did you mean qwen3-8b?"]


def test_flops_are_held_to_no_count_of_parameters(gptcalc: Command) -> None:
    """Both are called total, and gpt2's parameters were published."""
    assert "124,439,808" not in gptcalc("flops", "gpt2", "--why", "total").out
    assert "the published figure" in gptcalc("params", "gpt2", "--why", "total").out


def test_a_window_is_a_difference(gptcalc: Command) -> None:
    """It changes no sum, but what the sum runs over."""
    found = gptcalc("diff", "llama-3-8b", "llama-3-8b", "--with", "window:1024", "--json").json["equations"]
    assert [line.rpartition(", ")[2] for line in found["a"]] == ["s ≤ t"] * 3
    assert [line.rpartition(", ")[2] for line in found["b"]] == ["t − window < s ≤ t"] * 3


def test_figures_that_people_quote_of_one_model(gptcalc: Command) -> None:
    """Kaplan et al. 2020 leave out both tables: 124,439,808 − (50,257 + 1,024)·768."""
    found = gptcalc("params", "gpt2", "--conventions", "--json").json
    assert found["figures"]["without_embedding"] == 124_439_808 - (50_257 + 1_024) * 768
    both = gptcalc("diff", "gpt2", "gpt2-xl", "--conventions", "--json").json["customs"]
    assert {custom["custom"]: custom["a"] for custom in both} == found["figures"]


def test_training_says_which_length_it_takes(gptcalc: Command) -> None:
    line = ("train", "llama-3.1-8b", "--device", "8xh100-sxm", "--tokens", "1t", "--get", "context")
    silent, said = gptcalc(*line), gptcalc(*line, "--context", "8K")
    assert (silent.out, said.out, said.err) == ("131072\n", "8192\n", "")
    assert "sequences of 131,072 tokens" in silent.err


def test_a_filter_leaves_warnings_of_what_is_left(gptcalc: Command) -> None:
    found = gptcalc("compare", "--all", "--where", "model = gpt2", "--context", "2K", "--columns", "model,kv_bytes")
    assert (len(found.lines), "gpt2" in found.err) == (1, True)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("diff mistral-7b mistral-7b-v0.3 --context 8K", ["mistral-7b-v0.3", "ratio", "2.00×", "1.00 GiB"]),
        ("keys moe", ["meaning"]),
        ("time llama-3-8b --device h100-sxm --context 8K", ["bound by"]),
        ("keys kv", ["groups.N.cached_tokens"]),
    ],
)
def test_a_narrow_terminal_keeps_what_the_table_is_for(line: str, words: list[str], gptcalc: Command) -> None:
    shown = re.sub(r"\x1b\[\d*m", "", gptcalc(*line.split(), terminal=60).out)
    assert [word for word in words if word not in shown] == []
    assert max(map(len, shown.splitlines())) <= 60


def test_a_trace_says_which_pairs_it_counts(gptcalc: Command) -> None:
    whole = int(gptcalc("flops", "gpt2", "--pairs", "full", "--get", "total").out)
    assert f"FLOPs in all: {whole:,} (292 GFLOP), those of masked pairs among them" in gptcalc("trace", "gpt2").out


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("llama-3-8b --context 8K", "gptcalc params llama-3-8b"),
        ("./my-model/config.json", "gptcalc params ./my-model/config.json"),
        ("models", "gptcalc presets"),
        ("help", "gptcalc --help"),
        ("params gpt2 --csv", "did you mean --format csv?"),
        ("params gpt2 --md", "did you mean --format markdown?"),
        ("kv gpt2 --seq-len 8K", "did you mean --context?"),
        ("memory gpt2 --budget 24GiB", "gptcalc fit, serve"),
        ("presets --size 9B..1B", "runs downwards"),
        ("sweep gpt2 --set n_layers=1,2 --columns ,", "gptcalc columns sweep"),
        ("sweep gpt2 --set n_layers=1,2 --plot d,total", "-o FILE.svg"),
        ("memory gpt2 --engine-version= --engine vllm", "--engine-version: '' says nothing"),
        ("design llama-3-8b --free d --fits 8GiB", "behind --like"),
        ("trace gpt2 --text hello", "--text: 111 is outside the vocabulary of 61; byte-demo"),
        ("presets --feature MoEE", "did you mean moe?"),
    ],
)
def test_words_of_other_programs(line: str, hint: str, gptcalc: Command) -> None:
    found = gptcalc(*line.split())
    assert (found.status, found.out, len(found.lines)) == (2, "", 1)
    assert hint in found.err


@pytest.mark.parametrize("command", ["sweep", "design"])
def test_columns_of_a_grid_are_listed(command: str, gptcalc: Command) -> None:
    """Each that is listed is one, without trying a wrong name."""
    listed = [row["key"] for row in gptcalc("columns", command, "--json").json if row["key"] != "KEY"]
    assert {"total", "memory", "kv_bytes", "context", "batch"} <= set(listed)
    row = gptcalc("sweep", "gpt2", "--set", "n_layers=12", "--columns", ",".join(listed), "--get", "0.total")
    assert row.out == "124439808\n"


@pytest.mark.parametrize("line", ["params gpt2", "kv gpt2 --plot", "explain gpt2", "page gpt2", "show gpt2"])
def test_a_file_is_what_its_name_says(line: str, gptcalc: Command, tmp_path: Path) -> None:
    for name in ("x.pdf", "no/such.html"):
        found = gptcalc(*line.split(), "-o", tmp_path / name)
        assert (found.status, found.out, len(found.lines)) == (2, "", 1)
        assert name in found.err
    assert not list(tmp_path.iterdir())
    for name in ("llama-3.1-8b", "x.JSON"):
        assert gptcalc(*line.split(), "-o", tmp_path / name).status == 0
    assert (tmp_path / "x.JSON").read_text()[0] in "{["


@pytest.mark.parametrize(
    ("condition", "hint"),
    [
        ("family=lama", "did you mean llama?"),
        ("attention=flash", "one of csa, gqa, mha, mla, mqa"),
        ("features=moee", "did you mean moe?"),
        ("model=gpt3x", "no preset has it"),
        ("released>soon", "write 2024 or 2024-07"),
        ("fits=yes", "add --device"),
    ],
)
def test_a_word_that_no_model_has_is_no_empty_answer(condition: str, hint: str, gptcalc: Command) -> None:
    found = gptcalc("compare", "gpt2", "llama-3-8b", "--where", condition)
    assert (found.status, found.out, len(found.lines)) == (2, "", 1)
    assert hint in found.err


@pytest.mark.parametrize(
    ("condition", "models"),
    [
        ("family=mistral", []),  # there are such models, though not here
        ("n_heads=77", []),
        ("released=2019", ["gpt2"]),
        ("released>=2024", ["llama-3-8b"]),
        ("released<=2019 or tying=no", ["gpt2", "llama-3-8b"]),
    ],
)
def test_conditions_on_words_and_dates(condition: str, models: list[str], gptcalc: Command) -> None:
    """GPT-2 came in February 2019 and is tied, Llama 3 in April 2024 and is not."""
    found = gptcalc("compare", "gpt2", "llama-3-8b", "--where", condition, "--columns", "model", "--json")
    assert [row["model"] for row in found.json] == models


def test_adapters_beside_frozen_tables(gptcalc: Command) -> None:
    """Qwen3-8B: two tables of 151,936 × 4,096 in 16 bits, which nf4 leaves as they are; adapters in 32 bits."""
    found = gptcalc("memory", "qwen3-8b", "--training", "--lora", "16:all", "--dtype", "nf4", "--json").json
    pieces = {key: size for key, size in found["pieces"].items() if key.startswith("weights.")}
    assert sum(pieces.values()) == found["per_device"]["weights"]
    assert pieces["weights.frozen tables"] == 2 * 2 * 151_936 * 4_096
    assert pieces["weights.adapters"] == 4 * found["trainable"]


def test_lists_say_which_length_their_figures_are_of(gptcalc: Command) -> None:
    line = ("compare", "gpt2", "llama-3-8b", "--columns")
    own = "cache at each model's own context; --context N has all at one"
    assert gptcalc(*line, "model,kv_bytes").out.splitlines()[-1] == own
    assert gptcalc(*line, "model,kv_bytes", "--context", "1K").out.endswith("\ncache at a context of 1,024 tokens\n")
    assert "context" not in gptcalc(*line, "model,total").out
    assert "own context" not in gptcalc(*line, "model,kv_bytes", "--format", "csv").out


def test_keys_by_the_names_of_configs(gptcalc: Command) -> None:
    """As README's table of letters has them."""
    for word, key in {"hidden_size": "d", "num_attention_heads": "n_heads", "rope_theta": "theta"}.items():
        assert [row["key"] for row in gptcalc("keys", word, "--json").json] == [key]


def test_all_that_is_missing_is_said_at_once(gptcalc: Command) -> None:
    for command in ("compare", "diff", "explain"):
        found = gptcalc(command, "nothing-like-it", "./no-such-file.yaml")
        assert (found.status, found.out, len(found.lines)) == (2, "", 1)
        assert "'nothing-like-it'" in found.err
        assert "./no-such-file.yaml" in found.err


def test_a_second_model_is_never_ignored(gptcalc: Command) -> None:
    assert "-o FILE.html" in gptcalc("explain", "gpt2", "gpt2-medium").err
    assert gptcalc("explain", "gpt2", "gpt2-medium", "--json").status == 2


def test_a_model_s_repr_is_short() -> None:
    from gptcalc import load

    assert repr(load("deepseek-v3")) == "Model('deepseek-v3', d=7168, v=129280, c=163840, n_layers=61, …)"


def test_features_in_any_case(gptcalc: Command) -> None:
    assert gptcalc("presets", "--feature", "MoE").out == gptcalc("presets", "--feature", "moe").out != "none\n"


@pytest.mark.parametrize("line", ["--help", "kv --help", "kv gpt2"])
def test_colour_is_forced_everywhere(line: str, gptcalc: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """FORCE_COLOR (https://force-color.org): even where no terminal is."""
    assert "\x1b[1m" not in gptcalc(*line.split()).out
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[1m" in gptcalc(*line.split()).out
