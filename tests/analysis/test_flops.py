"""FLOPs of what is asked for by an option: multi-token prediction, recomputation."""

from __future__ import annotations

import pytest

import gptcalc
from gptcalc import InputError
from gptcalc.document import build

D, V, T, HEADS, FF = 64, 100, 32, 4, 128
PLAIN = {"d": D, "v": V, "c": T, "n_heads": HEADS, "n_layers": 3, "d_ff": FF}
#: multiply-adds of a token in a layer's matrices, and of all pairs of a causal mask in its scores and weighted sums
MATRICES = 4 * D * D + 3 * D * FF
PAIRS = T * (T + 1) // 2 * 2 * D


def total(how: dict[str, object], **more: object) -> int:
    return gptcalc.flops(build({**PLAIN, **more}), **how).total  # type: ignore[arg-type]


def test_recomputation() -> None:
    """Whole layers once more: 4 instead of 3 passes but for the head; or scores and weighted sums alone."""
    layers, head = 2 * 3 * (T * MATRICES + PAIRS), 2 * T * D * V
    assert total({"phase": "train"}) == 3 * (layers + head)
    assert total({"phase": "train", "recompute": "full"}) == 4 * layers + 3 * head
    assert total({"phase": "train", "recompute": "selective"}) == 3 * (layers + head) + 2 * 3 * PAIRS
    assert total({"phase": "train", "recompute": "full", "batch": 2}) == 2 * (4 * layers + 3 * head)
    with pytest.raises(InputError, match="only a training step"):
        total({"recompute": "full"})


def test_multi_token_prediction() -> None:
    """A module: a projection of 2d to d, a block, and the shared head once more (arXiv:2412.19437, §2.2)."""
    module = 2 * (T * (2 * D * D + MATRICES) + PAIRS + T * D * V)
    assert total({"mtp": True}, mtp=1) == total({}, mtp=1) + module
    assert total({"mtp": True}, mtp=2) == total({}, mtp=2) + 2 * module
    found = gptcalc.flops(build({**PLAIN, "mtp": 1}), mtp=True)
    assert found.by_component["mtp"] == module
    with pytest.raises(InputError, match="no multi-token-prediction"):
        total({"mtp": True})
