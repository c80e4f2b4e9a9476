"""Reading text that nobody vouches for: files, JSON and YAML.

Only regular files are opened, nothing is allocated on a file's word, and what is ambiguous is refused. Errors name the
line and column, or the byte; the caller names the file (`InputError.within`).
"""

from __future__ import annotations

import math
import os
import re
import stat
from collections.abc import Iterator
from typing import Any, NoReturn

import msgspec

from gptcalc.errors import InputError, file_name, printable, whole_characters

MAX_BYTES = 64 * 2**20  # the index of a model of 100,000 tensors takes about ten
MAX_YAML = 2**20  # presets take one or two thousand characters
MAX_DEPTH = 64
MAX_DIGITS = 40
MAX_PLAIN = 2**53  # larger numbers are rare

_LFS_POINTER = "version https://git-lfs.github.com/"


# --- files ------------------------------------------------------------------------------------------------------------


def read(path: str) -> str:
    """The text of a regular file, in UTF-8 or UTF-16."""
    data = read_bytes(path)
    try:
        return decode(data)
    except InputError as error:
        raise error.within(file_name(path)) from None


def read_bytes(path: str, limit: int = MAX_BYTES) -> bytes:
    """The bytes of a regular file of at most `limit` bytes. A pipe or a device would never end, so none is opened."""
    try:
        # without O_NONBLOCK, opening a FIFO waits for a writer
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except OSError as error:
        raise InputError(f"{file_name(path)}: {_reason(error)}", kind="file") from None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise InputError(f"{file_name(path)}: not a regular file", kind="file")
        if status.st_size > limit:
            size = f"{status.st_size:,} bytes, more than {limit:,}"
            raise InputError(f"{file_name(path)}: too large for a description of a model: {size}", kind="file")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(limit + 1)
    finally:
        os.close(descriptor)


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


def decode(data: bytes) -> str:
    """Text from bytes: UTF-8 with or without its mark, or UTF-16 with it."""
    if not data.strip():
        raise InputError("the file is empty", kind="format")
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        encoding = "utf-16"
    elif b"\0" in data[:4]:
        raise InputError("not UTF-8: UTF-16 or UTF-32 without a byte-order mark, or not text", kind="format")
    else:
        encoding = "utf-8-sig"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        byte = f"byte 0x{data[error.start]:02x} at offset {error.start}"
        name = "UTF-16" if encoding == "utf-16" else "UTF-8"
        raise InputError(f"{byte} is not {name}", "save the file as UTF-8", "format") from None
    _refuse_look_alikes(text)
    return text


def is_pointer(path: str | os.PathLike[str]) -> bool:
    """Whether a file is what Git LFS leaves in place of a large one."""
    with open(path, "rb") as file:
        return file.read(len(_LFS_POINTER)) == _LFS_POINTER.encode()


def _refuse_look_alikes(text: str) -> None:
    start = text.lstrip()[:200].lower()
    if start.startswith(("<!doctype", "<html", "<?xml", "<head", "<body")):
        raise InputError("this is a web page; did the download fail?", kind="format")
    if start.startswith(_LFS_POINTER):
        size = re.search(r"^size (\d{1,20})$", text, re.MULTILINE)
        real = f"; the real file has {int(size[1]):,} bytes" if size else ""
        raise InputError(f"this is a Git LFS pointer{real}", "run git lfs pull", "format")


def mapping(value: Any) -> dict[str, Any]:
    """The value, which must be a mapping."""
    if isinstance(value, dict):
        return value
    raise InputError(f"expected an object with the model's fields, found {_kind(value)}", kind="format")


def _kind(value: Any) -> str:
    names = {list: "a list", str: "a string", bool: "a boolean", int: "a number", float: "a number"}
    return "nothing (null)" if value is None else names.get(type(value), type(value).__name__)


# --- JSON -------------------------------------------------------------------------------------------------------------


def parse_json(text: str) -> Any:
    """Strict JSON. NaN and Infinity are read as floats: real files hold them in fields that nobody needs."""
    value = _plain_json(text)
    return _odd_json(text) if value is None else value


def _plain_json(text: str) -> Any:
    """What is in a text that is JSON without any oddity, read without json, whose import takes longer; else None.

    A key that stood twice would leave colons in the text that no key or string accounts for.
    """
    if "\\u" in text:
        return None
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
    colons, level = 0, [value]
    for _ in range(MAX_DEPTH + 1):
        inner: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                colons += len(item) + sum(key.count(":") for key in item)
                inner += item.values()
            elif isinstance(item, list):
                inner += item
            elif isinstance(item, str):
                colons += item.count(":")
            elif isinstance(item, int) and abs(item) > MAX_PLAIN:
                return None
        level = inner
        if not level:
            return value if colons == text.count(":") else None
    return None


