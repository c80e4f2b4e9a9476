"""However the witness cuts its work into pieces, it computes the same and counts the same."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from gptcalc.reference import pieces, step, tally
from gptcalc.reference.model import Model
from gptcalc.reference.tally import Tally
from tests.reference_cases import DOCUMENTS, architecture

TOKENS = np.array([3, 41, 59, 26, 5, 35, 8, 9, 7, 2, 38, 46])


def run(name: str) -> tuple[list[np.ndarray], int]:
    """Logits of a prefill and, where there is a past, of tokens behind it; and all FLOPs."""
    model = Model(architecture(name), dtype=np.float64)
    logits = [model.prefill(TOKENS[:11]).logits]
    if not model.architecture.sees_all:
        logits += [model.decode(TOKENS[11]).logits, model.extend(TOKENS[:6]).logits]
    return logits, model.tally.total


@pytest.mark.parametrize("name", DOCUMENTS)
def test_blocks_of_queries_and_pieces_of_rows_change_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, flops = run(name)
    monkeypatch.setattr(step, "BLOCK", 4)
    monkeypatch.setattr(pieces, "PIECE", 50)
    cut, as_many = run(name)
    assert as_many == flops
    for one, other in zip(whole, cut, strict=True):
        np.testing.assert_allclose(other, one, rtol=0, atol=1e-10)


def test_keys_that_no_query_of_a_block_sees_are_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 12 tokens in blocks of 4 the first block sees 4 keys, the second 8, the last 12."""
    monkeypatch.setattr(step, "BLOCK", 4)
    widths = []
    dot = Tally.dot

    def noted(self: Tally, a: np.ndarray, b: np.ndarray, kind: str = "weights", place: str = "") -> np.ndarray:
        if kind == "scores":
            widths.append((a.shape[-2], b.shape[-1]))
        return dot(self, a, b, kind, place)  # type: ignore[arg-type]

    monkeypatch.setattr(Tally, "dot", noted)
    Model(architecture("gpt")).prefill(TOKENS)
    heads_and_layers = 3 * 2
    assert widths == [(4, 4), (4, 8), (4, 12)] * heads_and_layers


def test_a_cache_that_two_continue_is_not_shared() -> None:
    """What one continuation appends is not written over what another one did."""
    model = Model(architecture("gpt"), dtype=np.float64)
    model.prefill(TOKENS[:5])
    model.decode(TOKENS[5])
    other = Model(model.architecture, dtype=np.float64)
    other.cache = copy.copy(model.cache)
    other.cache.arrays = dict(model.cache.arrays)
    first = model.decode(7)
    other.decode(8)
    again = Model(model.architecture, dtype=np.float64)
    again.prefill([*TOKENS[:6], 7])
    np.testing.assert_allclose(model.decode(9).logits, again.decode(9).logits, rtol=0, atol=1e-10)
    assert np.isfinite(first.logits).all()


def test_products_with_a_matrix_that_lies_transposed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tally, "LARGE", 8)
    a, b = np.arange(6.0).reshape(1, 2, 3), np.arange(12.0).reshape(4, 3)
    turned = Tally().dot(a, b.swapaxes(0, 1))
    assert turned.tolist() == [[[5, 14, 23, 32], [14, 50, 86, 122]]]  # by hand
    assert turned.shape == (1, 2, 4)
