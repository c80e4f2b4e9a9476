"""Patterns of tensors' and modules' names, from command lines and configs: regular expressions, none of which may take
for ever."""

from __future__ import annotations

import re

from gptcalc.errors import InputError, printable

#: how often a pattern may say * + or {, and open a group or say ?: each multiplies the ways that a name is tried
REPEATS, CHOICES = 4, 12
EXAMPLE = "write ffn_down or blk.[0-3].ffn_.*_exps"

#: an escaped sign, a set of signs, or a sign
SIGN = r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|."


def compiled(pattern: str, option: str) -> re.Pattern[str]:
    """InputError where it is no regular expression, or one that a short name may keep busy for ever."""
    said = f"{option}: {printable(pattern)!r}"
    _check_effort(pattern, said)
    try:
        return re.compile(pattern)
    except (re.error, OverflowError) as error:
        raise InputError(f"{said} is no pattern: {error}", EXAMPLE, "usage") from None


class Endless(InputError):
    """A pattern that a short name may keep busy for ever."""


def _check_effort(pattern: str, said: str) -> None:
    """A search goes back to every choice that it has made: few of them, and none within what is repeated."""
    signs = [found if len(found) == 1 else "" for found in re.findall(SIGN, pattern, re.DOTALL)]
    repeats = [place for place, sign in enumerate(signs) if sign in ("*", "+", "{")]
    if any(place and signs[place - 1] == ")" for place in repeats):
        raise Endless(f"{said} repeats a group, which may take for ever", EXAMPLE, "usage")
    for number, most, what in (
        (len(repeats), REPEATS, "repetitions"),
        (sum(sign in ("(", "?") for sign in signs), CHOICES, "groups and choices"),
    ):
        if number > most:
            raise Endless(f"{said} has {number} {what}, which may take for ever", f"{most} are enough", "usage")
