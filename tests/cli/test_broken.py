"""Inputs and surroundings that broke the program once: an answer stays the answer, and what is wrong is one line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Command

GPTCALC = [sys.executable, "-m", "gptcalc"]
TINY = {"name": "tiny", "d": 16, "v": 20, "c": 8, "n_heads": 2, "n_layers": 2, "d_ff": 32}


def run(*arguments: str | Path, shell: str = "", cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own; with `shell`, as that line says, "$@" being the command."""
    command = [*GPTCALC, *map(str, arguments)]
    if shell:
        command = ["bash", "-c", shell, "bash", *command]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=cwd, env=environment)


def written(folder: Path, document: object, name: str = "m.json") -> Path:
    path = folder / name
    path.write_text(document if isinstance(document, str) else json.dumps(document), encoding="utf-8")
    return path


# --- a reader that has gone, streams that are closed ------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [("check", "gpt2", "--expect", "total=1"), ("fit", "gpt2", "--budget", "1MiB")])
def test_a_no_stays_a_no_where_nobody_reads(arguments: tuple[str, ...]) -> None:
    found = run(*arguments, shell='exec 4> >(true); sleep .3; "$@" >&4')
    assert found.returncode == 1


def test_a_yes_stays_a_yes_where_nobody_reads() -> None:
    assert (
        run("check", "gpt2", "--expect", "total=124439808", shell='exec 4> >(true); sleep .3; "$@" >&4').returncode == 0
    )


@pytest.mark.parametrize("shell", ['"$@" 2>&-', '"$@" 2>/dev/full'])
def test_wrong_input_is_wrong_without_stderr(shell: str) -> None:
    assert run("params", "no-such-model", shell=shell).returncode == 2


def test_an_answer_needs_somewhere_to_go(tmp_path: Path) -> None:
    closed = run("params", "gpt2", shell='"$@" >&-')
    assert closed.returncode == 2
    assert "standard output" in closed.stderr
    assert run("params", "gpt2", "-o", str(tmp_path / "x.txt"), shell='"$@" >&-').returncode == 0


@pytest.mark.parametrize("shell", ['"$@" <&-', '"$@" 0>/dev/null'])
def test_standard_input_that_cannot_be_read_is_named(shell: str) -> None:
    found = run("params", "-", shell=shell)
    assert (found.returncode, found.stdout) == (2, "")
    assert found.stderr.startswith("gptcalc: standard input: ")


def test_a_hyphen_is_standard_output(tmp_path: Path) -> None:
    assert "124,439,808" in run("params", "gpt2", "-o", "-", cwd=tmp_path).stdout
    assert not list(tmp_path.iterdir())


def test_json_in_ascii_loses_nothing() -> None:
    found = run("params", "gpt2", "--json", shell='PYTHONIOENCODING=ascii "$@"')
    assert json.loads(found.stdout)["formula"] == json.loads(run("params", "gpt2", "--json").stdout)["formula"]
    assert "·" in json.loads(found.stdout)["formula"]


# --- what files and arguments may hold --------------------------------------------------------------------------------

Refusal = tuple[str, Callable[[Path], Path], str]
REFUSALS: list[Refusal] = [
    ("deep JSON", lambda p: written(p, '{"d":' + "[" * 900 + "]" * 900 + "}"), "nested deeper than 64"),
    ("a deep note", lambda p: written(p, json.dumps(TINY)[:-1] + ',"note":' + "[" * 200 + "]" * 200 + "}"), "deeper"),
    ("an infinite number", lambda p: written(p, json.dumps({**TINY, "softcap": float("inf")})), "a finite number"),
    ("digits of another script", lambda p: written(p, {**TINY, "layers": "٢*attn+mlp"}), "unexpected"),
    ("very many sublayers", lambda p: written(p, {**TINY, "layers": "+".join(["mlp"] * 9000)}), "use counts"),
    ("half a character", lambda p: written(p, json.dumps(TINY)[:-1] + ',"\\ud800":1}'), "unknown key"),
    ("a long number", lambda p: written(p, json.dumps(TINY)[:-1] + ',"d_head": ' + "9" * 10**6 + "}"), "digits"),
    ("a family that is none", lambda p: written(p, {**TINY, "family": ["a"]}), "family: expected a text"),
    ("a total that is none", lambda p: written(p, {**TINY, "published": {"total": "many"}}), "published.total"),
    ("endless iterations", lambda p: written(p, {**TINY, "streams": {"n": 2, "iterations": 10**9}}), "iterations"),
    ("endless predictions", lambda p: written(p, {**TINY, "mtp": 10**9}), "1,000"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "made", "expected"), REFUSALS, ids=[name for name, _, _ in REFUSALS])
