"""LaTeX and MathML: all lines of all presets are drawn; MathML is well formed, LaTeX compiles."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest

from gptcalc.equations import Workload, equations
from gptcalc.equations.grammar import DEFINITIONS
from gptcalc.report import latex, mathml
from gptcalc.report.explain import Wanted, explanation
from gptcalc.sources import load
from gptcalc.sources.preset import names
from tests.conftest import Command
from tests.reference_cases import DOCUMENTS, architecture

#: together they have most functions of the language
SOME = (
    "gpt2",
    "deepseek-v4-pro",
    "inkling-2-small",
    "qwen3-next-80b-a3b",
    "gemma-3n-e2b",
    "deberta-v3-base",
    "inkling-2-mini",
)


def lines() -> set[tuple[str, str]]:
    """Every line of every model, with its condition."""
    models = [load(name).architecture for name in names()] + [architecture(name) for name in DOCUMENTS]
    return {
        (line.text, str(line.condition or ""))
        for model in models
        for stage in equations(model).stages
        for line in stage.lines
    } | {(text, "") for texts in DEFINITIONS.values() for text in texts}


def test_every_line_is_drawn() -> None:
    """MathML is XML; LaTeX is ASCII, with as many brackets opened as closed."""
    for text, where in sorted(lines()):
        ElementTree.fromstring(mathml.math(mathml.DRAW.line(text, where)))
        tex = latex.DRAW.line(text, where)
        assert tex.isascii(), tex
        bare = tex.replace(r"\{", "").replace(r"\}", "")
        assert bare.count("{") == bare.count("}"), tex
        assert tex.count(r"\left") == tex.count(r"\right"), tex


#: by hand, after LaTeX's rules
BY_HAND = {
    "q[t,h,a] = Σ_i n[t,i]·W_Q[i,h,a] + b_Q[h,a]": (
        r"q_{t,h,a}=\sum_{i} n_{t,i}\cdot W_{i,h,a}^{\mathrm{Q}}+b_{h,a}^{\mathrm{Q}}"
    ),
    "α[t,s,h] = softmax_s(z[t,s,h]/√64)": (
        r"\alpha _{t,s,h}=\operatorname{softmax}_{s}\left(\frac{z_{t,s,h}}{\sqrt{64}}\right)"
    ),
    "a[t] = (b[t] − (c[t] + d[t]))·(e[t] − 1)": (
        r"a_{t}=\left(b_{t}-\left(c_{t}+d_{t}\right)\right)\cdot \left(e_{t}-1\right)"
    ),
    "a[t] = (Σ_i b[t,i])·c[t]²/d[t]": r"a_{t}=\frac{\left(\sum_{i} b_{t,i}\right)\cdot {c_{t}}^{2}}{d_{t}}",
    "ω[ϕ] = 10000^(−ϕ/64)": r"\omega _{\phi }={10000}^{\frac{-\phi }{64}}",
    "x[t] = {y[t] if t < 3; 0 otherwise}": (
        r"x_{t}=\begin{cases} y_{t} & \text{if } t<3 \\ 0 & \text{otherwise} \end{cases}"
    ),
    "n[t] = x[t]·(1 + σ(y_S[t]))^2": (r"n_{t}=x_{t}\cdot {\left(1+\sigma \left(y_{t}^{\mathrm{S}}\right)\right)}^{2}"),
}


@pytest.mark.parametrize("text", BY_HAND)
def test_a_line_in_latex(text: str) -> None:
    assert latex.DRAW.line(text) == BY_HAND[text]


def test_a_line_in_mathml() -> None:
    found = mathml.DRAW.line("y[t] = Σ_i x[t,i]/√2", "i ≤ t")
    plain = re.sub(r"\s+", "", "".join(ElementTree.fromstring(mathml.math(found)).itertext()))
    assert plain == "yt=∑ixt,i2,i≤t"
    assert "<munder><mo>∑</mo><mi>i</mi></munder>" in found
    assert "<mfrac><msub><mi>x</mi><mrow><mi>t</mi><mo>,</mo><mi>i</mi></mrow></msub><msqrt>" in found


@pytest.mark.parametrize("model", SOME)
def test_lines_as_a_page_without_a_script(model: str, gptcalc: Command) -> None:
    found = gptcalc("explain", model, "--layer", "0", "--format", "html").out
    tree = ElementTree.fromstring(found.partition("\n")[2])
    made = load(model).architecture
    assert len(list(tree.iter("{http://www.w3.org/1998/Math/MathML}math"))) > 20
    shown = explanation(model, equations(made), Workload(made.c), tuple(made.blocks()), Wanted(layer=0))
    assert f"{shown.params:,} parameters" in found
    assert "http" not in found.replace("http://www.w3.org/1998/Math/MathML", "")  # nothing is fetched


@pytest.mark.heavy
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
@pytest.mark.parametrize("model", SOME)
def test_a_document_compiles(model: str, gptcalc: Command, tmp_path: Path) -> None:
    assert gptcalc("explain", model, "-o", str(tmp_path / "model.tex")).status == 0
    run = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "model.tex"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout[-2000:]
    assert (tmp_path / "model.pdf").stat().st_size > 10_000


def test_what_is_not_drawn_is_refused(gptcalc: Command) -> None:
    found = gptcalc("params", "gpt2", "--format", "latex")
    assert (found.status, found.out) == (2, "")
    assert "it has table, json, jsonl, csv, markdown" in found.err
