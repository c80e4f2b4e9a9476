"""gptcalc fit"""

from __future__ import annotations

from typing import Any

from gptcalc.cli.answer import Answer, show
from gptcalc.cli.memory_options import (
    DP,
    EP,
    PP,
    TP,
    AttentionKernel,
    Budget,
    DeviceName,
    Devices,
    DType,
    Gradients,
    Lora,
    MicroBatch,
    Offload,
    OptimizerName,
    Overhead,
    PrefillChunk,
    Recompute,
    SequenceParallel,
    Sequences,
    Train,
    Utilization,
    Zero,
    capacity,
    chosen,
)
from gptcalc.cli.options import (
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
    budget: Budget = None,
    device: DeviceName = None,
    devices: Devices = None,
    utilization: Utilization = None,
    settings: Set = [],  # noqa: B006
    batch: Sequences = None,
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
    training: Train = False,
    optimizer: OptimizerName = None,
    gradients: Gradients = None,
    zero: Zero = None,
    offload: Offload = None,
    recompute: Recompute = None,
    attention: AttentionKernel = None,
    sequence_parallel: SequenceParallel = False,
    micro_batch: MicroBatch = None,
    lora: Lora = None,
) -> Answer:
    """Does it fit? Exit status 0 yes, 1 no; the largest batch and context that do."""
    from gptcalc.analysis.memory.sharding import over
    from gptcalc.sources import load

    training = training or phase == "train"
    how = chosen(
        training, dtype=dtype, overhead=overhead, kv_dtype=kv_dtype, state_dtype=state_dtype, phase=phase,
        engine=engine, mla_cache=mla_cache, logits=logits, prefill_chunk=prefill_chunk, optimizer=optimizer,
        gradients=gradients, zero=zero, offload=offload, recompute=recompute, attention=attention,
        sequence_parallel=sequence_parallel, micro_batch=micro_batch, lora=lora,
    )  # fmt: skip
    room = capacity(budget, device, utilization)
    loaded = load(model, settings)
    architecture = loaded.architecture
    warnings = (*loaded.notes, *context_warnings(architecture, context))
    parallel = over(architecture, devices, tp=tp, pp=pp, ep=ep, dp=dp)
    where: dict[str, Any] = {
        "capacity": room.bytes, "utilization": room.share, "context": context, "parallel": parallel,
    }  # fmt: skip
    if training:
        from gptcalc.analysis.memory.fit_training import fit_training

        found = fit_training(architecture, batch=batch, **where, **how)
    else:
        from gptcalc.analysis.memory.fit import fit

        found = fit(architecture, batch=batch or 1, **where, **how)
    return Answer(found, show("fit", found, room.title), warnings, 0 if found.fits else 1)
