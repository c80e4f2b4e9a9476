"""What each command's JSON is made of: the struct that its file names in RESULT, or one that lists rows of."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from msgspec import Struct


def result(command: str) -> type[Struct] | None:
    """The struct of a command's JSON, or of each of its rows; None where rows have the columns that are asked for."""
    named: str | None = getattr(import_module(f"gptcalc.cli.commands.{command}"), "RESULT", None)
    if named is None:
        return None
    module, _, name = named.partition(":")
    found: type[Struct] = getattr(import_module(module), name)
    return found
