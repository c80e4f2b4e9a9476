"""Random documents reach every kind of sublayer, so that equations and witness are compared at random for each."""

from __future__ import annotations

from typing import get_args

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from gptcalc.architecture import Architecture, is_looped, sublayers
from gptcalc.document import build
from gptcalc.document.keys import KINDS, KindName
from tests.strategies import Document, documents, encoders, every_document


def drawn(strategy: st.SearchStrategy[Document], times: int) -> list[Architecture]:
    """What so many documents are, the same ones each time."""
    models: list[Architecture] = []

    @settings(max_examples=times, database=None, deadline=None, derandomize=True, phases=[Phase.generate],
              suppress_health_check=[*HealthCheck])  # fmt: skip
    @given(strategy)
    def collect(document: Document) -> None:
        models.append(build(document))

    collect()
    return models


def test_every_kind_of_sublayer_is_drawn() -> None:
    models = drawn(every_document(), 500) + drawn(documents(recurrent=True), 200) + drawn(encoders(), 50)
    made = {type(mixer) for model in models for block, _ in model.groups() for mixer in sublayers(block)}
    assert made >= {KINDS[name] for name in get_args(KindName)}
    assert any(model.sees_all for model in models)
    assert any(model.encoder is not None for model in models)
    assert any(is_looped(model) for model in models)
    assert any(mixer.messages for model in models for block, _ in model.groups() for mixer in sublayers(block))
