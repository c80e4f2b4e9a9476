"""A command line read without Typer means what Typer takes it to mean."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gptcalc import cli
from gptcalc.cli import application, words
from gptcalc.cli.answer import Command
from gptcalc.cli.parameters import structs
from gptcalc.errors import InputError
from gptcalc.options import Option, choices, plain

COMMANDS = {name: Command(cli.function(name)) for name in cli.names()}
VALUES = (
    "gpt2", "llama-3-8b", "8K", "8k", "2", "0", "-1", "+3", "1_000", "١", "fp8", "24GiB", "24", "90%", "0.9", "1.5", "",
    "-", "--", "-q", "=", "a=b", "--json", "all", "none", "table", "component", "eager", "é", "x y",
)  # fmt: skip


class Values(Exception):
    """What Typer made of a line."""


def by_typer(name: str, line: list[str]) -> Any:
    """The values that Typer calls a command with, the words of its complaint, or an exit status."""

    class Caught(Command):
        def __call__(self, values: dict[str, Any]) -> Any:
            raise Values(values)

    try:
        return application.answered("gptcalc", {name: Caught(COMMANDS[name].function)}, [name, *line])
    except Values as values:
        return values.args[0]
    except InputError as error:
        return error.message


def plainly(name: str, line: list[str]) -> Any:
    try:
        return words.read(COMMANDS[name].parameters, line)
    except InputError as error:
        return error.message


@st.composite
def lines(draw: st.DrawFn) -> tuple[str, list[str]]:
    """A command and words that its options know, and some that none does."""
    name = draw(st.sampled_from(sorted(COMMANDS)))
    spellings = [word for p in COMMANDS[name].parameters for word in p.words]
    known = [str(choice) for p in COMMANDS[name].parameters for choice in choices(plain(p.annotation)[0])]
    value = st.sampled_from([*VALUES, *known])
    joined = st.builds("{}={}".format, st.sampled_from(spellings), value)
    return name, draw(st.lists(st.one_of(value, value, st.sampled_from(spellings), joined), max_size=7))


@given(lines())
def test_what_is_read_is_what_typer_reads(drawn: tuple[str, list[str]]) -> None:
    name, line = drawn
    found = plainly(name, line)
    if found is not None:
        assert found == by_typer(name, line)


@pytest.mark.parametrize(
    "line",
    [
        "params gpt2",
        "params gpt2 --json --set d=8 --set v=9 --get total",
        "params --by=group gpt2 -o file",
        "kv gpt2 --context 8K --batch-size=3",
        "memory gpt2 --zero 3 --training --dp 8",
        "fit gpt2 --device rtx-4090 --utilization 90%",
        "compare gpt2 -- --json",
        "check gpt2 --expect total=3",
        "presets",
    ],
)
def test_usual_lines_need_no_typer(line: str) -> None:
    name, *rest = line.split()
    found = plainly(name, rest)
    assert isinstance(found, dict)
    assert found == by_typer(name, rest)


@pytest.mark.parametrize("line", ["params", "params gpt2 --help", "params gpt2 --jsn", "params a b", "kv gpt2 -qo x"])
def test_the_rest_is_typers(line: str) -> None:
    name, *rest = line.split()
    assert plainly(name, rest) is None


def test_every_option_is_declared_once() -> None:
    """Each parameter that is no struct has an option, and no two of a command are spelled alike."""
    for command in COMMANDS.values():
        assert all(isinstance(plain(p.annotation)[2], Option) and not structs(p.annotation) for p in command.parameters)
        spellings = [word for p in command.parameters if not plain(p.annotation)[2].positional for word in p.words]
        assert len(spellings) == len(set(spellings))
