"""The equations against hand derivations, and the sums that must close for every architecture."""

from __future__ import annotations

from fractions import Fraction
from math import prod
from typing import Any

import pytest
from hypothesis import given, settings

from gptcalc.analysis.flops import flops
from gptcalc.analysis.memory.cache import cached, kv
from gptcalc.analysis.params import ledger, params
from gptcalc.analysis.why import why_flops, why_kv, why_params
from gptcalc.architecture import Architecture
from gptcalc.conventions import RoomRun
from gptcalc.document import build
from gptcalc.equations import Entries, Pairs, Workload, equations
from gptcalc.equations import polynomial as poly
from gptcalc.equations.conditions import Near
from gptcalc.sources import load
from gptcalc.sources.preset import names
from tests.reference_cases import DOCUMENTS, architecture
from tests.strategies import documents

GPT2: dict[str, Any] = {
    "name": "gpt2",
    "d": 768,
    "v": 50257,
    "c": 1024,
    "n_heads": 12,
    "n_layers": 12,
    "tying": True,
    "position": "learned",
    "norm": "layernorm",
    "mlp": "gelu_tanh",
    "bias": "all",
}


def gpt2(**changes: Any) -> Architecture:
    return build({**GPT2, **changes})


def test_gpt2_in_closed_form() -> None:
    # Radford et al. 2019: v·d + c·d + layers of (4d² + 4d) attention + (8d² + 5d) MLP + 2 norms of 2d, and a final norm
    d, v, c, n = 768, 50257, 1024, 12
    found = params(gpt2())
    assert found.total == v * d + c * d + n * (12 * d * d + 13 * d) + 2 * d == 124_439_808
    assert found.formula == "d·v + d·c + n_layers·(12·d² + 13·d) + 2·d"
    assert found.embedding == (v + c) * d
    assert found.non_embedding == 85_056_000
    assert found.active == found.total


