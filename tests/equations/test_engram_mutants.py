"""Deliberate errors in the lines of n-grams that are looked up, of streams that join channel by channel and of complete
blocks that an indexer chooses: each is noticed by a figure of Qwen4-Exp's default sizes.

The total is that of transformers 5.24's class, made of this config on the meta device; the other figures are by hand.
"""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from gptcalc.analysis.flops import flops
from gptcalc.analysis.memory.cache import kv
from gptcalc.analysis.params import params
from gptcalc.analysis.traffic import Traffic
from gptcalc.conventions import TimeRun
from gptcalc.equations import Pairs, Workload
from gptcalc.equations.model import remembered
from gptcalc.errors import InputError
from gptcalc.sources.huggingface import read
from tests.mutation import mutate

CONFIG: dict[str, Any] = {
    "model_type": "qwen4_exp_text", "architectures": ["Qwen4ExpForCausalLM"], "ple_layer_ids": [2, 21],
    "eos_token_id": 248044, "indexer_n_heads": 8, "indexer_kv_heads": 1, "indexer_head_dim": 128,
    "indexer_budget": 2048, "indexer_compress_ratio": 16,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.25},
}  # fmt: skip

D = 2048
#: 30 delta nets: projections of q, k, v, z, decay and beta, and out; convolutions over 4; states of 32 heads
DELTA = D * (2 * 16 * 128 + 2 * 32 * 128 + 2 * 32) + 32 * 128 * D + (2 * 16 + 32) * 128 * 4 + 3 * 32 * 128 * 128
#: 10 layers of attention: queries and gates of 16 heads of 256 channels, keys and values of 2, out; the indexer's
ATTENTION = D * (2 * 4096 + 2 * 512) + 4096 * D + D * 9 * 128
#: the router, 10 experts and the shared one, and its gate
MOE = D * 512 + 11 * 3 * D * 512 + D
#: at 80 sublayers: 4 streams through 320 channels and back, joined; spread at all but the last
JOIN = 2 * 4 * D * 320 + 4 * D
SPREAD = 4 * D * 4
#: in 2 layers: 16 rows of 128 channels to 4 keys and a value, products with 4 streams, a convolution over 4
ENGRAM = D * (4 * D + D) + 4 * D + 4 * 4 * D
#: at 4,096 and 4,097 tokens 256 blocks are complete, of which 128 are seen, and of the latter one token more
SCORED, SEEN, NEWEST = 8 * 128 * 256, 2 * 16 * 256 * 128 * 16, 2 * 16 * 256

FIGURES: dict[str, int] = {
    "total": 149_308_134_528,
    # keys and values, the indexer's key
    "cache a token": 10 * 2 * (2 * 2 * 256 + 128),
    # states in fp32; in 16 bits the last 3 inputs of convolutions, of those of n-grams 3 · 3
    "states": 4 * 30 * 32 * 128 * 128 + 2 * 30 * 3 * (2 * 16 + 32) * 128 + 2 * 2 * 9 * 4 * D,
    "decode at 4096": 2 * (
        30 * DELTA + 10 * ATTENTION + 40 * MOE + 81 * JOIN + 80 * SPREAD + 2 * ENGRAM + 10 * (SCORED + SEEN)
        + D * 248_320
    ),
}  # fmt: skip
FIGURES["decode at 4097"] = FIGURES["decode at 4096"] + 2 * 10 * NEWEST

#: the error, the module, what is written, what the mutant writes, the figure that must notice
MUTANTS: list[tuple[str, str, str, str, str]] = [
    ("n-grams without a table", "equations.engram", ', E_N="table"', "", "total"),
    ("one key for all streams", "equations.engram", "W_NK[ḫ,ḍ,{own}]", "W_NK[ḫ,ḍ,i]", "total"),
    ("values of n-grams for each stream", "equations.engram", "W_NV[ḫ,ḍ,i]", "W_NV[ḫ,ḍ,{own}]", "total"),
    ("n-grams that nobody asks for", "equations.engram", 'lines.sum(f"g_N', 'lines.pointwise(f"g_N', "decode at 4097"),
    ("n-grams without a convolution", "equations.engram", ', W_NC="conv"', "", "total"),
    ("taps that lie beside each other", "architecture.engram", "(self.kernel - 1) * self.hashing.longest",
     "self.kernel - 1", "states"),
    ("n-grams without a state", "equations.engram", "lines.store(", "0 and lines.store(", "states"),
    ("no filling of the table", "sources.huggingface.qwen4", "-(-sum(rows) // multiple) * multiple", "sum(rows)",
     "total"),
    ("rows of heads that are alike", "sources.huggingface.qwen4", "heads * (number + 1))[heads * number :]",
     "heads)", "total"),
    ("streams that join whole", "equations.hyper", ', U_X="up"', "", "total"),
    ("streams that nothing spreads over", "equations.hyper", ', W_X="spread"', "", "total"),
    ("a joint without its bottleneck", "equations.hyper", 'lines.sum("ℓ_X', 'lines.pointwise("ℓ_X', "decode at 4097"),
    ("streams that are added, not weighed", "equations.hyper", 'lines.sum("x[t,i] = Σ_λ J_X[t,λ,i]·n_X',
     'lines.pointwise("x[t,i] = Σ_λ J_X[t,λ,i]·n_X', "decode at 4097"),
    ("an index head for each key head", "equations.attention", "W_IQ[i,j,ι]", "W_IQ[i,g,ι]", "total"),
    ("an indexer that keeps nothing", "equations.attention", 'lines.store("K_I[s,ι] = k_I[s,ι]"',
     '0 and lines.store("K_I[s,ι] = k_I[s,ι]"', "cache a token"),
    ("an indexer that scores tokens", "equations.attention", "seen = Entries(index.block)", "seen = Entries(1)",
     "decode at 4097"),
    ("an own block that counts as complete", "equations.attention", "complete=alone", "complete=False",
     "decode at 4096"),
    ("a choice one block too many", "sources.huggingface.qwen4", '"top_k": budget // block + 1',
     '"top_k": budget // block + 2', "decode at 4097"),
]  # fmt: skip


