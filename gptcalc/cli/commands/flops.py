"""gptcalc flops"""

from __future__ import annotations

from gptcalc.cli.answer import Answer, show
from gptcalc.cli.options import Batch, Context, Logits, Mla, Model, Pairs, Phase, Set, Why, context_warnings


def command(
    model: Model,
    settings: Set = [],  # noqa: B006
    batch: Batch = 1,
    context: Context = None,
    phase: Phase = "prefill",
    pairs: Pairs = "causal",
    mla: Mla = None,
    logits: Logits = "all",
    why: Why = None,
) -> Answer:
    """FLOPs of a prefill, a decode step or a training step."""
    from gptcalc.analysis.flops import flops
    from gptcalc.sources import load

    loaded = load(model, settings)
    warnings = (*loaded.notes, *context_warnings(loaded.architecture, context))
    found = flops(loaded.architecture, batch=batch, context=context, phase=phase, pairs=pairs, mla=mla, logits=logits)
    if why is not None:
        from gptcalc.analysis.why import why_flops

        ledger = why_flops(loaded.architecture, found, why)
        return Answer(ledger, show("why", ledger, loaded.document), warnings)
    return Answer(found, show("flops", found), warnings)
