"""gptcalc kv"""

from __future__ import annotations

from gptcalc.cli.answer import Answer, show
from gptcalc.cli.memory_options import PrefillChunk
from gptcalc.cli.options import Batch, Context, Engine, KVDType, MlaCache, Model, Set, StateDType, Why, context_warnings


def command(
    model: Model,
    settings: Set = [],  # noqa: B006
    batch: Batch = 1,
    context: Context = None,
    kv_dtype: KVDType = "bf16",
    state_dtype: StateDType = "fp32",
    engine: Engine = "ideal",
    mla_cache: MlaCache = "latent",
    prefill_chunk: PrefillChunk = None,
    why: Why = None,
) -> Answer:
    """KV-cache (and recurrent-state) memory."""
    from gptcalc.analysis.memory.cache import kv
    from gptcalc.sources import load

    loaded = load(model, settings)
    warnings = (*loaded.notes, *context_warnings(loaded.architecture, context))
    found = kv(
        loaded.architecture, batch=batch, context=context, kv_dtype=kv_dtype, state_dtype=state_dtype,
        engine=engine, mla_cache=mla_cache, prefill_chunk=prefill_chunk,
    )  # fmt: skip
    if why is not None:
        from gptcalc.analysis.why import why_kv

        ledger = why_kv(loaded.architecture, found, why)
        return Answer(ledger, show("why", ledger, loaded.document), warnings)
    return Answer(found, show("kv", found), warnings)
