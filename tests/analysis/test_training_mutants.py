"""Deliberate errors in the memory of training, each noticed by a published or hand-made number."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gptcalc.analysis.memory.training import training
from gptcalc.document import build
from gptcalc.equations.model import remembered
from tests.mutation import mutate

S, H, A = 64, 32, 4
GPT2: dict[str, Any] = {
    "d": 768, "v": 50257, "c": 1024, "n_heads": 12, "n_layers": 12, "tying": True, "position": "learned",
    "norm": "layernorm", "mlp": "gelu_tanh", "bias": "all",
}  # fmt: skip
N, TABLE = 124_439_808, 50257 * 768
MIXTURE: dict[str, Any] = {
    "d": 64, "v": 100, "c": 64, "n_heads": 4, "d_ff": 96, "layers": "n*attn+moe", "moe": {"n_experts": 8, "top_k": 2},
}  # fmt: skip


def layer(document: dict[str, Any] | None = None, **how: Any) -> int:
    """What one layer more of the paper's block, or of another, keeps."""
    base = document or {
        "d": H, "v": 8, "c": S, "n_heads": A, "position": "learned", "norm": "layernorm", "mlp": "gelu", "bias": "all",
        "dropout": True,
    }  # fmt: skip
    sizes = [training(build({**base, "n_layers": n}), context=S, **how).per_device.activations for n in (2, 3)]
    return sizes[1] - sizes[0]


def gpt2(part: str, **how: Any) -> int:
    return int(getattr(training(build(GPT2), context=8, **how).per_device, part))