def test_gpt2_flops_at_1024_tokens() -> None:
    d, v, n, t = 768, 50257, 12, 1024
    weights = 2 * t * (n * 12 * d * d + v * d)  # the tied head multiplies too
    full = flops(gpt2(), context=t, pairs="full")
    assert full.weights == weights == 252_993_601_536
    assert full.attention == 2 * n * 2 * t * t * d  # q·k and α·v, each 2 FLOPs for every pair and channel
    assert full.total == 291_648_307_200
    causal = flops(gpt2(), context=t)
    assert causal.weights == weights
    assert causal.attention == 2 * n * 2 * (t * (t + 1) // 2) * d
    assert causal.macs * 2 == causal.total


def test_training_is_three_forward_passes() -> None:
    forward, train = flops(gpt2()), flops(gpt2(), phase="train")
    assert train.total == 3 * forward.total
    # 6·N·D, N without tables but with the tied head: 124,439,808 − 39,383,808 + 38,597,376
    assert train.approx_6nd == 6 * (85_056_000 + 50257 * 768) * 1024


def test_prefill_is_the_sum_of_its_decode_steps() -> None:
    model = build({"d": 12, "v": 31, "c": 64, "n_heads": 3, "n_layers": 2, "d_ff": 7, "attn": {"window": 5}})
    steps = sum(flops(model, context=t, phase="decode").total for t in range(1, 18))
    assert flops(model, context=17).total == steps


def test_logits_of_the_last_position_only() -> None:
    every, last = flops(gpt2(), context=8), flops(gpt2(), context=8, logits="last")
    assert every.total - last.total == 7 * 2 * 768 * 50257


BLOCKS = Pairs(top_k=2, block=3)


@pytest.mark.parametrize("pairs", [Pairs(), Pairs(window=1), Pairs(window=5), Pairs(chunk=4), Pairs(top_k=3), BLOCKS])
@pytest.mark.parametrize("context", [1, 3, 4, 5, 11, 12])
def test_pairs_counted_one_by_one(pairs: Pairs, context: int) -> None:
    def seen(t: int) -> int:
        allowed = range(t + 1)
        if pairs.window is not None:
            allowed = range(max(0, t - pairs.window + 1), t + 1)
        if pairs.chunk is not None:
            allowed = range(t // pairs.chunk * pairs.chunk, t + 1)
        if pairs.block is not None and pairs.top_k is not None:  # its own block so far, and full ones before it
            own = [s for s in allowed if s // pairs.block == t // pairs.block]
            return len(own) + min(len(allowed) - len(own), (pairs.top_k - 1) * pairs.block)
        return min(len(allowed), pairs.top_k or len(allowed))

    assert pairs.count(Workload(context)) == sum(seen(t) for t in range(context))
    assert pairs.count(Workload(context, "decode")) == seen(context - 1)
    assert pairs.count(Workload(context, pairs="full")) == context**2


@pytest.mark.parametrize("window", [1, 5, 12])
@pytest.mark.parametrize("context", [1, 3, 4, 5, 11, 12])
def test_tokens_near_counted_one_by_one(window: int, context: int) -> None:
    """Those that some new token sees: all of a prefill, the window's of one step."""
    for phase, first in (("prefill", 0), ("decode", context - 1)):
        seen = {s for t in range(first, context) for s in range(context) if t - window < s <= t}
        work = Workload(context, "decode" if phase == "decode" else "prefill")
        assert Near(window).count(work) == len(seen)


@pytest.mark.parametrize("entries", [Entries(2), Entries(4), Entries(3, top_k=2), Entries(2, top_k=1), Entries(5)])
@pytest.mark.parametrize("context", [1, 3, 4, 5, 11, 12])
def test_entries_counted_one_by_one(entries: Entries, context: int) -> None:
    def seen(t: int) -> int:
        complete = [w for w in range(context) if (w + 1) * entries.every <= t + 1]
        return min(len(complete), entries.top_k or len(complete))

    assert entries.count(Workload(context)) == sum(seen(t) for t in range(context))
    assert entries.count(Workload(context, "decode")) == seen(context - 1)
    assert entries.count(Workload(context, pairs="full")) == context * (context // entries.every)


#: one layer over entries of 3 tokens, for numbers by hand
ENTRIES: dict[str, Any] = {
    "d": 8, "v": 9, "c": 99, "n_heads": 4, "n_layers": 1, "d_ff": 5, "layers": "csa+mlp",
    "csa": {"d_head": 6, "q_rank": 5, "n_groups": 2, "out_rank": 3, "window": 4,
            "compress": {"every": 3, "overlap": True, "index": {"n_heads": 2, "d": 7, "top_k": 2}}},
}  # fmt: skip


def test_a_cache_of_entries_by_hand() -> None:
    found = kv(build({**ENTRIES, "csa": {**ENTRIES["csa"], "rope": {"channels": 2}}}), context=11)
    window, entries = 4 * 6, 3 * (6 + 7)  # ⌊11/3⌋ entries, an indexer's beside each
    open_entry = 2 * (3 * 2 * 6 + 3 * 6) + 2 * (3 * 2 * 7 + 3 * 7)  # content and weight, of it and of the one before
    assert found.bytes == 2 * (window + entries + open_entry)
    assert found.state_bytes == 2 * open_entry
    assert found.elements_per_token == 6 + Fraction(6 + 7, 3)
    assert found.formula == "468 + 12·S + 26·⌊S/3⌋ for S ≤ 4; 516 + 26·⌊S/3⌋ beyond"


def test_products_over_entries_are_attention() -> None:
    """DeepSeek-V4-Pro's token 8192: 128 heads of 512 channels, a score and a weighted sum for everything that is seen.

    31 layers see the 128 tokens of the window and 8192/128 = 64 entries; 30 see the window and the 1024 that their
    indexer chooses of 8192/4 = 2048 entries. It scores all of them: 64 heads of 128 channels, and one sum over the
    heads. The layers: 2 + 29 · 1 of the first kind, 1 + 29 of the second.
    """
    pair = 2 * 2 * 128 * 512
    found = flops(load("deepseek-v4-pro").architecture, context=8192, phase="decode")
    expected = 31 * pair * (128 + 64) + 30 * (pair * (128 + 1024) + 2 * 2048 * 64 * (128 + 1))
    assert found.attention == expected == 11_634_475_008


def test_windows_cap_the_cache_and_the_formula_says_where() -> None:
    document = {"d": 8, "v": 9, "c": 99, "n_heads": 2, "n_layers": 3, "d_ff": 5, "layers": "2*local+mlp attn+mlp"}
    found = kv(build({**document, "local": {"like": "attn", "window": 10}}), context=30)
    # a layer: K and V of 2 heads of 4 channels, 2 bytes each
    assert found.bytes == 2 * 10 * 32 + 30 * 32
    assert found.full_bytes == 3 * 30 * 32
    assert found.bytes_per_token == 3 * 32
    assert found.formula == "96·S for S ≤ 10; 640 + 32·S beyond"


def test_a_tied_matrix_counts_once_and_multiplies_all_the_same() -> None:
    tied, untied = gpt2(), gpt2(tying=False)
    assert params(untied).total - params(tied).total == 50257 * 768
    assert flops(untied).total == flops(tied).total


def evaluated(formula: str, symbols: dict[str, int]) -> Fraction:
    """A formula as a reader would work it out."""
    for power, sign in ((2, "²"), (3, "³"), (4, "⁴")):
        formula = formula.replace(sign, f"**{power}")
    names = {name.replace("′", "_"): Fraction(value) for name, value in symbols.items()}
    return Fraction(eval(formula.replace("·", "*").replace("′", "_"), {}, names))


@given(documents())
@settings(max_examples=150, deadline=None)
def test_parts_sum_to_totals(document: dict[str, Any]) -> None:
    model = build(document)
    found = params(model)
    assert sum(found.components.values()) == found.total
    assert sum(group.total for group in found.groups) == found.total
    assert sum(t.params * t.count for group in found.groups for t in group.tensors) == found.total
    assert found.embedding + found.non_embedding == found.total
    assert 0 < found.active <= found.total
    assert evaluated(found.formula, equations(model).symbols) == found.total
    for key in ("total", "active", "mtp", "components.attention"):
        section = found.components["attention"] if "." in key else getattr(found, key)
        assert why_params(model, key).value == section


@given(documents())
@settings(max_examples=100, deadline=None)
def test_cache_and_flops_close(document: dict[str, Any]) -> None:
    model = build(document)
    how = RoomRun(context=9, batch=2)
    held = cached(model, how)
    assert held.bytes == sum(group.bytes for group in held.groups) <= held.full_bytes
    assert why_kv(model, how, held, "bytes").value == held.bytes
    if not held.state_bytes:  # room for entries of several tokens
        assert held.full_bytes == 2 * 9 * held.bytes_per_token
    for key in ("bytes_per_token", "elements_per_token", "state_bytes", "full_bytes"):
        assert why_kv(model, how, held, key).value == getattr(held, key)
    for phase in ("prefill", "decode", "train"):
        for mla in ("absorbed", "expanded"):
            found = flops(model, context=9, batch=2, phase=phase, mla=mla)
            assert found.total == sum(found.by_component.values()) == found.attention + found.weights
            assert found.total <= flops(model, context=9, batch=2, phase=phase, mla=mla, pairs="full").total
            assert why_flops(model, found, "total").value == found.total


def test_what_a_formula_is_made_of_has_the_size_of_each_tensor() -> None:
    """A tensor's ranges as symbols, multiplied, are its number of parameters at the symbols' values: halves of heads
    and doubled widths included."""
    for model in (*map(architecture, DOCUMENTS), *(load(name).architecture for name in names())):
        lines = equations(model)
        for entry in ledger(lines):
            terms = poly.product(index.symbol for index in entry.tensor.indices)
            found = sum(
                n * prod(Fraction(lines.symbols[symbol]) ** power for symbol, power in powers)
                for powers, n in terms.items()
            )
            assert found == entry.tensor.params, (model.name, entry.tensor.weight.key, terms)
