"""The command line: parse, call, show. One file a command in `commands`; this one runs them and reports what is wrong.

Exit status: 0 done or yes, 1 the answer is no, 2 wrong usage or input (one line on stderr), 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, cast

import typer

from gptcalc.cli.answer import deliver, with_output
from gptcalc.errors import InputError, did_you_mean, printable

NAME = "gptcalc"

#: the order of --help; a command that is not named here comes behind
ORDER = (
    "params", "kv", "flops", "memory", "fit", "time", "compare", "diff", "sweep",
    "presets", "show", "explain", "trace", "validate", "check",
)  # fmt: skip

#: Typer carries its own copy of Click, whose exceptions are reached through the one that it exports
UsageError = cast(type[Exception], typer.BadParameter.__mro__[1])


def run(arguments: Sequence[str]) -> int:
    """Run one command line; the exit status."""
    try:
        status = _run(list(arguments))
        sys.stdout.flush()
    except BrokenPipeError:
        # the reader has seen enough; what is still buffered must not be written when Python closes the stream
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130
    return status


def _run(arguments: list[str]) -> int:
    try:
        result = _application(arguments)(args=arguments or ["--help"], prog_name=NAME, standalone_mode=False)
        return result if isinstance(result, int) else deliver(*result) if result is not None else 0
    except InputError as error:
        _report(error, arguments)
    except typer.Abort:
        return 130
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 2
    except UsageError as error:
        _report(InputError(_usage(error), f"see {NAME} --help", "usage"), arguments)
    return 2


def _usage(error: Any) -> str:
    message = str(error.format_message()).strip().rstrip(".")
    return message[0].lower() + message[1:]


def _report(error: InputError, arguments: list[str]) -> None:
    """One line on stderr, as JSON where JSON was asked for."""
    if "--json" in arguments or "--format=json" in arguments or ("--format", "json") in pairwise(arguments):
        import msgspec

        report = {"error": {"kind": error.kind, "message": error.message, "hint": error.hint}}
        line = msgspec.json.encode(report).decode()
    else:
        text = f"{NAME}: {error.message}" + (f"; {error.hint}" if error.hint else "")
        line = printable(" ".join(text.split()), limit=2000)
    print(line, file=sys.stderr)


# --- commands ---------------------------------------------------------------------------------------------------------


def _application(arguments: list[str]) -> Any:
    """The Typer application with the one command that is called, or with all of them where all may be shown."""
    called = next((word for word in arguments if not word.startswith("-")), None)
    app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, help=DESCRIPTION)
    app.callback()(_root)
    for name in names() if called is None or COMPLETION in os.environ else [_known(called)]:
        app.command(name)(with_output(_command(name)))
    return typer.main.get_command(app)


COMPLETION = "_GPTCALC_COMPLETE"  # set by the shell when it asks for completions
DESCRIPTION = "What a transformer costs before anyone runs it: parameters, KV cache, FLOPs, memory."


def _root(version: bool = typer.Option(False, "--version", help="Show the version and exit.", is_eager=True,
                                       callback=lambda asked: _version(asked))) -> None:  # fmt: skip
    pass


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"{NAME} {version(NAME)}")
        raise typer.Exit


def names() -> list[str]:
    """Every command's name, as --help lists them."""
    folder = os.path.join(os.path.dirname(__file__), "commands")
    found = {file.removesuffix(".py") for file in os.listdir(folder) if file.endswith(".py")} - {"__init__"}
    return sorted(found, key=lambda name: (ORDER.index(name) if name in ORDER else len(ORDER), name))


def _known(name: str) -> str:
    if name in names():
        return name
    hint = did_you_mean(name, names()) or f"see {NAME} --help"
    raise InputError(f"no command {printable(name)!r}", hint, "usage")


def _command(name: str) -> Callable[..., Any]:
    from importlib import import_module

    command: Callable[..., Any] = import_module(f"gptcalc.cli.commands.{name}").command
    return command
