"""gptcalc fit"""

from __future__ import annotations

from gptcalc.cli.answer import Answer, show
from gptcalc.cli.memory_options import (
    DP,
    EP,
    PP,
    TP,
    Budget,
    DeviceName,
    Devices,
    DType,
    InferencePhase,
    Overhead,
    PrefillChunk,
    Utilization,
    capacity,
)
from gptcalc.cli.options import (
    Batch,
    Context,
    Engine,
    KVDType,
    Logits,
    MlaCache,
    Model,
    Set,
    StateDType,
    context_warnings,
)


def command(
    model: Model,
    budget: Budget = None,
    device: DeviceName = None,
    devices: Devices = None,
    utilization: Utilization = None,
    settings: Set = [],  # noqa: B006
    batch: Batch = 1,
    context: Context = None,
    dtype: DType = "bf16",
    kv_dtype: KVDType = "bf16",
    state_dtype: StateDType = "fp32",
    phase: InferencePhase = "prefill",
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
    """Does it fit? Exit status 0 yes, 1 no; the largest batch and context that do."""
    from gptcalc.analysis.fit import fit
    from gptcalc.analysis.sharding import over
    from gptcalc.sources import load

    room = capacity(budget, device, utilization)
    loaded = load(model, settings)
    architecture = loaded.architecture
    warnings = (*loaded.notes, *context_warnings(architecture, context))
    found = fit(
        architecture, capacity=room.bytes, utilization=room.share, batch=batch, context=context, dtype=dtype,
        kv_dtype=kv_dtype, state_dtype=state_dtype, phase=phase, engine=engine, mla_cache=mla_cache, logits=logits,
        prefill_chunk=prefill_chunk, overhead=overhead,
        parallel=over(architecture, devices, tp=tp, pp=pp, ep=ep, dp=dp),
    )  # fmt: skip
    return Answer(found, show("fit", found, room.title), warnings, 0 if found.fits else 1)