def _odd_json(text: str) -> Any:
    """The same by json, which says where something is wrong."""
    import json

    try:
        value = json.loads(text, object_pairs_hook=_object, parse_int=_json_int, parse_float=_json_float)
    except json.JSONDecodeError as error:
        problem = _json_problem(text, error.pos, error.msg)
        where = f"line {error.lineno}, column {error.colno}"
        raise InputError(f"not valid JSON: {problem} ({where})", kind="format") from None
    except RecursionError:
        raise InputError("not usable JSON: nested too deeply", kind="format") from None
    except _BadNumber as error:
        raise _located(error, text) from None
    if depth_beyond(value, MAX_DEPTH):
        raise InputError(f"not usable JSON: nested deeper than {MAX_DEPTH}", kind="format")
    return whole_characters(value) if _has_halves(text) else value


def _has_halves(text: str) -> bool:
    """Whether there is an escape of half a character, which may lack its other half."""
    return "\\ud" in text.lower() and re.search(r"\\u[dD][89a-fA-F]", text) is not None


def depth_beyond(value: Any, limit: int) -> bool:
    """Whether mappings and lists are nested deeper than this."""
    level = [value]
    for _ in range(limit + 1):
        level = [
            inner
            for item in level
            if isinstance(item, (dict, list))
            for inner in (item.values() if isinstance(item, dict) else item)
            if isinstance(inner, (dict, list))
        ]
        if not level:
            return False
    return True


#: a key and what may stand between it and a number: the end of what is in front of it
_KEY_BEFORE = r'"((?:[^"\\]|\\.){1,200})"\s{0,20}:[\s\[]{0,20}$'


def _located(number: _BadNumber, text: str) -> InputError:
    error = InputError(f"a number {number.problem} ({number.digits[:10]}…)", "no size is that large")
    at = text.find(number.digits)
    key = re.search(_KEY_BEFORE, text[max(at - 300, 0) : at])
    return error.within(printable(key[1])) if key else error


class _BadNumber(Exception):
    def __init__(self, digits: str, problem: str) -> None:
        self.digits = digits
        self.problem = problem


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: dict[str, Any] = {}
        for key, value in pairs:
            if key in seen:
                raise _twice(key, seen[key], value)
            seen[key] = value
    return found


def _twice(key: str, first: Any, second: Any) -> InputError:
    values = " and ".join(printable(repr(value), 40) for value in (first, second))
    return InputError(f"key {printable(key)!r} stands twice: {values}", kind="format")


