"""Reading JSON and YAML: what a scalar means, what is refused, and that both YAML readers agree."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gptcalc.errors import InputError
from gptcalc.sources import preset, simple, text

PRESETS = sorted(Path(preset.folder()).glob("*.yaml"))


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("4096", 4096), ("-1", -1), ("1_000", 1000), ("1e4", 10000), ("1E4", 10000), ("1e-5", 1e-5), ("5.0", 5.0),
        ("0.5", 0.5), (".5", 0.5), ("true", True), ("False", False), ("null", None), ("~", None), ("", None),
        ("n*attn+mlp", "n*attn+mlp"), ("2024-04", "2024-04"), ("nope", "nope"), ("1:30", "1:30"), ("1.2.3", "1.2.3"),
    ],
)  # fmt: skip
def test_scalars(word: str, value: Any) -> None:
    found = text.scalar(word)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    "word", ["yes", "no", "On", "OFF", "010", "0x10", "0o7", ".inf", "-.INF", ".nan", "1e400", "9" * 41]
)
def test_scalars_that_are_refused(word: str) -> None:
    with pytest.raises(InputError):
        text.scalar(word)


def test_a_refusal_names_line_key_and_mend() -> None:
    with pytest.raises(InputError) as error:
        text.parse_yaml("name: x\ntying: no\n")
    assert error.value.message == "line 2: tying: no is ambiguous"
    assert error.value.hint == "write true or false, or quote it"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("a: 1\na: 2", "line 2: key 'a' stands twice: 1 and 2"),
        ("a: {b: 1, b: 2}", "key 'b' stands twice"),
        ("a: &x 1\nb: *x", "the anchor &x"),
        ("b: *x", "the alias *x"),
        ("a: !!int 3", "the tag"),
        ("a: !custom 3", "the tag !custom"),
        ("a: 1\n---\nb: 2", "a second document"),
        ("? [1]\n: 2", "a list as a key"),
        ("a: {b: 1", "not valid YAML"),
        ("a: b: c", "line 1, column 5"),
        ("a:\n\t- 1", "not valid YAML"),
        ("a: \x07", "control characters"),
        ("a: " + "[" * 3000, "not"),
        ("a: " + "[" * 100 + "]" * 100, "nested deeper"),
        ("a: " + "x" * 2**20, "too large"),
    ],
)
def test_yaml_that_is_refused(content: str, problem: str) -> None:
    with pytest.raises(InputError) as error:
        text.parse_yaml(content)
    assert problem in error.value.message


@pytest.mark.parametrize(
    ("content", "value"),
    [
        ("", None),
        ("# nothing\n", None),
        ("a: 'no'\nb: \"1\"", {"a": "no", "b": "1"}),
        ("a: >\n  folded\n  text\n", {"a": "folded text\n"}),
        ("a:\n- 1\n- {b: 2}\n", {"a": [1, {"b": 2}]}),
        ("{a: 1, b: [x, y]}", {"a": 1, "b": ["x", "y"]}),
        ("---\na: 1\n...\n", {"a": 1}),
        ("1: x", {"1": "x"}),
        ('a: "\\x1b"', {"a": "\x1b"}),
    ],
)
def test_yaml_that_only_the_full_reader_knows(content: str, value: Any) -> None:
    with pytest.raises(simple.NotSimple):
        simple.read(content, text.scalar)
    assert text.parse_yaml(content) == value


def test_the_simple_reader_reads_presets_as_the_full_one_does() -> None:
    read = 0
    for path in PRESETS:
        content = path.read_text(encoding="utf-8")
        try:
            found = simple.read(content, text.scalar)
        except simple.NotSimple:
            continue
        assert found == text.parse_full_yaml(content)
        read += 1
    assert read > len(PRESETS) * 0.9


MARKS = " \n:#,[]{}\"'*&!|>%@`-?~abc01.5e+_\\/()\t=<é"
EDITS = st.sampled_from([*MARKS, "  ", "\n  ", "- ", ": ", " #", "null", "1e4", "---\n"])


@given(st.data())
def test_whatever_the_simple_reader_accepts_it_reads_right(data: st.DataObject) -> None:
    content = data.draw(st.sampled_from(PRESETS)).read_text(encoding="utf-8")
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content)))
        content = content[:at] + data.draw(EDITS) + content[at + data.draw(st.integers(0, 3)) :]
    try:
        found = simple.read(content, text.scalar)
    except (simple.NotSimple, InputError):
        return
    assert repr(found) == repr(text.parse_full_yaml(content))


FLOATS = st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.none() | st.booleans() | st.integers(-(10**12), 10**12) | FLOATS | st.text(max_size=12)
KEYS = st.text(min_size=1, max_size=8)
NESTED = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=6
)
DOCUMENTS = st.dictionaries(KEYS, NESTED, max_size=4)
LONG_LISTS = st.dictionaries(KEYS, st.lists(st.text(min_size=30)), max_size=2)


@given(DOCUMENTS | LONG_LISTS)
def test_what_is_written_reads_back(document: dict[str, Any]) -> None:
    found = text.parse_yaml(preset.dump(document))
    assert typed(found or {}) == typed(document)


def typed(value: Any) -> Any:
    """The value with its types spelled out: 1, 1.0 and True are equal in Python."""
    if isinstance(value, dict):
        return {key: typed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [typed(item) for item in value]
    return type(value), value


@pytest.mark.parametrize("path", PRESETS[::20], ids=lambda path: path.stem)
def test_a_preset_written_anew_is_the_same(path: Path) -> None:
    document = preset.read(str(path))
    assert text.parse_yaml(preset.dump(document)) == document


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ('{"a": 1, "a": 2}', "key 'a' stands twice: 1 and 2"),
        ('{"a": {"b": 1, "b": null}}', "key 'b' stands twice: 1 and None"),
        ('{"a": 1,}', "a comma before a closing bracket (line 1, column "),  # the comma's, from Python 3.13 on
        ('{"a": 1', "it ends too early (line 1, column 8)"),
        ('{"a": "x', "it ends too early"),
        ('{"a": 1} // x', "JSON has no comments"),
        ('{\n  "a": 1 "b": 2}', "(line 2, column 10)"),
        ("[" * 100_000, "nested too deeply"),
        ('{"n": [' + "9" * 50 + "]}", "n: a number of 50 digits (9999999999…)"),
        ('{"x": 1e999}', "x: a number out of range"),
    ],
)
def test_json_that_is_refused(content: str, problem: str) -> None:
    with pytest.raises(InputError) as error:
        text.parse_json(content)
    assert problem in error.value.message


def test_json_keeps_what_real_files_hold() -> None:
    found = text.parse_json('{"a": Infinity, "b": NaN, "c": [1, 2.5, null, true]}')
    assert found["a"] == math.inf
    assert math.isnan(found["b"])
    assert found["c"] == [1, 2.5, None, True]


JSON_SIGNS = st.sampled_from(
    [*'{}[]",:\\ \n\x01é', "0", "-1", "1.5", "1e5", "9" * 17, "null", "true", '"a"', '"a":', "NaN"]
)


@given(
    st.lists(JSON_SIGNS, max_size=12).map("".join),
    st.dictionaries(st.text(':a"', max_size=2), st.integers() | st.text(":é")),
)
def test_json_is_read_alike_by_both_readers(signs: str, values: dict[str, Any]) -> None:
    """What the short way answers, json answers; a key that stands twice is left to json, which refuses it."""
    whole = json.dumps(values)
    for content in (
        signs,
        f'{{"a": {signs}}}',
        whole,
        whole[:-1] + f', {signs}"a": 1}}',
        f'[{{"a": 1, "a": {whole}}}]',
    ):
        found = text._plain_json(content)
        if found is not None:
            assert repr(found) == repr(text._odd_json(content))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_encodings(encoding: str) -> None:
    assert text.decode("név: ő".encode(encoding)) == "név: ő"


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"a: \xe4", "byte 0xe4 at offset 3 is not UTF-8"),
        ("a".encode("utf-16-le") * 4, "without a byte-order mark"),
        (b"  <!DOCTYPE html><html>", "web page"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1234567\n", "1,234,567 bytes"),
        (b" \n", "empty"),
    ],
)
def test_bytes_that_are_no_text(data: bytes, problem: str) -> None:
    with pytest.raises(InputError) as error:
        text.decode(data)
    assert problem in error.value.message


def test_a_large_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    with path.open("wb") as file:
        file.truncate(text.MAX_BYTES + 1)  # sparse: takes no room
    with pytest.raises(InputError) as error:
        text.read(str(path))
    assert "too large" in error.value.message
