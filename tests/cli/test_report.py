"""Tables in every format, from one small table."""

from __future__ import annotations

import pytest

from gptcalc.report import delimited, features, plain
from gptcalc.report.table import Column, Table, bar
from tests.reference_cases import architecture

COLUMNS = (
    Column("name", "name"), Column("params", "parameters", "count"), Column("share", "share", "share"),
    Column("shape", "shape"),
)  # fmt: skip
ROWS = [("a|b", 3_000_000, 3_000_000, (2, 3)), ("ζ̂", 1_000_000, 1_000_000, None)]
TABLE = Table(COLUMNS, ROWS, "two", whole=4_000_000)


def test_plain() -> None:
    assert plain.render([TABLE]).splitlines() == [
        "two",
        "name  parameters          share  shape",
        "a|b    3,000,000  3.00 M  75.0%  2 × 3",
        "ζ̂      1,000,000  1.00 M  25.0%  –",
    ]


def test_a_narrow_terminal_loses_bars_then_exact_figures_then_the_last_columns() -> None:
    bars = plain.render([TABLE], 80).splitlines()
    assert bars[2] == "a|b    3,000,000  3.00 M  75.0%  ████████████████████████  2 × 3"
    assert bars[3] == "ζ̂      1,000,000  1.00 M  25.0%  ████████                  –"
    assert plain.render([TABLE], 50).splitlines() == plain.render([TABLE]).splitlines()
    assert plain.render([TABLE], 36).splitlines()[1:3] == [
        "name  parameters  share  shape",
        "a|b       3.00 M  75.0%  2 × 3",
    ]
    assert plain.render([TABLE], 24).splitlines() == [
        "two",
        "name  parameters  share",
        "a|b       3.00 M  75.0%",
        "ζ̂         1.00 M  25.0%",
        "no room for shape: a",
        "  wider terminal has",
        "  them, or --format csv",
    ]


def test_what_is_too_narrow_for_a_table_has_one_field_a_line() -> None:
    assert plain.render([TABLE], 15).splitlines() == [
        "two",
        "a|b",
        "  parameters 3.00 M",
        "  share 75.0%",
        "  shape 2 × 3",
        "ζ̂",
        "  parameters 1.00 M",
        "  share 25.0%",
    ]


def test_things_stand_as_columns_where_their_fields_are_too_wide() -> None:
    table = Table(COLUMNS, ROWS, whole=4_000_000, turns=True)
    assert plain.render([table], 28).splitlines() == [
        "name           a|b       ζ̂",
        "parameters  3.00 M  1.00 M",
        "share        75.0%   25.0%",
        "shape        2 × 3       –",
    ]


def test_long_texts_fold_where_the_table_then_fits() -> None:
    table = Table((Column("n", "n", "number"), Column("text", "text")), [(1, "one two three four five six seven")])
    assert plain.render([table], 30).splitlines() == [
        "n  text",
        "1  one two three four five six",
        "   seven",
    ]


def test_colour_is_on_a_terminal_only_and_changes_no_letter() -> None:
    coloured = plain.render([TABLE, "text"], 80, colour=True)
    assert "\x1b[1mtwo\x1b[0m" in coloured
    for code in (plain.BOLD, plain.DIM, plain.BLUE, plain.RESET):
        coloured = coloured.replace(code, "")
    assert coloured == plain.render([TABLE, "text"], 80)


def test_text_folds_on_a_terminal_only() -> None:
    text = "one two three four"
    assert plain.render([text]) == text + "\n"
    assert plain.render([text], 10) == "one two\n  three\n  four\n"


def test_control_characters_from_files_are_escaped() -> None:
    table = Table((Column("name", "name"),), [("\x1b[31mred",)])
    assert "\x1b" not in plain.render([table])
    assert "\\x1b[31mred" in plain.render([table])


def test_csv() -> None:
    assert delimited.csv(TABLE) == "name,params,shape\na|b,3000000,2x3\nζ̂,1000000,\n"


def test_markdown() -> None:
    assert delimited.markdown([TABLE, "and\ntext"]).splitlines() == [
        "**two**",
        "",
        "| name | parameters | ≈ | share | shape |",
        "| --- | ---: | ---: | ---: | --- |",
        "| a\\|b | 3,000,000 | 3.00 M | 75.0% | 2 × 3 |",
        "| ζ̂ | 1,000,000 | 1.00 M | 25.0% | – |",
        "",
        "and  ",
        "text",
    ]


@pytest.mark.parametrize(
    ("part", "largest", "drawn"),
    [(1, 1, "█" * 24), (1, 2, "█" * 12), (0, 1, ""), (0, 0, ""), (1, 192, "▏"), (1, 10**9, "")],
)
def test_bars(part: int, largest: int, drawn: str) -> None:
    assert bar(part, largest) == drawn


def test_what_a_field_switches_on_is_a_feature() -> None:
    """A word of its own, or its key: nothing but the field has to be declared."""
    found = {
        name: set(features.of(architecture(name))) for name in ("normed inside", "convolutions", "dynamic", "nested")
    }
    assert {"mha", "output-norm", "out-norm", "bottleneck", "qk-norm", "mid-norm", "relu2glu"} <= found["normed inside"]
    assert {"relative", "kv-conv", "out-conv", "temperature", "shared-sink", "out-scale"} <= found["convolutions"]
    assert {"dynamic-mask", "residual-factors"} <= found["dynamic"]
    assert {"identity-experts", "parallel", "moe", "mla"} <= found["nested"]
    assert not found["nested"] & {"selection-bias", "window", "tied"}
