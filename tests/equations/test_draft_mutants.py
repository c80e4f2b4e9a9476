"""Deliberate errors about drafts, in the equations and in the witness: counts of independent modules notice them, or
golden models."""

from __future__ import annotations

import importlib

import pytest

from gptcalc.analysis.params import params
from gptcalc.document import build
from gptcalc.equations.model import remembered
from gptcalc.validate import validate
from tests.mutation import mutate
from tests.reference.test_reference_mutants import worst
from tests.reference_cases import ENCODERS, architecture
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
    ("the target's output matrix counted", "gptcalc.equations.head",
     'Mark("target.head.weight" if head.borrowed else "head.weight", "logits", borrowed=head.borrowed)',
     'Mark("head.weight", "logits")', "qwen3-8b-dflash"),
    ("no norm behind fc", "gptcalc.equations.embedding", "if target.out_norm is not None:", "if False:",
     "qwen3-8b-dflash"),
    ("the table of tokens in front left out", "gptcalc.equations.head", ', E_M="head.markov.table"', "",
     "qwen3-4b-dspark"),
    ("a confidence of states alone", "gptcalc.equations.head",
     'if head.markov.confidence == "both" else d', "if False else d", "qwen3-4b-dspark"),
    ("k and v of the states made by matrices of their own", "gptcalc.equations.drafted", "Mark(key, ",
     'Mark(key + name, ', "qwen3-8b-dflash"),
]  # fmt: skip

#: the same in the witness, and the golden model that must notice
GOLDEN: list[tuple[str, str, str, str, str]] = [
    ("the stream in front of the embedding", "gptcalc.reference.block", "np.concatenate(both, axis=-1)",
     "np.concatenate(both[::-1], axis=-1)", "eagle3"),
    ("the embedding not normed", "gptcalc.reference.block",
     'normed(self.step.embedded, mixer.norm, w.at("embedding_norm"))', "self.step.embedded", "eagle3"),
    ("states not normed", "gptcalc.reference.embedding", "if target.norm is not None:", "if False:", "eagle3_normed"),
    ("the embedding as the stream", "gptcalc.reference.model", "x = self._states(a.target, states, step)",
     "self._states(a.target, states, step)", "eagle3"),
    ("the block's positions from 0", "gptcalc.reference.step",
     "cache.length if context_states is None else context_states[1].length", "cache.length", "dflash"),
    ("a block that doesn't see itself", "gptcalc.reference.attention",
     "return np.concatenate([k, own_k], axis=2), np.concatenate([v, own_v], axis=2)", "return k, v", "dflash"),
    ("states not normed behind fc", "gptcalc.reference.embedding", "if target.out_norm is None else", "if True else",
     "dflash"),
    ("logits of the first slots", "gptcalc.reference.model", "x = x[:, 1:]", "x = x[:, : x.shape[1] - 1]", "dflash"),
    ("the block's keys stay in the cache", "gptcalc.reference.attention",
     "own_k, own_v = new_keys_and_values(a, x, x, w, step)",
     "own_k, own_v = (step.cache.append(key, n, y) for n, y in zip('kv', new_keys_and_values(a, x, x, w, step)))",
     "dflash"),
    ("the known token in front of all slots", "gptcalc.reference.head", "np.take(table, block[-1], axis=0)",
     "np.take(table, block[0], axis=0)", "dspark"),
    ("a confidence without the token", "gptcalc.reference.head", "np.concatenate(rows, axis=1)]",
     "np.concatenate(rows, axis=1) * 0.0]", "dspark"),
    ("states normed together", "gptcalc.reference.embedding",
     "apart = h.reshape(*h.shape[:2], target.layers, target.d)",
     "apart = (h / h.std(-1, keepdims=True) * 3).reshape(*h.shape[:2], target.layers, target.d) + 1", "eagle3_normed"),
]  # fmt: skip


#: the same, and a cost worked out by hand that must notice
COSTED: list[tuple[str, str, str, str]] = [
    ("each state drafts a block", "gptcalc.equations.model", 'self.base |= {"t": slots,',
     'self.base |= {"t": Index(new, 0, "new"),'),
    ("the block's slots see no slot", "gptcalc.equations.drafted", 'lines.sum(f"z_B[', 'lines.pointwise(f"z_B['),
    ("logits of the known token, too", "gptcalc.equations.model", "self.model.block - 1, ", "self.model.block, "),
    ("the states' keys not kept", "gptcalc.equations.drafted", 'lines.store(f"K[{k}] = k[{k}]", "keys", Pairs())',
     'lines.pointwise(f"K[{k}] = k[{k}]")'),
    ("keys of the block alone", "gptcalc.equations.drafted", '"x_T", "ť", "ť", ""', '"n", "t", "ť", ""'),
]  # fmt: skip


def test_nothing_is_noticed_where_nothing_is_wrong() -> None:
    for name in ("eagle3", "eagle3_normed", "dflash", "dspark"):
        assert worst(name) < 1e-5
    assert validate(architecture("draft")).ok
    assert validate(build({"name": "block", **ENCODERS["draft of a block"]})).ok
    test_drafts.test_cost_of_a_drafted_block()


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


@pytest.mark.parametrize(("module", "old", "new"), [m[1:] for m in COSTED], ids=[m[0] for m in COSTED])
def test_a_wrong_cost_is_noticed(module: str, old: str, new: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutate(importlib.import_module(module), old, new, monkeypatch)
    remembered.cache_clear()
    try:
        with pytest.raises((AssertionError, KeyError)):
            test_drafts.test_cost_of_a_drafted_block()
    finally:
        remembered.cache_clear()


@pytest.mark.parametrize(("error", "module", "old", "new", "name"), GOLDEN, ids=[m[0] for m in GOLDEN])
def test_a_wrong_witness_is_noticed(
    error: str, module: str, old: str, new: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutate(importlib.import_module(module), old, new, monkeypatch)
    assert worst(name) > 1e-3, error
