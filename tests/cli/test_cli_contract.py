"""What scripts rely on: exit status, stdout and stderr, --get, --json, formats, -o, quiet, terminals, errors."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from gptcalc import cli, units
from gptcalc.cli import names
from tests.conftest import Command, Result

GPT2 = 38_597_376 + 1024 * 768 + 12 * (12 * 768**2 + 13 * 768) + 2 * 768  # d·v + c·d + n_layers·(12·d² + 13·d) + 2·d
MODULE = [sys.executable, "-m", "gptcalc"]


# --- one value --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "value"),
    [
        (("params", "gpt2", "--get", "total"), str(GPT2)),
        (("params", "llama-3-8b", "--get", "total"), "8030261248"),
        (("params", "gpt2", "--get", "tying"), "true"),
        (("params", "gpt2", "--get", "model"), "gpt2"),
        (("params", "gpt2", "--get", "components.norm"), str(25 * 2 * 768)),
        (("params", "gpt2", "--get", "groups.0.tensors.0.shape"), "[50257,768]"),
        (("params", "gpt2", "--get", "groups.0.tensors.1.shape.0"), "1024"),
        (("kv", "llama-3-8b", "--get", "bytes_per_token"), str(2 * 32 * 8 * 128 * 2)),
        (("kv", "llama-3-8b", "--context", "8K", "--batch", "2", "--get", "bytes"), str(2 * 2**30)),
        (("flops", "gpt2", "--pairs", "full", "--get", "total"), "291648307200"),
        (("compare", "gpt2", "gpt2", "--get", "1.total"), str(GPT2)),
        (("presets", "gpt2", "--columns", "released,family", "--get", "0"), '{"released":"2019-02","family":"gpt2"}'),
        (("diff", "gpt2", "gpt2", "--get", "fields"), "[]"),
    ],
)
def test_get_prints_one_value_bare(arguments: tuple[str, ...], value: str, gptcalc: Command) -> None:
    assert gptcalc(*arguments) == (0, value + "\n", "")


def test_null_is_null(gptcalc: Command, tmp_path: Path) -> None:
    tiny = "name: tiny\nd: 8\nv: 10\nc: 4\nn_heads: 2\nn_layers: 1\nd_ff: 16\n"
    (tmp_path / "tiny.yaml").write_text(tiny)
    result = gptcalc("presets", "--check", tmp_path, "--get", "0.problem")
    assert result.out == "source is missing: where the numbers come from\n"
    (tmp_path / "tiny.yaml").write_text(tiny + "source: by hand\n")
    assert gptcalc("presets", "--check", tmp_path, "--get", "0.problem") == (0, "null\n", "")


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("totl", "did you mean total?"),
        ("attention", "did you mean components.attention?"),
        ("groups.99", "counted from 0"),
        ("groups.first", "counted from 0"),
        ("total.x", "total is a single value"),
        ("zzz", "there are model, total"),
        ("", "there are model, total"),
    ],
)
def test_a_missing_key_is_named(key: str, hint: str, gptcalc: Command) -> None:
    result = gptcalc("params", "gpt2", "--get", key)
    assert (result.status, result.out, len(result.lines)) == (2, "", 1)
    assert hint in result.err


# --- formats ----------------------------------------------------------------------------------------------------------


def test_json_is_the_whole_answer(gptcalc: Command) -> None:
    result = gptcalc("params", "gpt2", "--json")
    assert result.json["total"] == GPT2
    assert sum(result.json["components"].values()) == GPT2
    assert sum(group["total"] for group in result.json["groups"]) == GPT2
    assert result.out == gptcalc("params", "gpt2", "--format", "json").out


def test_csv_has_raw_numbers_and_keys(gptcalc: Command) -> None:
    rows = list(csv.DictReader(io.StringIO(gptcalc("params", "gpt2", "--format", "csv").out)))
    assert sum(int(row["total"]) for row in rows) == GPT2
    assert all(int(row["params"]) * int(row["count"]) == int(row["total"]) for row in rows)
    rows = list(csv.DictReader(io.StringIO(gptcalc("compare", "gpt2", "llama-3-8b", "--format", "csv").out)))
    assert [row["total"] for row in rows] == [str(GPT2), "8030261248"]


def csv_of(result: Result) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(result.out)))


@pytest.mark.parametrize("options", [(), ("--training",), ("--tp", "2"), ("--dtype", "q4_k_m")])
def test_csv_of_memory_adds_up_part_by_part(options: tuple[str, ...], gptcalc: Command) -> None:
    """Every byte stands in one row, so that a column's sum is the total, under the names of the JSON."""
    device = gptcalc("memory", "llama-3-8b", *options, "--json").json["per_device"]
    rows = csv_of(gptcalc("memory", "llama-3-8b", *options, "--format", "csv"))
    sums = {part: sum(int(row["bytes"]) for row in rows if row["part"] == part) for part in device if part != "total"}
    assert {**sums, "total": sum(sums.values())} == device
    assert sum(int(row["bytes"]) for row in rows) == device["total"]


