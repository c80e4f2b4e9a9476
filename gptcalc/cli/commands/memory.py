"""gptcalc memory"""

from __future__ import annotations

from gptcalc.cli.answer import Answer, show
from gptcalc.cli.memory_options import DP, EP, PP, TP, DType, Overhead, PrefillChunk
from gptcalc.cli.options import (
    Batch,
    Context,
    Engine,
    KVDType,
    Logits,
    MlaCache,
    Model,
    Phase,
    Set,
    StateDType,
    context_warnings,
)


def command(
    model: Model,
    settings: Set = [],  # noqa: B006
    batch: Batch = 1,
    context: Context = None,
    dtype: DType = "bf16",
    kv_dtype: KVDType = "bf16",
    state_dtype: StateDType = "fp32",
    phase: Phase = "prefill",
    engine: Engine = "ideal",
    mla_cache: MlaCache = "latent",
    logits: Logits = "last",
    prefill_chunk: PrefillChunk = None,
    overhead: Overhead = 0,
    tp: TP = 1,
    pp: PP = 1,
    ep: EP = 1,
    dp: DP = None,
) -> Answer:
    """What a device must hold: weights, cache, activations, overhead."""
    from gptcalc.analysis.memory import memory
    from gptcalc.analysis.sharding import layout
    from gptcalc.errors import InputError
    from gptcalc.sources import load

    if phase == "train":
        raise InputError("memory: --phase train is not there yet", kind="unsupported")
    loaded = load(model, settings)
    architecture = loaded.architecture
    warnings = (*loaded.notes, *context_warnings(architecture, context))
    found = memory(
        architecture, batch=batch, context=context, dtype=dtype, kv_dtype=kv_dtype, state_dtype=state_dtype,
        phase=phase, engine=engine, mla_cache=mla_cache, logits=logits, prefill_chunk=prefill_chunk, overhead=overhead,
        parallel=layout(architecture, tp=tp, pp=pp, ep=ep, dp=dp),
    )  # fmt: skip
    return Answer(found, show("memory", found), warnings)