def figure(name: str) -> int:
    remembered.cache_clear()
    model = read(CONFIG).architecture
    match name:
        case "total":
            return params(model).total
        case "cache a token":
            return int(kv(model, context=64).bytes_per_token)
        case "states":
            return kv(model, context=64).state_bytes
    return flops(model, context=int(name.rpartition(" ")[2]), phase="decode").total


@pytest.mark.parametrize("name", FIGURES)
def test_clean_code_gives_the_figure(name: str) -> None:
    assert figure(name) == FIGURES[name]


@pytest.mark.parametrize(("error", "module", "old", "new", "name"), MUTANTS, ids=[mutant[0] for mutant in MUTANTS])
def test_a_mutant_is_noticed(error: str, module: str, old: str, new: str, name: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        mutate(importlib.import_module(f"gptcalc.{module}"), old, new, patch)
        try:
            found = figure(name)
        except InputError:  # a table that its heads don't fit into
            return
        assert found != FIGURES[name], f"{error}: {name} does not notice"
    remembered.cache_clear()


@pytest.mark.parametrize(("top_k", "block"), [(3, 2), (2, 3), (1, 4), (5, 1), (9, 2)])
def test_pairs_of_complete_blocks_are_those_that_are_counted_one_by_one(top_k: int, block: int) -> None:
    """Of n tokens so far ⌊n/block⌋ blocks are complete; what fills none is seen."""
    pairs = Pairs(top_k=top_k, block=block, complete=True)
    seen = [min(top_k - 1, n // block) * block + n % block for n in range(1, 41)]
    for n in range(1, 41):
        assert pairs.count(Workload(n, "decode")) == seen[n - 1]
        assert pairs.count(Workload(n)) == sum(seen[:n])


def test_what_a_step_reads() -> None:
    """Of an n-gram table a row of each head; of the cache what attention sees, and the indexer's key of every token."""
    traffic = Traffic(read(CONFIG).architecture, TimeRun(context=4097), "decode")
    stages = {cost.stage: cost for cost in traffic.costs(0, 1)}
    assert stages["attn+moe"].cache == 10 * 2 * ((128 * 16 + 1) * 2 * 2 * 256 + 4097 * 128)
    plain = stages["gdn+moe"].weights / stages["gdn+moe"].layers
    looked_up = D * 5 * D + (3 + 4) * 4 * D + 16 * 128
    assert stages["ngram2+gdn+moe"].weights == pytest.approx(plain + 2 * looked_up, rel=1e-12)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"ple_layer_ids": [4]}, "n-grams in layer 4, which has attention"),
        ({"ple_layer_ids": [41]}, "ple_layer_ids: expected numbers of layers, from 1 to 40"),
        ({"ple_embed_dim": 2000}, None),
        ({"ple_embed_dim": 2001}, "2001 channels are no multiple of 16 heads"),
        ({"indexer_budget": 2049}, "2049 tokens are no multiple of blocks of 16"),
        ({"indexer_n_heads": None}, "indexer_n_heads is missing"),
        ({"indexer_kv_heads": None}, "indexer_kv_heads is missing"),
        ({"eos_token_id": None}, "eos_token_id is missing"),
        ({"eos_token_id": []}, "eos_token_id is missing"),
        ({"indexer_kv_heads": 2}, "only 1 is understood"),
        ({"hc_count": 1}, "hc_count: expected an integer from 2"),
    ],
)
def test_what_is_no_such_model_is_refused(change: dict[str, Any], problem: str | None) -> None:
    if problem is None:
        assert read({**CONFIG, **change}).architecture.d == D
        return
    with pytest.raises(InputError) as error:
        read({**CONFIG, **change})
    assert problem in error.value.message