def test_csv_of_fit_and_serve_adds_up(gptcalc: Command) -> None:
    rows = csv_of(gptcalc("fit", "gpt2", "--budget", "1GiB", "--format", "csv"))
    assert sum(int(row["bytes"]) for row in rows) == gptcalc("fit", "gpt2", "--budget", "1GiB", "--json").json["needed"]
    rows = csv_of(gptcalc("serve", "gpt2", "--budget", "4GiB", "--format", "csv"))
    assert sum(int(row["bytes"]) for row in rows) == 4 * 2**30
    assert {"weights", "available"} <= {row["part"] for row in rows}


def test_csv_of_diff_names_models_fields_figures_and_equations(gptcalc: Command) -> None:
    rows = csv_of(gptcalc("diff", "gpt2", "llama-3-8b", "--format", "csv"))
    found = {(row["kind"], row["name"]): (row["a"], row["b"]) for row in rows}
    assert found["model", "name"] == ("gpt2", "llama-3-8b")
    assert found["field", "d"] == ("768", "4096")  # n_embd and hidden_size of their configs
    assert found["figure", "total"] == (str(GPT2), "8030261248")
    equations = [(row["a"], row["b"]) for row in rows if row["kind"] == "equation"]
    assert ("H[t,f] = gelu_tanh(U[t,f])", "") in equations
    assert ("", "H[t,f] = silu(G[t,f])·U[t,f]") in equations


def test_a_list_of_words_is_no_shape(gptcalc: Command) -> None:
    rows = {row["key"]: row["value"] for row in csv_of(gptcalc("show", "gemma-3-1b", "--format", "csv"))}
    assert rows["aliases"] == "google/gemma-3-1b-it google/gemma-3-1b-pt"


def test_markdown_takes_no_sign_for_markup(gptcalc: Command) -> None:
    out = gptcalc("presets", "gemma-3-1b", "--columns", "model,layers", "--format", "markdown").out
    assert "n\\*\\[5\\*local+mlp attn+mlp\\]" in out


def test_markdown_is_tables(gptcalc: Command) -> None:
    lines = gptcalc("compare", "gpt2", "--columns", "model,total", "--format", "markdown").out.splitlines()
    assert lines == ["| model | parameters | ≈ |", "| --- | ---: | ---: |", "| gpt2 | 124,439,808 | 124 M |"]


@pytest.mark.parametrize("name", ["params", "kv", "flops", "compare", "presets", "show", "explain"])
@pytest.mark.parametrize("form", ["table", "json", "csv", "markdown"])
def test_every_format_of_every_command(name: str, form: str, gptcalc: Command) -> None:
    result = gptcalc(name, "gpt2", "--format", form)
    assert (result.status, result.err) == (0, "")
    assert result.out.strip()
    if form == "json":
        json.loads(result.out)


def test_unknown_formats(gptcalc: Command) -> None:
    result = gptcalc("params", "gpt2", "--format", "xml")
    assert (result.status, result.out, len(result.lines)) == (2, "", 1)


