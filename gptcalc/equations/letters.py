"""The letters of a line: those that its symbols are indexed by, and those that a choice or a sum within it binds."""

from __future__ import annotations

from gptcalc.equations.grammar import Call, sentence, walk
from gptcalc.equations.language import Index, Line


def letters(line: Line) -> dict[str, Index]:
    """Every letter with what it runs over."""
    found = line.ranges()
    tree = sentence(line.text)
    for node in (*walk(tree.right), *(n for value in tree.letters.values() for n in walk(value))):
        if isinstance(node, Call):
            found |= {letter: line.scope[letter] for letter in node.over if letter in line.scope}
    return found
