"""What fields mean, as they are declared: the comment beside a field, and what its struct's docstring says of it.

Read off the source, so that a meaning stands once, where the field is; nothing that counts comes this way.
"""

from __future__ import annotations

import ast
import inspect
import io
import re
import textwrap
import tokenize
from functools import cache

from msgspec import Struct


@cache
def meanings(struct: type[Struct]) -> dict[str, str]:
    """Of a struct's fields, by the names that they have in Python."""
    found: dict[str, str] = {}
    for base in reversed(struct.__mro__):
        if issubclass(base, Struct) and base is not Struct and inspect.get_annotations(base):
            found |= _declared(base)
    return found


def summary(struct: type[Struct]) -> str:
    """The first paragraph of what is said of a struct as a whole."""
    return _flowing((struct.__doc__ or "").split("\n\n")[0])


def _declared(struct: type[Struct]) -> dict[str, str]:
    """Of the fields that this class itself declares."""
    source = textwrap.dedent(inspect.getsource(struct))
    comments = _comments(source)
    (body,) = ast.parse(source).body
    assert isinstance(body, ast.ClassDef)
    fields = [item for item in body.body if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)]
    names = [item.target.id for item in fields if isinstance(item.target, ast.Name)]
    found = _said(ast.get_docstring(body) or "", names)
    for name, item in zip(names, fields, strict=True):
        beside = range(item.lineno, (item.end_lineno or item.lineno) + 1)
        words = [comments[line][1] for line in beside if line in comments] or _above(comments, item.lineno)
        if words:
            found[name] = " ".join(words)
    return found


def _above(comments: dict[int, tuple[bool, str]], line: int) -> list[str]:
    """The comments that stand alone right above a line."""
    found: list[str] = []
    while comments.get(line - 1, (False, ""))[0]:
        line -= 1
        found.insert(0, comments[line][1])
    return found


def _comments(source: str) -> dict[int, tuple[bool, str]]:
    """Line -> whether the comment has it for itself, and its words."""
    found = {}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            alone = not token.line[: token.start[1]].strip()
            words = token.string.lstrip("#: ").strip()
            if not words.startswith(("noqa", "type:", "fmt:")):
                found[token.start[0]] = alone, words
    return found


def _said(text: str, names: list[str]) -> dict[str, str]:
    """What a docstring says of fields: NAME: words, up to the next name or paragraph."""
    found = {}
    for paragraph in text.split("\n\n"):
        flowing = _flowing(paragraph)
        starts = [
            (match.start(), match.end(), name)
            for name in names
            for match in re.finditer(rf"(?:^|(?<=[.;)] ))`?{name}`?: ", flowing)
        ]
        starts.sort()
        ends = [*(start for start, _, _ in starts[1:]), len(flowing)][: len(starts)]
        for (_, begin, name), end in zip(starts, ends, strict=True):
            found[name] = flowing[begin:end].strip().rstrip(";.")
    return found


def _flowing(text: str) -> str:
    return " ".join(text.split())