# --- files ------------------------------------------------------------------------------------------------------------


def test_output_to_a_file(gptcalc: Command, tmp_path: Path) -> None:
    path = tmp_path / "out"
    assert gptcalc("params", "gpt2", "--get", "total", "-o", path) == (0, "", "")
    assert path.read_text() == f"{GPT2}\n"
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_a_suffix_chooses_the_format(gptcalc: Command, tmp_path: Path) -> None:
    gptcalc("params", "gpt2", "-o", tmp_path / "out.json")
    assert json.loads((tmp_path / "out.json").read_text())["total"] == GPT2
    gptcalc("params", "gpt2", "-o", tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text().startswith("group,")
    gptcalc("params", "gpt2", "--format", "csv", "-o", tmp_path / "csv.json")
    assert (tmp_path / "csv.json").read_text().startswith("group,")


def test_a_file_keeps_its_mode_and_a_failure_keeps_the_file(gptcalc: Command, tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_text("before")
    path.chmod(0o600)
    assert gptcalc("params", "gpt2", "--get", "nothing", "-o", path).status == 2
    assert path.read_text() == "before"
    gptcalc("params", "gpt2", "--get", "total", "-o", path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    result = gptcalc("params", "gpt2", "-o", tmp_path / "nowhere" / "out")
    assert (result.status, result.out) == (2, "")
    assert "no such file or directory" in result.err
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_a_link_is_written_through(gptcalc: Command, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("target")
    (tmp_path / "target").write_text("before")
    gptcalc("params", "gpt2", "--get", "total", "-o", tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == f"{GPT2}\n"


# --- what is on which stream ------------------------------------------------------------------------------------------


def test_quiet(gptcalc: Command) -> None:
    assert gptcalc("kv", "llama-3-8b", "--context", "16K", "--quiet") == (0, "", "")
    assert gptcalc("kv", "llama-3-8b", "--context", "16K", "-q", "--get", "batch") == (0, "1\n", "")
    assert gptcalc("check", "gpt2", "--expect", "total=1", "-q") == (1, "", "")
    assert gptcalc("params", "nosuch", "-q").err != ""


def test_beyond_the_models_context(gptcalc: Command) -> None:
    result = gptcalc("kv", "llama-3-8b", "--context", "8193", "--get", "context")
    assert (result.status, result.out) == (0, "8193\n")
    assert result.lines == ["gptcalc: warning: context 8193 exceeds the 8192 that llama-3-8b is made for"]
    assert gptcalc("kv", "llama-3-8b", "--context", "8K").err == ""
    result = gptcalc("flops", "gpt2", "--max-model-len", "1025")
    assert (result.status, result.out) == (2, "")
    assert "learned table of 1024 positions" in result.err


def test_an_error_is_one_line(gptcalc: Command) -> None:
    result = gptcalc("params", "lama-3-8b")
    assert result == (2, "", "gptcalc: no preset 'lama-3-8b'; did you mean llama-3-8b?\n")


@pytest.mark.parametrize("flag", [("--json",), ("--format", "json"), ("--format=json",)])
def test_an_error_is_json_where_json_was_asked_for(flag: tuple[str, ...], gptcalc: Command) -> None:
    result = gptcalc("params", "lama-3-8b", *flag)
    assert (result.status, result.out, len(result.lines)) == (2, "", 1)
    assert json.loads(result.err) == {
        "error": {"kind": "unknown", "message": "no preset 'lama-3-8b'", "hint": "did you mean llama-3-8b?"}
    }
    assert json.loads(gptcalc("kv", "gpt2", "--contxt", "3", *flag).err)["error"]["kind"] == "usage"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("parms", "gpt2"), ("no command 'parms'", "did you mean params?")),
        (("zzz",), ("no command 'zzz'", "--help")),
        (("kv", "gpt2", "--contxt", "8"), ("no option --contxt", "did you mean --context?")),
        (("kv", "gpt2", "--zzz"), ("no option --zzz", "gptcalc kv --help")),
        (("kv",), ("missing argument 'MODEL...'",)),
        (("flops",), ("missing argument 'MODEL'",)),
        (("flops", "gpt2", "llama-3-8b"), ("unexpected extra argument",)),
        (("kv", "gpt2", "llama-3-8b"), ("--plot", "compare")),
        (("kv", "gpt2", "--context"), ("--context",)),
        (("compare",), ("no MODEL",)),
        (("check", "gpt2"), ("--expect",)),
        (("check", "gpt2", "--expect", "total"), ("KEY=VALUE",)),
        (("check", "gpt2", "--expect", "totl=1"), ("totl", "did you mean total?")),
        (("check", "gpt2", "--expect", "components=1"), ("not a single value", "components.embedding")),
        (("params", "gpt2", "--set", "n_heads"), ("KEY=VALUE",)),
        (("params", "gpt2", "--set", "n_head=12"), ("--set n_head=12", "did you mean n_heads?")),
        (("params", "gpt2", "--set", "n_heads=7"), ("--set n_heads=7", "768")),
        (("params", "gpt2", "--set", "tying=no"), ("--set tying", "true or false")),
        (("params", "gpt2", "--set", "d.x=1"), ("--set d.x", "not a section")),
        (("params", "gpt2", "--set", "attn.windw=4"), ("windw", "did you mean window?")),
        (("compare", "gpt2", "--columns", "totl"), ("totl", "did you mean total?")),
        (("compare", "gpt2", "--sort", "colour"), ("colour",)),
        (("presets", "--size", "7GiB"), ("7GiB",)),
        (("presets", "--year", "soon"), ("soon",)),
        (("presets", "--check", "nowhere"), ("nowhere", "no such folder")),
        (("params", "gpt2", "--why", "totl"), ("did you mean total?",)),
        (("params", "meta-llama/Meta-Llama-3-8"), ("neither an existing path nor a hub id",)),
        (("params", "./nosuch.yaml"), ("no such file",)),
        (("params", "nosuch.json"), ("no such file",)),
    ],
)
def test_wrong_usage_names_the_mend(arguments: tuple[str, ...], words: tuple[str, ...], gptcalc: Command) -> None:
    result = gptcalc(*arguments)
    assert (result.status, result.out, len(result.lines)) == (2, "", 1)
    for word in words:
        assert word in result.err


def test_help_and_version(gptcalc: Command) -> None:
    overview = gptcalc("--help").out
    for name in names():
        assert f"\n  {name} " in overview
        assert gptcalc(name, "--help").status == 0
    assert gptcalc() == gptcalc("-h") == (0, overview, "")
    assert gptcalc("--version").out.startswith("gptcalc ")


# --- models -----------------------------------------------------------------------------------------------------------

LLAMA = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 64, "intermediate_size": 96,
    "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 3, "vocab_size": 50,
    "max_position_embeddings": 32,
}  # fmt: skip
LLAMA_TOTAL = 2 * 50 * 64 + 64 + 3 * (2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 96 + 2 * 64)


def test_a_config_is_a_file_a_folder_or_standard_input(gptcalc: Command, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA))
    for reference in (path, tmp_path, f"{tmp_path}/"):
        assert gptcalc("params", reference, "--get", "total").out == f"{LLAMA_TOTAL}\n"
    assert gptcalc("params", "-", "--get", "total", stdin=path.read_bytes()).out == f"{LLAMA_TOTAL}\n"
    assert gptcalc("params", path, "--get", "model").out == f"{tmp_path.name}\n"


