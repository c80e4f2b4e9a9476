"""The whole account of a served run: what the fullest device holds, what all do, what is held more than once."""

from __future__ import annotations

from gptcalc.analysis.memory.cache import pools
from gptcalc.analysis.memory.engines import held
from gptcalc.analysis.memory.held import Share
from gptcalc.analysis.memory.inference import Inference
from gptcalc.analysis.memory.result import Device, Memory, Replicated, Tensors, added
from gptcalc.analysis.memory.sharding import Layout, blocks_between
from gptcalc.analysis.memory.twin import twin
from gptcalc.analysis.params import COMPONENTS
from gptcalc.architecture import Architecture
from gptcalc.conventions import InferenceRun
from gptcalc.dtypes import FP32
from gptcalc.options import keywords


def held_by(architecture: Architecture, how: InferenceRun, draft: Architecture | None = None) -> Memory:
    """What the fullest of the devices holds, and all of them in sum. draft: a model that proposes tokens."""
    batch, context = how.batch, how.length(architecture)
    return account(Inference(architecture, how, draft).fuller(batch, context), batch, context)


memory = keywords(InferenceRun, held_by)


def account(run: Inference, batch: int, context: int) -> Memory:
    number, fullest = run.fullest(batch, context)
    total = sums(run, batch, context)
    return Memory(
        model=run.architecture.name,
        devices=run.parallel.devices,
        per_device=fullest,
        total=total.total,
        sums=total,
        replicated=tuple(replicated(run, total, batch, context)),
        batch=batch,
        context=context,
        dtype=run.dtype,
        kv_dtype=run.how.kv_dtype,
        engine=run.how.engine,
        phase=run.how.phase,
        parallel=run.parallel.shown(),
        exact=run.exact(),
        estimated=run.estimated(number, batch, context),
        notes=run.notes(),
        passes=run.passes(),
        published=run.is_published,
        draft=run.drafted_by,
        host=on_host(run, batch, context),
        pieces=pieces(run, number, batch, context),
        tensors=tensors(run, number),
    )


def sums(run: Inference, batch: int, context: int) -> Device:
    """The sum over all devices."""
    return added(
        (run.device(number, sequences, context), ranks * run.parallel.tp)
        for number in range(run.parallel.pp)
        for sequences, ranks in run.parallel.sequences(batch)
    )


def on_host(run: Inference, batch: int, context: int) -> int:
    """What llama.cpp leaves in the host's memory: weights, and the cache of layers that run there."""
    blocks = blocks_between(run.architecture, 0, run.ranges[0][0])
    counts = {stage.name: blocks[stage.block] for stage in run.model.layers if stage.block in blocks}
    source = run.how.source_length(run.architecture)
    kept = pools(run.model, run.kept, run.parallel, counts, source) if counts else []
    cache = held(run.how.engine, kept, context, run.how.prefill_chunk, sequences=batch) if kept else []
    own = sum(share.row.total for share in run.host) + sum(part.total for part in cache)
    return own + (0 if run.draft is None else on_host(run.draft, batch, context))


# --- what is held more than once --------------------------------------------------------------------------------------


def undivided(run: Inference) -> Inference:
    """One copy of everything on a single device."""
    one = twin(run)
    one.draft = None if run.draft is None else undivided(run.draft)
    one.parallel = Layout()
    one.profile = one._profile()
    one.ranges = [(one.ranges[0][0], one.ranges[-1][1])]
    one.shares = [[share for shares in run.shares for share in shares]]
    one.stages = [one._stage(0)]
    one.forget()
    one.buffers = one._buffers()
    return one


def whole(run: Inference, batch: int, context: int) -> Device:
    """What a single device would hold."""
    device = undivided(run).device(0, batch, context)
    weights = sum(share.whole.total for share, _ in shared_out(run))
    return Device.holding(weights=weights, kv=device.kv, activations=device.activations, overhead=device.overhead)


def shared_out(run: Inference) -> list[tuple[Share, Layout]]:
    """Every tensor's share, with how it is divided."""
    own = [(share, run.parallel) for shares in run.shares for share in shares]
    return own + ([] if run.draft is None else shared_out(run.draft))


def replicated(run: Inference, total: Device, batch: int, context: int) -> list[Replicated]:
    """What the sum over devices counts beyond one copy."""
    if run.parallel.devices == run.weights.multiple == 1:
        return []
    extra: dict[str, int] = {}
    for share, parallel in shared_out(run):
        for name, size in _extra(share, parallel):
            extra[name] = extra.get(name, 0) + size
    for one in (run, run.draft):
        if one is not None and (factors := one.weights.factors()) is not None:  # on each device of the first stage
            copies = one.parallel.tp * one.parallel.dp - 1
            extra[factors.name] = extra.get(factors.name, 0) + copies * factors.total
    rows = [Replicated(name, size) for name, size in extra.items() if size]
    if run.parallel.devices > 1:
        one_copy = whole(run, batch, context)
        rows += [
            Replicated(name, more, part)
            for part, name in (("kv", "cache"), ("activations", "activations"), ("overhead", "overhead"))
            if (more := getattr(total, part) - getattr(one_copy, part))
        ]
    return rows


def _extra(share: Share, parallel: Layout) -> list[tuple[str, int]]:
    """A tensor's bytes beyond one copy: over tensor parallel ranks, and over data parallel ones."""
    tp, dp = parallel.tp, parallel.dp
    if share.experts:
        return [("experts", tp * dp * share.row.total - share.whole.total)]
    within = tp * share.row.total
    return [(_name(share), within - share.whole.total), ("data parallel copies", (dp - 1) * within)]


def _name(share: Share) -> str:
    """Under which name a tensor's copies are shown."""
    if share.whole.count == 0:
        return "tied table on the last stage"
    if share.vocabulary:
        return "vocabulary padding"
    return {"norm": "norms", "router": "routers"}.get(share.row.component, share.row.name)


# --- the fullest device part by part ----------------------------------------------------------------------------------


def pieces(run: Inference, number: int, batch: int, context: int) -> dict[str, int]:
    """The finer parts of a device."""
    sequences = run.parallel.sequences(batch)[0][0]
    parts: dict[str, int] = {}
    for component in COMPONENTS:
        size = sum(row.total for row in run.rows(number) if row.component == component)
        if size:
            parts[f"weights.{component}"] = size
    for part in run.held(number, sequences, context):
        key = f"kv.{part.pool.kind}"
        parts[key] = parts.get(key, 0) + part.total
    if run.profile is not None:
        return parts | {f"overhead.{name}": size for name, size in run.profile.parts.items() if size}
    if run.buffers is not None:
        work = run.buffers.work(run.own(number, sequences, context), sequences, context)
        return parts | {f"activations.{name}": n for name, n in run.buffers.pieces(number, work).items() if n}
    if number == run.parallel.pp - 1:
        rows = max((moment.logits for moment in run.stages[number].moments), default=0)
        wanted = sequences if run.how.logits == "last" or run.how.phase == "decode" else sequences * context
        parts["activations.logits"] = FP32.block_bytes * rows * wanted
    return parts


def tensors(run: Inference, number: int) -> tuple[Tensors, ...]:
    """The weights of a device, equal ones together."""
    counts: dict[Tensors, int] = {}
    for row in run.rows(number):
        one = Tensors(row.name, row.component, row.type, 0, row.params, row.bytes)
        counts[one] = counts.get(one, 0) + row.count
    return tuple(Tensors(t.name, t.component, t.type, count, t.params, t.bytes) for t, count in counts.items())
