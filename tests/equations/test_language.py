"""Lines are sentences of the language; every symbol is defined before it is used, and has one meaning in a model."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gptcalc.document import build
from gptcalc.equations import Line, equations
from gptcalc.equations.grammar import (
    Call,
    Chosen,
    GrammarError,
    Name,
    Node,
    Reference,
    conditions,
    sentence,
    walk,
)
from gptcalc.equations.stages import Equations, Layer
from gptcalc.sources import load
from gptcalc.sources.preset import names
from tests.equations.evaluator import parts
from tests.reference_cases import DOCUMENTS, ENCODERS, architecture

#: what the language itself names: tokens so far, new ones and the prompt's, which layer or module runs
GIVEN = {"S", "T", "T_P", "layer", "module"}


def all_equations() -> Iterator[Equations]:
    encoders = (build({"name": name, **document}) for name, document in ENCODERS.items())
    for model in [*(load(name).architecture for name in names()), *map(architecture, DOCUMENTS), *encoders]:
        yield equations(model)
        yield equations(model, "absorbed")
        yield equations(model, cache="expanded")


@pytest.mark.parametrize(
    "text", ["q[t] = the first of k[t]", "x = 3", "y[t] = Σ k[t]", "y[t] = (k[t]", "y[t] = {1 if t}"]
)
def test_prose_is_refused(text: str) -> None:
    with pytest.raises(GrammarError):
        sentence(text)


def test_symbols_are_defined_before_they_are_used() -> None:
    for model in all_equations():
        defined: set[str] = set() if model.encoder else {"x_S"}  # states of an encoder outside of the model are given
        stages = [(stage, stage.block if isinstance(stage, Layer) else None) for stage in model.main]
        if model.mtp is not None:
            stages.append((model.mtp, model.mtp.block))
        for stage, block in stages:
            sections = {} if block is None else parts(block)
            states = {line.statement.left.name for line in stage.lines if line.stored == "state" or carried(line)}
            defined |= states  # a state begins as 0
            defined |= {f"{line.statement.left.name}_last" for line in stage.lines if line.passes == "last"}
            for line in stage.lines:
                for node in nodes(line):
                    check(line, node, defined, model)
                name = sentence(line.text).left.name
                defined |= {name, f"{name}_before", f"{name}_{sections.get(line.part, '')}", *line.weights}


def carried(line: Line) -> bool:
    """Whether it makes what has no token of what the one before left."""
    left, read = line.statement.left, line.statement.references[1:]
    return "t" not in left.indices and left.name in {reference.name for reference in read}


def nodes(line: Line) -> Iterator[Node]:
    """Everything that a line reads."""
    tree = sentence(line.text)
    yield from (node for index in tree.left.indices if not isinstance(index, str) for node in walk(index))
    yield from tree.read
    yield from (node for top in conditions(str(line.condition or "")) for node in walk(top))
    if tree.adds:
        yield tree.left


def check(line: Line, node: Node, defined: set[str], model: Equations) -> None:
    match node:
        case Reference(name=name):
            known = name in defined or name in line.constants or name in line.weights
        case Chosen(name=name, indices=letters):
            known = name in defined and set(letters) <= set(line.scope)
        case Name(name=name):
            known = name in line.scope or name in model.symbols or name in line.constants or name in GIVEN
        case Call(over=letters):
            known = set(letters) <= set(line.scope)
        case _:
            known = True
    assert known, f"{line.text}: {node} is not defined"


def test_the_counts_read_what_the_tree_says() -> None:
    """statement.parse, which the counts need, and the grammar take a line apart alike."""
    for line in {
        line.text: line for model in all_equations() for stage in model.stages for line in stage.lines
    }.values():
        tree, found = sentence(line.text), line.statement
        assert (tree.left.name if isinstance(tree.left, Reference) else "") == found.left.name
        assert tree.adds == found.adds
        if line.kind != "sum":
            continue
        first = next((node for node in walk(tree.right) if isinstance(node, Call) and node.function == "Σ"), None)
        if first is None:  # products without a sum: what is added to a state
            continue
        assert first.over == found.summed, line.text
        factors = [node.name for node in walk(first.arguments[0]) if isinstance(node, Reference)]
        assert factors == [factor.name for factor in found.factors], line.text


def test_a_letter_has_one_meaning() -> None:
    """What is an index is no value, weight, set or size too."""
    for model in all_equations():
        letters: set[str] = set()
        symbols: set[str] = set(model.symbols)
        for stage in model.stages:
            for line in stage.lines:
                letters |= set(line.ranges())
                symbols |= {sentence(line.text).left.name, *line.weights}
        assert not letters & symbols, f"{stage.name}: {letters & symbols}"
