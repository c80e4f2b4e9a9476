"""FLOPs of a prefill, a decode step or a training step."""

from __future__ import annotations

from msgspec import Struct

from gptcalc.analysis.params import COMPONENTS, ledger
from gptcalc.architecture import Architecture
from gptcalc.conventions import FlopsRun, Form, Logits, Pairing, Phase, keywords
from gptcalc.equations import Equations, Workload, equations, workload


class Flops(Struct, frozen=True, omit_defaults=True):
    """The keys of `gptcalc flops --json`."""

    model: str
    batch: int
    context: int
    phase: Phase
    pairs: Pairing
    mla: Form
    logits: Logits
    total: int
    attention: int
    weights: int
    macs: int
    by_component: dict[str, int]
    convention: str
    approx_2n: int | None = None
    approx_6nd: int | None = None
    source: int | None = None  # tokens that the encoder reads


def counted(architecture: Architecture, how: FlopsRun) -> Flops:
    """FLOPs of one pass over a batch: 2 per multiply-add, every line that multiplies and accumulates.

    prefill: `context` tokens from nothing. decode: the context-th token. train: 3 × the forward pass, no recomputation.
    """
    work = workload(architecture, how)
    passes = how.batch * (3 if how.phase == "train" else 1)
    by_component = dict.fromkeys(COMPONENTS, 0)
    attention = 0
    model = equations(architecture, how.form, how.kept)
    for stage in model.main:
        own = stage.workload(work)
        for line in stage.lines:
            n = line.flops(own) * stage.times * passes
            if n:
                by_component[line.component] += n
                if line.attends():
                    attention += n
    total = sum(by_component.values())
    tokens = how.batch * work.new_tokens
    touched = multiplied(architecture, model)
    return Flops(
        model=architecture.name,
        batch=how.batch,
        context=work.context,
        phase=how.phase,
        pairs=how.pairs,
        mla=how.form,
        logits=how.logits,
        total=total,
        attention=attention,
        weights=total - attention,
        macs=total // 2,
        by_component=by_component,
        convention=convention(work, how.form),
        approx_6nd=6 * touched * tokens if how.phase == "train" else None,
        approx_2n=2 * touched * tokens if how.phase != "train" else None,
        source=work.source or None,
    )


flops = keywords(FlopsRun, counted)


def multiplied(architecture: Architecture, model: Equations) -> int:
    """N of the approximations 2N and 6ND: active − embedding, a tied head's d·v counted."""
    active = sum(
        entry.used
        for entry in ledger(model)
        if entry.stage is not model.mtp and entry.tensor.weight.component != "embedding"
    )
    return active + (architecture.head.width * architecture.v if architecture.head.tying else 0)


def convention(work: Workload, form: Form) -> str:
    """What the number counts, in words."""
    seen = "pairs that mask and window allow" if work.pairs == "causal" else "every query against every key"
    passes = "3 × the forward pass, no recomputation; " if work.phase == "train" else ""
    return (
        f"{passes}2 FLOPs per multiply-add; {seen}; logits of {work.logits} new tokens; latent attention {form}; "
        "look-ups, biases, norms, softmax, RoPE, activations and gates not counted"
    )