#: a figure, how it is found, and what it is (see test_training, test_training_activations, test_training_lora)
FIGURES: dict[str, tuple[Callable[[], int], int]] = {
    "closed form": (lambda: layer(attention="eager"), S * (34 * H + 5 * A * S)),
    "closed form on 4": (
        lambda: layer(attention="eager", tp=4), S * (10 * H + (24 * H + 5 * A * S) // 4)
    ),
    "sequence parallel": (
        lambda: layer(attention="eager", tp=4, sequence_parallel=True), S * (34 * H + 5 * A * S) // 4
    ),
    "flash": (layer, S * (34 * H + 4 * A)),
    "selective": (lambda: layer(recompute="selective"), S * 34 * H),
    "full": (lambda: layer(recompute="full"), S * 2 * H),
    "outside": (
        lambda: training(build(GPT2), context=8).pieces["activations.output"], 8 * (4 * 768 + 4 * 50257)
    ),
    "experts": (lambda: layer(MIXTURE), S * (2 * 8 * 64 + 4 * 4 + 2 * 8 + 2 * (2 * 64 + 2 * 3 * 96))),
    "in flight": (
        lambda: training(build({**GPT2, "v": 8}), context=8, pp=4).pieces["activations.layers"],
        4 * 3 * 8 * (32 * 768 + 4 * 12),
    ),
    "stage 0": (lambda: gpt2("optimizer", dp=4), 12 * N),
    "stage 1": (lambda: gpt2("optimizer", zero=1, dp=4), 12 * N // 4),
    "stage 2": (lambda: gpt2("gradients", zero=2, dp=4), 2 * N + 4 * N // 4),
    "stage 3": (lambda: gpt2("weights", zero=3, dp=4), 2 * N // 4 + 2 * TABLE),
    "offload": (lambda: gpt2("gradients", zero=2, offload="optimizer", dp=4), 0),
    "fp32": (lambda: gpt2("optimizer", dtype="fp32"), 8 * N),
    "adafactor": (
        lambda: training(build({**GPT2, "bias": "none"}), optimizer="adafactor").pieces["optimizer.moments"],
        4 * (50257 + 1024 + 2 * 768 + 12 * (8 + 10 + 4) * 768 + 2 * 768),
    ),
    "adapters": (lambda: training(build(GPT2), lora="8:attn.qkv").trainable, 12 * 8 * (768 + 3 * 768)),
    "adapters in fp32": (lambda: gpt2("weights", lora="8:attn.q"), 2 * N + 4 * 12 * 8 * 2 * 768),
    "ranks of experts": (
        lambda: training(build({**MIXTURE, "n_layers": 1}), zero=1, context=8, ep=4, dp=8)
        .per_device.optimizer,
        12 * (8 * 3 * 64 * 96) // 4 // 2 + 12 * (2 * 100 * 64 + 4 * 64 * 64 + 64 * 8 + 3 * 64) // 8,
    ),
}  # fmt: skip

#: the error, the module, what is written, what the mutant writes, and a figure that must notice
MUTANTS: list[tuple[str, str, str, str, str]] = [
    ("the mask of a residual forgotten", "equations.sublayer", "keep(t,i)\", saved=1", "keep(t,i)\"", "closed form"),
    ("the mask of scores in 16 bits", "equations.attention", "keep({here})\", pairs, saved=1",
     "keep({here})\", pairs, saved=2", "closed form"),
    ("a product's input not kept", "equations.sublayer", "\"i\", \"norm\", saved=2", "\"i\", \"norm\"", "closed form"),
    ("scores as many as the mask allows", "saved", "roles.isdisjoint(OWN_PAST):\n            n *= self.context",
     "roles.isdisjoint(OWN_PAST):\n            n *= (self.context + 1) // 2", "closed form"),
    ("replicated tensors divided", "saved", "if work.sequence_parallel and not held.is_split",
     "if not held.is_split", "closed form on 4"),
    ("sequence parallelism forgotten", "saved", "if work.sequence_parallel and not held.is_split",
     "if False", "sequence parallel"),
    ("split tensors divided twice", "saved", "if work.sequence_parallel and not held.is_split",
     "if work.sequence_parallel", "sequence parallel"),
    ("scores kept with flash attention", "saved", "_is_core(line) and work.attention == \"flash\"",
     "False", "flash"),
    ("no log-sum-exp", "saved", "return line.flash * ", "return 0 * ", "flash"),
    ("selective recomputation keeps scores", "saved", "self._replace(core=0) if", "self if",
     "selective"),
    ("full recomputation keeps nothing", "saved", "return Kept(entering=self.entering)",
     "return Kept()", "full"),
    ("the output's x forgotten", "saved",
     "return Kept(entering=work.width * elements(first, x, work), rest=rest)", "return Kept(rest=rest)", "outside"),
    ("logits in 16 bits", "saved",
     "width = work.width if line.saved == BF16.block_bytes else line.saved", "width = work.width", "outside"),
    ("all experts active", "sharding", "chosen.active *", "chosen.total *", "experts"),
    ("no copies for experts", "saved", "dispatched = sum(copied_bytes(stage, work))", "dispatched = 0",
     "experts"),
    ("one micro-batch in flight", "training", "most = self.parallel.pp - number", "most = 1", "in flight"),
    ("states always divided", "zero", "_share(moments) if zero >= 1", "_share(moments) if zero >= 0",
     "stage 0"),
    ("master weights not divided", "zero", "_share(master) if zero >= 1", "_share(master) if zero > 1",
     "stage 1"),
    ("no whole 16-bit gradients in stage 2", "zero", "kept.gradients + _narrow_gradients(parameters, plan)",
     "kept.gradients", "stage 2"),
    ("no largest layer in stage 3", "zero", "kept.weights + weights", "kept.weights", "stage 3"),
    ("gradients stay when offloaded", "zero", "if plan.zero >= 2:", "if plan.zero > 2:", "offload"),
    ("a master copy of fp32 weights", "optimizer", "self.master and width < FP32.block_bytes", "self.master",
     "fp32"),
    ("rows times columns", "optimizer", "(rows + columns)", "(rows * columns)", "adafactor"),
    ("fused matrices as three", "lora", "target.split(\"+\")", "[target.split(\"+\")[0]]", "adapters"),
    ("adapters in 16 bits", "lora", "FP32.block_bytes * prod(up)", "2 * prod(up)", "adapters in fp32"),
    ("experts divided over all ranks", "training", "if not experts:", "if True:", "ranks of experts"),
]  # fmt: skip


@pytest.fixture(autouse=True)
def equations_made_anew() -> Iterator[None]:
    remembered.cache_clear()
    yield
    remembered.cache_clear()


@pytest.mark.parametrize("name", FIGURES)
def test_clean_code_gives_the_figure(name: str) -> None:
    find, expected = FIGURES[name]
    assert find() == expected


@pytest.mark.parametrize(("error", "module", "old", "new", "name"), MUTANTS, ids=[mutant[0] for mutant in MUTANTS])
def test_a_mutant_is_noticed(error: str, module: str, old: str, new: str, name: str) -> None:
    find, expected = FIGURES[name]
    place = module if "." in module else f"analysis.memory.{module}"
    with pytest.MonkeyPatch.context() as patch:
        mutate(importlib.import_module(f"gptcalc.{place}"), old, new, patch)
        assert find() != expected, f"{error}: {name} does not notice"