def test_refused_in_one_line(tmp_path: Path, name: str, made: Callable[[Path], Path], expected: str) -> None:  # noqa: ARG001
    found = run("params", made(tmp_path))
    assert (found.returncode, found.stdout) == (2, "")
    assert expected in found.stderr
    assert found.stderr.count("\n") == 1
    assert len(found.stderr) < 2500


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("trace", "gpt2", "--tokens=--1"), "--tokens: '--1'"),
        (("trace", "gpt2", "--tokens", "٣"), "--tokens:"),
        (("trace", "gpt2", "--tokens", "1", "--seed", "-1"), "--seed -1"),
        (("trace", "llama-3-8b", "--context", "9" * 20), "--context"),
        (("trace", "llama-3-8b", "--context", "1M", "--decode", "100000"), "--decode"),
        (("show", "gpt2", "--set", "published" + ".a" * 2000 + "=1"), "nested deeper"),
        (("check", "gpt2", "--write", "/proc/x"), "--write /proc/x"),
    ],
)
def test_refused_arguments(arguments: tuple[str, ...], expected: str) -> None:
    found = run(*arguments)
    assert (found.returncode, found.stdout) == (2, "")
    assert expected in found.stderr


@pytest.mark.parametrize("digits", ["٣", "9" * 5000])
@pytest.mark.parametrize(
    "line",
    [
        "time gpt2 --device a10 --mbu {}%",
        "memory gpt2 --training --lora {}",
        "kv gpt2 --with gqa:{}",
        "memory gpt2 --engine vllm --engine-version 0.{}",
        "memory gpt2 --dtype int4:{}",
        "params gpt2 --why groups.{}.total",
        "train gpt2 --device a10 --tokens 1T --price {}",
        "trace gpt2 --tokens 1 --seed {}",
        "presets --year {}",
        "presets --where total>{}e9",
        "sweep gpt2 --set n_layers=1,2 --part 1/{}",
    ],
)
def test_numbers_are_in_our_digits_and_not_endless(line: str, digits: str, gptcalc: Command) -> None:
    found = gptcalc(*line.format(digits).split())
    assert (found.status, found.out, len(found.lines)) == (2, "", 1)
    assert "internal error" not in found.err
    assert len(found.err) < 400


@pytest.mark.parametrize("word", ["\udcff", "‮", "\x9b"])
def test_errors_are_plain_in_json_too(word: str) -> None:
    found = run("show", "gpt2", word, "--json")
    assert found.returncode == 2
    assert found.stderr.isascii()
    assert json.loads(found.stderr)["error"]["kind"] == "usage"


@pytest.mark.parametrize("line", ["sweep gpt2 --set n_layers=6,12", "design --like gpt2 --free n_layers=6 --fits 1GiB"])
def test_a_grid_s_batch_is_no_larger_than_its_arrays_count(line: str, gptcalc: Command) -> None:
    found = gptcalc(*line.split(), "--batch", "9" * 20)
    assert (found.status, found.out, len(found.lines)) == (2, "", 1)
    assert f"--batch {'9' * 20}: a grid has fewer than 2⁶³ tokens" in found.err


@pytest.mark.parametrize("command", ["params gpt2", "page", "compare gpt2 gpt2-xl"])
@pytest.mark.parametrize("setting", ["d=\udcff", "mlp=\udcff", "name=\udcff", "published.a=\udcff"])
def test_a_setting_in_another_encoding_is_a_word_like_others(command: str, setting: str, gptcalc: Command) -> None:
    """Said once, however many models it is laid over."""
    found = gptcalc(*command.split(), "--set", setting)
    assert found.status in (0, 2)
    assert found.status == 0 or (found.out, len(found.lines), found.err.count("with --set")) == ("", 1, 1)
    assert "internal error" not in found.err


