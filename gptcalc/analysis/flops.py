"""FLOPs of a prefill, a decode step or a training step."""

from __future__ import annotations

from typing import get_args

from gptcalc.analysis.operators import made_again
from gptcalc.analysis.params import COMPONENTS, ledger
from gptcalc.answers import Outcome
from gptcalc.architecture import Architecture, InChunks, Scanned
from gptcalc.conventions import FlopsRun, Form, Logits, Pairing, Phase, Recompute
from gptcalc.equations import Equations, Layer, Line, Stage, Within, Workload, equations, workload
from gptcalc.options import keywords


class Flops(Outcome, frozen=True, omit_defaults=True):
    """The keys of `gptcalc flops --json`."""

    model: str
    batch: int
    context: int
    phase: Phase
    pairs: Pairing
    mla: Form
    logits: Logits
    total: int  # 2 for each multiply-add
    attention: int  # products of queries, keys, weights and values
    weights: int  # products with weights
    macs: int  # multiply-adds, half the total
    by_component: dict[str, int]  # the total by what weights are for
    convention: str  # what is counted, and what is not
    approx_2n: int | None = None  # 2·N·tokens, the usual estimate
    approx_6nd: int | None = None  # 6·N·tokens, the usual estimate of a training step
    source: int | None = None  # tokens that the encoder reads
    scan: str | None = None  # how recurrent states are computed
    states: int = 0  # what is written to recurrent states and read from them


def counted(architecture: Architecture, how: FlopsRun) -> Flops:
    """FLOPs of one pass over a batch: 2 per multiply-add, every line that multiplies and accumulates.

    prefill: `context` tokens from nothing. decode: the context-th token. train: 3 × the forward pass, and once more
    what is made again in the backward pass: whole layers (full), or scores and weighted sums (selective).
    """
    work = workload(architecture, how)
    passes = how.batch * (3 if how.phase == "train" else 1)
    by_component = dict.fromkeys(COMPONENTS, 0)
    attention = states = 0
    how.check_modules(architecture)
    model = equations(architecture, how.form, how.kept, how.chunks)
    for stage, times, component in (*((stage, 1, "") for stage in model.main), *_modules(model, how)):
        own = stage.workload(work)
        again = {id(line) for line in _made_again(stage, how)}
        for line in stage.lines:
            n = line.flops(own) * stage.often(line) * times * (passes + how.batch * (id(line) in again))
            if n:
                name = component or line.component
                by_component[name] = by_component.get(name, 0) + n
                if line.attends():
                    attention += n
                elif of_states(line):
                    states += n
    total = sum(by_component.values())
    tokens = how.batch * work.new_tokens
    touched = multiplied(architecture, model)
    scan = scanned(architecture, model, how)
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
        weights=total - attention - states,
        macs=total // 2,
        by_component=by_component,
        convention=convention(work, how, scan, architecture.block),
        scan=(how.scan if chunks_of(model) else "recurrent") if scan else None,
        approx_6nd=6 * touched * tokens if how.phase == "train" else None,
        approx_2n=2 * touched * tokens if how.phase != "train" and architecture.block is None else None,
        source=work.source or None,
        states=states,
    )


flops = keywords(FlopsRun, counted)


def multiplied(architecture: Architecture, model: Equations) -> int:
    """N of the approximations 2N and 6ND: active − embedding, the d·v of a tied or borrowed head counted."""
    active = sum(
        entry.used
        for entry in ledger(model)
        if entry.stage is not model.mtp and entry.tensor.weight.component != "embedding"
    )
    head = architecture.head
    return active + (architecture.embedding.width * architecture.v if head.tying or head.borrowed else 0)


def of_states(line: Line) -> bool:
    """Whether a line of a recurrent mixer multiplies no weights: it writes to a state, reads it, or does so in part."""
    return line.component == "recurrent" and not any(factor.name in line.weights for factor in line.statement.factors)


def _modules(model: Equations, how: FlopsRun) -> list[tuple[Stage, int, str]]:
    """The multi-token-prediction modules, where they are asked for: each with the shared head behind it; and how often
    what stands once is run."""
    if not how.mtp or model.mtp is None:
        return []
    return [(model.mtp, 1, "mtp"), (model.output, model.mtp.times, "mtp")]


def _made_again(stage: Stage, how: FlopsRun) -> list[Line]:
    """The lines whose results the backward pass makes again (Korthikanti et al. 2022, arXiv:2205.05198)."""
    if not isinstance(stage, Layer):
        return []
    match how.recompute:
        case "none":
            return []
        case "selective":
            return [line for line in stage.lines if line.attends()]
        case "operators":
            return made_again(stage)
        case "full":
            return list(stage.lines)


AGAIN: dict[Recompute, str] = {
    "none": "no recomputation",
    "selective": "attention once more",
    "operators": "what is not kept once more, attention and every second product being kept",
    "full": "the layers once more",
}


def chunks_of(model: Equations) -> list[int]:
    """Of how many tokens the chunks are in which recurrent states are computed."""
    lines = (line for stage in model.main for line in stage.lines)
    return sorted({line.condition.chunk for line in lines if isinstance(line.condition, Within)})


def scanned(architecture: Architecture, model: Equations, how: FlopsRun) -> str:
    """How recurrent states are computed, in words; "" where there are none."""
    mixers = architecture.mixers()
    walked = sorted({mixer.section for mixer in mixers if isinstance(mixer, get_args(Scanned))})
    if not walked and not any(isinstance(mixer, get_args(InChunks)) for mixer in mixers):
        return ""
    if how.chunks is None:
        return "token by token, not in chunks"
    scans = f"{' and '.join(walked)}, whose published kernels scan and have no form in chunks"
    sizes = " and ".join(map(str, chunks_of(model)))
    if not sizes:
        return f"token by token: of {scans}"
    chunked = f"in chunks of {sizes} tokens, whose products with each other count"
    return f"{chunked}; token by token those of {scans}" if walked else chunked


def convention(work: Workload, how: FlopsRun, scan: str, block: int | None) -> str:
    """What the number counts, in words."""
    seen = "pairs that mask and window allow" if work.pairs == "causal" else "every query against every key"
    passes = f"3 × the forward pass, {AGAIN[how.recompute]}; " if work.phase == "train" else ""
    walked = f"recurrent states {scan}; " if scan else ""
    modules = "multi-token-prediction modules and their logits included; " if how.mtp else ""
    wanted = f"logits of {work.logits} new tokens"
    if block is not None:
        wanted = f"the target's states of the new tokens taken in, one block of {block} drafted behind them"
    return (
        f"{passes}{modules}2 FLOPs per multiply-add; {seen}; {wanted}; "
        f"latent attention {how.form}; {walked}"
        "look-ups, biases, norms, softmax, RoPE, activations and gates not counted"
    )
