"""The pages of reference, made of what the program declares, when the site is built: none is written by hand."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import redirect_stdout
from html import escape
from typing import Any

from mkdocs.structure.files import File

from gptcalc import cli
from gptcalc.cli.answer import Command
from gptcalc.cli.help import Page, page
from gptcalc.cli.results import result

#: pages that a command prints
LISTS = {"columns": "Columns", "dtypes": "Data types", "devices": "Devices", "types": "Types of configs"}


def on_files(files: Any, config: Any) -> Any:
    """The hook that mkdocs calls when it has collected the files."""
    for name, text in pages().items():
        files.append(File.generated(config, f"reference/{name}.md", content=text))
    return files


def pages() -> dict[str, str]:
    """Markdown by a page's name."""
    listed = {name: f"# {title}\n\n`gptcalc {name}` prints this.\n\n{printed(name)}" for name, title in LISTS.items()}
    keys = f"# Keys of preset files\n\n`gptcalc keys` prints this, `gptcalc keys moe` a section.\n\n{printed('keys')}"
    return {"commands": commands(), "keys": keys, "json": json(), **listed}


def printed(*words: str) -> str:
    out = io.StringIO()
    with redirect_stdout(out):
        status = cli.run([*words, "--format", "markdown"])
    assert status == 0, words
    return out.getvalue()


def commands() -> str:
    """Every command with its options, as --help groups them."""
    shown = (page(cli.NAME, name, Command(cli.function(name))) for name in cli.names())
    return "# Commands\n\n" + "\n".join(line for one in shown for line in command(one))


def command(shown: Page) -> Iterator[str]:
    yield from (f"## {shown.name}", "", escape(shown.summary), "")
    for paragraph in shown.details:
        yield from (escape(paragraph), "")
    yield from ("```sh", *(f"{line}{f'  # {remark}' if remark else ''}" for line, remark in _lines(shown)), "```", "")
    for title, entries in shown.panels:
        yield from (f"| {title} | |", "|---|---|")
        yield from (f"| `{cell(entry.words)}` | {escape(cell(entry.text))} |" for entry in entries)
        yield ""


def _lines(shown: Page) -> Iterator[tuple[str, str]]:
    return ((example.line, example.remark) for example in shown.examples)


def cell(text: str) -> str:
    return text.replace("|", "\\|")


def json() -> str:
    """The keys of each command's JSON."""
    parts = ["# Keys of the JSON", "", "`gptcalc keys COMMAND` prints these; `--get KEY` prints one value.", ""]
    for name in cli.names():
        if result(name) is not None:
            parts += [f"## {name}", "", printed("keys", name)]
    return "\n".join(parts)
