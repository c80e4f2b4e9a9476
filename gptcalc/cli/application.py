"""The commands as a Typer application: help, completion, and what is wrong with a command line."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, cast

import typer
from typer.core import TyperCommand, TyperGroup

from gptcalc.cli.answer import Answer, Command, Output, closed, terminal_width, wants_colour, write
from gptcalc.cli.completion import Complete, completing, script
from gptcalc.cli.help import overview, page, text
from gptcalc.cli.meant import option_meant
from gptcalc.cli.parameters import Parameter, parser
from gptcalc.errors import InputError, printable
from gptcalc.options import choices, plain

DESCRIPTION = "What a transformer costs before anyone runs it: parameters, KV cache, FLOPs, memory."
#: the program's own
OPTIONS = (
    ("--version", "The version."),
    ("--show-completion", "A script that completes commands, options and values: bash, zsh, fish or powershell."),
    ("--install-completion", "The same, put where the current shell finds it."),
    ("-h, --help", "This page."),
)

SETTINGS: dict[str, Any] = {
    "rich_markup_mode": None,
    "pretty_exceptions_enable": False,
    "context_settings": {"help_option_names": ["-h", "--help"]},
}

#: Typer carries its own copy of Click, whose exceptions are reached through the one that it exports
UsageError = cast(type[Exception], typer.BadParameter.__mro__[1])


def answered(
    name: str,
    commands: Mapping[str, Command],
    arguments: Sequence[str],
    variable: str = "",
    groups: Mapping[str, Sequence[str]] = {},
) -> tuple[Answer, Output] | int | None:
    """Run a command line by Typer: what a command answers, or an exit status. InputError where the line is wrong."""
    first = arguments[0] if arguments else "--help"
    if first == "--show-completion" and len(arguments) == 2:  # Typer's own asks which shell it runs in
        write(script(arguments[1], name, variable))
        return 0
    try:
        if first in commands:
            alone = _alone(name, first, commands[first])
            found = alone(args=list(arguments[1:]), prog_name=f"{name} {first}", standalone_mode=False)
        else:
            whole = _whole(name, commands, groups)
            found = whole(args=list(arguments) or ["--help"], prog_name=name, standalone_mode=False)
    except typer.Abort:
        return 130
    except SystemExit as stop:
        if isinstance(stop.__context__, OSError):  # a reader that has gone; Typer takes it for a no
            raise stop.__context__ from None
        return stop.code if isinstance(stop.code, int) else 2
    except UsageError as error:
        raise _in_our_words(error, name, first, commands.get(first)) from None
    return cast("tuple[Answer, Output] | int | None", found)


class OurHelp(TyperCommand):
    """A command whose help is a page of ours."""

    shown: Callable[[int, bool], str]

    def get_help(self, ctx: Any) -> str:
        return self.shown(*surroundings(ctx))


class OurOverview(TyperGroup):
    shown: Callable[[int, bool], str]

    def get_help(self, ctx: Any) -> str:
        return self.shown(*surroundings(ctx))


def surroundings(ctx: Any) -> tuple[int, bool]:
    """How wide help is, and whether it has bold titles, which Typer takes away again unless it is told."""
    if sys.stdout is None:
        raise closed()
    ctx.color = wants_colour(sys.stdout.isatty())
    return terminal_width(), ctx.color


def _alone(program: str, name: str, command: Command) -> Any:
    app = typer.Typer(add_completion=False, **SETTINGS)
    app.command(cls=OurHelp)(_function(command))
    made = typer.main.get_command(app)
    made.shown = lambda width, bold: text(page(program, name, command), width, bold)  # type: ignore[attr-defined]
    return made


def _whole(program: str, commands: Mapping[str, Command], groups: Mapping[str, Sequence[str]]) -> Any:
    app = typer.Typer(cls=OurOverview, **SETTINGS)

    def show_version(asked: bool) -> None:
        if asked:
            from importlib.metadata import version

            write(f"{program} {version(program)}\n")
            raise typer.Exit

    def root(
        version: Annotated[
            bool, typer.Option("--version", help="Show the version and exit.", is_eager=True, callback=show_version)
        ] = False,
    ) -> None:
        """The options in front of a command."""

    root.__annotations__ = inspect.get_annotations(root, eval_str=True, locals=locals())
    app.callback()(root)
    for name, command in commands.items():
        app.command(name)(_function(command))
    made = typer.main.get_command(app)

    def shown(width: int, bold: bool) -> str:
        rows = {
            title: [(name, page(program, name, commands[name]).summary) for name in names]
            for title, names in groups.items()
        }
        return overview(program, DESCRIPTION, {**rows, "Options": OPTIONS}, width, bold)

    made.shown = shown  # type: ignore[attr-defined]
    return made


def _function(command: Command) -> Callable[..., tuple[Answer, Output]]:
    """A command with the signature that Typer makes options of."""

    def function(**values: Any) -> tuple[Answer, Output]:
        return command(values)

    name = command.function.__module__.rpartition(".")[2]
    signature = inspect.Signature([_parameter(parameter, name) for parameter in command.parameters])
    function.__signature__ = signature  # type: ignore[attr-defined]
    function.__annotations__ = {name: own.annotation for name, own in signature.parameters.items()}
    function.__doc__ = command.function.__doc__
    return function


def _parameter(parameter: Parameter, command: str) -> inspect.Parameter:
    default = inspect.Parameter.empty if parameter.required else parameter.default
    annotation = _typed(parameter, completing(command, parameter))
    return inspect.Parameter(
        parameter.name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=annotation
    )


def _typed(parameter: Parameter, complete: Complete | None) -> Any:
    """A parameter's type and option as Typer's."""
    kind, optional, option = plain(parameter.annotation)
    known = choices(kind)
    settings: dict[str, Any] = {"help": option.help}
    if known and all(isinstance(word, str) for word in known):
        kind, settings = str, {**settings, "metavar": f"[{'|'.join(known)}]"}
    elif known:
        kind, settings = int, {**settings, "metavar": option.metavar}
    elif kind is not bool:
        settings |= {"metavar": option.metavar}
    if (read := parser(parameter)) is not None:
        settings["parser"] = read
    if complete is not None:
        settings["autocompletion"] = complete
    if option.positional:
        return Annotated[kind | None if optional else kind, typer.Argument(**settings)]
    shown = not optional and kind != list[str]
    return Annotated[kind | None if optional else kind, typer.Option(*parameter.words, show_default=shown, **settings)]


def _in_our_words(error: Any, program: str, name: str, command: Command | None) -> InputError:
    """Typer's complaint about the command line."""
    help_ = f"{program} --help" if command is None else f"{program} {name} --help"
    if hasattr(error, "possibilities"):
        hint = None if command is None else option_meant(error.option_name, command, program, name)
        return InputError(f"no option {printable(error.option_name)}", hint or f"see {help_}", "usage")
    message = str(error.format_message()).strip().rstrip(".")
    one = command is not None and any(parameter.name == "model" for parameter in command.parameters)
    too_many = message.startswith("Got unexpected extra argument")
    like = command is not None and any(parameter.name == "like" for parameter in command.parameters)
    if too_many and one:
        hint = f"{program} compare sets several models side by side"
    else:
        hint = "a model stands behind --like" if too_many and like else f"see {help_}"
    return InputError(message[0].lower() + message[1:], hint, "usage")