def test_show_converts_a_config(gptcalc: Command, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    shown = gptcalc("show", tmp_path)
    assert shown.status == 0
    (tmp_path / "mine.yaml").write_text(shown.out)
    assert gptcalc("params", tmp_path / "mine.yaml", "--get", "total").out == f"{LLAMA_TOTAL}\n"
    assert gptcalc("params", "-", "--get", "total", stdin=shown.out.encode()).out == f"{LLAMA_TOTAL}\n"
    assert gptcalc("show", "-", stdin=shown.out.encode()).out == shown.out
    as_json = gptcalc("show", tmp_path, "--json").out.encode()
    assert gptcalc("params", "-", "--get", "total", stdin=as_json).out == f"{LLAMA_TOTAL}\n"


def test_show_takes_edits(gptcalc: Command) -> None:
    shown = gptcalc("show", "gpt2", "--set", "n_kv_heads=4", "--set", "attn.softcap=5e1").out
    assert "\nn_kv_heads: 4\n" in shown
    assert "\nattn: {softcap: 50}\n" in shown


def test_a_hub_id_is_its_preset(gptcalc: Command) -> None:
    assert gptcalc("params", "Qwen/Qwen3-8B", "--get", "model").out == "qwen3-8b\n"
    assert gptcalc("params", "openai-community/gpt2", "--get", "model").out == "gpt2\n"


def test_a_path_comes_before_a_hub_id_and_a_bare_name_is_a_preset(
    gptcalc: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("openai-community/gpt2", "gpt2", "other"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "config.json").write_text(json.dumps(LLAMA))
    monkeypatch.chdir(tmp_path)
    assert gptcalc("params", "openai-community/gpt2", "--get", "total").out == f"{LLAMA_TOTAL}\n"
    assert gptcalc("params", "gpt2", "--get", "total").out == f"{GPT2}\n"
    result = gptcalc("params", "other")
    assert result.status == 2
    assert "write ./other" in result.err


def test_compare_sorts_and_chooses(gptcalc: Command) -> None:
    chosen = ("--columns", "model,total", "--sort", "-total", "--json")
    result = gptcalc("compare", "gpt2", "llama-3-8b", "gpt2-xl", *chosen)
    assert [row["model"] for row in result.json] == ["llama-3-8b", "gpt2-xl", "gpt2"]
    assert list(result.json[0]) == ["model", "total"]
    result = gptcalc("compare", "gpt2", "--all", "--columns", "model", "--json")
    assert len(result.json) > 20


def test_presets_filters(gptcalc: Command) -> None:
    def found(*arguments: str) -> set[str]:
        return {row["model"] for row in gptcalc("presets", *arguments, "--columns", "model", "--json").json}

    assert found("gpt2") == {"gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl"}
    assert found("gpt2-?l") == {"gpt2-xl"}
    assert "deepseek-v3" in found("--feature", "mla", "--feature", "moe")
    assert "llama-3-8b" not in found("--feature", "moe")
    assert "llama-3-8b" in found("--size", "8B", "--year", "2024")
    assert "llama-3-8b" not in found("--year", "..2023")
    assert found("--family", "gpt2") == found("gpt2")
    assert found("nosuch") == set()


def test_presets_check_fails_with_exit_1(gptcalc: Command, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("name: bad\nsource: x\nd: 8\nv: 10\nc: 4\nn_layers: 1\nn_head: 2\n")
    result = gptcalc("presets", "--check", tmp_path)
    assert result.status == 1
    assert "did you mean n_heads?" in result.out
    (tmp_path / "bad.yaml").write_text("name: good\nsource: x\nd: 8\nv: 10\nc: 4\nn_layers: 1\nn_heads: 2\nd_ff: 9\n")
    assert "name is good, the file's is bad" in gptcalc("presets", "--check", tmp_path).out


def test_check_compares_exactly(gptcalc: Command) -> None:
    right = [f"total={GPT2}", "kv.bytes_per_token=36,864", "tying=true", "flops.total=291648307200"]
    right.append("params.model=gpt2")
    options = [word for pair in right for word in ("--expect", pair)]
    assert gptcalc("check", "gpt2", *options, "--pairs", "full").status == 0
    result = gptcalc("check", "gpt2", *options, "--pairs", "full", "--expect", f"total={GPT2 + 1}", "--json")
    assert result.status == 1
    assert [row["ok"] for row in result.json["checks"]] == [True] * 5 + [False]
    assert result.json["checks"][-1] == {"name": "total", "expected": GPT2 + 1, "found": GPT2, "ok": False}
    assert gptcalc("check", "gpt2", "--expect", "tying=1").status == 1


def test_diff_shows_what_differs(gptcalc: Command) -> None:
    found = gptcalc("diff", "gpt2", "gpt2", "--set", "n_layers=24", "--json").json
    assert [field["field"] for field in found["fields"]] == ["n_layers", "layers"]
    figures = {row["figure"]: row for row in found["figures"]}
    assert figures["kv_bytes"]["ratio"] == 2.0
    assert figures["total"]["b"] - figures["total"]["a"] == 12 * (12 * 768**2 + 13 * 768)
    assert found["equations"] == {"a": [], "b": []}
    found = gptcalc("diff", "gpt2", "llama-3-8b", "--json").json
    assert found["context"] == 1024
    assert {"field": "attn.n_kv_heads", "a": 12, "b": 8} in found["fields"]


def test_diff_of_a_model_without_decode_steps(gptcalc: Command) -> None:
    for pair in (("gpt2", "bert-base"), ("bert-base", "gpt2")):
        figures = {row["figure"]: row for row in gptcalc("diff", *pair, "--json").json["figures"]}
        assert figures["decode_flops"]["ratio"] is None
        assert {figures["decode_flops"][side] is None for side in "ab"} == {True, False}
        assert gptcalc("diff", *pair).status == 0


def test_why_adds_up(gptcalc: Command) -> None:
    found = gptcalc("params", "gpt2", "--why", "total", "--json").json
    assert found["value"] == sum(row["amount"] for row in found["rows"]) == GPT2
    table = gptcalc("params", "gpt2", "--why", "total").out
    assert "W_Q" in table
    assert "confirmed by: the published figure" in table
    assert gptcalc("kv", "gpt2", "--why", "bytes", "--get", "value").out == gptcalc("kv", "gpt2", "--get", "bytes").out
    both = [gptcalc("flops", "gpt2", *more).out for more in (("--why", "macs", "--get", "value"), ("--get", "macs"))]
    assert both[0] == both[1]


@pytest.mark.parametrize("model", ["gpt2", "llama-3-8b", "deepseek-v3", "gpt-oss-20b", "gemma-2-9b"])
@pytest.mark.parametrize("phase", ["prefill", "decode", "train"])
def test_explain_adds_up_to_the_analyses(model: str, phase: str, gptcalc: Command) -> None:
    found = gptcalc("explain", model, "--phase", phase, "--context", "1K", "--json").json
    assert f"{found['params']}\n" == gptcalc("params", model, "--get", "total").out
    assert f"{found['flops']}\n" == gptcalc("flops", model, "--phase", phase, "--context", "1K", "--get", "total").out


def test_explain_shows_the_lines(gptcalc: Command) -> None:
    lines = gptcalc("explain", "gpt2").out.splitlines()
    (query,) = (line for line in lines if line.startswith("q[t,h,a] = "))
    assert query.split("  ")[0] == "q[t,h,a] = Σ_i n[t,i]·W_Q[i,h,a] + b_Q[h,a]"
    assert "768×12×64 + 12×64" in query
    assert "590,592" in query  # 768² + 768
    assert "1,207,959,552" in query  # 2 · 1024 · 768 · 768


# --- terminals --------------------------------------------------------------------------------------------------------


def test_a_pipe_gets_no_ornament_and_is_never_cut(gptcalc: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    wide = gptcalc("params", "deepseek-v3").out
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.delenv("FORCE_COLOR", raising=False)  # which asks for colour, wherever it goes
    assert gptcalc("params", "deepseek-v3").out == wide
    assert "\x1b" not in wide
    assert "█" not in wide
    assert max(map(len, wide.splitlines())) > 200


def test_a_terminal_gets_bars_and_colour(gptcalc: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    out = gptcalc("params", "gpt2", terminal=100).out
    assert "█" in out
    assert "\x1b[" in out
    monkeypatch.setenv("NO_COLOR", "1")
    plain = gptcalc("params", "gpt2", terminal=100).out
    assert "█" in plain
    assert "\x1b" not in plain


@pytest.mark.parametrize("width", [100, 60, 40, 24])
@pytest.mark.parametrize("arguments", [("params", "gpt2"), ("kv", "gemma-2-9b"), ("compare", "gpt2", "llama-3-8b")])
def test_a_narrow_terminal_keeps_each_figure_or_its_short_form(
    width: int, arguments: tuple[str, ...], gptcalc: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    out = gptcalc(*arguments, terminal=width).out
    widest = max(map(len, out.splitlines()))
    assert widest <= max(width, 40)
    for figure in {word for word in gptcalc(*arguments).out.split() if word.count(",") >= 2}:
        count = int(figure.replace(",", ""))
        short = (units.short_count(count), units.short_bytes(count), units.short_si(count, "FLOP"))
        assert figure in out or any(form in out for form in short)


# --- processes --------------------------------------------------------------------------------------------------------


def test_a_closed_pipe_is_silent() -> None:
    writer = subprocess.Popen([*MODULE, "presets"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert writer.stdout is not None
    assert writer.stderr is not None
    writer.stdout.close()
    errors = writer.stderr.read()
    writer.stderr.close()
    assert (writer.wait(), errors) == (0, b"")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
def test_a_full_disk_is_one_line() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run([*MODULE, "params", "gpt2"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2
    assert done.stderr == "gptcalc: standard output: no space left on device\n"


def test_ctrl_c() -> None:
    """Whatever runs the tests: a shell's background job hands an ignored interrupt on to its children."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        waiting = subprocess.Popen(
            [*MODULE, "params", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
    finally:
        signal.signal(signal.SIGINT, before)
    with pytest.raises(subprocess.TimeoutExpired):
        waiting.wait(timeout=1)
    waiting.send_signal(signal.SIGINT)
    assert waiting.communicate() == (b"", b"")
    assert waiting.returncode == 130


def test_in_the_shell() -> None:
    script = f'total=$({" ".join(MODULE)} params llama-3-8b --get total); test "$total" = 8030261248 && echo right'
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("right\n", "")


def test_completion_knows_commands_and_presets() -> None:
    def completed(words: str) -> list[str]:
        environment = {**os.environ, "_GPTCALC_COMPLETE": "complete_bash", "COMP_WORDS": words}
        environment["COMP_CWORD"] = str(len(words.split(" ")) - 1)
        code = "import sys; sys.argv = ['gptcalc']; from gptcalc.__main__ import main; main()"
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
        return done.stdout.split()

    assert completed("gptcalc comp") == ["compare"]
    assert set(completed("gptcalc params gpt2-")) == {"gpt2-medium", "gpt2-large", "gpt2-xl"}


@pytest.mark.parametrize("arguments", [("params", "gpt2", "--json"), ("kv", "gpt2", "--json"), ("params", "gpt2")])
def test_what_is_not_used_is_not_imported(arguments: tuple[str, ...]) -> None:
    watched = ("numpy", "rich", "yaml", "json", "gptcalc.reference", "gptcalc.report.plain")
    code = (
        f"import sys; from gptcalc.cli import run; run(sys.argv[1:]); print([m for m in {watched} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True)
    extra = ["gptcalc.report.plain"] if "--json" not in arguments else []
    assert done.stdout.splitlines()[-1] == str(extra)


def test_a_mistake_of_ours_is_one_line_too() -> None:
    code = "import gptcalc.cli; gptcalc.cli.run = lambda words: 1 / 0; from gptcalc.__main__ import main; main()"
    environment = {name: value for name, value in os.environ.items() if name != "GPTCALC_DEBUG"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith("gptcalc: internal error: ZeroDivisionError")


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["--feature", "windw"], "did you mean window?"),
        (["--feature", "quantum"], "one of "),
        (["--family", "qwn"], "did you mean qwen?"),
    ],
)
def test_a_family_or_feature_that_no_preset_has(
    words: list[str], part: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["presets", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert part in err
    assert err.count("\n") == 1
