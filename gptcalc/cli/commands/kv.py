"""gptcalc kv"""

from __future__ import annotations

from gptcalc.cli.answer import Answer, show
from gptcalc.cli.options import Model, Set, Why, context_warnings
from gptcalc.conventions import RoomRun

RESULT = "gptcalc.analysis.memory.cache:KVCache"


def command(
    model: Model,
    how: RoomRun,
    settings: Set = [],  # noqa: B006
    why: Why = None,
) -> Answer:
    """KV-cache (and recurrent-state) memory."""
    from gptcalc.analysis.memory.cache import cached
    from gptcalc.sources import load

    loaded = load(model, settings)
    warnings = (*loaded.notes, *context_warnings(loaded.architecture, how))
    found = cached(loaded.architecture, how)
    if why is not None:
        from gptcalc.analysis.why import confirmed, why_kv

        ledger = confirmed(why_kv(loaded.architecture, found, why), loaded.written)
        return Answer(ledger, show("why", ledger), warnings)
    return Answer(found, show("kv", found), warnings)
