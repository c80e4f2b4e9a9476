"""Bars and lines: as long and as high as their numbers are large, in the terminal, as an image, as pixels."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from gptcalc.report import axes, lines
from gptcalc.report.lines import Line, Lines
from gptcalc.report.plot import COLOURS, LEFT, WIDTH, Bars, document, view
from gptcalc.report.table import PICTURE_CELLS as CELLS
from tests.cli.test_cli_hostile import refused_well
from tests.conftest import Command

SVG = "{http://www.w3.org/2000/svg}"
BARS = Bars("<bars>", "count", {"a": {"x": 30, "y": 10}, "b": {"y": 20}})


def test_bars_are_as_long_as_their_numbers() -> None:
    """40 is the largest and fills all cells: 30 of 40 in one shade, 10 in the other; 20 is half."""
    lines = str(view(BARS).drawn()[1]).splitlines()
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


@pytest.mark.parametrize("width", [30, 45, 60, 79])
def test_a_picture_is_no_wider_than_the_terminal(width: int, gptcalc: Command) -> None:
    for line in (
        "kv llama-3-8b gemma-2-9b --context 8K --plot",
        "kv gpt2 --plot",
        "params gpt2 --plot",
        "compare gpt2 gpt2-xl --plot",
    ):
        shown = gptcalc(*line.split(), terminal=width).out
        assert max(map(len, shown.splitlines())) <= width
        assert any(mark * 5 in shown for mark in "█▓─")


LINES = Lines("<lines>", "tokens", "bytes", [Line("a", [(512, 256), (1024, 512)]), Line("<b>", [(0, 1024), (1024, 0)])])


def test_lines_are_as_high_as_their_numbers() -> None:
    """1024 is the end of both axes: 512 of it stands half way, and a straight line crosses the other in its middle."""
    drawn = str(lines.view(LINES).drawn()[1]).splitlines()[: lines.ROWS + 1]
    cells = [line.partition("┤")[2] or line.partition("│")[2] for line in drawn]
    found = {
        mark: [(x, lines.ROWS - row) for row, line in enumerate(cells) for x, at in enumerate(line) if at == mark]
        for mark in "ox"
    }
    assert min(found["o"]) == (CELLS // 2, lines.ROWS // 4)
    assert max(found["o"]) == (CELLS, lines.ROWS // 2)
    assert min(found["x"]) == (0, lines.ROWS)
    assert max(found["x"]) == (CELLS, 0)
    assert (CELLS // 2, lines.ROWS // 2) in found["x"]
    assert len(found["x"]) == CELLS + 1  # a mark in every column
    dots = [dot for dot in ElementTree.fromstring(lines.document(LINES)).iter(f"{SVG}circle") if len(dot)]
    places = [(float(dot.get("cx", "")) - axes.LEFT, float(dot.get("cy", "")) - axes.ABOVE) for dot in dots]
    right, below = axes.WIDTH, axes.HEIGHT
    assert places == [(right / 2, below * 3 / 4), (right, below / 2), (0, 0), (right, below)]


def test_caches_of_several_models_are_those_of_each(gptcalc: Command, tmp_path: Path) -> None:
    """Eight points of each model, as far as it is made for, in CSV and in the image; the last one is the answer."""
    names = ("gpt2", "gemma-2-9b", "mamba-130m")
    rows = list(csv.DictReader(gptcalc("kv", *names, "--plot", "--format", "csv").out.splitlines()))
    assert [row["model"] for row in rows] == [name for name in names for _ in range(8)]
    single = [gptcalc("kv", row["model"], "--context", row["context"], "--json").json for row in rows]
    assert [int(row["bytes"]) for row in rows] == [each["bytes"] for each in single]
    # keys and values of 12 layers of 768 in 2 bytes; of 8 heads of 256, in 21 layers as far as 4096 tokens go back
    assert {row["context"]: int(row["bytes"]) for row in rows[:8]}["512"] == 12 * 512 * 2 * 768 * 2
    assert int(rows[15]["bytes"]) == 21 * (4096 + 8192) * 2 * 8 * 256 * 2
    file = tmp_path / "kv.svg"
    assert gptcalc("kv", *names, "--plot", "-o", str(file)).status == 0
    titles = [title.text for dot in ElementTree.fromstring(file.read_text()).iter(f"{SVG}circle") for title in dot]
    said = [f"{row['model']}, {int(row['context']):,}: {int(row['bytes']):,} = " for row in rows]
    assert [str(title)[: len(start)] for title, start in zip(titles, said, strict=True)] == said
    answer = gptcalc("kv", *names, "--plot", "--json").json
    assert answer == [gptcalc("kv", name, "--json").json for name in names]


def test_components_are_the_answers(gptcalc: Command, tmp_path: Path) -> None:
    file = tmp_path / "params.svg"
    assert gptcalc("params", "mixtral-8x7b", "--plot", "-o", str(file)).status == 0
    titles = [title.text or "" for bar in ElementTree.fromstring(file.read_text()).iter(f"{SVG}rect") for title in bar]
    components = gptcalc("params", "mixtral-8x7b", "--json").json["components"]
    said = [f"{part.replace('_', ' ')}, mixtral-8x7b: {n:,} = " for part, n in components.items() if n]
    assert [title[: len(start)] for title, start in zip(titles, said, strict=True)] == said
    # an embedding of 50257 tokens and 1024 positions is 39.4 M, two matrices of 768 by 3072 in 12 layers are 56.7 M
    assert "mlp " + "█" * CELLS + " 56.7 M" in gptcalc("params", "gpt2", "--plot").out


def test_a_bitmap_is_the_same_picture(gptcalc: Command, tmp_path: Path) -> None:
    """Bars of the numbers' lengths in their colours; every kind of picture can be drawn so."""
    pytest.importorskip("matplotlib")
    from matplotlib.image import imread

    from gptcalc.report.png import SHARPNESS, bitmap

    file = tmp_path / "bars.png"
    file.write_bytes(bitmap(document(BARS)))
    pixels = (imread(file)[:, :, :3] * 255).round().astype(int)
    row = ["#" + bytes(pixel.tolist()).hex() for pixel in pixels[SHARPNESS * 50]]  # through the upper bar
    for colour, start, end in zip(COLOURS, (0, WIDTH * 3 // 4), (WIDTH * 3 // 4, WIDTH), strict=False):
        inside = [place for place, each in enumerate(row) if each == colour]
        assert inside[0] == pytest.approx(SHARPNESS * (LEFT + start), abs=1)
        assert inside[-1] + 1 == pytest.approx(SHARPNESS * (LEFT + end), abs=1)
        assert len(inside) == inside[-1] + 1 - inside[0]
    for words in (
        ("kv", "gpt2", "llama-3-8b", "--plot"), ("kv", "gpt2", "--plot"), ("memory", "gpt2", "--plot"),
        ("compare", "gpt2", "--plot"), ("params", "gpt2", "--plot"), ("sweep", "gpt2", "--context", "128,256"),
    ):  # fmt: skip
        done = gptcalc(*words, "-o", str(file))
        assert (done.status, done.out) == (0, "")
        assert file.read_bytes().startswith(b"\x89PNG")
        file.unlink()


def test_any_name_can_be_drawn(gptcalc: Command, tmp_path: Path) -> None:
    """XML 1.0 has no escape character, escaped or not; a name from a file may have one."""
    preset = {
        "name": "a\x1b<$x$",
        "d": 16,
        "v": 20,
        "c": 8,
        "n_heads": 2,
        "n_layers": 2,
        "d_ff": 32,
        "source": "a test",
    }
    path = tmp_path / "odd.json"
    path.write_text(json.dumps(preset), encoding="utf-8")
    for words in (("kv", path, "gpt2"), ("kv", path), ("params", path)):
        image = ElementTree.fromstring(gptcalc(*words, "--plot", "--format", "svg").out)
        assert any("a\\x1b<$x$" in (text.text or "") for text in image.iter(f"{SVG}text"))


def test_what_is_no_picture_is_one_line(gptcalc: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = str(tmp_path / "a.png")
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # as where it is not installed
    for words, said in (
        (("kv", "gpt2", "--plot", "-o", file), "pip install 'gptcalc[plot]'"),
        (("kv", "gpt2", "--plot", "--format", "png"), "-o FILE.png"),
        (("kv", "gpt2", "-o", file), "not drawn so"),
        (("kv", "gpt2", "llama-3-8b"), "--plot"),
        (("kv", "gpt2", "llama-3-8b", "--plot", "--why", "bytes"), "--why"),
        (("kv", "gpt2", "llama-3-8b", "--plot", "--context", "8K"), "1024 positions"),
        (("kv", "gpt2", "no-such", "--plot"), "no-such"),
        (("params", "gpt2", "--plot", "--why", "total"), "--why"),
        (("params", "gpt2", "--plot", "--by", "tensor"), "--by"),
    ):
        done = gptcalc(*words)
        assert (done.status, done.out, done.err.count("\n")) == (2, "", 1)
        assert said in done.err
    assert not list(tmp_path.iterdir())


def test_bars_as_a_table_are_the_answers(gptcalc: Command) -> None:
    """CSV has every part that a bar is made of, exactly as the answer has it."""
    rows = list(csv.DictReader(gptcalc("memory", "gpt2", "--plot", "--format", "csv").out.splitlines()))
    held = gptcalc("memory", "gpt2", "--json").json["per_device"]
    assert {row["row"] for row in rows} == {"gpt2"}
    assert {row["part"]: int(row["bytes"]) for row in rows}.items() >= {"weights": held["weights"]}.items()
    assert sum(int(row["bytes"]) for row in rows) == held["total"]
    components = gptcalc("params", "gpt2", "--json").json["components"]
    rows = list(csv.DictReader(gptcalc("params", "gpt2", "--plot", "--format", "csv").out.splitlines()))
    assert {row["row"]: int(row["count"]) for row in rows} == {part: n for part, n in components.items() if n}


@pytest.mark.parametrize("ending", ["svg", "html", "tex", "png", "parquet"])
def test_a_file_called_an_image_is_one(gptcalc: Command, tmp_path: Path, ending: str) -> None:
    """What is not drawn so is refused, whether --format or the file's name asks for it; no file is left behind."""
    file = tmp_path / f"a.{ending}"
    refused_well(gptcalc("params", "gpt2", "-o", file))
    assert not file.exists()
