"""The letters of a line: those that its symbols are indexed by, and those that a choice or a sum within it binds."""

from __future__ import annotations

from gptcalc.equations.grammar import Call, sentence
from gptcalc.equations.language import Index, Line


def letters(line: Line) -> dict[str, Index]:
    """Every letter with what it runs over."""
    found = line.ranges()
    for node in sentence(line.text).read:
        if isinstance(node, Call):
            found |= {letter: line.scope[letter] for letter in node.over if letter in line.scope}
    return found
