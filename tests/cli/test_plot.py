"""Bars: as long as their numbers are large, and a well-formed image."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from gptcalc.report.plot import CELLS, WIDTH, Bars, document, view
from tests.conftest import Command

SVG = "{http://www.w3.org/2000/svg}"
BARS = Bars("<bars>", "count", {"a": {"x": 30, "y": 10}, "b": {"y": 20}})


def test_bars_are_as_long_as_their_numbers() -> None:
    """40 is the largest and fills all cells: 30 of 40 in one shade, 10 in the other; 20 is half."""
    lines = str(view(BARS).parts[1]).splitlines()
    assert lines[0] == "a " + "█" * (CELLS * 3 // 4) + "▓" * (CELLS // 4) + " 40"
    assert lines[1] == "b " + "▓" * (CELLS // 2) + " 20"
    tree = ElementTree.fromstring(document(BARS))
    widths = [
        int(shape.get("width", "0")) for shape in tree.iter(f"{SVG}rect") if shape.find(f"{SVG}title") is not None
    ]
    assert widths == [WIDTH * 3 // 4, WIDTH // 4, WIDTH // 2]


def test_nothing_is_a_plot_without_bars() -> None:
    assert ElementTree.fromstring(document(Bars("none", "bytes", {"a": {}}))).tag == f"{SVG}svg"


def test_commands_draw(gptcalc: Command, tmp_path: Path) -> None:
    shown = gptcalc("kv", "gpt2", "--plot").out
    assert "1,024 " + "█" * CELLS + " 36.0 MiB" in shown
    assert "  512 " + "█" * (CELLS // 2) + " 18.0 MiB" in shown
    assert "weights" in gptcalc("memory", "gpt2", "--plot").out
    assert "experts" in gptcalc("compare", "gpt2", "mixtral-8x7b", "--plot").out
    file = tmp_path / "kv.svg"
    assert gptcalc("kv", "gemma-2-9b", "--plot", "-o", str(file)).status == 0
    titles = [title.text or "" for title in ElementTree.fromstring(file.read_text()).iter(f"{SVG}title")]
    # at 8192 tokens, 21 layers keep 4096 and 21 all: keys and values of 8 heads of 256 in 2 bytes
    assert f"8,192, local+mlp: {21 * 4096 * 2 * 8 * 256 * 2:,} = 672 MiB" in titles
    assert f"8,192, attn+mlp: {21 * 8192 * 2 * 8 * 256 * 2:,} = 1.31 GiB" in titles
    assert gptcalc("kv", "gpt2", "--format", "svg").status == 2