def test_nothing_is_written_where_a_question_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "costs.lock"
    assert run("check", "gpt2", "--write", path, "--expect", "nothing.like=1").returncode == 2
    assert not path.exists()


def test_names_steer_neither_terminals_nor_spreadsheets_nor_pages(tmp_path: Path) -> None:
    path = written(tmp_path, {**TINY, "name": "=1+1|<b>*x*\x1b[31m"})
    table = run("params", path).stdout
    assert "\x1b" not in table
    assert "'=1+1" in run("compare", path, "--format", "csv").stdout
    page = run("params", path, "--format", "markdown").stdout
    assert "<b>" not in page
    assert "\\*x\\*" in page


# --- the witness on models that are odd but valid ---------------------------------------------------------------------


def test_a_small_copy_is_small() -> None:
    """Many sections of different sizes: no copy has heads by the thousand."""
    from gptcalc.analysis.params import params
    from gptcalc.document import build
    from gptcalc.reference.shrink import shrink

    sections = {f"a{n}": {"like": "attn", "n_heads": 2 * n, "n_kv_heads": n, "d_head": 2 * n} for n in range(2, 14)}
    layers = " ".join(f"1*{name}+mlp" for name in sections)
    model = build({**TINY, "n_layers": len(sections), "layers": layers, **sections})
    assert params(shrink(model)).total < 2_000_000


def test_very_deep_models_are_validated() -> None:
    from gptcalc.document import build
    from gptcalc.validate import validate

    assert validate(build({**TINY, "n_layers": 1_000_000})).ok


def test_no_warning_of_numpy_reaches_the_user(tmp_path: Path) -> None:
    found = run("trace", written(tmp_path, {**TINY, "logit_scale": 1e300}), "--tokens", "1,2", "--get", "context")
    assert (found.returncode, found.stdout, found.stderr) == (0, "2\n", "")


# --- small things that misled -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", ["", ","])
def test_no_column_at_all(columns: str) -> None:
    found = run("compare", "gpt2", "--columns", columns)
    assert (found.returncode, found.stdout) == (2, "")
    assert found.stderr.startswith("gptcalc: --columns: ")


@pytest.mark.parametrize(
    ("name", "never"),
    [
        ("gpt3x", "gpt2"),
        ("gpt2-124m", "opt"),
        ("mamba-2.9b", "gemma"),
        ("Qwen3-236B", "32b"),
        ("llama-7b-hf", "codellama"),
    ],
)
def test_another_model_is_never_suggested(name: str, never: str) -> None:
    found = run("params", name)
    assert found.returncode == 2
    assert never not in found.stderr.partition(";")[2]


@pytest.mark.parametrize(("name", "suggested"), [("llama3-8b", "llama-3-8b"), ("qwen3-235b", "qwen3-235b-a22b")])
def test_the_same_model_is(name: str, suggested: str) -> None:
    assert f"did you mean {suggested}" in run("params", name).stderr


def test_spellings_that_people_know() -> None:
    assert run("params", "GPT2", "--get", "total").stdout == "124439808\n"
    assert run("fit", "gpt2", "--budget", "24gb", "--get", "budget").stdout == "24000000000\n"
    assert run("show", "gpt2", "--set", "c=2K").stdout.count("c: 2048") == 1
    assert run("show", "gpt2", "--set", "num_hidden_layers=6").stdout.count("n_layers: 6") == 1


def test_several_values() -> None:
    assert run("params", "gpt2", "--get", "total,tying", "--get", "mtp").stdout == "124439808\ntrue\n0\n"


def test_the_unit_of_a_range_is_of_both_ends() -> None:
    from gptcalc import units

    assert units.span("7..9B") == (7 * 10**9, 9 * 10**9)


def test_nothing_to_check_is_not_right(tmp_path: Path) -> None:
    assert run("presets", "--check", tmp_path).returncode == 2


def test_a_lock_file_has_its_own_settings(tmp_path: Path) -> None:
    lock = tmp_path / "costs.yaml"
    assert run("check", "gpt2", "--write", lock).returncode == 0
    assert run("check", "gpt2", "--expect", lock).returncode == 0
    found = run("check", "gpt2", "--expect", lock, "--context", "512")
    assert found.returncode == 0
    assert "settings of its own" in found.stderr


