"""gptcalc flops"""

from __future__ import annotations

from gptcalc.cli.answer import Answer, show
from gptcalc.cli.options import Model, Set, Why, context_warnings
from gptcalc.conventions import FlopsRun
from gptcalc.errors import InputError

RESULT = "gptcalc.analysis.flops:Flops"


def command(
    model: Model,
    how: FlopsRun,
    settings: Set = [],  # noqa: B006
    why: Why = None,
) -> Answer:
    """How much is computed: FLOPs of a prompt, of one more token, or of a training step.

    gptcalc flops gpt2
    gptcalc flops llama-3-8b --phase decode --context 8K  # the token behind 8191 others
    gptcalc flops gpt2 --phase train --batch 8
    """
    from gptcalc.analysis.flops import counted
    from gptcalc.sources import load

    loaded = load(model, settings)
    warnings = (*loaded.notes, *context_warnings(loaded.architecture, how))
    found = counted(loaded.architecture, how)
    if why is not None and (how.mtp or how.recompute != "none"):
        raise InputError("--why: not with --mtp or --recompute", "leave these out", "usage")
    if why is not None:
        from gptcalc.analysis.why import why_flops

        ledger = why_flops(loaded.architecture, found, why)
        return Answer(ledger, show("why", ledger), warnings)
    return Answer(found, show("flops", found), warnings)
