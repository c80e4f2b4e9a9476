"""The manual page gptcalc(1), made of the same pages as --help. A wheel has it under share/man/man1."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gptcalc.cli import NAME, function, names
from gptcalc.cli.answer import Command
from gptcalc.cli.help import Page, page

ABOUT = "what a transformer costs before anyone runs it: parameters, KV cache, FLOPs, memory"
STATUS = (
    ("0", "Done, or yes."),
    ("1", "The answer is no: check, fit, serve, validate, presets --check, design."),
    ("2", "Wrong usage or input: one line on standard error, nothing on standard output."),
    ("130", "Interrupted."),
)
ENVIRONMENT = (
    ("GPTCALC_PRESETS", "Folders with presets of one's own."),
    ("PAGER", "What long lists on a terminal go through; empty for none."),
    ("NO_COLOR, FORCE_COLOR", "Whether tables have colours."),
    ("HF_HUB_OFFLINE", "Set to 1, the hub is not asked; what was fetched before is used."),
)


def manual(version: str) -> str:
    """The page in roff, for man(7)."""
    shown = [page(NAME, name, Command(function(name))) for name in names()]
    lines = [
        f'.TH {NAME.upper()} 1 "" "{NAME} {version}"',
        ".SH NAME",
        f"{NAME} \\- {_text(ABOUT)}",
        ".SH SYNOPSIS",
        f".B {NAME}",
        ".I COMMAND\n[\\fIARGUMENTS\\fR] [\\fIOPTIONS\\fR]",
        ".SH COMMANDS",
        *(line for one in shown for line in _command(one)),
        ".SH EXIT STATUS",
        *_listed(STATUS),
        ".SH ENVIRONMENT",
        *_listed(ENVIRONMENT),
    ]
    return "\n".join(lines) + "\n"


def _command(shown: Page) -> Iterator[str]:
    yield f'.SS "{_text(shown.usage)}"'
    yield _text(shown.summary)
    for paragraph in shown.details:
        yield from (".PP", _text(paragraph))
    yield from (".PP", ".EX", *(f"    {_text(example.line)}" for example in shown.examples), ".EE")
    for title, entries in shown.panels:
        yield from (".PP", f"\\fI{_text(title)}\\fR")
        yield from _listed((entry.words, entry.text) for entry in entries)


def _listed(rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    for words, meaning in rows:
        yield from (".TP", f"\\fB{_text(words)}\\fR", _text(meaning))


def _text(text: str) -> str:
    """Words that roff takes as they are: no line is a request."""
    plain = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{plain}" if plain[:1] in (".", "'") else plain
