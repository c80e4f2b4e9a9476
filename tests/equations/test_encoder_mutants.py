"""Deliberate errors about encoders and encoder-decoders, each noticed by a number that transformers gives, or that is
worked out here by hand."""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

import pytest

from gptcalc.analysis.flops import flops
from gptcalc.analysis.memory.cache import kv
from gptcalc.analysis.params import params
from gptcalc.architecture import Architecture
from gptcalc.document import build
from gptcalc.equations.model import remembered
from gptcalc.sources.huggingface import read
from tests import oracle
from tests.mutation import mutate

ALBERT: dict[str, Any] = {
    "model_type": "albert", "vocab_size": 30000, "embedding_size": 128, "hidden_size": 768, "num_hidden_layers": 12,
    "num_attention_heads": 12, "intermediate_size": 3072, "max_position_embeddings": 512,
}  # fmt: skip

#: whose class FlopCounterMode counted, beside the oracle's
CONFIGS: dict[str, dict[str, Any]] = {
    "albert": {**ALBERT, "architectures": ["AlbertModel"]},
    "albert with a head": {**ALBERT, "architectures": ["AlbertForMaskedLM"]},
    "bert with labels": {
        **oracle.ENTRIES["bert-large-uncased"]["config"],
        "architectures": ["BertForSequenceClassification"],
        "id2label": {"0": "no", "1": "yes", "2": "perhaps"},
    },
}

#: a model, what is asked at how many tokens (of the target, of the source), the answer
FIGURES: dict[str, tuple[str, str, int, int, int]] = {
    "bert total": ("bert-large-uncased", "total", 0, 0, 335_141_888),
    "bert flops": ("bert-large-uncased", "flops", 128, 0, 78_922_121_216),
    "bert cache": ("bert-large-uncased", "cache", 128, 0, 0),
    "labels total": ("bert with labels", "total", 0, 0, 335_141_888 + 3 * (1024 + 1)),
    "roberta total": ("roberta-base", "total", 0, 0, 124_645_632),
    "albert total": ("albert", "total", 0, 0, 11_683_584),
    "albert flops": ("albert", "flops", 128, 0, 22_373_597_184),
    "albert with a head total": ("albert with a head", "total", 0, 0, 11_221_680),
    "albert with a head flops": ("albert with a head", "flops", 128, 0, 23_380_623_360),
    "deberta total": ("deberta-v3-base", "total", 0, 0, 183_831_552),
    "deberta flops": ("deberta-v3-base", "flops", 128, 0, 39_258_685_440),
    # 14 of 22 layers see 64 tokens on each side: 512 · 129 pairs less two triangles of 64
    "modernbert flops": (
        "modernbert-base", "flops", 512, 0,
        130_660_958_208 - 14 * 2 * 2 * 768 * (512**2 - (512 * 129 - 64 * 65)),
    ),
    "t5 total": ("t5-base", "total", 0, 0, 222_903_552),
    "t5 full": ("t5-base", "full", 256, 256, 121_349_603_328),
    "t5 cache": ("t5-base", "cache", 256, 256, 2 * 9_437_184),
    "t5 cache behind a long source": ("t5-base", "cache", 256, 1024, 2 * 12 * 2 * 768 * (256 + 1024)),
    # q, k, v and o of a new token, q and o towards the source, both matrices of the MLP, the table as the head
    "t5 decode": (
        "t5-base", "decode", 257, 100,
        2 * 12 * (6 * 768 * 768 + 2 * 768 * 3072) + 2 * 768 * 32128 + 12 * 2 * 2 * 768 * (257 + 100),
    ),
    "bart total": ("bart-base", "total", 0, 0, oracle.ENTRIES["bart-base"]["total"]),
    "whisper total": ("whisper-small", "total", 0, 0, 241_734_912),
    "whisper full": ("whisper-small", "full", 256, 1500, 474_329_776_128),
    "whisper cache": ("whisper-small", "cache", 64, 1500, 2 * 28_827_648),
}  # fmt: skip


@cache
def model(name: str) -> Architecture:
    return build(read(CONFIGS[name]).document) if name in CONFIGS else oracle.model(name)


def figure(name: str) -> int:
    """One figure by its name in the table."""
    remembered.cache_clear()
    who, what, context, length, _ = FIGURES[name]
    source = length or None
    match what:
        case "total":
            return params(model(who)).total
        case "cache":
            return kv(model(who), context=context, source=source).bytes
        case "full":
            return flops(model(who), context=context, source=source, pairs="full").total
        case "decode":
            return flops(model(who), context=context, source=source, phase="decode").total
    return flops(model(who), context=context).total


