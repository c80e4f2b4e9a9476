"""Lists: conditions, hidden columns, several unknown names, colour, pagers, presets of one's own."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gptcalc.cli import answer
from gptcalc.sources import preset
from tests.conftest import Command, Terminal

MODELS = ("gpt2", "llama-3-8b", "mixtral-8x7b")


def shown(result: object) -> list[str]:
    return [row["model"] for row in result.json]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        ("total>=8B", ["llama-3-8b", "mixtral-8x7b"]),
        ("total<124439808", []),
        ("total<=124439808", ["gpt2"]),
        ("attention=gqa", ["llama-3-8b", "mixtral-8x7b"]),
        ("attention!=GQA", ["gpt2"]),
        ("features=moe", ["mixtral-8x7b"]),
        ("tying=yes", ["gpt2"]),
        ("kv_bytes < 1GiB", ["gpt2"]),
        ("kv_bytes<=1GiB", ["gpt2", "llama-3-8b"]),  # 8192 tokens of 2 · 32 · 8 · 128 numbers in 16 bits
        ("c>8K", ["mixtral-8x7b"]),
        ("prefill_flops>1e12", ["llama-3-8b", "mixtral-8x7b"]),
        ("n_experts=8", ["mixtral-8x7b"]),
        ("total < 1e9 or attention = GQA and d_ff = 14336", ["gpt2", "llama-3-8b", "mixtral-8x7b"]),
        ("total >= 7B and n_experts = 8 or c == 1024", ["gpt2", "mixtral-8x7b"]),
    ],
)
def test_where(condition: str, kept: list[str], gptcalc: Command) -> None:
    assert shown(gptcalc("compare", *MODELS, "--where", condition, "--json")) == kept


def test_where_twice_and_among_presets(gptcalc: Command) -> None:
    found = gptcalc("presets", "gpt2", "--where", "total>1B", "--where", "n_layers<50", "--columns", "model", "--json")
    assert shown(found) == ["gpt2-xl"]


@pytest.mark.parametrize(
    ("condition", "problem"),
    [
        ("total", "is no condition"), ("totl>7B", "did you mean total?"), ("attention>GQA", "attention is a word"),
        ("total>7GiB", "not a number of parameters"), ("kv_bytes>7B7", "not a"), ("", "is no condition"),
    ],
)  # fmt: skip
def test_no_condition(condition: str, problem: str, gptcalc: Command) -> None:
    result = gptcalc("compare", *MODELS, "--where", condition)
    assert (result.status, result.out, len(result.lines)) == (2, "", 1)
    assert problem in result.err


def test_sorted_by_what_is_not_shown(gptcalc: Command) -> None:
    rows = gptcalc("compare", *MODELS, "--columns", "model", "--sort", "-active", "--json").json
    assert rows == [{"model": "mixtral-8x7b"}, {"model": "llama-3-8b"}, {"model": "gpt2"}]
    assert gptcalc("compare", *MODELS, "--sort", "actve").err.endswith("did you mean active?\n")


@pytest.mark.parametrize("command", ["compare", "validate"])
def test_all_unknown_models_are_named_at_once(command: str, gptcalc: Command) -> None:
    result = gptcalc(command, "gpt2", "llama-3-8c", "nonesuch")
    assert (result.status, result.out, len(result.lines)) == (2, "", 1)
    assert "'llama-3-8c'" in result.err
    assert "'nonesuch'" in result.err


@pytest.mark.parametrize(
    ("variables", "terminal", "coloured"),
    [
        ({}, None, False), ({}, 100, True), ({"TERM": "dumb"}, 100, False), ({"NO_COLOR": "1"}, 100, False),
        ({"FORCE_COLOR": "1"}, None, True), ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, 100, False),
        ({"FORCE_COLOR": ""}, None, False), ({"FORCE_COLOR": "1", "TERM": "dumb"}, None, True),
    ],
)  # fmt: skip
def test_colour(
    variables: dict[str, str], terminal: int | None, coloured: bool, gptcalc: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert ("\x1b[" in gptcalc("params", "gpt2", terminal=terminal).out) == coloured


# --- pagers -----------------------------------------------------------------------------------------------------------


class Keyboard(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("pager", "text", "is_list", "is_paged"),
    [
        ("cat >", "line\n" * 60, True, True),
        ("cat >", "line\n" * 5, True, False),
        ("cat >", "line\n" * 60, False, False),
        ("", "line\n" * 60, True, False),
        ("cat", "line\n" * 60, True, False),
        ("no-such-pager-at-all", "line\n" * 60, True, False),
    ],
)
def test_long_lists_go_through_a_pager(
    pager: str, text: str, is_list: bool, is_paged: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    file = tmp_path / "seen"
    monkeypatch.setenv("PAGER", f"{pager} '{file}'" if pager.endswith(">") else pager)
    monkeypatch.setenv("LINES", "24")
    monkeypatch.setattr(sys, "stdout", Terminal())
    monkeypatch.setattr(sys, "stdin", Keyboard())
    made = answer.Answer({}, lambda: answer.show("rows", [], [])(), is_list=is_list)
    assert answer.paged(text, made) == is_paged
    assert (file.read_text() if file.exists() else None) == (text if is_paged else None)
    capfd.readouterr()  # what the shell says of a pager that isn't there


def test_no_pager_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAGER", "cat > /nowhere")
    made = answer.Answer({}, lambda: answer.show("rows", [], [])(), is_list=True)
    assert not answer.paged("line\n" * 100, made)


# --- presets of one's own ---------------------------------------------------------------------------------------------

MINI = "name: mini\nsource: mine\nd: 64\nv: 100\nc: 128\nn_heads: 4\nn_layers: 2\nd_ff: 96\n"
#: tables and output, then a layer's projections and norms, and the last norm
TOTAL = 2 * 100 * 64 + 2 * (4 * 64**2 + 3 * 64 * 96 + 2 * 64) + 64


def test_presets_of_ones_own(gptcalc: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file.yaml"
    file.write_text(MINI)
    monkeypatch.setenv("GPTCALC_PRESETS", os.pathsep.join([str(tmp_path / "mine"), str(tmp_path / "theirs")]))
    assert gptcalc("params", "mini").status == 2
    result = gptcalc("presets", "--add", file)
    assert (result.status, result.out) == (0, f"written: {tmp_path / 'mine' / 'mini.yaml'}\n")
    assert gptcalc("params", "mini", "--get", "total").out == f"{TOTAL}\n"
    assert "mini" in preset.names()
    listed = gptcalc("presets", "mini", "--columns", "model,total")
    assert "mini" in listed.out
    assert "of your own: mini" in listed.err
    assert gptcalc("presets", "gpt2-xl").err == ""
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "gpt2.yaml").write_text(MINI.replace("mini", "gpt2"))
    assert gptcalc("params", "gpt2", "--get", "total").out == "124439808\n"  # none takes another's place


def test_what_is_not_added(gptcalc: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file.yaml"
    file.write_text(MINI.replace("mini", "gpt2"))
    monkeypatch.setenv("GPTCALC_PRESETS", str(tmp_path / "mine"))
    assert "comes with gptcalc" in gptcalc("presets", "--add", file).err
    file.write_text(MINI.replace("mini", "../mini"))
    assert "no name of a preset" in gptcalc("presets", "--add", file).err
    file.write_text(MINI.replace("d: 64", "d: -1"))
    assert gptcalc("presets", "--add", file).status == 2
    file.write_text(MINI)
    monkeypatch.setenv("GPTCALC_PRESETS", "")
    assert "GPTCALC_PRESETS is empty" in gptcalc("presets", "--add", file).err
    assert not (tmp_path / "mine").exists()


@pytest.mark.parametrize(
    ("platform", "variables", "folder"),
    [
        ("linux", {"HOME": "/home/me"}, "/home/me/.local/share/gptcalc/presets"),
        ("linux", {"HOME": "/home/me", "XDG_DATA_HOME": "/data"}, "/data/gptcalc/presets"),
        ("darwin", {"HOME": "/Users/me"}, "/Users/me/Library/Application Support/gptcalc/presets"),
    ],
)
def test_the_folder_of_each_platform(
    platform: str, variables: dict[str, str], folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GPTCALC_PRESETS", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "platform", platform)
    assert preset.own_folders() == [folder]


def test_a_start_looks_at_one_file(tmp_path: Path) -> None:
    """A preset that comes with the program is found without looking for others."""
    own = tmp_path / "unreadable"
    own.write_text("no folder")
    environment = {**os.environ, "GPTCALC_PRESETS": str(own)}
    done = subprocess.run(
        [sys.executable, "-m", "gptcalc", "params", "gpt2", "--get", "total"],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("124439808\n", "")


def test_both_unknown_models_of_a_diff_are_named(gptcalc: Command) -> None:
    found = gptcalc("diff", "no-such-one", "no-such-other", "--set", "d=8")
    assert (found.status, found.out, len(found.lines)) == (2, "", 1)
    assert "'no-such-one'" in found.err
    assert "'no-such-other'" in found.err


@pytest.mark.parametrize("width", [80, 160])
def test_help_is_as_wide_as_the_terminal(width: int, gptcalc: Command) -> None:
    lines = gptcalc("memory", "--help", terminal=width).out.splitlines()
    assert width - 20 < max(map(len, lines)) <= width


def test_files_that_are_no_presets_do_not_spoil_a_list(
    tmp_path: Path, gptcalc: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What lies in the folder of one's own presets: files without a name, folders, links in a circle, broken ones."""
    monkeypatch.setenv("GPTCALC_PRESETS", str(tmp_path))
    (tmp_path / ".yaml").write_text("")
    (tmp_path / "x y.yaml").write_text("d: 8")
    (tmp_path / "folder.yaml").mkdir()
    (tmp_path / "circle.yaml").symlink_to("circle.yaml")
    (tmp_path / "broken.yaml").write_text("name: broken\n")
    (tmp_path / "mine.yaml").write_text("{name: mine, d: 16, v: 20, c: 8, n_heads: 2, n_layers: 1, d_ff: 8}")
    listed = gptcalc("presets", "--columns", "model")
    assert listed.status == 0
    assert "mine" in listed.out.split()
    assert [line for line in listed.lines if "left out" in line] == [
        "gptcalc: note: left out, of your own: broken: d is missing"
    ]
    assert gptcalc("compare", "--all", "--columns", "model").status == 0
    assert gptcalc("params", "broken").err == "gptcalc: broken: d is missing\n"
    assert gptcalc("params", "circle").status == gptcalc("params", "folder").status == 2
