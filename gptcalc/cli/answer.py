"""What a command answers, and how that is written: the output options that all commands share."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, suppress
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from msgspec import Struct

from gptcalc.cli.options import With
from gptcalc.cli.parameters import expanded, gathered, parameters_of
from gptcalc.errors import InputError, file_name, printable
from gptcalc.options import Option, check

if TYPE_CHECKING:
    from gptcalc.report.lines import Lines
    from gptcalc.report.plot import Bars
    from gptcalc.report.table import View

Format = Literal["table", "json", "jsonl", "csv", "markdown", "latex", "html", "svg", "png", "parquet"]
SUFFIXES: dict[str, Format] = {
    ".txt": "table",
    ".json": "json",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".md": "markdown",
    ".markdown": "markdown",
    ".tex": "latex",
    ".html": "html",
    ".htm": "html",
    ".svg": "svg",
    ".png": "png",
    ".parquet": "parquet",
}
#: what only some answers have
DRAWN: tuple[Format, ...] = ("latex", "html", "svg", "png", "parquet")

#: what is no text
BYTES: tuple[Format, ...] = ("png", "parquet")

#: what can be written a piece at a time
STREAMED: tuple[Format, ...] = ("json", "jsonl", "csv")


class Answer(Struct, frozen=True):
    """A command's result. Only the form that is asked for is made."""

    data: Any  # what --json prints and --get reads; a function, where that takes long to make
    view: Callable[[], View]  # what people see
    warnings: tuple[str, ...] = ()  # to stderr
    status: int = 0
    is_list: bool = False  # long ones go through a pager
    text: str | None = None  # takes the view's place where the answer is a text
    ends: tuple[str, ...] = ()  # what a file of that text is called besides .txt
    drawn: Mapping[Format, Callable[[], str]] = {}  # formats that not every answer has
    pieces: Callable[[Format], Iterator[str]] | None = None  # STREAMED formats, of what may be more than memory holds
    packed: Callable[[], Iterator[bytes]] | None = None  # a Parquet file, a piece at a time
    late: Callable[[], tuple[str, ...]] | None = None  # warnings that are known when all has been written

    def whole(self) -> Any:
        """The data, with the fields of a config.json that were ignored on the way, where there are any."""
        made = self.data() if callable(self.data) else self.data
        ignored = [name for note in self.warnings for name in getattr(note, "names", ())]
        if not ignored or isinstance(made, (list, tuple)):
            return made
        from gptcalc.report import data

        return {**data.builtins(made), "ignored": ignored}


def show(report: str, *arguments: Any) -> Callable[[], View]:
    """The view that gptcalc.report.REPORT makes of these, imported only where a person will see it."""

    def view() -> View:
        from importlib import import_module

        made: View = import_module(f"gptcalc.report.{report}").view(*arguments)
        return made

    return view


def plotted(data: Any, drawn: Bars | Lines, warnings: tuple[str, ...], report: str = "plot") -> Answer:
    """An answer that is drawn in place of its tables."""
    return Answer(data, show(report, drawn), warnings, drawn={"svg": document(report, drawn)})


def no_picture(why: str | None, plot: bool) -> None:
    """InputError where lines that add up to a figure are to be drawn."""
    if why is not None and plot:
        raise InputError("--plot: --why shows lines, which are no picture", "leave one of them out", "usage")


def document(report: str, *arguments: Any) -> Callable[[], str]:
    """The document that gptcalc.report.REPORT makes of these, imported only where it is asked for."""

    def text() -> str:
        from importlib import import_module

        made: str = import_module(f"gptcalc.report.{report}").document(*arguments)
        return made

    return text


class Output(Struct, frozen=True):
    """The output options' values."""

    format: Format | None
    json: bool
    out: str | None
    get: tuple[str, ...]
    quiet: bool

    def chosen(self) -> Format:
        if self.json:
            return "json"
        return self.format or SUFFIXES.get(ending(self.out or ""), "table")

    def check(self, answer: Answer) -> None:
        """InputError where the file can't be what its name says, or has no place: before anything long is made."""
        path = self.out
        if path is None or path == "-":
            return
        if not path or os.path.isdir(path):
            raise InputError(
                f"-o {file_name(path) or repr(path)}: {'is a directory' if path else 'no name'}", kind="file"
            )
        if not os.path.isdir(os.path.dirname(path) or "."):
            raise InputError(f"-o {file_name(path)}: no such file or directory", kind="file")
        end = ending(path)
        if self.format or self.json or self.get or end in (*SUFFIXES, *answer.ends) or not end[1:2].isalpha():
            return
        known = [end for end, format in SUFFIXES.items() if format not in DRAWN or _has(answer, format)]
        hint = f"it has {', '.join([*answer.ends, *known])}; --format says what else a file holds"
        raise InputError(
            f"-o {file_name(path)}: this answer has no form that is called {printable(end)}", hint, "usage"
        )


def ending(path: str) -> str:
    """What a file's name ends with, in small letters: .json; of a version (llama-3.1) nothing that names a form."""
    return os.path.splitext(path)[1].lower()


