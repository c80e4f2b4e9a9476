"""What has a name has it alone: no symbol is two weights of a sublayer, no index letter runs over two ranges in one.

A letter taken twice gives a weight another's shape: a wrong count. So options that meet in no published model are
put together here too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import pytest

from gptcalc.architecture import Architecture, Mixer, sublayers
from gptcalc.document import build
from gptcalc.equations import Index, equations, kinds
from gptcalc.errors import InputError
from gptcalc.sources import load
from gptcalc.sources.preset import names
from tests.equations.test_lines import held, held_in_a_step
from tests.reference_cases import DOCUMENTS, ENCODERS, architecture, some

#: options of attention, each alone; a pair of them is refused, or its lines are true
ATTENTION: dict[str, dict[str, Any]] = {
    "relative": {"relative": {"d": 3, "extent": 5}},
    "buckets": {"buckets": {"n": 8, "max_distance": 9}},
    "disentangled": {"disentangled": {"span": 5}, "n_kv_heads": 6},
    "cca": {"cca": {"kernel": 3, "head_kernel": 2}},
    "filter": {"filter": {"d": 5, "kernel": 3}},
    "kv_conv": {"kv_conv": 3},
    "token_taps": {"kv_conv": 3, "kv_conv_token_taps": True},
    "token_sinks": {"token_sinks": True},
    "own_inputs": {"own_inputs": True},
    "dynamic_mask": {"dynamic_mask": {"top_k": 4}},
    "index": {"index": {"d": 5, "block": 2, "top_k": 3, "local": 2}},
    "strided": {"strided": {"block": 2, "local": 1, "stride": 3}},
    "experts": {"experts": {"n_experts": 3, "top_k": 2}},
    "differential": {"differential": {}},
    "laurel": {"laurel": {"rank": 7}},
    "out_conv": {"out_conv": 4},
    "norm_gate": {"norm_gate": {"rank": 5}},
    "q_rank": {"q_rank": 11},
    "gate": {"gate": "full"},
    "qk_norm": {"qk_norm": "head"},
    "out_norm": {"out_norm": {}},
    "q_factors": {"q_factors": {"scale": 1.2}},
    "gate_factors": {"gate": "full", "gate_factors": {"squared": True}},
    "rate": {"residual_rate": {}},
}

#: what any kind of sublayer may have
ANY: dict[str, dict[str, Any]] = {name: ATTENTION[name] for name in ("laurel", "out_conv", "norm_gate")}


def models() -> Iterator[Architecture]:
    for name, document in {**DOCUMENTS, **ENCODERS}.items():
        yield build({"name": name, **document})
    for name in names():
        yield load(name).architecture


def test_a_symbol_is_one_weight_and_a_letter_has_one_range() -> None:
    for model in models():
        for stage in equations(model).stages:
            keys: dict[tuple[str, str], str] = {}
            ranges: dict[tuple[str, str], Index] = {}
            for line in stage.lines:
                for symbol, weight in line.weights.items():
                    if any(reference.name == symbol for reference in line.statement.references):
                        first = keys.setdefault((line.part, symbol), weight.key)
                        assert first == weight.key, f"{model.name}, {stage.name}: {symbol} in {line.text}"
                for letter, index in line.ranges().items():
                    assert ranges.setdefault((line.part, letter), index) == index, f"{model.name}: {letter}"


class Once(dict[str, Index]):
    """The letters of a sublayer, of which none may be given a second meaning."""

    def __setitem__(self, letter: str, index: Index) -> None:
        assert self.get(letter, index) == index, f"{letter}: {self[letter].symbol} and {index.symbol}"
        super().__setitem__(letter, index)

    def __ior__(self, others: Any) -> Once:  # type: ignore[override,misc]
        for letter, index in others.items():
            self[letter] = index
        return self


@pytest.mark.parametrize("option", ANY)
@pytest.mark.parametrize("name", some(DOCUMENTS))
def test_what_any_sublayer_may_have_has_letters_of_its_own(
    name: str, option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Residuals and gates of norms, in every kind of sublayer."""
    letters = kinds.scope

    def once(mixer: Mixer, of: kinds.Around) -> dict[str, Index]:
        return Once(letters(mixer, of))

    monkeypatch.setattr(kinds, "scope", once)
    document = {"name": f"{name} with {option}", **DOCUMENTS[name]}
    for section in sorted({m.section for block, _ in architecture(name).groups() for m in sublayers(block)}):
        own = document.get(section, {})
        given = {"activation": own} if isinstance(own, str) else own
        changed = {**document, section: {**given, **ANY[option]}}
        try:
            build(changed)
        except InputError:
            continue
        document = changed
    model = build(document)
    held(model)


