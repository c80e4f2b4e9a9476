"""FLOPs of a prefill, a decode step or a training step."""

from __future__ import annotations

from msgspec import Struct

from gptcalc.analysis.params import COMPONENTS, ledger
from gptcalc.architecture import Architecture
from gptcalc.equations import Equations, Workload, equations
from gptcalc.equations.conditions import Logits, Pairing, Phase
from gptcalc.equations.latent import Form


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


def default_form(phase: Phase) -> Form:
    """Latent attention makes keys and values of a prompt (expanded), and attends over latents in a decode step."""
    return "absorbed" if phase == "decode" else "expanded"


def flops(
    architecture: Architecture,
    *,
    batch: int = 1,
    context: int | None = None,
    phase: Phase = "prefill",
    pairs: Pairing = "causal",
    mla: Form | None = None,
    logits: Logits = "all",
) -> Flops:
    """FLOPs of one pass over a batch: 2 per multiply-add, every line that multiplies and accumulates.

    prefill: `context` tokens from nothing. decode: the context-th token. train: 3 × the forward pass, no recomputation.
    """
    form = mla or default_form(phase)
    work = Workload(context or architecture.c, phase, pairs, logits)
    passes = batch * (3 if phase == "train" else 1)
    by_component = dict.fromkeys(COMPONENTS, 0)
    attention = 0
    model = equations(architecture, form)
    for stage in model.main:
        own = stage.workload(work)
        for line in stage.lines:
            n = line.flops(own) * stage.times * passes
            if n:
                by_component[line.component] += n
                if line.attends():
                    attention += n
    total = sum(by_component.values())
    tokens = batch * work.new_tokens
    touched = multiplied(architecture, model)
    return Flops(
        model=architecture.name,
        batch=batch,
        context=work.context,
        phase=phase,
        pairs=pairs,
        mla=form,
        logits=logits,
        total=total,
        attention=attention,
        weights=total - attention,
        macs=total // 2,
        by_component=by_component,
        convention=convention(work, form),
        approx_6nd=6 * touched * tokens if phase == "train" else None,
        approx_2n=2 * touched * tokens if phase != "train" else None,
    )


def multiplied(architecture: Architecture, model: Equations) -> int:
    """N of the approximations 2N and 6ND: active − embedding, a tied head's d·v counted."""
    active = sum(
        entry.tensor.active * entry.stage.times
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