def output_options(
    format: Annotated[
        Format | None,
        Option("Default: table, or as the file of -o is called. latex, html, svg, png: what some commands draw."),
    ] = None,
    json: Annotated[bool, Option("The same as --format json.")] = False,
    out: Annotated[
        str | None,
        Option(
            "Write to a file, in the form that its name ends with: .json, .csv, .md, .svg, ….",
            "FILE",
            ("-o",),
            name="--output",
        ),
    ] = None,
    get: Annotated[
        list[str],
        Option("One value of the JSON, bare (gptcalc keys COMMAND lists them); of KEY,KEY one a line.", "KEY"),
    ] = [],  # noqa: B006
    quiet: Annotated[bool, Option("No table and no warnings.", also=("-q",))] = False,
) -> Output:
    """The options that every command has besides its own."""
    return Output(format, json, out, tuple(key for keys in get for key in keys.split(",")), quiet)


def reading_options(
    strict: Annotated[
        bool, Option("Refuse fields of a config.json that its class doesn't read; tensors must agree.")
    ] = False,
    ignore: Annotated[
        list[str], Option("Take a field of a config.json to change nothing; may be repeated.", "FIELD")
    ] = [],  # noqa: B006
    switches: With = [],  # noqa: B006
) -> AbstractContextManager[object]:
    """The options of every command that takes a MODEL: how its config.json is read, and which variant is meant."""
    from gptcalc.sources import tolerating, varying

    stack = ExitStack()
    stack.enter_context(tolerating(strict, ignore))
    stack.enter_context(varying(switches))
    return stack


class Command:
    """A command's function with the output options behind its own."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.own = parameters_of(function)
        shared, reading = parameters_of(output_options), parameters_of(reading_options)
        names = {parameter.name for parameter in self.own}
        self.shared = [parameter.name for parameter in shared]
        self.reading = [parameter.name for parameter in reading if {"model", "models", "like"} & names]
        reads = [parameter for parameter in reading if parameter.name in self.reading]
        self.parameters = [*expanded(self.own), *reads, *shared]

    def __call__(self, values: dict[str, Any]) -> tuple[Answer, Output]:
        """The answer, and how to write it."""
        output = output_options(**{name: values[name] for name in self.shared})
        check("--format", Annotated[Format | None, Option("")], output.format)
        with reading_options(**{name: values[name] for name in self.reading}):
            return self.function(**gathered(self.own, values)), output


def deliver(answer: Answer, output: Output) -> int:
    """Write an answer as the options ask; the exit status.

    A reader that has seen enough (| head, | grep -q) changes nothing about the answer: a no stays a no.
    """
    output.check(answer)
    asked = bool(output.get) or output.out is not None or output.json or output.format is not None
    if answer.pieces is not None and not output.get and output.chosen() in STREAMED:
        _stream(answer.pieces(output.chosen()), output)
        _warn((*answer.warnings, *(answer.late() if answer.late else ())), output)
        return answer.status
    if output.chosen() in BYTES and not output.get:
        _pack(answer, output)
        _warn((*answer.warnings, *(answer.late() if answer.late else ())), output)
        return answer.status
    text = rendered(answer, output) if asked or not output.quiet else ""
    to_file = output.out is not None and output.out != "-"
    if to_file:  # in front of the notes: a file that can't be written is one line
        write_file(str(output.out), text)
    _warn((*answer.warnings, *(answer.late() if answer.late else ())), output)
    if not to_file and text and not paged(text, answer):
        try:
            write(text, not output.get and output.chosen() == "json")
        except BrokenPipeError:
            drop_output()
    return answer.status


def _warn(warnings: tuple[str, ...], output: Output) -> None:
    for warning in () if output.quiet else dict.fromkeys(warnings):
        complain(f"gptcalc: {'' if warning.startswith('warning: ') else 'note: '}{printable(warning, 2000)}")


def _stream(pieces: Iterator[str], output: Output) -> None:
    """Text that is written as it is made."""
    if output.out is not None and output.out != "-":
        write_file_bytes(output.out, (piece.encode("utf-8", "replace") for piece in pieces), "-o")
        return
    try:
        for piece in pieces:
            write(piece, output.chosen() != "csv")
    except BrokenPipeError:
        drop_output()


def _pack(answer: Answer, output: Output) -> None:
    """A file of bytes."""
    chosen = output.chosen()
    if not _has(answer, chosen):
        raise _not_drawn(chosen, answer)
    if output.out in (None, "-"):
        raise InputError(f"--format {chosen}: it is no text", f"write a file: -o FILE.{chosen}", "usage")
    if answer.packed is not None and chosen == "parquet":
        write_file_bytes(output.out or "", answer.packed(), "-o")
        return
    from gptcalc.report.png import bitmap

    write_file_bytes(output.out or "", bitmap(answer.drawn["svg"]()), "-o")


def paged(text: str, answer: Answer) -> bool:
    """Whether a list that is longer than the terminal went through a pager: PAGER, or less where it is there.

    An empty PAGER, or cat, means none. Only lists: a figure that scrolls past is no list.
    """
    out, into = sys.stdout, sys.stdin
    if not answer.is_list or out is None or into is None or not (out.isatty() and into.isatty()):
        return False
    from shutil import get_terminal_size, which

    pager = os.environ.get("PAGER", "less" if which("less") else "")
    if not pager or pager == "cat" or text.count("\n") < get_terminal_size().lines:
        return False
    import subprocess

    own = {"LESS": "FRX", **os.environ}  # as git asks: end where it fits, keep colours, leave the screen
    done = subprocess.run(pager, shell=True, input=text, encoding="utf-8", errors="replace", env=own, check=False)
    return done.returncode not in (126, 127)  # what could not be started has shown nothing


def drop_output() -> None:
    """What is still buffered can't be written; without this, Python would try again and complain."""
    if sys.stdout is not None:
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def complain(line: str) -> None:
    """A line on stderr, where there is one: what can't be said must not change the exit status."""
    if sys.stderr is not None:
        with suppress(OSError, ValueError):
            encoding = sys.stderr.encoding or "utf-8"
            print(line.encode(encoding, "backslashreplace").decode(encoding), file=sys.stderr, flush=True)


