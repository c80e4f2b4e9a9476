"""Answers for scripts: the whole as JSON, or one value bare."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from gptcalc.answers import plain
from gptcalc.errors import InputError, did_you_mean, is_count, printable


def builtins(data: Any) -> Any:
    """The answer as plain dictionaries, lists and numbers."""
    return msgspec.to_builtins(data, enc_hook=plain)


def json(data: Any) -> str:
    """The answer as a JSON document, numbers exact."""
    return msgspec.json.format(msgspec.json.encode(data, enc_hook=plain), indent=2).decode() + "\n"


def lines(data: Any) -> str:
    """A JSON document a line: of each entry of a list, or of the whole."""
    entries = data if isinstance(data, (list, tuple)) else [data]
    return "".join(msgspec.json.encode(entry, enc_hook=plain).decode() + "\n" for entry in entries)


def get(data: Any, key: str) -> str:
    """One value of the JSON as text: bare, null as null, objects compact."""
    value = pick(data, key)
    return value if isinstance(value, str) else msgspec.json.encode(value, enc_hook=plain).decode()


def pick(data: Any, key: str) -> Any:
    """One value of the JSON at a dotted key, list indices as numbers."""
    value = builtins(data)
    walked: list[str] = []
    for word in key.split("."):
        value = _step(value, word, walked, data)
        walked.append(word)
    return value


def _step(value: Any, word: str, walked: list[str], data: Any) -> Any:
    if isinstance(value, dict) and word in value:
        return value[word]
    if isinstance(value, (list, tuple)) and is_count(word) and int(word) < len(value):
        return value[int(word)]
    place = f" in {'.'.join(walked)}" if walked else ""
    shown = printable(word)
    if isinstance(value, (list, tuple)):
        problem = f"no entry {shown!r}{place}"
        inside = bool(value) and isinstance(value[0], dict) and word in value[0]
        example = ": " + ".".join([*walked, "0", word]) if inside else ""
        raise InputError(problem, f"there are {len(value)}, counted from 0{example}", "unknown")
    if not isinstance(value, dict):
        raise InputError(f"no key {shown!r}{place}", f"{'.'.join(walked)} is a single value", "unknown")
    whole = builtins(data)
    raise InputError(f"no key {shown!r}{place}", _near(word, value, whole), "unknown")


def _near(word: str, here: dict[str, Any], whole: Any) -> str:
    """The same word deeper in the document, a similar one here, or what there is."""
    deeper = [path for path in paths(whole) if path.rpartition(".")[2] == word]
    if deeper:
        return f"did you mean {deeper[0]}?"
    return did_you_mean(word, here) or "there are " + ", ".join(here)


def paths(data: Any, prefix: str = "") -> Iterator[str]:
    """Every dotted key of a JSON document."""
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, (list, tuple)) else ()
    for key, value in items:
        path = f"{prefix}{key}"
        yield path
        yield from paths(value, path + ".")
