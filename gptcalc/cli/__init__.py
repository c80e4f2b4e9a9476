"""The command line: parse, call, show. One file a command in `commands`; this one runs them and reports what is wrong.

Exit status: 0 done or yes, 1 the answer is no, 2 wrong usage or input (one line on stderr), 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from gptcalc.cli import words
from gptcalc.cli.answer import Answer, Command, Output, complain, deliver, drop_output
from gptcalc.errors import InputError, did_you_mean, file_name, printable

NAME = "gptcalc"

#: the commands as --help groups them; one that is not named here comes behind
GROUPS = {
    "What a model costs": ("params", "kv", "flops", "memory", "fit", "serve", "time", "train"),
    "Several models": ("compare", "diff", "sweep", "design"),
    "What is known": ("presets", "devices", "keys", "columns", "dtypes", "types"),
    "Inside a model": ("show", "explain", "page", "trace", "validate", "check"),
}

#: characters of an error that are shown
MOST = 2000


def run(arguments: Sequence[str]) -> int:
    """Run one command line; the exit status."""
    try:
        status = _run(list(arguments))
        if sys.stdout is not None:
            sys.stdout.flush()
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # while help was shown: an answer's own status is kept where it is written
        drop_output()
        return 0
    except OSError as error:
        _report(InputError(f"{_place(error)}: {(error.strerror or str(error)).lower()}", kind="file"), arguments)
        return 2
    return status


def _place(error: OSError) -> str:
    """What could not be read or written: a file, where the system names one."""
    if error.filename is not None:
        return file_name(os.fsdecode(error.filename))
    drop_output()
    return "standard output"


def _run(arguments: list[str]) -> int:
    try:
        result = _answered(arguments)
        return result if isinstance(result, int) else deliver(*result) if result is not None else 0
    except InputError as error:
        _report(error, arguments)
    return 2


def _answered(arguments: list[str]) -> tuple[Answer, Output] | int | None:
    """What the command that the arguments begin with answers; by Typer where they are not plain."""
    first = arguments[0] if arguments else "--help"
    completing = COMPLETION in os.environ
    if first.startswith("-") or completing:
        commands = {name: Command(function(name)) for name in (_completed() if completing else names())}
    else:
        commands = {first: Command(function(_known(first)))}
        values = words.read(commands[first].parameters, arguments[1:])
        if values is not None:
            return commands[first](values)
    from gptcalc.cli.application import answered

    return answered(NAME, commands, [] if completing else arguments, COMPLETION, groups())


def _report(error: InputError, arguments: Sequence[str]) -> None:
    """One line on stderr, as JSON where JSON was asked for."""
    if "--json" in arguments or "--format=json" in arguments or ("--format", "json") in pairwise(arguments):
        import json

        hint = None if error.hint is None else printable(error.hint, MOST)
        report = {"error": {"kind": error.kind, "message": printable(error.message, MOST), "hint": hint}}
        line = json.dumps(report, separators=(",", ":"))  # in ASCII: no terminal and no reader trips over it
    else:
        text = f"{NAME}: {error.message}" + (f"; {error.hint}" if error.hint else "")
        line = printable(" ".join(text.split()), MOST)
    complain(line)


# --- commands ---------------------------------------------------------------------------------------------------------


COMPLETION = "_GPTCALC_COMPLETE"  # set by the shell when it asks for completions
LINES = ("COMP_WORDS", "_TYPER_COMPLETE_ARGS")  # where bash, and where the others put the command line


def _completed() -> list[str]:
    """The commands that a line to be completed may be of: the one that it names, where that word is done."""
    line = next((os.environ[key] for key in LINES if key in os.environ), "")
    _, behind, rest = line.lstrip().partition(" ")
    name, behind, _ = rest.lstrip().partition(" ")
    known = names()
    return [name] if behind and name in known else known


def names() -> list[str]:
    """Every command's name, as --help lists them."""
    folder = os.path.join(os.path.dirname(__file__), "commands")
    found = {file.removesuffix(".py") for file in os.listdir(folder) if file.endswith(".py")} - {"__init__"}
    listed = [name for names in GROUPS.values() for name in names]
    return [name for name in listed if name in found] + sorted(found - {*listed})


def groups() -> dict[str, list[str]]:
    """Every command, as --help groups them."""
    rest = names()
    found = {title: [name for name in rest if name in listed] for title, listed in GROUPS.items()}
    others = [name for name in rest if not any(name in listed for listed in GROUPS.values())]
    return {**found, "More": others} if others else found


def _known(name: str) -> str:
    if name in names():
        return name
    hint = MEANT.get(name.lower()) or _of_a_model(name) or did_you_mean(name, names()) or f"see {NAME} --help"
    raise InputError(f"no command {printable(name)!r}", hint, "usage")


#: what others call a command
MEANT = {
    **dict.fromkeys(("list", "ls", "models"), f"{NAME} presets lists the models"),
    **dict.fromkeys(("gpus", "hardware"), f"{NAME} devices lists them"),
    **dict.fromkeys(("info", "count", "summary"), f"{NAME} params MODEL counts its parameters"),
    "vram": f"{NAME} memory MODEL says what a device must hold",
    "cache": f"{NAME} kv MODEL says what it takes",
    "speed": f"{NAME} time MODEL bounds it",
    "convert": f"{NAME} show MODEL writes a preset file",
    "help": f"{NAME} --help, or {NAME} COMMAND --help",
    "version": f"{NAME} --version",
}


def _of_a_model(name: str) -> str | None:
    """A model where a command belongs."""
    from gptcalc.sources.paths import is_path
    from gptcalc.sources.preset import names as presets

    if not is_path(name) and name.lower() not in presets():
        return None
    return f"a command comes first: {NAME} params {file_name(name)}"


def function(name: str) -> Callable[..., Any]:
    """What a command of this name calls."""
    from importlib import import_module

    command: Callable[..., Any] = import_module(f"gptcalc.cli.commands.{name}").command
    return command
