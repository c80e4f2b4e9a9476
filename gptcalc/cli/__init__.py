"""The command line: parse, call, show. One file a command in `commands`; this one runs them and reports what is wrong.

Exit status: 0 done or yes, 1 the answer is no, 2 wrong usage or input (one line on stderr), 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Annotated, Any, cast

import typer

from gptcalc.cli.answer import complain, deliver, drop_output, with_output
from gptcalc.errors import InputError, did_you_mean, printable

NAME = "gptcalc"

#: the order of --help; a command that is not named here comes behind
ORDER = (
    "params", "kv", "flops", "memory", "fit", "serve", "time", "compare", "diff", "sweep",
    "presets", "devices", "show", "explain", "trace", "validate", "check",
)  # fmt: skip

#: characters of an error that are shown
MOST = 2000

#: Typer carries its own copy of Click, whose exceptions are reached through the one that it exports
UsageError = cast(type[Exception], typer.BadParameter.__mro__[1])


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
        return printable(os.fsdecode(error.filename), 200)
    drop_output()
    return "standard output"


def _run(arguments: list[str]) -> int:
    try:
        result = _application(arguments)()
        return result if isinstance(result, int) else deliver(*result) if result is not None else 0
    except InputError as error:
        _report(error, arguments)
    except typer.Abort:
        return 130
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 2
    except UsageError as error:
        _report(_usage(error, arguments), arguments)
    return 2


def _usage(error: Any, arguments: Sequence[str]) -> InputError:
    """Typer's complaint about the command line in our words."""
    help_ = " ".join([NAME, *[word for word in arguments[:1] if word in names()], "--help"])
    if hasattr(error, "possibilities"):
        from difflib import get_close_matches

        near = get_close_matches(error.option_name, error.possibilities or (), n=1, cutoff=0.75)
        hint = f"did you mean {near[0]}?" if near else f"see {help_}"
        return InputError(f"no option {printable(error.option_name)}", hint, "usage")
    message = str(error.format_message()).strip().rstrip(".")
    return InputError(message[0].lower() + message[1:], f"see {help_}", "usage")


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


def _application(arguments: list[str]) -> Callable[..., Any]:
    """What runs the arguments: the command that they begin with alone, or where all may be shown, all of them."""
    first = arguments[0] if arguments else "--help"
    if first.startswith("-") or COMPLETION in os.environ:
        return partial(_all_commands(), args=arguments or ["--help"], prog_name=NAME, standalone_mode=False)
    app = typer.Typer(add_completion=False, **SETTINGS)
    app.command(_known(first))(with_output(_command(first)))
    alone = typer.main.get_command(app)
    return partial(alone, args=arguments[1:], prog_name=f"{NAME} {first}", standalone_mode=False)


def _all_commands() -> Any:
    app = typer.Typer(help=DESCRIPTION, **SETTINGS)
    app.callback()(_root)
    for name in names():
        app.command(name)(with_output(_command(name)))
    return typer.main.get_command(app)


SETTINGS: dict[str, Any] = {
    "rich_markup_mode": None,
    "pretty_exceptions_enable": False,
    "context_settings": {"help_option_names": ["-h", "--help"]},
}
COMPLETION = "_GPTCALC_COMPLETE"  # set by the shell when it asks for completions
DESCRIPTION = "What a transformer costs before anyone runs it: parameters, KV cache, FLOPs, memory."


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"{NAME} {version(NAME)}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", is_eager=True, callback=_version)
    ] = False,
) -> None:
    """The options in front of a command."""


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
