"""The one exception that a user sees: what is wrong with the input, and how to mend it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


class InputError(Exception):
    """Wrong usage or input. Shown as one line; exit status 2.

    `message` says where, what was found and what would be right; `hint` (optional) how to mend it.
    `kind` is a short stable word for scripts: usage, file, format, value, unknown, unsupported, checkpoint.
    """

    def __init__(self, message: str, hint: str | None = None, kind: str = "value") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.kind = kind

    def within(self, place: str) -> InputError:
        """The same error, with the place (a file, a section) named in front."""
        return InputError(f"{place}: {self.message}", self.hint, self.kind)


class Impossible(InputError):
    """What is fine for other models: in a list of many this one has no figure."""


class NoPosition(Impossible):
    """A context that a model has no positions for."""


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """A hint naming the nearest known word, or None."""
    from difflib import get_close_matches

    near = get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"did you mean {near[0]}?" if near else None


def is_count(word: str, digits: int = 9) -> bool:
    """Whether a word is a whole number of so many digits at most: 0 to 9, as no other script writes them. Python's own
    tests take any script's, and its `int` refuses thousands of them."""
    return word.isascii() and word.isdecimal() and len(word) <= digits


def printable(text: str, limit: int = 80) -> str:
    """Text from a file, safe to print: control characters escaped, long text cut."""
    shown = text if len(text) <= limit else text[:limit] + "…"
    return shown if shown.isprintable() else "".join(ch if ch.isprintable() else _escape(ch) for ch in shown)


def whole_characters(value: Any) -> Any:
    """The value with U+FFFD for every half of a character that stands alone: no encoding can write one."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {whole_characters(key): whole_characters(item) for key, item in value.items()}
    return [whole_characters(item) for item in value] if isinstance(value, list) else value


def file_name(path: object) -> str:
    """A file as messages name it: whole, so that it can be copied; only what is no path of any system is cut."""
    return printable(str(path), 1024)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode()
