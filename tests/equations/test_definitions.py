"""The definitions that a legend shows are true: run as lines, they give what the functions give."""

from __future__ import annotations

import numpy as np
import pytest

from gptcalc.document import build
from gptcalc.equations import Index, Line, equations
from gptcalc.equations.grammar import DEFINITIONS, FUNCTIONS, OVER
from tests.equations.evaluator import Run

LENGTH, PAIRS = 7, 3
ROW = Index("n", LENGTH, "channels")
SCOPE = {"i": ROW, "j": ROW, "a": ROW, "ϕ": Index("p", PAIRS, "frequencies")}
SMALL = build({"name": "small", "d": 4, "v": 5, "c": 6, "n_heads": 2, "d_ff": 3, "n_layers": 1})

#: how each function is called on what its definition calls x
CALLED = {
    "mean": "y[] = mean_i(x[i])",
    "rms": "y[] = rms_i(x[i])",
    "std": "y[] = std_i(x[i])",
    "softmax": "y[i] = softmax_i(x[i])",
    "rmsnorm": "y[i] = rmsnorm_i(x[i])",
    "l2norm": "y[i] = l2norm_i(x[i])",
    "layernorm": "y[i] = layernorm_i(x[i])",
    "rotate": "y[a] = rotate_{a,ϕ}(x[a], angle[ϕ])",
    "rotate_adjacent": "y[a] = rotate_adjacent_{a,ϕ}(x[a], angle[ϕ])",
}


def value(lines: tuple[str, ...], name: str) -> np.ndarray:
    """What a function's lines make of the same numbers."""
    run = Run(SMALL, equations(SMALL), {}, np.zeros(3, int), lambda *_: np.zeros(0))
    random = np.random.default_rng(3)
    run.values["x"] = random.normal(size=LENGTH if name in CALLED else ())
    run.values["angle"] = random.normal(size=PAIRS)
    constants = {"n": PAIRS if name.startswith("rotate") else LENGTH, "ε": 0.01}
    for text in lines:
        run.run(Line(text=text, kind="pointwise", component="other", scope=SCOPE, constants=constants))
    return run.values["y"]


@pytest.mark.parametrize("name", DEFINITIONS)
def test_a_definition_is_what_the_function_is(name: str) -> None:
    called = CALLED.get(name, f"y[] = {name}(x[])")
    np.testing.assert_allclose(value(DEFINITIONS[name], name), value((called,), name), rtol=1e-12)


def test_only_functions_are_defined() -> None:
    assert DEFINITIONS.keys() <= FUNCTIONS.keys() | OVER.keys()
