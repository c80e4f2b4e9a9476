"""Mistakes that people and tools really made in counting FLOPs: halves, factors of two, tables, tied heads, experts.

Every expected value is the right one of the report, with its working; the wrong one that was given stands beside it.
"""

from __future__ import annotations

import pytest

from gptcalc.analysis.flops import flops
from gptcalc.analysis.params import params
from gptcalc.document import build
from gptcalc.sources import load
from tests.configs import LLAMA_2_7B, LLAMA_3_2_1B, MIXTRAL_8X7B, QWEN_3_4B, model
from tests.conftest import Command

#: weights of Llama 2 7B that multiply: 32·(4·4096² + 3·4096·11008) + 32000·4096, no norms and no token table
LLAMA_2_MATRICES = 6_607_077_376


def tera(number: float) -> float:
    return round(number / 1e12, 6)


# --- what attention's triangle is worth -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tokens", "weights", "half", "total"),
    [
        # 6·N·T·B, and 6·layers·width·T²·B of attention where half of the square counts
        (8_192, 1_299.004269, 211.106233, 1_510.110501),
        (129_024, 20_459.317233, 52_367.539808, 72_826.85704),
    ],
)
def test_a_training_step_with_half_the_square(tokens: int, weights: float, half: float, total: float) -> None:
    llama = model(LLAMA_2_7B)
    full = flops(llama, batch=4, context=tokens, phase="train", pairs="full")
    assert tera(full.weights) == weights
    assert tera(full.attention / 2) == half
    assert tera(full.weights + full.attention / 2) == total
    # a token sees itself, so that the triangle is half of the square and half of its diagonal more
    causal = flops(llama, batch=4, context=tokens, phase="train")
    assert 2 * causal.attention == full.attention + full.attention // tokens


def test_a_training_step_with_the_whole_square() -> None:
    full = flops(model(LLAMA_2_7B), batch=4, context=8192, phase="train", pairs="full")
    assert tera(full.attention) == 422.212465
    assert tera(full.total) == 1_721.216734


def test_a_utilisation_above_one() -> None:
    # 189 of 312 TFLOP/s by a kernel that skips the masked half: 60.6 %, not the 121.2 % of crediting the square
    full, causal = (flops(model(LLAMA_2_7B), context=2**20, pairs=pairs) for pairs in ("full", "causal"))
    assert round(189 / 312, 6) == 0.605769
    assert 189 / 312 * full.attention / causal.attention == pytest.approx(1.211538, rel=1e-5)


def test_attention_grows_with_the_square() -> None:
    # forward at 8,192 and 16,384 tokens; where attention was not counted the ratio was 2
    llama = model(LLAMA_2_7B)
    once, twice = (flops(llama, context=tokens, pairs="full").total for tokens in (8_192, 16_384))
    assert once == 143_434_727_817_216
    assert twice == 357_238_199_812_096
    assert twice - 2 * once == 8 * 32 * 8_192**2 * 32 * 128


def test_every_query_head_has_scores() -> None:
    # 4·8·256·256·64; by the two heads of keys 33,554,432
    document = {"d": 64, "v": 10, "c": 256, "n_layers": 1, "d_ff": 10, "n_heads": 8, "n_kv_heads": 2, "d_head": 64}
    assert flops(build(document), context=256, pairs="full").attention == 134_217_728


# --- what multiplies --------------------------------------------------------------------------------------------------


def test_nano_gpt_and_its_estimate() -> None:
    # 6·N + 12·layers·heads·channels·T a token, N the total less the positions; 6·N alone 741,920,256
    def estimate(document: dict[str, object]) -> int:
        gpt = build(document)
        attention = flops(gpt, context=1024, phase="train", pairs="full").attention
        return 6 * (params(gpt).total - 1024 * 768) + attention // 1024

    document = load("gpt2").document
    assert estimate(document) == 855_166_464
    plain = {**document, "v": 50304, "bias": "none", "norm": {"kind": "layernorm", "bias": False}}
    assert estimate(plain) == 854_770_176


def test_multiply_adds_are_two() -> None:
    # 2·N·128 and 4·32·128²·4096; half of it was called FLOPs
    found = flops(model(LLAMA_2_7B), context=128, pairs="full")
    assert found.macs == 850_000_871_424
    assert found.total == 1_700_001_742_848
    assert found.attention == 8_589_934_592
    assert found.weights == 2 * LLAMA_2_MATRICES * 128


def test_a_look_up_is_no_product() -> None:
    # 6·N of what multiplies; with the token table 40,430,493,696 and a utilisation two points too high
    found = flops(model(LLAMA_2_7B), context=1, phase="train")
    assert found.weights == 39_642_464_256 == 6 * LLAMA_2_MATRICES
    # the rule of thumb counts what is active, vectors of the norms too, and not the token table
    assert found.approx_6nd == 6 * (6_738_415_616 - 32000 * 4096)


def test_a_tied_head_multiplies() -> None:
    # the norms' 33·2048 weights are the only ones that don't: 1,235,746,816 do
    found = flops(model(LLAMA_3_2_1B), context=1)
    assert found.weights == 2 * 1_235_746_816 == 2 * (1_235_814_400 - 33 * 2048)


def test_tying_changes_no_flops() -> None:
    tied, untied = (flops(model(QWEN_3_4B, tie_word_embeddings=flag), context=1) for flag in (True, False))
    assert tied.total == untied.total
    assert tied.by_component["output"] == 777_912_320 == 2 * 151936 * 2560
    assert tied.by_component["embedding"] == 0


def test_chosen_experts_multiply_and_no_others() -> None:
    # 6·N·T + 12·layers·T²·heads·channels with 32·(2·4096² + 2·4096·1024 + 2·3·4096·14336 + 8·4096) + 32000·4096
    found = flops(model(MIXTRAL_8X7B), context=1024, phase="train", pairs="full")
    assert found.total == 79_976_586_018_816  # all eight experts 287,784,283,668,480
    assert found.by_component["router"] == 6 * 1024 * 32 * 8 * 4096


# --- which formula ----------------------------------------------------------------------------------------------------


def test_a_rule_of_thumb_stands_beside_the_count() -> None:
    # 6·70e9·1.4e12 = 5.88e23 where a paper's budget says 5.76e23: which formula it was must be said
    found = flops(load("llama-3-70b").architecture, phase="train")
    assert found.approx_6nd is not None
    assert found.approx_6nd < found.total  # it leaves out attention
    assert "2 FLOPs per multiply-add" in found.convention


def test_on_the_command_line(gptcalc: Command) -> None:
    train = gptcalc("flops", "llama-2-7b", "--phase", "train", "--context", 4096, "--json").json
    assert train["approx_6nd"] == 6 * (6_738_415_616 - 32000 * 4096) * 4096
    assert "3 × the forward pass" in train["convention"]
    mixtral = gptcalc("flops", "mixtral-8x7b", "--phase", "train", "--context", 1024, "--pairs", "full", "--json").json
    assert (mixtral["total"], mixtral["macs"]) == (79_976_586_018_816, 39_988_293_009_408)
    square = gptcalc("flops", "llama-2-7b", "--context", 8192, "--pairs", "full", "--get", "total")
    assert square.out == "143434727817216\n"
    assert "4096" in square.err  # beyond its context
