"""What a device must hold to run a model: weights, cache, activations, overhead."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from gptcalc.analysis.memory import sglang
from gptcalc.analysis.memory.cache import check_heads, kept_in, not_kept, pools, types
from gptcalc.analysis.memory.drafting import beside, check_pair, said
from gptcalc.analysis.memory.engines import NEWEST, Held, Paging, check_runs, chunk_of, form_of, held
from gptcalc.analysis.memory.forms import is_published, published
from gptcalc.analysis.memory.held import Share, by_type
from gptcalc.analysis.memory.live import NOTHING, Moment, Work, moments, widest, width_of
from gptcalc.analysis.memory.offload import by_layers, check, is_pipelined, split
from gptcalc.analysis.memory.pools import Pool
from gptcalc.analysis.memory.result import Device, Tensors
from gptcalc.analysis.memory.sharding import blocks_between, held_by_several, layout, stage_ranges
from gptcalc.analysis.memory.twin import twin
from gptcalc.analysis.memory.vllm import (
    GENERATIONS,
    LARGE,
    Generation,
    Profile,
    compressed,
    generation,
    mamba_chunk,
    named,
)
from gptcalc.analysis.memory.weights import Weights
from gptcalc.analysis.params import not_counted
from gptcalc.architecture import Architecture
from gptcalc.conventions import ALL, FitRun, InferenceRun
from gptcalc.dtypes import FP32, MXFP4
from gptcalc.equations import equations
from gptcalc.errors import InputError, printable

if TYPE_CHECKING:
    from gptcalc.analysis.memory.llamacpp import Buffers


class Stage(Struct, frozen=True):
    """What every device of one pipeline stage holds, and what grows with the work."""

    weights: int
    pools: list[Pool]
    moments: list[Moment]


class Parts(Struct, frozen=True):
    """Bytes of a device."""

    weights: int
    kv: int
    activations: int
    overhead: int

    @property
    def total(self) -> int:
        return self.weights + self.kv + self.activations + self.overhead


class Inference:
    """The memory of one model, run one way, as a function of batch and context. Both only ever increase it."""

    def __init__(self, architecture: Architecture, how: InferenceRun, draft: Architecture | None = None) -> None:
        """draft: a model beside it that proposes tokens."""
        how.check_phase(architecture, how.phase)
        how.check_modules(architecture)
        if architecture.canvas is not None:
            problem = f"{architecture.name} denoises {architecture.canvas.length} tokens at once"
            what = "what a step of that holds beside the cache is not counted yet"
            hint = "kv and params count its cache and its weights"
            raise InputError(f"memory: {problem}, and {what}", hint, "unsupported")
        if architecture.sees_all and how.engine == "ideal" and how.prefill_chunk not in (None, ALL):
            problem = f"--prefill-chunk: {architecture.name} sees all tokens at once, so no pass takes a part"
            raise InputError(problem, "leave it out", "usage")
        kv_dtype = kept_in(architecture, how.engine, how.kv_dtype)
        if how.flash_attn == "on":
            check_heads(architecture, how.engine, kv_dtype)
        if how.kv_dtype != kv_dtype:
            how = replace(how, kv_dtype=kv_dtype)
        self.architecture = architecture
        self.sees_all = architecture.sees_all
        #: whether passes run in what the engine leaves free of a device: SGLang, by its own rule
        self.leaves_free = how.engine == "sglang" and isinstance(how, FitRun)
        #: tokens of one pass of a prefill; all of them where each sees those behind it
        self.chunk = ALL if self.sees_all and how.engine == "ideal" else chunk_of(how.engine, how.prefill_chunk)
        self.state_chunk = mamba_chunk(architecture) if how.engine == "vllm" else 0
        self.how = how
        self.parallel = layout(architecture, how)
        self.draft = None if draft is None else self._beside(draft)
        self.kept = types(how.kv_dtype, how.state_dtype, how.engine)
        check_runs(how.engine, architecture)
        form = form_of(how.engine, architecture, how.mla_cache)
        absorbed = how.phase == "decode" and form == "latent"
        self.model = equations(architecture, "absorbed" if absorbed else "expanded", form)
        self.generation = self._generation()
        self.paging = self._paging()
        self.weights = self._weights(how.dtype or published(architecture, how.engine), how.dtype is None)
        self.dtype = self.weights.dtype
        self.width = self._width(self.dtype)
        self.profile = self._profile()
        check(how)
        self._load()
        self.stages = [self._stage(number) for number in range(self.parallel.pp)]
        self.forget()
        self.buffers = self._buffers()
        self.others = self._others()

    def forget(self) -> None:
        """What was found for other stages or another width; vLLM's generations share it otherwise."""
        self._passes: dict[tuple[int, int, int], int] = {}
        self._kept: dict[tuple[int, int, int], tuple[list[Held], int]] = {}

    def _beside(self, draft: Architecture) -> Inference:
        check_pair(self.architecture, draft)
        return Inference(draft, beside(self.how, self.parallel, draft))

    def changed(self, **changes: Any) -> Inference:
        """The same with other conventions."""
        draft = None if self.draft is None else self.draft.architecture
        return Inference(self.architecture, replace(self.how, **changes), draft)

    @property
    def drafted_by(self) -> str | None:
        return None if self.draft is None else self.draft.architecture.name

    def _weights(self, dtype: str, filed: bool) -> Weights:
        how = self.how
        tiles = {} if self.generation is None else self.generation.tiles
        return Weights(self.architecture, dtype, self.parallel, how.engine, tiles, how.mtp, filed)

    def _generation(self) -> Generation | None:
        """Of vLLM: the version's that is asked for, else the first, which `newer` follow."""
        asked = self.how.engine_version
        if self.how.engine != "vllm":
            if asked is not None:
                raise InputError(f"--engine-version {printable(asked)}: of which engine?", "add --engine vllm", "usage")
            return None
        return GENERATIONS[0] if asked is None else generation(asked)

    def _others(self) -> tuple[Inference, ...]:
        """The same with vLLM's other generations, unless one is asked for."""
        if self.generation is None or self.how.engine_version is not None:
            return ()
        others = [self._of(other) for other in GENERATIONS if other is not self.generation]
        kept = {self._cut(): self._kept}
        for other in others:
            other._kept = kept.setdefault(other._cut(), {})
        return tuple(others)

    def _of(self, generation: Generation) -> Inference:
        other = twin(self)
        other.generation, other.others, other._kept = generation, (), {}
        other.draft = None if self.draft is None else self.draft._of(generation)
        if self._is_tiled(self.weights.tiles or generation.tiles) and self.weights.tiles != generation.tiles:
            other.weights = other._weights(self.dtype, bool(self.weights.files))
            other._reload()
        other.paging = other._paging()
        other.profile = None if self.profile is None else self.profile.of(generation)
        return other

    def _is_tiled(self, tiles: Mapping[str, int]) -> bool:
        return any(form.plain in tiles for form in self.weights.forms)

    def _load(self) -> None:
        """Which tensors are where."""
        self.host: list[Share] = []
        self.ranges = stage_ranges(self.architecture.n_layers, self.parallel.pp)
        if by_layers(self.how):
            found = split(self.weights, self.how)
            self.shares, self.host, self.ranges = found.devices, found.host, found.ranges
        else:
            self.shares = [self.weights.stage(number) for number in range(self.parallel.pp)]

    def _stage(self, number: int) -> Stage:
        counts = self._counts(number)
        kept = pools(
            self.model, self.kept, self.parallel, counts, self.how.source_length(self.architecture), self.how.mtp
        )
        running = [] if self.has_buffers else [stage for stage in self.model.main if counts.get(stage.name)]
        live = [moment for stage in running for moment in moments(stage, self.parallel)]
        return Stage(sum([row.total for row in self.rows(number)]), kept, widest(live))

    def rows(self, number: int) -> list[Tensors]:
        """What a device of this pipeline stage loads; a draft stands on the last."""
        factors = self.weights.factors() if number == 0 else None
        rows = [*(share.row for share in self.shares[number]), *([factors] if factors is not None else [])]
        if self.draft is not None and number == self.parallel.pp - 1:
            rows += [replace(row, name=f"draft.{row.name}") for row in self.draft.rows(0)]
        return rows

    def _counts(self, number: int) -> dict[str, int]:
        """How often each stage of the equations runs in a pipeline stage."""
        blocks = blocks_between(self.architecture, *self.ranges[number])
        counts = {stage.name: blocks[stage.block] for stage in self.model.layers if stage.block in blocks}
        if number == 0:
            counts[self.model.embedding.name] = 1
        if number == self.parallel.pp - 1:
            counts[self.model.output.name] = 1
            if self.how.mtp and self.model.mtp is not None:
                counts[self.model.mtp.name] = self.model.mtp.times
        return counts | {stage.name: stage.times for stage in self.model.encoder}

    def in_format(self, dtype: str) -> Inference:
        """The same run with weights of another type."""
        other = twin(self)
        other.weights = self.weights.in_format(dtype)
        other.dtype = other.weights.dtype
        other.width = self._width(other.dtype)
        other.profile = other._profile()
        other.forget()
        other._reload()
        other.others = other._others()
        return other

    def _reload(self) -> None:
        """Other weights, all else as it is."""
        self._load()
        self.stages = [
            replace(stage, weights=sum(row.total for row in self.rows(number)))
            for number, stage in enumerate(self.stages)
        ]
        if self.host:
            self.buffers = self._buffers(self.buffers)

    @property
    def has_buffers(self) -> bool:
        """Whether llama.cpp's compute buffers are known: those of encoders and of compressed entries are not."""
        one_way = self.architecture.encoder is None and not self.architecture.sees_all
        return self.how.engine == "llama.cpp" and one_way and not compressed(self.architecture)

    def _buffers(self, other: Buffers | None = None) -> Buffers | None:
        """other: with weights in another format, from which only the largest matrix on the host differs."""
        if not self.has_buffers:
            return None
        from gptcalc.analysis.memory.llamacpp import COPIES, Buffers  # other engines need none of it

        few = () if self.how.logits == "all" else ("logits",)  # a few rows are multiplied where the output is
        used = [s.row.bytes for s in self.host if s.tensor.kind == "matrix" and s.tensor.weight.use not in few]
        copied = max(used, default=0)
        alike = None if other is None else other.copying(copied)
        if alike is not None:
            return alike
        counts = [self._counts(number) for number in range(self.parallel.pp)]
        copies = COPIES if self.parallel.pp > 1 and is_pipelined(self.weights, self.how) else 1
        return Buffers(self.architecture, self.how, self.kept, counts, copied, copies)

    def _width(self, dtype: str) -> int:
        """Bytes of one activation. ggml computes in fp32 whatever the weights are."""
        return FP32.block_bytes if self.how.engine == "llama.cpp" else width_of(dtype)

    # one device

    def widest(self, number: int, sequences: int, context: int) -> tuple[Moment, int]:
        """The widest moment of a pass, and its bytes."""
        found = (NOTHING, 0)
        if not sequences:
            return found
        sequences, past = self.at_once(sequences), sequences * context
        if self.how.phase == "decode":
            work = Work(sequences, past, sequences, 0)
        else:
            work = Work.prompt(sequences, past, self.how.source_length(self.architecture), self.chunk)
            work = replace(work, wanted=work.tokens if self.how.logits == "all" else work.wanted)
        for moment in self.stages[number].moments:
            size = moment.bytes(work, self.width)
            if size > found[1]:
                found = moment, size
        return found

    def at_once(self, sequences: int) -> int:
        """Of these, those in one pass: vLLM's scheduler takes no more than its sampler has rows for."""
        return sequences if self.profile is None else min(sequences, self.profile.rows)

    def held(self, number: int, sequences: int, context: int) -> list[Held]:
        """What so many sequences take of the cache on a device of a pipeline stage."""
        return [*self.own(number, sequences, context), *self._drafts(number, sequences, context)]

    def _drafts(self, number: int, sequences: int, context: int) -> list[Held]:
        if self.draft is None or number < self.parallel.pp - 1:
            return []
        theirs = self.draft.held(0, sequences, context)
        return [replace(part, pool=replace(part.pool, name=f"draft {part.pool.name}")) for part in theirs]

    def own(self, number: int, sequences: int, context: int) -> list[Held]:
        """The same without a draft's."""
        pools, how = self.stages[number].pools, self.how
        return held(how.engine, pools, context, how.prefill_chunk, sequences, self.paging)

    def _paging(self) -> Paging:
        """How vLLM's cache is cut. A model beside it, or its own modules, guess one token at least, or one each."""
        if self.generation is None:
            return NEWEST
        modules = self.architecture.mtp.n if self.how.mtp and self.architecture.mtp is not None else 0
        guessed = max(modules, self.draft is not None)
        return self.generation.paging(self.parallel.pp, guessed, self.state_chunk)

    def _cut(self) -> Paging:
        """The same as far as it makes a difference to this cache."""
        pools = [pool for stage in self.stages for pool in stage.pools]
        return self.paging if self.draft is not None else self.paging.of(pools)

    def device(self, number: int, sequences: int, context: int) -> Device:
        """A device of one pipeline stage that serves so many sequences."""
        return Device.holding(**asdict(self._parts(number, sequences, context)))

    def _parts(self, number: int, sequences: int, context: int) -> Parts:
        cache = self._cache(number, sequences, context)
        activations = 0 if self.leaves_free else self._pass(number, sequences, context)
        overhead = self.how.overhead
        if self.profile is not None:
            activations = max(activations, self.profile.least(self.profiled(sequences, context)))
            overhead += self.profile.kept
        if self.draft is not None and number == self.parallel.pp - 1:  # llama.cpp has a context for each model
            drafts = self.draft.device(0, sequences, context).activations
            activations = activations + drafts if self.buffers is not None else max(activations, drafts)
        return Parts(self.stages[number].weights, cache, activations, overhead)

    def _pass(self, number: int, sequences: int, context: int) -> int:
        """Bytes that a pass holds at its peak, whatever vLLM's generation."""
        key = number, sequences, context
        found = self._passes.get(key)
        if found is None:
            if self.buffers is not None:
                found = self.buffers.bytes(number, self._known(*key)[0], sequences, context)
            else:
                found = self.widest(*key)[1]
            if self.profile is not None:
                found = max(found, self.profile.forward(self.profiled(sequences, context), context))
            self._passes[key] = found
        return found

    def _cache(self, number: int, sequences: int, context: int) -> int:
        """Bytes of the cache: so many times that of a sequence, but where an engine has one for all of them."""
        is_shared = self.how.engine in ("llama.cpp", "sglang")
        size = self._known(number, sequences if is_shared else 1, context)[1]
        return size if is_shared else sequences * size

    def _known(self, number: int, sequences: int, context: int) -> tuple[list[Held], int]:
        """What is set aside of the cache without a draft's, and the bytes of all."""
        key = number, sequences, context
        found = self._kept.get(key)
        if found is None:
            own = self.own(*key)
            found = self._kept[key] = own, sum([part.total for part in (*own, *self._drafts(*key))])
        return found

    def profiled(self, sequences: int, context: int) -> int:
        """Tokens of vLLM's profile run: a piece whatever the prompts, unless they are one."""
        return self.chunk if self.chunk < ALL else sequences * context

    def _profile(self) -> Profile | None:
        if self.generation is None:
            return None
        rows = LARGE.sequences if self.how.max_num_seqs is None else self.how.max_num_seqs
        return Profile(self.architecture, self.parallel, self.generation, rows, self.width)

    def fullest(self, batch: int, context: int) -> tuple[int, Device]:
        """The pipeline stage whose devices hold most, and the fullest of them."""
        sequences = self.parallel.sequences(batch)[0][0]
        devices = [self.device(number, sequences, context) for number in range(self.parallel.pp)]
        number = max(range(self.parallel.pp), key=lambda n: devices[n].total)
        return number, devices[number]

    def needed(self, batch: int, context: int) -> int:
        """Bytes of the fullest device; of vLLM with the generation that needs most."""
        sequences, numbers = self.parallel.sequences(batch)[0][0], range(self.parallel.pp)
        return max([run._parts(number, sequences, context).total for run in self.versions() for number in numbers])

    def total(self, batch: int, context: int) -> int:
        """Bytes of the fullest device with this generation alone."""
        sequences = self.parallel.sequences(batch)[0][0]
        return max([self._parts(number, sequences, context).total for number in range(self.parallel.pp)])

    def versions(self) -> tuple[Inference, ...]:
        """This run, and those of other generations of vLLM."""
        return self, *self.others

    def starting(self, budget: int) -> Inference:
        """Without the generations of vLLM that can't start at all, if any can: these are no measure.

        Asked of one token, so that no longer request fits where a shorter one doesn't.
        """
        if not self.others:
            return self
        starting = [run for run in self.versions() if run.total(1, 1) <= budget]
        if len(starting) in (0, 1 + len(self.others)):
            return self
        first = twin(starting[0])
        first.others = tuple(starting[1:])
        return first

    def fuller(self, batch: int, context: int) -> Inference:
        """This run, or vLLM's of another generation, whichever needs most."""
        return max(self.versions(), key=lambda run: run.total(batch, context)) if self.others else self

    # what is said of it

    def exact(self) -> tuple[str, ...]:
        by = "what the model needs" if self.how.engine == "ideal" else f"what {self.how.engine} sets aside"
        is_known = not self.has_third_pages and not_kept(self.how.engine, self.how.kv_dtype) is None
        cache: tuple[str, ...] = (f"kv: {by}, in {self.how.kv_dtype}",) if is_known else ()
        if self.architecture.sees_all:
            cache = ("kv: none, as every token is seen at once",)
        if self.is_rough or (self.draft is not None and self.draft.is_rough):
            return cache
        if self.weights.files:
            return f"weights: every tensor as its file has it, {self.weights.types()}", *cache
        if self.weights.apart:
            stored = by_type((row.type, row.total) for row in self.rows(0))
            return f"weights: every matrix as the config says, {stored}", *cache
        stay = MXFP4.name not in self.dtype and any(row.type == MXFP4.name for row in self.rows(0))
        how = f"{', as published' * self.is_published}{', experts in mxfp4' * stay}"
        return f"weights: every tensor as {self.dtype} stores it{how}", *cache

    @property
    def has_third_pages(self) -> bool:
        pools = [pool for stage in self.stages for pool in stage.pools]
        return self.generation is not None and self.generation.may_write_more(self.architecture, pools)

    @property
    def is_rough(self) -> bool:
        """Whether weights are an estimate."""
        return self.is_mixed or self.is_padded or self.is_foreign or self.weights.assumed is not None

    @property
    def is_published(self) -> bool:
        return is_published(self.architecture, self.how.dtype, self.how.engine)

    @property
    def is_foreign(self) -> bool:
        """Whether the engine has no such format."""
        forms = self.weights.forms
        if not forms or self.weights.files:
            return False
        return self.how.engine == "llama.cpp" or (any(form.alone for form in forms) and self.how.engine != "ideal")

    @property
    def is_mixed(self) -> bool:
        """Whether the published files keep matrices wide that the format would pack."""
        storage = self.architecture.storage
        is_mixed = storage.mixed or (self.how.mtp and storage.mixed_mtp)
        return self.how.dtype is None and is_mixed and not self.weights.files

    @property
    def is_padded(self) -> bool:
        """Whether kernels of vLLM pad matrices of this format, more or less by card and version."""
        return self.generation is not None and self._is_tiled(GENERATIONS[0].tiles)

    def estimated(self, number: int, batch: int, context: int) -> tuple[str, ...]:
        found = []
        if (odd := not_kept(self.how.engine, self.how.kv_dtype)) is not None:
            found.append(f"kv: {odd}")
        if self.has_third_pages:
            found.append("kv: what vllm sets aside, with a third page of states, which some kernels don't write")
        if self.is_mixed:
            is_wide = all(form.is_wide for form in self.weights.forms)
            other = "pack them" if is_wide else "keep some of them wide"
            found.append(f"weights: all matrices in {self.dtype}, though the files {other}")
        if self.is_padded:
            counted = "to tiles, as 0.11 loads them to 0.5 %" if self.weights.tiles else "on some cards, not counted"
            found.append(f"weights: kernels pad matrices in {self.dtype} {counted}")
        if self.is_foreign:
            holds = "; it holds gguf-bf16, q8_0, q4_k_m and others" if self.how.engine == "llama.cpp" else ""
            found.append(f"weights: {self.how.engine} has no {self.dtype}{holds}")
        if self.weights.assumed:
            found.append(f"weights: {self.weights.assumed}")
        return (*found, *self._estimated(number, batch, context))

    def _estimated(self, number: int, batch: int, context: int) -> tuple[str, ...]:
        sequences = self.parallel.sequences(batch)[0][0]
        if self.profile is not None and self.generation is not None:
            over = f"{self.profiled(sequences, context):,} tokens and {self.profile.rows:,} rows of logits"
            runner = f"the model runner of vLLM {self.generation.versions}"
            return (
                f"activations: the profile run's peak with {runner}, {over}; {self.profile.met}",
                "overhead: what that runner keeps beside it, the most that was measured; vision towers come on top",
            )
        if self.leaves_free:
            return (sglang.STARTED,)
        overhead = "as given" if self.how.overhead else "none assumed (--overhead)"
        if self.buffers is not None:
            work = self.buffers.work(self.own(number, sequences, context), sequences, context)
            activations = f"activations: {self.buffers.described(number, work)}"
            return activations, f"overhead: {overhead}; the driver's context comes on top"
        moment, _ = self.widest(number, sequences, context)
        where = f"at {moment.line!r} in {moment.stage}" if moment.line else "none"
        return (
            f"activations: the widest moment of the equations, {where}, without the score matrix; engines differ",
            f"overhead: {overhead}; a runtime's context, graphs and fragmentation come on top",
        )

    def margin(self, device: Device) -> int:
        """By how much the estimated parts may be exceeded: as measured, or half of the activations."""
        if self.buffers is not None:
            return self.buffers.margin(device.activations)
        if self.leaves_free:
            return sglang.MARGIN
        return self.profile.margin if self.profile is not None else device.activations // 2

    def passes(self) -> str | None:
        """How a prompt is run, for the headline."""
        if self.how.phase == "decode" or self.architecture.sees_all:
            return None
        return f"in pieces of {self.chunk:,} tokens" if self.chunk < ALL else "in one piece"

    def notes(self) -> tuple[str, ...]:
        notes = [*not_counted(equations(self.architecture))]
        if self.architecture.mtp is not None and not self.how.mtp:
            notes.append("multi-token-prediction modules are not loaded (--mtp)")
        if self.draft is not None:
            notes += said(self.architecture, self.draft.architecture, self.draft.dtype)
        notes += held_by_several(self.architecture, self.parallel)
        return tuple(notes)


def which(runs: Iterable[Inference]) -> str:
    """The versions of vLLM that these runs are of, in words."""
    return f"vLLM {named([run.generation for run in runs if run.generation is not None])}"
