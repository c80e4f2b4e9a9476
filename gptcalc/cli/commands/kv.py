"""gptcalc kv"""

from __future__ import annotations

from gptcalc.cli.answer import Answer, plotted, show
from gptcalc.cli.options import Model, Plot, Set, Why, context_warnings
from gptcalc.conventions import RoomRun

RESULT = "gptcalc.analysis.memory.cache:KVCache"


def command(
    model: Model,
    how: RoomRun,
    settings: Set = [],  # noqa: B006
    why: Why = None,
    plot: Plot = False,
) -> Answer:
    """What the cache of keys and values takes, recurrent states with it.

    gptcalc kv llama-3-8b --context 8K --batch 4
    gptcalc kv deepseek-v3 --context 128K --kv-dtype fp8
    gptcalc kv llama-3-8b --bytes 20GiB  # how many tokens that holds
    """
    from gptcalc.analysis.memory.cache import cached
    from gptcalc.sources import load

    loaded = load(model, settings)
    warnings = (*loaded.notes, *context_warnings(loaded.architecture, how))
    found = cached(loaded.architecture, how)
    if why is not None:
        from gptcalc.analysis.why import confirmed, why_kv

        ledger = confirmed(why_kv(loaded.architecture, found, why), loaded.written)
        return Answer(ledger, show("why", ledger), warnings)
    if plot:
        from gptcalc.report.plot import Bars

        length = found.context
        rows: dict[str, dict[str, int]] = {}
        for n in dict.fromkeys(max(1, length * eighth // 8) for eighth in range(1, 9)):
            at = cached(loaded.architecture, how.to(RoomRun, context=n))
            row = rows.setdefault(f"{n:,}", {})
            for group in at.groups:  # a kind of layer may keep keys and a state
                row[group.name] = row.get(group.name, 0) + group.bytes
        return plotted(found, Bars(f"{found.model}: cache by context", "bytes", rows), warnings)
    return Answer(found, show("kv", found), warnings)
