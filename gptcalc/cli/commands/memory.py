"""gptcalc memory"""

from __future__ import annotations

from gptcalc.cli.answer import Answer, show
from gptcalc.cli.memory_options import (
    DP,
    EP,
    PP,
    TP,
    AttentionKernel,
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
    Zero,
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
    """What a device must hold, in inference or in --training."""
    from gptcalc.analysis.memory.sharding import layout
    from gptcalc.sources import load

    training = training or phase == "train"
    how = chosen(
        training, dtype=dtype, overhead=overhead, kv_dtype=kv_dtype, state_dtype=state_dtype, phase=phase,
        engine=engine, mla_cache=mla_cache, logits=logits, prefill_chunk=prefill_chunk, optimizer=optimizer,
        gradients=gradients, zero=zero, offload=offload, recompute=recompute, attention=attention,
        sequence_parallel=sequence_parallel, micro_batch=micro_batch, lora=lora,
    )  # fmt: skip
    loaded = load(model, settings)
    architecture = loaded.architecture
    warnings = (*loaded.notes, *context_warnings(architecture, context))
    parallel = layout(architecture, tp=tp, pp=pp, ep=ep, dp=dp)
    if training:
        from gptcalc.analysis.memory.training import training as train

        step = train(architecture, batch=batch, context=context, parallel=parallel, **how)
        return Answer(step, show("memory", step), warnings)
    from gptcalc.analysis.memory.inference import memory

    found = memory(architecture, batch=batch or 1, context=context, parallel=parallel, **how)
    return Answer(found, show("memory", found), warnings)
