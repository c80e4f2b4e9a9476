"""README, CONTRIBUTING and the pages of docs/ do what they say: their commands give the output that stands there, their
Python runs, the YAML is a model.

After a change of the output `python -m tests.cli.test_documents` writes what the commands print now; read the diff.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gptcalc.cli import names
from gptcalc.document import build
from gptcalc.sources import preset, text
from tests import REPOSITORY

README = REPOSITORY / "README.md"
CONTRIBUTING = REPOSITORY / "CONTRIBUTING.md"
PAGES = [README, CONTRIBUTING, *sorted((REPOSITORY / "docs").glob("**/*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

#: stands for the reader's own model
CONFIG = {
    "model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "hidden_size": 1024, "intermediate_size": 3072,
    "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128, "num_hidden_layers": 28, "vocab_size": 151936,
    "max_position_embeddings": 40960, "tie_word_embeddings": True, "rope_theta": 1000000, "rms_norm_eps": 1e-6,
}  # fmt: skip


def blocks(language: str, page: Path = README) -> list[str]:
    return [body for kind, body in BLOCK.findall(page.read_text(encoding="utf-8")) if kind == language]


def everywhere(language: str) -> list[Any]:
    """Each block once: both walks have the same."""
    pages = {block: page for page in reversed(PAGES) for block in blocks(language, page)}
    return [
        pytest.param(block, id=f"{page.name}: {block.splitlines()[0].removeprefix('$ ')}")
        for block, page in reversed(pages.items())
    ]


def steps(block: str) -> Iterator[tuple[str, str]]:
    """Each command of a console block, and the output that stands below it."""
    for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        lines = step.splitlines(keepends=True)
        last = max([0, *(number for number, line in enumerate(lines) if line.startswith("> "))])
        yield "".join(line.removeprefix("> ") for line in lines[: last + 1]), "".join(lines[last + 1 :])


def prepare(folder: Path) -> dict[str, str]:
    """The folder in which commands run, and an environment whose `gptcalc` is this one."""
    for name in ("my-model", "my-presets", "bin"):
        (folder / name).mkdir()
    (folder / "my-model" / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    (yaml,) = blocks("yaml", CONTRIBUTING)
    (folder / "my-presets" / "llama-3-8b.yaml").write_text(yaml + "source: a paper\n", encoding="utf-8")
    for name, call in (("gptcalc", "-m gptcalc "), ("python", "")):
        command = folder / "bin" / name
        command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {call}"$@"\n', encoding="utf-8")
        command.chmod(0o755)
    own = {"PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(REPOSITORY)}
    return {**os.environ, **own}


def printed(command: str, folder: Path, environment: dict[str, str]) -> str:
    done = subprocess.run(
        ["sh", "-c", command], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    return done.stdout


@pytest.mark.parametrize("block", everywhere("console"))
def test_commands_print_what_stands_there(block: str, tmp_path: Path) -> None:
    environment = prepare(tmp_path)
    for command, output in steps(block):
        assert printed(command, tmp_path, environment) == output


@pytest.mark.parametrize("code", everywhere("python"))
def test_the_python_runs(code: str) -> None:
    exec(compile(code, "page", "exec"), {})


WALKS = [REPOSITORY / "docs" / name for name in ("learn.md", "learn.ko.md")]


@pytest.mark.parametrize("walk", WALKS, ids=lambda walk: walk.name)
def test_every_number_of_the_walk_is_printed_by_a_command(walk: Path) -> None:
    """Numbers of three and more digits in the text stand in what a command prints."""
    shown = re.findall(r"\d[\d,.]*\d", "".join(blocks("console", walk)))
    printed = {number.replace(",", "") for number in shown}
    text = BLOCK.sub("", walk.read_text(encoding="utf-8"))
    said = {number.replace(",", "") for number in re.findall(r"\d[\d,.]*\d", text)}
    assert {number for number in said if len(number) > 2 and number != "117"} <= printed  # 117M: the paper's slip


def test_the_walks_show_the_same() -> None:
    english, korean = (blocks("console", walk) for walk in WALKS)
    assert english == korean


def test_the_preset_is_the_model_that_it_names() -> None:
    (yaml,) = blocks("yaml", CONTRIBUTING)
    assert build(text.parse_yaml(yaml)) == build(preset.named("llama-3-8b"))


def test_every_command_is_in_the_table() -> None:
    rows = re.findall(r"^\| `(\w+)[ `]", README.read_text(encoding="utf-8"), re.MULTILINE)
    assert rows == names()


def rewrite(page: Path) -> None:
    """Put what the commands print now into a page."""

    def renewed(match: re.Match[str]) -> str:
        kind, body = match.groups()
        if kind != "console":
            return match[0]
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            environment = prepare(folder)
            told = [(command, printed(command, folder, environment)) for command, _ in steps(body)]
        shown = "".join(f"$ {command.rstrip()}".replace("\n", "\n> ") + f"\n{output}" for command, output in told)
        return f"```console\n{shown}```"

    page.write_text(BLOCK.sub(renewed, page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    for page in [Path(name) for name in sys.argv[1:]] or PAGES:
        rewrite(page)