def rendered(answer: Answer, output: Output) -> str:
    """The answer as text in the chosen format."""
    chosen = output.chosen()
    if output.get or chosen == "json":
        from gptcalc.report import data

        whole = answer.whole()
        return "".join(data.get(whole, key) + "\n" for key in output.get) or data.json(whole)
    if chosen == "jsonl":
        from gptcalc.report import data

        return data.lines(answer.whole())
    if chosen in DRAWN:
        if chosen in answer.drawn:
            return answer.drawn[chosen]()
        raise _not_drawn(chosen, answer)
    if chosen == "table" and answer.text is not None:
        return answer.text
    view = answer.view()
    if chosen == "table":
        from gptcalc.report import plain

        to_terminal = output.out is None and sys.stdout is not None and sys.stdout.isatty()
        width = terminal_width() if to_terminal else None
        return plain.render(view.drawn(width), width, wants_colour(to_terminal))
    from gptcalc.report import delimited

    return delimited.csv(view.main) if chosen == "csv" else delimited.markdown(view.drawn())


def _has(answer: Answer, format: Format) -> bool:
    """Whether an answer has a format that not every one has; a PNG is drawn from an SVG."""
    if format == "parquet":
        return answer.packed is not None
    return ("svg" if format == "png" else format) in answer.drawn


def _not_drawn(chosen: Format, answer: Answer) -> InputError:
    known = [name for name in get_args(Format) if name not in DRAWN or _has(answer, name)]
    return InputError(f"--format {chosen}: this answer is not drawn so", f"it has {', '.join(known)}", "usage")


def terminal_width() -> int:
    from shutil import get_terminal_size  # honours COLUMNS

    return get_terminal_size().columns


def wants_colour(to_terminal: bool) -> bool:
    """NO_COLOR (https://no-color.org) set and not empty means none, FORCE_COLOR (https://force-color.org) some, even
    where no terminal is; else a terminal that can has colour."""
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (to_terminal and os.environ.get("TERM") != "dumb")


def write(text: str, is_json: bool = False) -> None:
    """Text to stdout; what its encoding can't say becomes an escape in JSON and a question mark elsewhere."""
    if sys.stdout is None:
        raise closed()
    encoding = sys.stdout.encoding or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        text = _escaped(text) if is_json else text.encode(encoding, "replace").decode(encoding)
    sys.stdout.write(text)
    sys.stdout.flush()


def closed() -> InputError:
    """Where an answer has nowhere to go."""
    return InputError("standard output: it is closed", "-o FILE writes a file, --quiet nothing", "file")


def _escaped(text: str) -> str:
    """A JSON document in ASCII."""
    import json

    return "".join(ch if ch.isascii() else json.dumps(ch)[1:-1] for ch in text)


def write_file(path: str, text: str, option: str = "-o") -> None:
    write_file_bytes(path, text.encode("utf-8", "replace"), option)


def write_file_bytes(path: str, data: bytes | Iterable[bytes], option: str) -> None:
    """A file that is never seen half written: a new one beside it takes its place."""
    from tempfile import NamedTemporaryFile

    try:
        if os.path.exists(path) and not os.path.isfile(path):  # /dev/stdout, a pipe: there is no place to take
            with open(path, "wb") as stream:
                stream.writelines(_each(data))
            return
        target = os.path.realpath(path)
        with NamedTemporaryFile(dir=os.path.dirname(target), prefix=".gptcalc-", delete=False) as file:
            try:
                file.writelines(_each(data))
                file.flush()
                mode = os.stat(target).st_mode & 0o777 if os.path.exists(target) else 0o666 & ~_umask()
                os.chmod(file.name, mode)
                os.replace(file.name, target)
            except BaseException:  # an interrupt must not leave it behind either
                with suppress(FileNotFoundError):
                    os.unlink(file.name)
                raise
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InputError(f"{option} {file_name(path)}: {reason}", kind="file") from None


def _each(data: bytes | Iterable[bytes]) -> Iterable[bytes]:
    return (data,) if isinstance(data, bytes) else data


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
