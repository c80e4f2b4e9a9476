"""gptcalc explain"""

from __future__ import annotations

from gptcalc.cli.answer import Answer, show
from gptcalc.cli.options import Context, Logits, Mla, MlaCache, Model, Pairs, Phase, Set, context_warnings


def command(
    model: Model,
    settings: Set = [],  # noqa: B006
    context: Context = None,
    phase: Phase = "prefill",
    pairs: Pairs = "causal",
    mla: Mla = None,
    mla_cache: MlaCache = "latent",
    logits: Logits = "all",
) -> Answer:
    """The sums, with indices and ranges: every equation of the forward pass, and what it costs."""
    from gptcalc.analysis.flops import default_form
    from gptcalc.equations import Workload, equations
    from gptcalc.report.explain import explanation
    from gptcalc.sources import load

    loaded = load(model, settings)
    warnings = (*loaded.notes, *context_warnings(loaded.architecture, context))
    work = Workload(context or loaded.architecture.c, phase, pairs, logits)
    lines = equations(loaded.architecture, mla or default_form(phase), mla_cache)
    found = explanation(loaded.architecture.name, lines, work)
    return Answer(found, show("explain", found), warnings)
