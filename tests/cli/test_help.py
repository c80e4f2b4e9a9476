"""What --help says: every command has examples that run, every option stands in a panel, lines fit the terminal."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from gptcalc import cli
from gptcalc.cli.answer import Command as Declared
from gptcalc.cli.help import OWN, PANELS, Page, page
from gptcalc.options import plain
from tests.cli.test_broken import run
from tests.cli.test_documents import prepare
from tests.conftest import Command

PAGES: dict[str, Page] = {name: page("gptcalc", name, Declared(cli.function(name))) for name in cli.names()}


@pytest.mark.parametrize("name", PAGES)
def test_examples_of_every_command_run(
    name: str, gptcalc: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert PAGES[name].examples
    for example in PAGES[name].examples:
        program, command, *rest = shlex.split(example.line)
        result = gptcalc(command, *rest)
        assert program == "gptcalc"
        assert command == name
        assert result.status in ((0, 1) if name in ("fit", "serve") else (0,)), (example.line, result.err)
        assert "warning" not in result.err


@pytest.mark.parametrize("name", PAGES)
def test_every_option_is_told_once(name: str, gptcalc: Command) -> None:
    shown = gptcalc(name, "--help", terminal=100).out
    for parameter in Declared(cli.function(name)).parameters:
        if not plain(parameter.annotation)[2].positional:
            told = [entry for _, entries in PAGES[name].panels for entry in entries]
            assert sum(parameter.words[0] in entry.words.replace(",", "").split() for entry in told) == 1
            assert parameter.words[0] in shown
    for example in PAGES[name].examples:
        assert f"  {example.line}" in shown


def test_panels_name_options_that_are_there() -> None:
    known = {parameter.name for name in PAGES for parameter in Declared(cli.function(name)).parameters}
    listed = [name for names in PANELS.values() for name in names]
    assert set(listed) <= known
    assert len(listed) == len(set(listed))
    assert OWN not in PANELS


def test_an_overview_has_every_command_under_a_title(gptcalc: Command) -> None:
    shown = gptcalc("--help", terminal=200).out
    for title, names in cli.groups().items():
        assert f"\n{title}:\n" in shown or f"\n\x1b[1m{title}\x1b[0m\n" in shown
        for name in names:
            assert f"{PAGES[name].summary}\n" in shown
    assert [name for names in cli.groups().values() for name in names] == cli.names()


@pytest.mark.parametrize("width", [30, 40, 60, 80, 120])
def test_only_lines_to_copy_are_wider_than_the_terminal(width: int, gptcalc: Command) -> None:
    copied = {example.line for shown in PAGES.values() for example in shown.examples}
    for name in ("", *PAGES):
        for line in gptcalc(*filter(None, [name]), "--help", terminal=width).out.splitlines():
            words = line.replace("\x1b[1m", "").replace("\x1b[0m", "")
            assert len(words) <= width or words.strip() in copied or len(words.split()) == 1, (name, line)


@pytest.mark.skipif(sys.platform == "win32", reason="bash")
def test_help_that_nobody_reads() -> None:
    assert run("params", "--help", shell='exec 4> >(true); sleep .3; "$@" >&4').returncode == 0
    closed = run("params", "--help", shell='"$@" >&-')
    assert closed.returncode == 2
    assert "standard output: it is closed" in closed.stderr
