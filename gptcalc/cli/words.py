"""A command line whose words are as they should be, read without Typer, whose import takes longer than most answers.

Whatever is not plain is left to Typer: help, what is wrong or missing, values that begin with a dash, several letters
behind one dash. What this one reads, Typer reads the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gptcalc.cli.parameters import Parameter, parser
from gptcalc.options import choices, plain


class NotPlain(Exception):
    """This command line is for Typer."""


def read(parameters: Sequence[Parameter], words: Sequence[str]) -> dict[str, Any] | None:
    """The parameters' values, or None. InputError where a word is not what its option takes."""
    try:
        given, rest = _sorted({word: p for p in parameters if not _option(p).positional for word in p.words}, words)
        given |= _placed([p for p in parameters if _option(p).positional], rest)
        order = {name: number for number, name in enumerate(given)}  # the first that is wrong is complained of
        known = sorted(parameters, key=lambda p: order.get(p.name, len(order)))
        return {p.name: _value(p, given.get(p.name)) for p in known}
    except NotPlain:
        return None


def _option(parameter: Parameter) -> Any:
    return plain(parameter.annotation)[2]


def _sorted(options: dict[str, Parameter], words: Sequence[str]) -> tuple[dict[str, list[str]], list[str]]:
    """What each option is given, and the words that are no option's."""
    given: dict[str, list[str]] = {}
    rest: list[str] = []
    left = iter(words)
    for word in left:
        if word == "--":
            return given, [*rest, *left]
        if not word.startswith("-") or word == "-":
            rest.append(word)
            continue
        name, behind, value = word.partition("=") if word.startswith("--") else (word, "", "")
        parameter = options.get(name)
        if parameter is None:
            raise NotPlain
        if plain(parameter.annotation)[0] is not bool:
            value = value if behind else next(left, "-?")
        if value.startswith("-") and value != "-":
            raise NotPlain
        if behind and plain(parameter.annotation)[0] is bool:
            raise NotPlain
        given.setdefault(parameter.name, []).append(value)
    return given, rest


def _placed(arguments: Sequence[Parameter], words: list[str]) -> dict[str, list[str]]:
    """What each argument is given: one word, or all that are left."""
    given: dict[str, list[str]] = {}
    for parameter in arguments:
        if not words:
            break
        is_list = plain(parameter.annotation)[0] == list[str]
        given[parameter.name], words = (words, []) if is_list else (words[:1], words[1:])
    if words:
        raise NotPlain
    return given


def _value(parameter: Parameter, words: list[str] | None) -> Any:
    kind = plain(parameter.annotation)[0]
    if words is None:
        if parameter.required:
            raise NotPlain
        return list(parameter.default) if kind == list[str] else parameter.default
    if kind == list[str]:
        return words
    if kind is bool:
        return True
    read, known = parser(parameter), choices(kind)
    if read is not None:
        return read(words[-1])
    if kind is not str and not (known and all(isinstance(word, str) for word in known)):
        return _among(known, words[-1])
    return words[-1]


def _among(known: tuple[Any, ...], word: str) -> Any:
    """Which of several numbers a word is."""
    for choice in known:
        if str(choice) == word:
            return choice
    raise NotPlain
