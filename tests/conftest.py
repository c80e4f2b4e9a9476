"""What tests share: the command line run in this process."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from hypothesis import settings

from gptcalc.cli import run
from tests import TESTS

settings.register_profile(
    "any machine", deadline=None, derandomize="CI" in os.environ
)  # a slow one is no mistake of the program
settings.load_profile("any machine")

os.environ["GPTCALC_PRESETS"] = ""  # nor reads presets of one's own
os.environ["HF_HUB_OFFLINE"] = "1"  # no test asks the real hub
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # what runs as a process of its own is compiled once, not each time


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Single tests that take long stand in this folder itself: first, so that no worker waits for one at the end."""
    items.sort(key=lambda item: item.path.parent != TESTS)


class Result(NamedTuple):
    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[str]:
        """The lines on stderr."""
        return self.err.splitlines()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


Command = Callable[..., Result]


@pytest.fixture
def gptcalc(monkeypatch: pytest.MonkeyPatch) -> Command:
    """Run `gptcalc ARGUMENTS` in this process; `terminal` gives stdout a terminal of that many columns."""

    def command(*arguments: object, stdin: bytes = b"", terminal: int | None = None) -> Result:
        out = io.StringIO() if terminal is None else Terminal()
        err = io.StringIO()
        if terminal is not None:
            monkeypatch.setenv("COLUMNS", str(terminal))
        monkeypatch.setattr(sys, "stdout", out)
        monkeypatch.setattr(sys, "stderr", err)
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        status = run([str(argument) for argument in arguments])
        return Result(status, out.getvalue(), err.getvalue())

    return command
