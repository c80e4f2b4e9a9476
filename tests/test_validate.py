"""Analysis equals witness, on random architectures over all features at once."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from gptcalc.document import build
from gptcalc.validate import full_size, real_run
from tests.strategies import every_document


def agrees(document: dict[str, Any], noisy: int | None = None) -> None:
    model = build(document)
    failed = [check for check in (*full_size(model), *real_run(model, noisy)) if not check.ok]
    assert not failed, failed


SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]


@given(every_document())
@settings(max_examples=300, deadline=None, suppress_health_check=SLOW)
def test_analysis_equals_witness(document: dict[str, Any]) -> None:
    agrees(document, noisy=4)  # of each model a few weights: 300 models have every kind of weight many times


@pytest.mark.heavy
@given(every_document())
@settings(max_examples=20_000, deadline=None, suppress_health_check=SLOW)
def test_analysis_equals_witness_at_length(document: dict[str, Any]) -> None:
    agrees(document, noisy=0)  # which takes most of the time, and is in the run above