@pytest.mark.parametrize("name", some(DOCUMENTS))
def test_mixtures_of_sums_have_letters_of_their_own(name: str) -> None:
    """What every layer of a model has, around every kind of sublayer."""
    try:
        model = build({"name": f"sums of {name}", **DOCUMENTS[name], "attention_residuals": {"every": 1}})
    except InputError:
        return
    held(model)
    held_in_a_step(model)


@pytest.mark.parametrize(("one", "other"), some(combinations(ATTENTION, 2)))
def test_two_options_are_refused_together_or_their_lines_are_true(one: str, other: str) -> None:
    base = {"d": 22, "v": 61, "c": 40, "n_heads": 6, "n_kv_heads": 2, "d_head": 8, "d_ff": 17, "n_layers": 1}
    document = {"name": f"{one}, {other}", **base, "position": "none", "attn": {**ATTENTION[one], **ATTENTION[other]}}
    try:
        model = build(document)
    except InputError:
        return
    held(model)
    held_in_a_step(model)


#: numbers that formulas have themselves, by the paper that has them
OF_FORMULAS = (
    "2^(−8·", "2^(−4·",  # ALiBi's slopes (arXiv:2108.12409, §3)
    "0.8 − 0.6·exp(−0.3·layer)",  # differential attention (arXiv:2410.05258, §2.1)
    "exp(−8·G_R",  # RG-LRU's c (arXiv:2402.19427, §2.4)
    "exp(−exp(−0.5)·",  # RWKV-7's bound of a decay (arXiv:2503.14456, eq. 12)
    "σ(1.702·",  # gelu by the logistic function (arXiv:1606.08415, §2)
    "+ 0.5)·(exp(min(", ", −1e-06)) − 1", "+ 0.5·U",  # xIELU (arXiv:2411.13010, eq. 10)
    "√(3·",  # scores of three kinds (DeBERTa, arXiv:2006.03654, eq. 4)
    "m_M[t,3,i]", "m_M[t,4,i]",  # the fourth and the fifth of RWKV-6's shares
    "θ^(−4·",  # a pair has two axes, each half of the channels (GLM, arXiv:2103.10360)
)  # fmt: skip


def test_letters_alone() -> None:
    """What a document or a size says stands in lines as a letter with its value beside it; beside indices, squares and
    halves numbers are those of formulas. (The last of so many sums, ẓ or ž, is the stream.)"""
    for model in models():
        for form, cache in (("expanded", "latent"), ("absorbed", "latent")):
            lines = equations(model, form, cache, chunks=7)  # type: ignore[arg-type]
            for line in (line for stage in lines.stages for line in stage.lines):
                text = f"{line.text} | {line.condition or ''}"
                text = re.sub("|".join(map(re.escape, OF_FORMULAS)) + r"|[ẓž] < \d+", "", text)
                found = re.findall(r"(?<![\w′.])\d+(?:\.\d+)?(?:e-?\d+)?", text)
                assert set(found) <= {"0", "1", "2"}, f"{model.name}: {line.text} | {line.condition or ''}"
