"""What --help shows of a command, from what it declares: its docstring, arguments and options. The man page and the
reference are made of the same pages.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from textwrap import wrap
from typing import Any

from msgspec import Struct

from gptcalc.cli.answer import Command
from gptcalc.cli.parameters import Parameter
from gptcalc.options import Option, choices, plain

OWN = "Options"
#: what options of several commands are about, by the parameters' names; what is not here is the command's own
PANELS = {
    "The model": ("settings", "switches", "strict", "ignore"),
    "Sequences": (
        *("context", "source", "batch", "phase", "pairs", "logits", "prefill_chunk"),
        *("mla", "mla_cache", "scan", "mtp"),
    ),
    "Data types": ("dtype", "kv_dtype", "state_dtype"),
    "The engine": (
        *("engine", "engine_version", "max_num_seqs"),
        *("ngl", "n_cpu_moe", "override_tensor", "tensor_split", "flash_attn"),
    ),
    "Devices": ("device", "devices", "budget", "utilization", "overhead", "tp", "pp", "ep", "dp"),
    "Training": (
        *("training", "optimizer", "gradients", "zero", "offload", "recompute", "attention", "sequence_parallel"),
        *("micro_batch", "lora"),
    ),
    "Output": ("format", "json", "out", "get", "quiet"),
}
MOST = 32  # columns of an option's spelling; a longer one has a line of its own


class Entry(Struct, frozen=True):
    """An argument or option: how it is spelled, and what it means."""

    words: str
    text: str


class Example(Struct, frozen=True):
    line: str
    remark: str  # what it is for, where the line doesn't say it


class Page(Struct, frozen=True):
    name: str
    usage: str
    summary: str
    details: tuple[str, ...]  # paragraphs
    examples: tuple[Example, ...]
    panels: tuple[tuple[str, tuple[Entry, ...]], ...]  # arguments first


def page(program: str, name: str, command: Command) -> Page:
    """All there is to say about a command."""
    summary, *rest = [" ".join(part.split("\n")) for part in _paragraphs(command.function.__doc__ or "")]
    details = tuple(" ".join(part.split()) for part in rest if not part.startswith(program))
    arguments = [parameter for parameter in command.parameters if _option(parameter).positional]
    usage = " ".join([program, name, *map(_place, arguments), "[OPTIONS]"])
    told = tuple(Entry(_option(parameter).metavar, _option(parameter).help) for parameter in arguments)
    panels = [("Arguments", tuple(entry for entry in told if entry.text))] if arguments else []
    examples = tuple(_examples(command.function.__doc__ or "", program))
    return Page(name, usage, summary, details, examples, (*panels, *_panels(command)))


def _paragraphs(doc: str) -> list[str]:
    return ["\n".join(line.strip() for line in part.splitlines()) for part in doc.strip().split("\n\n")]


def _examples(doc: str, program: str) -> Iterator[Example]:
    """The docstring's lines that begin with the program's name."""
    for line in map(str.strip, doc.splitlines()):
        if line.startswith(f"{program} "):
            words, _, remark = line.partition("  # ")
            yield Example(words.rstrip(), remark.strip())


def _option(parameter: Parameter) -> Option:
    return plain(parameter.annotation)[2]


def _place(argument: Parameter) -> str:
    metavar = _option(argument).metavar
    return metavar if argument.required else f"[{metavar}]"


def _panels(command: Command) -> Iterator[tuple[str, tuple[Entry, ...]]]:
    """The options, those of the command first; what concerns only training where a command can train."""
    options = [parameter for parameter in command.parameters if not _option(parameter).positional]
    trains = any(parameter.name == "optimizer" for parameter in options)
    of = {name: title for title, names in PANELS.items() for name in names if trains or title != "Training"}
    for title in (OWN, *PANELS):
        here = [parameter for parameter in options if of.get(parameter.name, OWN) == title]
        here.sort(key=lambda parameter: PANELS[title].index(parameter.name) if title in PANELS else 0)
        entries = tuple(map(_entry, here))
        if title == "Output":
            entries += (Entry("-h, --help", "This page."),)
        if entries:
            yield title, entries


def _entry(parameter: Parameter) -> Entry:
    kind, optional, option = plain(parameter.annotation)
    known = choices(kind)
    metavar = "" if kind is bool else " " + ("|".join(map(str, known)) if known else option.metavar)
    short = [word for word in parameter.words if not word.startswith("--")]
    long = [word for word in parameter.words if word.startswith("--")]
    default = "" if optional or kind in (bool, list[str]) or "efault" in option.help else _default(parameter.default)
    return Entry(", ".join([*short, *long]) + metavar, f"{option.help} {default}".rstrip())


def _default(value: Any) -> str:
    return "" if value in (None, "", ()) else f"Default: {value}."


# --- as text ----------------------------------------------------------------------------------------------------------


def text(shown: Page, width: int, bold: bool = False) -> str:
    """A page for a terminal."""
    lines = [*_indented(f"Usage: {shown.usage}", width, 0), "", *_indented(shown.summary, width)]
    for paragraph in shown.details:
        lines += ["", *_indented(paragraph, width)]
    if shown.examples:
        lines += ["", _title("Examples", bold), *_remarked(shown.examples, width)]
    for title, entries in shown.panels:
        lines += ["", _title(title, bold), *_listed([(entry.words, entry.text) for entry in entries], width)]
    return "\n".join(lines)


def overview(
    program: str, description: str, groups: Mapping[str, Sequence[tuple[str, str]]], width: int, bold: bool
) -> str:
    """The program: what it is for, its commands in groups, and its own options."""
    lines = [
        *_indented(f"Usage: {program} COMMAND [ARGUMENTS] [OPTIONS]", width, 0),
        "",
        *_indented(description, width),
    ]
    lines += ["", *_indented(f"{program} COMMAND --help has examples and every option of a command.", width)]
    column = max(len(words) for rows in groups.values() for words, _ in rows)
    for title, rows in groups.items():
        lines += ["", _title(title, bold), *_listed(rows, width, column)]
    return "\n".join(lines)


def _title(title: str, bold: bool) -> str:
    return f"\x1b[1m{title}\x1b[0m" if bold else f"{title}:"


def _indented(paragraph: str, width: int, by: int = 2) -> list[str]:
    return wrap(paragraph, width, initial_indent=" " * by, subsequent_indent="  ", break_on_hyphens=False) or [""]


def _remarked(examples: Sequence[Example], width: int) -> Iterator[str]:
    """Lines to copy are never broken; a remark stands beside its line where there is room, else above it."""
    column = max(len(example.line) for example in examples)
    beside = all(2 + column + 4 + len(example.remark) <= width for example in examples)
    for line, remark in ((example.line, example.remark) for example in examples):
        if remark and not beside:
            yield from _indented(f"# {remark}", width)
        yield f"  {line:{column}}  # {remark}" if remark and beside else f"  {line}"


def _listed(rows: Iterable[tuple[str, str]], width: int, column: int | None = None) -> Iterator[str]:
    """Words, and beside them what they mean; below them where either is too long."""
    rows = list(rows)
    fitting = [len(words) for words, _ in rows if len(words) <= MOST]
    column = column or max(fitting, default=MOST)
    start = 2 + column + 2
    if width - start < 30:  # no room for two columns
        for words, meaning in rows:
            yield from _indented(words, width)
            yield from wrap(meaning, width, initial_indent=" " * 6, subsequent_indent=" " * 6)
        return
    for words, meaning in rows:
        told = wrap(meaning, width - start, break_on_hyphens=False) or [""]
        if len(words) > column:
            yield from _indented(words, width)
        else:
            yield f"  {words:{column}}  {told.pop(0)}".rstrip()
        yield from (" " * start + line for line in told)
