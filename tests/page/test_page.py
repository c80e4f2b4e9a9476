"""The page as a file: it stands alone, is small, its formulas are XML, and each symbol of an equation is explained."""

from __future__ import annotations

import re
import shutil
import subprocess
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path
from xml.etree import ElementTree

import pytest

from gptcalc.report.page import FAMOUS, PARTS
from tests.conftest import Command
from tests.page.evaluated import Data, data_of

SCRIPTS = files("gptcalc.report.page")
NODE = shutil.which("node")
MATHML = "http://www.w3.org/1998/Math/MathML"
#: what numbers of a layer and of a module are called, and constants of functions that are defined as sums
NAMED = {"layer", "module", "ε", "first", "last"}


class Elements(HTMLParser):
    """The elements of a page with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


@pytest.fixture(scope="module")
def html(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A page of a model with learned positions and one with latent attention and experts."""
    from gptcalc.cli import run

    file = tmp_path_factory.mktemp("page") / "page.html"
    assert run(["explain", "gpt2", "deepseek-v3", "-o", str(file)]) == 0
    return file.read_text(encoding="utf-8")


def test_it_stands_alone(html: str) -> None:
    """Nothing is loaded from anywhere, and what the browser draws needs no more than this file."""
    elements = Elements(html).found
    assert not [(tag, own) for tag, own in elements if {"src", "href"} & own.keys() and own.get("href") != "#panes"]
    assert {tag for tag, _ in elements}.isdisjoint({"link", "img", "iframe", "object", "embed", "base"})
    code = re.sub(r'<script id="data".*?</script>', "", html, flags=re.DOTALL)
    # what is left are the names of two languages
    assert set(re.findall(r"https?://[^\s\"'`)]+", code)) == {
        MATHML,
        "http://www.w3.org/2000/svg",
    }  # names of languages
    assert not re.search(r"\b(fetch|XMLHttpRequest|WebSocket|import)\s*\(|@import|url\(", code)


def test_it_is_small(html: str) -> None:
    """Under 1 MB for a dozen models: two take at most a sixth of that."""
    assert len(html.encode()) < 1_000_000 // 6
    assert len(FAMOUS) == 12


@pytest.mark.heavy
def test_a_dozen_are_small(tmp_path: Path, gptcalc: Command) -> None:
    assert gptcalc("page", "-o", str(tmp_path / "page.html")).status == 0
    assert (tmp_path / "page.html").stat().st_size < 1_000_000


def test_ids_are_unique_and_labels_have_their_fields(html: str) -> None:
    ids = [own["id"] for _, own in Elements(html).found if "id" in own]
    assert len(ids) == len(set(ids)) >= 5


def test_formulas_are_xml(html: str) -> None:
    formulas = data_of(html)["maths"]
    assert len(formulas) > 50
    for formula in formulas:
        ElementTree.fromstring(f'<math xmlns="{MATHML}">{formula}</math>')


def test_every_symbol_is_explained(html: str) -> None:
    """What stands in the formulas of a stage is one of their indices, a symbol with a meaning, or a size's name."""
    data = data_of(html)
    sizes = {text for text, _ in data["sizes"]}
    assert all(body["lines"] for body in data["bodies"])
    for body in data["bodies"]:
        used, known = set[str](), set[str]()
        for line in (data["lines"][place] for place in body["lines"]):
            tree = ElementTree.fromstring(f'<math xmlns="{MATHML}">{data["maths"][line["math"]]}</math>')
            used |= {element.attrib["data-s"] for element in tree.iter() if "data-s" in element.attrib}
            own = [data["indices"][place] for place in line["indices"]]
            known |= {index[word] for index in own for word in ("letter", "over")} | line["symbols"].keys()
        assert not used - known - sizes - NAMED
    for line in data["lines"]:
        assert all(data["words"][symbol[1]] for symbol in line["symbols"].values())
        assert all(data["indices"][place]["means"] for place in line["indices"])


def test_every_variant_has_its_words(html: str) -> None:
    """A switch that is there has a variant, one that isn't a reason."""
    for model in data_of(html)["models"]:
        whole = 1
        for group in model["groups"]:
            whole *= len(group["choices"])
        assert len(model["variants"]) + len(model["refused"]) == whole
        assert all(model["refused"].values())


@pytest.mark.skipif(NODE is None, reason="node is not installed")
@pytest.mark.parametrize("part", PARTS)
def test_scripts_are_sound(part: str) -> None:
    done = subprocess.run([str(NODE), "--check", str(SCRIPTS / part)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_models_that_are_asked_for(gptcalc: Command) -> None:
    rows: list[Data] = gptcalc("page", "gpt2", "--json").json
    assert rows == [{"model": "gpt2", "total": 124_439_808}]
    assert [row["model"] for row in gptcalc("page", "--json").json] == list(FAMOUS)
    wrong = gptcalc("explain", "gpt2", "llama-3-8b", "--part", "mlp")
    assert (wrong.status, wrong.out) == (2, "")
    assert "leave --part and --layer out" in wrong.err
