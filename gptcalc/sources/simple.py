"""The YAML that preset files are written in, read without PyYAML: its import takes longer than a command's whole work.

One `key: value` a line, values plain, in double quotes without escapes, or in brackets on the same line; sections and
lists may be indented, plain text may go on in indented lines. Anything else, and anything wrong, is left to the full
parser: what this one reads, that one reads the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

MAX_LENGTH = 100_000
MAX_NESTING = 8

#: what is no part of a plain word within brackets, or not of every
_SPECIAL = frozenset("[]{}\"'#:")
#: within brackets; compiled where there are any
_TOKEN = r' *([\[\]{},]|:(?= )|"[^"\\]*"|[\w.+/(][^,\[\]{}"\'#:]*(?::[^,\[\]{}"\'#: ]+)*)'


class NotSimple(Exception):
    """Valid or not, this text is for the full parser."""


def read(text: str, scalar: Callable[[str], Any]) -> dict[str, Any]:
    """The mapping in a text; `scalar` says what a bare word means. Raises NotSimple."""
    if len(text) > MAX_LENGTH:
        raise NotSimple
    lines = _lines(text)
    if not lines or lines[0].key == "-":
        raise NotSimple
    document, rest = _section(lines, 0, scalar)
    if rest < len(lines):
        raise NotSimple
    return document


class _Line(Struct, frozen=True):
    indent: int
    key: str  # - for an item of a list
    value: str
    open: bool  # a comment would end the value; without one it may go on in the next line


def _lines(text: str) -> list[_Line]:
    lines: list[_Line] = []
    for line in text.split("\n"):
        bare = line.strip(" ")
        if not bare or bare.startswith("#"):
            if lines:
                lines[-1] = replace(lines[-1], open=False)
            continue
        if not line.isprintable():
            raise NotSimple
        found = _keyed(bare)
        if found is not None:
            key, written = found
            value = _without_comment(written)
            lines.append(_Line(len(line) - len(line.lstrip(" ")), key, value, value == written))
        elif lines and lines[-1].open and lines[-1].key != "-" and _goes_on(lines[-1], line, bare):
            lines[-1] = replace(lines[-1], value=f"{lines[-1].value} {bare}")
        else:
            raise NotSimple
    return lines


def _keyed(bare: str) -> tuple[str, str] | None:
    """The key of a line, or - of an item, and what stands behind it."""
    if bare.startswith("- "):
        return "-", bare[1:].lstrip(" ")
    key, colon, value = bare.partition(":")
    if not colon or not _is_key(key) or value[:1] not in ("", " "):
        return None
    return key, value.lstrip(" ")


def _is_key(word: str) -> bool:
    """Whether it is a key without quotes, such as n_heads or rtx-4090."""
    return word[:1].isalpha() and word.isascii() and word.translate(_INSIDE_KEYS).isalnum()


_INSIDE_KEYS = {ord(sign): None for sign in "-_."}


def _is_plain(value: str) -> bool:
    """Whether it may be text without quotes."""
    first, second = value[:1], value[1:2]
    return (
        first.isalnum()
        or first in ("_", ".", "/", "(", "+")
        or (first == "-" and (second.isalnum() or second in ("_", ".")))
    )


def _goes_on(before: _Line, line: str, bare: str) -> bool:
    """Whether a line without a key continues the plain text before it."""
    deeper = len(line) - len(line.lstrip(" ")) > before.indent
    return deeper and _is_plain(before.value) and " #" not in bare


def _without_comment(value: str) -> str:
    if value.startswith("#"):
        return ""
    if value.startswith('"'):
        inside, end, rest = value[1:].partition('"')
        behind = rest.lstrip(" ")
        if not end or "\\" in inside or (behind and (not behind.startswith("#") or behind == rest)):
            raise NotSimple
        return f'"{inside}"'
    return value.partition(" #")[0].rstrip(" ")


def _section(lines: list[_Line], start: int, scalar: Callable[[str], Any]) -> tuple[dict[str, Any], int]:
    """The keys at the indentation of line `start`, and the number of the line behind them."""
    indent = lines[start].indent
    found: dict[str, Any] = {}
    at = start
    while at < len(lines) and lines[at].indent == indent:
        key, value = lines[at].key, lines[at].value
        at += 1
        deeper = at < len(lines) and lines[at].indent > indent
        if key in found or key == "-" or (value and deeper):
            raise NotSimple
        if not deeper:
            found[key] = _value(value, scalar)
        elif lines[at].key == "-":
            found[key], at = _list(lines, at, scalar)
        else:
            found[key], at = _section(lines, at, scalar)
    if at < len(lines) and (lines[at].indent > indent or start == 0):
        raise NotSimple
    return found, at


def _list(lines: list[_Line], start: int, scalar: Callable[[str], Any]) -> tuple[list[Any], int]:
    """The items at the indentation of line `start`, and the number of the line behind them."""
    found: list[Any] = []
    at = start
    while at < len(lines) and lines[at].indent == lines[start].indent:
        if lines[at].key != "-":
            raise NotSimple
        found.append(_value(lines[at].value, scalar))
        at += 1
    if at < len(lines) and lines[at].indent > lines[start].indent:
        raise NotSimple
    return found, at


def _value(value: str, scalar: Callable[[str], Any]) -> Any:
    if value.startswith("[") and _is_list_of_words(value):
        return [scalar(word.strip(" ")) for word in value[1:-1].split(",")]
    if value.startswith(("{", "[")):
        return _Flow(value, scalar).whole()
    if value.startswith('"'):
        return _unquoted(value)
    if value and (not _is_plain(value) or ": " in value or value.endswith(":")):
        raise NotSimple
    return scalar(value)


def _is_list_of_words(value: str) -> bool:
    """Whether a value is [word, word …], which is read without compiling a pattern."""
    inside = value[1:-1]
    words = inside.split(",")
    return (
        value.endswith("]")
        and not set(inside) & _SPECIAL
        and all((first := word.strip(" ")[:1]).isalnum() or (first and first in "_.+/(") for word in words)
    )


def _unquoted(word: str) -> str:
    return word[1:-1]


def _tokens(text: str) -> Iterator[str]:
    at = 0
    while at < len(text):
        match = re.compile(_TOKEN).match(text, at)
        if match is None:
            raise NotSimple
        yield match[1].rstrip(" ")
        at = match.end()


class _Flow:
    """Brackets on one line."""

    def __init__(self, text: str, scalar: Callable[[str], Any]) -> None:
        self.scalar = scalar
        self.tokens = list(_tokens(text))
        self.at = 0

    def next(self) -> str:
        self.at += 1
        if self.at > len(self.tokens):
            raise NotSimple
        return self.tokens[self.at - 1]

    def whole(self) -> Any:
        value = self.value(self.next(), 0)
        if self.at != len(self.tokens):
            raise NotSimple
        return value

    def value(self, token: str, depth: int) -> Any:
        if depth > MAX_NESTING or token in (",", ":", "]", "}"):
            raise NotSimple
        if token == "[":
            return self.sequence(depth + 1)
        if token == "{":
            return self.mapping(depth + 1)
        return _unquoted(token) if token.startswith('"') else self.scalar(token)

    def sequence(self, depth: int) -> list[Any]:
        found: list[Any] = []
        if self.tokens[self.at :][:1] == ["]"]:
            self.at += 1
            return found
        while True:
            found.append(self.value(self.next(), depth))
            if not self.more("]"):
                return found

    def mapping(self, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if self.tokens[self.at :][:1] == ["}"]:
            self.at += 1
            return found
        while True:
            key = self.next()
            is_word = _is_key(key) or (key[-1].isalpha() and self.scalar(key) == key)  # 8gb; but 1e5 is a number
            if not is_word or key in found or self.next() != ":":
                raise NotSimple
            found[key] = self.value(self.next(), depth)
            if not self.more("}"):
                return found

    def more(self, end: str) -> bool:
        token = self.next()
        if token not in (",", end):
            raise NotSimple
        return token == ","
