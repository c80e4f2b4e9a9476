"""Random models through the command line: right ones are shown and read back the same, wrong ones get one line."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout
from copy import deepcopy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gptcalc import units
from gptcalc.analysis.params import params
from gptcalc.cli import run
from gptcalc.document import build
from gptcalc.report import plain
from gptcalc.report.params import view
from gptcalc.sources import preset, text
from tests.conftest import Result
from tests.strategies import documents


def gptcalc(*arguments: str, stdin: str) -> Result:
    """The command without a fixture, which hypothesis would share between examples."""
    out, err, true = io.StringIO(), io.StringIO(), sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(stdin.encode()))
    try:
        with redirect_stdout(out), redirect_stderr(err):
            status = run(arguments)
    finally:
        sys.stdin = true
    return Result(status, out.getvalue(), err.getvalue())


@given(documents())
def test_what_is_shown_is_the_same_model(document: dict[str, Any]) -> None:
    shown = gptcalc("show", "-", stdin=preset.dump(document))
    assert shown.status == 0
    assert build(text.parse_yaml(shown.out)) == build(document)
    as_json = gptcalc("show", "-", "--json", stdin=shown.out)
    assert gptcalc("show", "-", stdin=as_json.out).out == shown.out


@given(documents(), st.sampled_from(["prefill", "decode", "train"]))
def test_parts_add_up(document: dict[str, Any], phase: str) -> None:
    content = preset.dump(document)
    params = gptcalc("params", "-", "--json", stdin=content).json
    assert sum(params["components"].values()) == sum(g["total"] for g in params["groups"]) == params["total"]
    lines = gptcalc("explain", "-", "--phase", phase, "--json", stdin=content).json
    assert lines["params"] == params["total"]
    assert lines["flops"] == gptcalc("flops", "-", "--phase", phase, "--json", stdin=content).json["total"]
    why = gptcalc("params", "-", "--why", "active", "--json", stdin=content).json
    assert why["value"] == sum(row["amount"] for row in why["rows"]) == params["active"]
    kv = gptcalc("kv", "-", "--json", stdin=content).json
    assert kv["bytes"] == sum(group["bytes"] for group in kv["groups"])


@given(documents(), st.sampled_from(["params", "kv", "flops", "explain", "compare", "diff"]))
def test_every_view_can_be_drawn(document: dict[str, Any], name: str) -> None:
    content = preset.dump(document)
    models = ["-", "gpt2"] if name == "diff" else ["-"]
    for form in ("table", "csv", "markdown"):
        result = gptcalc(name, *models, "--format", form, stdin=content)
        assert result.status == 0
        assert result.out


@given(documents(), st.integers(1, 200))
def test_a_terminal_of_any_width_shows_every_figure_or_its_short_form(document: dict[str, Any], width: int) -> None:
    found = params(build(document))
    shown = plain.render(view(found).drawn(width), width)
    for figure in (found.total, found.active, *(group.total for group in found.groups)):
        assert f"{figure:,}" in shown or units.short_count(figure) in shown


WRONG = st.sampled_from(
    [None, True, False, 0, -1, 1, 7, 2**40, 1.5, 1e300, "", "x", "n*attn", "mlp+", "9*[attn", [], ["x"], {}, {"x": 1},
     {"like": "x"}]
)  # fmt: skip
WORDS = st.sampled_from(["--json", "--get", "--set", "--context", "params", "gpt2", "kv", "-", "x=1"])


def places(value: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Every key of a document, with the mapping that holds it."""
    for key, item in value.items():
        yield value, key
        if isinstance(item, Mapping):
            yield from places(item)


@given(st.data(), documents())
def test_a_wrong_document_gets_one_line(data: st.DataObject, document: dict[str, Any]) -> None:
    changed = json.loads(json.dumps(document))
    for _ in range(data.draw(st.integers(1, 3))):
        holder, key = data.draw(st.sampled_from(list(places(changed))))
        if data.draw(st.booleans()):
            holder[key] = deepcopy(data.draw(WRONG))
        else:
            holder[data.draw(st.sampled_from(["x", "n_head", "likes", "d", "kv"]))] = holder.pop(key)
        if not changed:
            break
    result = gptcalc("params", "-", stdin=preset.dump(changed) or "{}")
    assert result.status in (0, 2)
    if result.status == 2:
        assert result.out == ""
        assert len(result.lines) == 1
        assert result.lines[0].startswith("gptcalc: standard input: ")


@given(st.lists(st.text(max_size=8).filter(lambda word: not word.startswith("-o")) | WORDS, max_size=5))
def test_any_words_get_an_answer_or_one_line(words: list[str]) -> None:
    result = gptcalc(*words, stdin="")
    assert result.status in (0, 2)
    assert result.status == 0 or (len(result.lines) == 1 and result.out == "")