def _json_int(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise _BadNumber(digits, f"of {len(digits)} digits")
    return int(digits)


def _json_float(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise _BadNumber(digits, "out of range")
    return value


def _json_problem(text: str, at: int, message: str) -> str:
    """json's message, or a better one for the mistakes that people make."""
    rest = text[at:].lstrip()
    if not rest or message.startswith("Unterminated"):
        return "it ends too early"
    if rest.startswith(("//", "/*", "#")):
        return "JSON has no comments"
    before = text[:at].rstrip()
    if "trailing comma" in message or (before.endswith(",") and rest[0] in "}]"):
        return "a comma before a closing bracket"
    return message[0].lower() + message[1:]


# --- YAML -------------------------------------------------------------------------------------------------------------


def parse_yaml(text: str) -> Any:
    """The part of YAML that a description of a model needs: mappings, lists and scalars.

    Duplicate keys, anchors, aliases and tags are refused; scalars mean what `scalar` says.
    """
    from gptcalc.sources import simple

    if len(text) > MAX_YAML:
        raise InputError(f"too large for a description of a model: {len(text):,} characters", kind="format")
    try:
        return simple.read(text, scalar)
    except (simple.NotSimple, InputError):
        return parse_full_yaml(text)


def parse_full_yaml(text: str) -> Any:
    """The same by PyYAML, which knows all of YAML and says where something is wrong."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        value = _Composer(yaml.parse(text, Loader=loader)).document()
        return whole_characters(value) if _has_halves(text) else value
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" (line {mark.line + 1}, column {mark.column + 1})" if mark else ""
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "unreadable"
        raise InputError(f"not valid YAML: {printable(str(problem))}{where}", kind="format") from None


class _Composer:
    """Builds plain values from a stream of YAML events."""

    def __init__(self, events: Iterator[Any]) -> None:
        self.events = events

    def document(self) -> Any:
        next(self.events)  # the stream
        if type(next(self.events)).__name__ == "StreamEndEvent":
            return None
        value = self.value(next(self.events), 0)
        next(self.events)  # the document's end
        if type(event := next(self.events)).__name__ != "StreamEndEvent":
            self.refuse(event, "a second document")
        return value

    def value(self, event: Any, depth: int, key: str = "") -> Any:
        kind = type(event).__name__
        if kind == "AliasEvent":
            self.refuse(event, f"the alias *{printable(event.anchor)}; write the value out")
        if event.anchor is not None:
            self.refuse(event, f"the anchor &{printable(event.anchor)}; write the value out where it is needed")
        if event.tag is not None:
            self.refuse(event, f"the tag {printable(event.tag)}")
        if depth > MAX_DEPTH:
            self.refuse(event, f"brackets nested deeper than {MAX_DEPTH}")
        if kind == "ScalarEvent":
            return self.scalar(event, key)
        return self.mapping(depth) if kind == "MappingStartEvent" else self.sequence(depth)

    def scalar(self, event: Any, key: str) -> Any:
        if not event.implicit[0]:  # quoted
            return event.value
        try:
            return scalar(event.value)
        except InputError as error:
            line = f"line {event.start_mark.line + 1}"
            raise error.within(f"{line}: {printable(key)}" if key else line) from None

    def sequence(self, depth: int) -> list[Any]:
        values = []
        while type(event := next(self.events)).__name__ != "SequenceEndEvent":
            values.append(self.value(event, depth + 1))
        return values

    def mapping(self, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while type(event := next(self.events)).__name__ != "MappingEndEvent":
            key = event.value if type(event).__name__ == "ScalarEvent" else self.value(event, depth + 1)
            if not isinstance(key, str):
                self.refuse(event, f"{_kind(key)} as a key")
            value = self.value(next(self.events), depth + 1, key)
            if key in found:
                raise _twice(key, found[key], value).within(f"line {event.start_mark.line + 1}")
            found[key] = value
        return found

    def refuse(self, event: Any, what: str) -> NoReturn:
        raise InputError(f"line {event.start_mark.line + 1}: not accepted: {what}", kind="format")


_WORDS = {"": None, "~": None, "null": None, "true": True, "false": False}
#: by hand, as compiling patterns would take longer than all else that is done with a preset's text
_DECIMAL = frozenset("0123456789.eE+-")
_HEXADECIMAL = frozenset("0123456789abcdefABCDEF")
_ENDLESS = frozenset(
    (*(sign + word for sign in ("", "+", "-") for word in (".inf", ".Inf", ".INF")), ".nan", ".NaN", ".NAN")
)
_ANSWERS = {form for word in ("yes", "no", "on", "off") for form in (word, word.capitalize(), word.upper())}


def scalar(text: str) -> Any:
    """A plain scalar: null, true, false, 4096, 1_000, 0.5, 1e4 (a number here); anything else is text."""
    if text in _WORDS or text.lower() in ("null", "true", "false"):
        return _WORDS[text.lower()]
    if text in _ANSWERS:
        raise InputError(f"{text} is ambiguous", "write true or false, or quote it")
    if text[0] not in "+-.0123456789":
        return text
    whole = _is_whole(text)
    if len(text) > MAX_DIGITS:
        if whole:
            raise InputError(f"a number of {len(text)} digits ({text[:10]}…)", "no size is that large")
        return text
    if whole:
        return int(text)
    if hint := _ambiguous(text):
        raise InputError(f"{text} is ambiguous", hint)
    if not _is_decimal(text):
        return text
    value = float(text)
    if math.isinf(value):
        raise InputError(f"the number {text} is out of range")
    # 1e4 is how people write the integer 10000; 5.0 stays what it says
    return int(value) if "." not in text and value.is_integer() and abs(value) < 2**53 else value


def _digits(text: str) -> str:
    """What stands behind a sign."""
    return text[1:] if text[0] in "+-" else text


def _is_whole(text: str) -> bool:
    """Whether a word is an integer: 0, -7, 1_000."""
    digits = _digits(text)
    return digits == "0" or (
        digits[:1] != "0" and digits.isascii() and all(group.isdigit() for group in digits.split("_"))
    )


def _ambiguous(text: str) -> str | None:
    """How a number that different readers take differently should be written."""
    digits = _digits(text)
    hexadecimal = digits[:2] in ("0x", "0o", "0b") and len(digits) > 2 and set(digits[2:]) <= _HEXADECIMAL
    if hexadecimal or (digits.isascii() and digits.isdigit()):
        return "write the number in decimal, without leading zeros"
    return "write a finite number" if text in _ENDLESS else None


def _is_decimal(text: str) -> bool:
    if not set(text) <= _DECIMAL:
        return False
    try:
        float(text)
    except ValueError:
        return False
    return True