def test_what_confirms_a_figure_is_in_the_json() -> None:
    assert "published figure" in json.loads(run("params", "gpt2", "--why", "total", "--json").stdout)["confirmed_by"]


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({"model_type": "gpt_neo", "num_layers": 2, "attention_types": [[[["x"]], 2]]}, "attention_types"),
        ({"model_type": "gpt_neo", "num_layers": 2, "attention_types": [[[], 10**30]]}, "attention_types"),
        ({"model_type": "gemma3_text", "query_pre_attn_scalar": 0}, "query_pre_attn_scalar"),
        ({"model_type": "llama4_text", "num_hidden_layers": 2, "layer_types": [["a"], ["b"]]}, "layer_types"),
    ],
)
def test_odd_values_of_a_config_are_named(tmp_path: Path, config: dict[str, object], field: str) -> None:
    found = run("params", written(tmp_path, config, "config.json"))
    assert (found.returncode, found.stdout) == (2, "")
    assert field in found.stderr
    assert "internal error" not in found.stderr


def test_a_file_that_cannot_be_written_is_one_line_beside_no_notes(tmp_path: Path) -> None:
    """Notes of reading say nothing where there is no answer."""
    config = written(
        tmp_path,
        {
            "model_type": "llama",
            "hidden_size": 64,
            "num_hidden_layers": 1,
            "vocab_size": 50,
            "num_attention_heads": 4,
            "intermediate_size": 96,
        },
        "config.json",
    )
    assert "note: " in run("params", config).stderr
    found = run("params", config, "-o", str(tmp_path / "no" / "such.json"))
    assert (found.returncode, found.stdout, found.stderr.count("\n")) == (2, "", 1)


@pytest.mark.parametrize(
    "arguments", [("params",), ("validate",), ("sweep", "gpt2", "--points"), ("check", "--expect")]
)
def test_a_file_deep_in_folders_is_named_whole(arguments: tuple[str, ...], gptcalc: Command, tmp_path: Path) -> None:
    folder = tmp_path / "/".join(["a_folder_with_a_long_name"] * 12)
    folder.mkdir(parents=True)
    file = written(folder, "{", "points.csv" if "--points" in arguments else "config.json")
    found = gptcalc(*arguments, str(file), *(["gpt2"] if "--expect" in arguments else []))
    assert (found.status, found.out, len(found.lines)) == (2, "", 1)
    assert str(file) in found.err


CHAIN = {"layers": "2*a999+mlp", **{f"a{n}": {"like": f"a{n - 1}" if n else "attn"} for n in range(1000)}}


def test_a_long_chain_of_sections_is_refused(gptcalc: Command, tmp_path: Path) -> None:
    found = gptcalc("params", written(tmp_path, {**TINY, **CHAIN}))
    assert (found.status, found.out, len(found.lines)) == (2, "", 1)
    assert "a999.like: more than 64 sections" in found.err


def test_any_name_can_be_set_in_a_table_and_in_latex(gptcalc: Command, tmp_path: Path) -> None:
    """An escape sequence, a mark that turns the line round, and what LaTeX has no word for."""
    path = written(tmp_path, {**TINY, "name": "a\x1b[31m\u202e模"})
    for arguments in (("diff", path, path), ("diff", path, path, "--format", "markdown")):
        assert not {"\x1b", "\u202e"} & set(gptcalc(*arguments).out)
    found = gptcalc("explain", path, "--format", "latex")
    assert found.status == 0
    assert not {"\x1b", "\u202e", "模"} & set(found.out)
    assert "a\\texttt{U+001B}[31m\\texttt{U+202E}\\texttt{U+6A21}" in found.out


def test_a_folder_that_cannot_be_read_is_neither_empty_nor_missing(
    gptcalc: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the system answers who is not root."""

    def refused(path: object, *_: object, **__: object) -> list[str]:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "listdir", refused)
    found = gptcalc("presets", "--check", tmp_path)
    assert (found.status, found.out) == (2, "")
    assert "permission denied" in found.err
    monkeypatch.setattr(os, "lstat", refused)
    assert "permission denied" in gptcalc("params", tmp_path / "closed" / "config.json").err
