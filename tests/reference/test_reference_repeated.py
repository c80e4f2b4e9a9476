"""Equal layers without data are traced once, and what is found is what tracing each of them finds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gptcalc.document import build
from gptcalc.errors import InputError
from gptcalc.reference.block import BlockRun
from gptcalc.reference.model import Model
from gptcalc.reference.repeated import Repeated
from gptcalc.reference.shapes import shape_only
from gptcalc.reference.store import ShapeStore
from tests.reference_cases import DOCUMENTS


def deeper(document: dict[str, Any]) -> dict[str, Any]:
    """Twice as many layers, so that each stands more than once; of loops, which begin and end somewhere, as many."""
    layers = document.get("layers", "n*attn+mlp")
    pattern = layers if "n*" in layers else f"n*[{layers}]"
    twice = {**document, "n_layers": 2 * document["n_layers"], "layers": pattern}
    try:
        build(twice)
    except InputError:
        return document
    return twice


def traced(document: dict[str, Any]) -> list[object]:
    """All that a prefill and two steps leave behind."""
    model, found = Model(build(document), ShapeStore()), []
    model.tally.events = []
    for step in range(1 if model.architecture.sees_all else 3):
        result = model.decode(shape_only((1,), np.int64)) if step else model.prefill(shape_only((1, 9), np.int64))
        memory, cache = model.weights.memory, model.cache
        shapes = {key: array.shape for key, array in cache.arrays.items()}
        hidden = [x.shape for x in result.hidden]
        found += [dict(memory.asked), dict(memory.picked), dict(model.tally.flops), shapes, hidden, result.logits.shape]
    return [*found, model.tally.events]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_what_is_repeated_is_what_is_traced(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    document = deeper(DOCUMENTS[name])
    once = traced(document)

    def each(self: Repeated, block: object, x: object, prefix: str, run: Callable[[], object]) -> object:  # noqa: ARG001
        return run()

    monkeypatch.setattr(Repeated, "layer", each)
    assert once == traced(document)


def test_a_deep_model_costs_what_its_kinds_of_layers_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 3,000 layers in a pattern of three, the first three are traced, and once more with what the others left."""
    runs = []
    block = BlockRun.block

    def counted(self: BlockRun, *args: Any) -> Any:
        runs.append(self.w.prefix)
        return block(self, *args)

    monkeypatch.setattr(BlockRun, "block", counted)
    sizes = {"d": 16, "v": 61, "c": 40, "n_heads": 2, "d_ff": 31, "n_layers": 3000}
    local = {"like": "attn", "window": 4}
    document = {**sizes, "layers": "n*[2*local+mlp attn+mlp]", "local": local}
    model = Model(build(document), ShapeStore())
    model.prefill(shape_only((1, 9), np.int64))
    assert len(runs) <= 6
    assert len(model.cache.by_sublayer()) == 3000
    assert model.cache.elements == 1000 * (4 + 4 + 9) * 2 * 16
