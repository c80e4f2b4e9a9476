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
    ("states of one layer", "gptcalc.equations.embedding", "W_h[ḷ,ḧ,i]", "W_h[ḧ,i]", "llama3-8B-eagle3"),
    ("one norm for the states of all layers", "gptcalc.equations.embedding", '"norm", "ḷ,ḧ", "_h"',
     '"norm", "ḧ", "_h"', "qwen3-30B-A3B-eagle3.1"),
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
    ("the table of tokens in front left out", "gptcalc.equations.chain", ', E_M="head.markov.table"', "",
     "qwen3-4b-dspark"),
    ("a confidence of states alone", "gptcalc.equations.chain",
     'if head.markov.confidence == "both" else d', "if False else d", "qwen3-4b-dspark"),
    ("gates of the token alone", "gptcalc.equations.chain", ', W_S="head.gru.state"', "", "qwen3.6-27b-domino"),
    ("one gate for all", "gptcalc.equations.chain", 'symbols.index("n_gates", 3, "channels")',
     'symbols.index("n_gates", 1, "channels")', "qwen3.6-27b-domino"),
    ("the correction reads the state alone", "gptcalc.equations.chain", "_both(d, state, symbols)", "state",
     "qwen3.6-27b-domino"),
    ("the target's rows counted with the recurrence", "gptcalc.equations.embedding",
     'Mark("target.embedding.token", "tokens", "embedding", borrowed=True)', 'Mark("token", "tokens")',
     "qwen3.6-27b-domino"),
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
    ("logits of the first slots", "gptcalc.reference.model",
     "x = x[:, a.target.block - a.target.drafted :]", "x = x[:, : x.shape[1] - 1]", "dflash"),
    ("the block's keys stay in the cache", "gptcalc.reference.attention",
     "own_k, own_v = new_keys_and_values(a, x, x, w, step)",
     "own_k, own_v = (step.cache.append(key, n, y) for n, y in zip('kv', new_keys_and_values(a, x, x, w, step)))",
     "dflash"),
    ("the known token in front of all slots", "gptcalc.reference.chain", "rows.after(block[-1])",
     "rows.after(block[0])", "dspark"),
    ("a confidence without the token", "gptcalc.reference.chain", "np.concatenate(self.read, axis=1)]",
     "np.concatenate(self.read, axis=1) * 0.0]", "dspark"),
    ("the recurrence forgets", "gptcalc.reference.chain", "update * self.state +", "", "domino"),
    ("its gates the other way round", "gptcalc.reference.chain",
     "update * self.state + (1.0 - update) * candidate", "(1.0 - update) * self.state + update * candidate", "domino"),
    ("reset in front of the matrix", "gptcalc.reference.chain", "reset * of_state[..., 2 * g :]",
     "step.linear(reset * self.state, w, 'state', 3 * g)[..., 2 * g :]", "domino"),
    ("the first token corrected, too", "gptcalc.reference.chain", "if slot < self.g.first:", "if False:", "domino"),
    ("the state begins anew with each token", "gptcalc.reference.chain", "step.linear(self.state, w",
     "step.linear(self.state * 0.0, w", "domino"),
    ("a shifted block's tokens drafted by the slots behind", "gptcalc.reference.model",
     "x = x[:, a.target.block", "x = np.roll(x, -1, axis=1)[:, a.target.block", "domino_shifted"),
    ("states normed together", "gptcalc.reference.embedding",
     "apart = h.reshape(*h.shape[:2], target.layers, target.d)",
     "apart = (h / h.std(-1, keepdims=True) * 3).reshape(*h.shape[:2], target.layers, target.d) + 1", "eagle3_normed"),
]  # fmt: skip


#: the same, and a cost worked out by hand that must notice
COSTED: list[tuple[str, str, str, str]] = [
    ("each state drafts a block", "gptcalc.equations.model", 'self.base |= {"t": slots,',
     'self.base |= {"t": Index(new, 0, "new"),'),
    ("the block's slots see no slot", "gptcalc.equations.drafted", 'lines.sum(f"z_B[', 'lines.pointwise(f"z_B['),
    ("logits of the known token, too", "gptcalc.equations.model", "target.block - 1, ", "target.block, "),
    ("the states' keys not kept", "gptcalc.equations.drafted", 'lines.store(f"K[{k}] = k[{k}]", "keys", Pairs())',
     'lines.pointwise(f"K[{k}] = k[{k}]")'),
    ("keys of the block alone", "gptcalc.equations.drafted", '"x_T", "ť", "ť", ""', '"n", "t", "ť", ""'),
    ("the state passes its gates once a block", "gptcalc.equations.language", "(*of.factors, of.left) if",
     "of.factors if"),
    ("the recurrence's state in the cache", "gptcalc.equations.chain",
     '_behind(lines, "n_S[t,ẑ]", "S_G[ẑ − {}]")', 'lines.store("S_G[ḏ] = S_G[ḏ]", "state", None)'),
    ("the first token's logits corrected", "gptcalc.equations.chain", "if g.first else", "if False else"),
    ("a shifted block drafts one token less", "gptcalc.equations.model", "not target.shifted:", "True:"),
]  # fmt: skip


def test_nothing_is_noticed_where_nothing_is_wrong() -> None:
    for name in ("eagle3", "eagle3_normed", "dflash", "dspark", "domino", "domino_shifted"):
        assert worst(name) < 1e-5
    assert validate(architecture("draft")).ok
    assert validate(build({"name": "block", **ENCODERS["draft of a block"]})).ok
    costs()


def costs() -> None:
    """What is worked out by hand."""
    test_drafts.test_cost_of_a_drafted_block()
    test_drafts.test_cost_of_a_recurrence()


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
            costs()
    finally:
        remembered.cache_clear()


@pytest.mark.parametrize(("error", "module", "old", "new", "name"), GOLDEN, ids=[m[0] for m in GOLDEN])
def test_a_wrong_witness_is_noticed(
    error: str, module: str, old: str, new: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutate(importlib.import_module(module), old, new, monkeypatch)
    assert worst(name) > 1e-3, error