#: the error, the module, what is written, what the mutant writes, and a figure that must notice
MUTANTS: list[tuple[str, str, str, str, str]] = [
    ("cross-attention cached with every step", "equations.attention", "is not None else OfSource()",
     "is not None else Pairs()", "t5 cache behind a long source"),
    ("cross-attention not cached", "equations.attention", "if a.causal or a.source:", "if a.causal:", "t5 cache"),
    ("keys of the source at every step", "equations.conditions",
     "return 0 if self.phase == \"decode\" else self.source", "return self.source", "t5 decode"),
    ("keys of the source made of the target", "equations.attention", '("σ", "υ", "x_S[σ,υ]", Once())',
     '("t", "i", "n[t,i]", None)', "whisper full"),
    ("values of the source mixed for nothing", "equations.attention", 'lines.sum(f"o[{out}] = Σ_{s}',
     '(lines.pointwise if a.source else lines.sum)(f"o[{out}] = Σ_{s}', "t5 decode"),
    ("the encoder left out", "equations.model", "if encoder is None:\n            return ()",
     "if True:\n            return ()", "t5 total"),
    ("the encoder as long as the target", "equations.conditions", "return Workload(self.new_source,",
     "return Workload(self.context,", "whisper full"),
    ("a token table for each stack", "equations.model", 'beside.tokens == "shared"', "False", "t5 total"),
    ("an encoder that looks back alone", "equations.attention", "both=a.sees_ahead)", "both=False)", "bert flops"),
    ("half of a window that has two", "equations.conditions", "return s * (2 * near - 1) - near * (near - 1)",
     "return s * near - near * (near - 1) // 2", "modernbert flops"),
    ("all pairs where they are near", "equations.conditions", "(self.both and self.window is None)", "self.both",
     "modernbert flops"),
    ("a cache for what is read once", "equations.attention", "if a.causal or a.source:", "if True:", "bert cache"),
    ("token types forgotten", "equations.embedding", "    if e.types:\n        kind", "    if False:\n        kind",
     "bert total"),
    ("no norm of the embedding", "equations.embedding", 'if e.norm is not None and e.normed == "sum"', "if False",
     "bert total"),
    ("no rows for the offset", "equations.embedding", "extra = e.rows - c.size", "extra = 0", "roberta total"),
    ("layers that share weights counted n times", "analysis.params", "return 1 if self.tensor.weight.shared else",
     "return", "albert total"),
    ("layers that share weights run once", "equations.model", "times=count, lines=lines, runs=\"layer\"",
     "times=1, lines=lines, runs=\"layer\"", "albert flops"),
    ("a factorized table without its second factor", "equations.embedding", 'if late and e.projected == "normed":',
     "if False:", "albert total"),
    ("the table as wide as the stream", "equations.model", "width = self.model.embedding.width", "width = self.d.size",
     "albert total"),
    ("the pooler left out", "equations.model", "if own.pooler is not None:", "if False:", "bert total"),
    ("the pooler over all tokens", "equations.head", 'if pooler.token != "each":', "if False:", "bert flops"),
    ("no labels", "equations.head", "if pooler.labels:\n        text", "if False:\n        text", "labels total"),
    ("labels without a bias", "equations.head", "b_L[ℓ]', pooler.bias", "b_L[ℓ]', False", "labels total"),
    ("a masked-language head without its dense layer", "equations.head", "if head.dense is not None:", "if False:",
     "albert with a head total"),
    ("its norm left out", "equations.head", "if d.norm is not None:", "if False:", "albert with a head total"),
    ("the output's bias left out", "equations.head", 'plus("b_voc[u]", head.bias)', '""', "albert with a head total"),
    ("logits of a head for the last token alone", "equations.conditions",
     'work.new_tokens if work.logits == "all" else', "0 if True else", "albert with a head flops"),
    ("a table of distances in every layer", "equations.attention", "and not a.scores.buckets.shared:", ":", "t5 total"),
    ("no table of distances", "equations.model", "                if a.scores.buckets is not None:\n",
     "                if False:\n", "t5 total"),
    ("distances' vectors without their norm", "equations.relative", "if p.norm is None:", "if True:", "deberta total"),
    ("no keys of distances", "equations.relative", "    if p.c2p:", "    if False:", "deberta flops"),
    ("no queries of distances", "equations.relative", "    if p.p2c:", "    if False:", "deberta flops"),
    ("each distance's score for nothing", "equations.relative", 'lines.sum("z_D', 'lines.pointwise("z_D',
     "deberta flops"),
    ("one convolution for two", "equations.embedding", "    if second:\n        lines.pointwise(f\"x_C",
     "    if False:\n        lines.pointwise(f\"x_C", "whisper total"),
    ("a first convolution on half the frames", "equations.embedding", 'f"{n}·N" if n > 1 else "N", n,', '"N", 1,',
     "whisper full"),
    ("a convolution's bias left out", "equations.embedding", 'W_FF="front.1.conv", b_FF="front.1.conv.bias"',
     'W_FF="front.1.conv"', "whisper total"),
]  # fmt: skip


@pytest.mark.parametrize("name", FIGURES)
def test_clean_code_gives_the_figure(name: str) -> None:
    assert figure(name) == FIGURES[name][-1]


@pytest.mark.parametrize(("error", "module", "old", "new", "name"), MUTANTS, ids=[mutant[0] for mutant in MUTANTS])
def test_a_mutant_is_noticed(error: str, module: str, old: str, new: str, name: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        mutate(importlib.import_module(f"gptcalc.{module}"), old, new, patch)
        try:
            found: int | None = figure(name)
        except (AssertionError, KeyError, ValueError):
            found = None  # a line that no longer fits the others is noticed by the language itself
        assert found != FIGURES[name][-1], f"{error}: {name} does not notice"
    remembered.cache_clear()
