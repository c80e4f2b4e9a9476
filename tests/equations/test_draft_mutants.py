"""Deliberate errors about drafts, in the equations and in the witness: counts of independent modules notice them, or
golden models."""

from __future__ import annotations

import importlib

import pytest

from gptcalc.analysis.params import params
from gptcalc.equations.model import remembered
from gptcalc.validate import validate
from tests.mutation import mutate
from tests.reference.test_reference_mutants import worst
from tests.reference_cases import architecture
from tests.truth import test_drafts

#: the error, the module, what is written, what the mutant writes, the config whose total must notice
COUNTED: list[tuple[str, str, str, str, str]] = [
    ("the target's table counted", "gptcalc.analysis.params", "weight.tied or weight.borrowed or", "weight.tied or",
     "llama3-8B-eagle3"),
    ("logits of the whole vocabulary", "gptcalc.equations.head", "if head.rows is not None:", "if False:",
     "llama3-8B-eagle3"),
    ("states of one layer", "gptcalc.equations.embedding", "W_h[ḷ,ḣ,i]", "W_h[ḣ,i]", "llama3-8B-eagle3"),
    ("one norm for the states of all layers", "gptcalc.equations.embedding", '"norm", "ḷ,ḣ", "_h"',
     '"norm", "ḣ", "_h"', "qwen3-30B-A3B-eagle3.1"),
    ("states as wide as the draft", "gptcalc.equations.embedding", "d if target.d == d.size else", "d if True else",
     "of a wider target"),
    ("q, k, v of the stream alone", "gptcalc.equations.attention", 'return ("ϊ", "n_C[t,ϊ]") if a.with_embedding',
     'return ("ϊ", "n_C[t,ϊ]") if False', "llama3-8B-eagle3"),
    ("no norm of the embedding", "gptcalc.equations.sublayer",
     'norm_line(norms, sublayer.norm, "n_E[t,i]", "x_0[t,i]", "i", "embedding_norm", name="_e")',
     'lines.pointwise("n_E[t,i] = x_0[t,i]")', "llama3-8B-eagle3"),
]  # fmt: skip

#: the same in the witness, and the golden model that must notice
GOLDEN: list[tuple[str, str, str, str, str]] = [
    ("the stream in front of the embedding", "gptcalc.reference.block", "np.concatenate(both, axis=-1)",
     "np.concatenate(both[::-1], axis=-1)", "eagle3"),
    ("the embedding not normed", "gptcalc.reference.block",
     'normed(self.step.embedded, mixer.norm, w.at("embedding_norm"))', "self.step.embedded", "eagle3"),
    ("states not normed", "gptcalc.reference.embedding", "if target.norm is not None:", "if False:", "eagle3_normed"),
    ("the embedding as the stream", "gptcalc.reference.model", "x = self._continued(a.target, states, step)",
     "self._continued(a.target, states, step)", "eagle3"),
    ("states normed together", "gptcalc.reference.embedding",
     "apart = h.reshape(*h.shape[:2], target.layers, target.d)",
     "apart = (h / h.std(-1, keepdims=True) * 3).reshape(*h.shape[:2], target.layers, target.d) + 1", "eagle3_normed"),
]  # fmt: skip


def test_nothing_is_noticed_where_nothing_is_wrong() -> None:
    for name in ("eagle3", "eagle3_normed"):
        assert worst(name) < 1e-5
    assert validate(architecture("draft")).ok


@pytest.mark.parametrize(("error", "module", "old", "new", "name"), COUNTED, ids=[m[0] for m in COUNTED])
def test_a_wrong_count_is_noticed(
    error: str, module: str, old: str, new: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = test_drafts.draft(name)
    mutate(importlib.import_module(module), old, new, monkeypatch)
    remembered.cache_clear()
    try:
        assert params(model).total != test_drafts.DRAFTS[name][1], error
    finally:
        remembered.cache_clear()


@pytest.mark.parametrize(("error", "module", "old", "new", "name"), GOLDEN, ids=[m[0] for m in GOLDEN])
def test_a_wrong_witness_is_noticed(
    error: str, module: str, old: str, new: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutate(importlib.import_module(module), old, new, monkeypatch)
    assert worst(name) > 1e-3, error
