"""The KV cache: what is held for every token, with windows and latents as they are, and what engines set aside."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from math import prod

from msgspec import Struct
from msgspec.structs import replace

from gptcalc.analysis.memory.engines import Held, blocks, check_runs, form_of, held
from gptcalc.analysis.memory.pools import CONSTANT, Kind, Pool
from gptcalc.analysis.memory.room import Room, room
from gptcalc.analysis.memory.sharding import Layout, held_by_several, local
from gptcalc.answers import Outcome
from gptcalc.architecture import Architecture, Attention, CompressedAttention, LatentAttention, rotated, sublayers
from gptcalc.conventions import AUTO, CacheForm, CacheRun, Engine, RoomRun, possible
from gptcalc.dtypes import BF16, FP8, FP8_DS_MLA, FP8_SCALED, FP16, FP32, GGML, NVFP4, DType, dtype
from gptcalc.equations import Constant, Entries, Equations, Layer, Line, OfSource, Pairs, Stage, equations
from gptcalc.equations.roles import Stored
from gptcalc.errors import InputError
from gptcalc.options import keywords


class CacheGroup(Struct, frozen=True):
    name: str
    layers: int
    kind: str
    cached_tokens: int  # that the cache stands for: where several share an entry, those of complete entries
    elements_per_token: int | Fraction
    bytes: int
    state_elements: int = 0  # of one sequence, whatever its length


class KVCache(Outcome, frozen=True, omit_defaults=True):
    """The keys of `gptcalc kv --json`."""

    model: str
    batch: int
    context: int
    kv_dtype: str
    engine: Engine
    mla_cache: CacheForm
    bytes: int  # of all sequences
    bytes_per_token: int | Fraction  # what a token of one sequence adds while no window is full
    elements_per_token: int | Fraction  # the same in numbers, whatever their type
    state_bytes: int  # recurrent states, which don't grow
    full_bytes: int  # if every layer kept the whole length
    formula: str  # the bytes of one sequence of length S
    groups: tuple[CacheGroup, ...]  # by kinds of layers
    next_token_bytes: int | Fraction  # what the next token of one sequence adds, windows that are full left out
    room: Room | None = None  # what so many bytes hold
    source: int | None = None  # tokens that the encoder reads
    tp: int = 1  # tensor parallel devices, of which this is one's
    notes: tuple[str, ...] = ()


class Types(Struct, frozen=True):
    """The data types of keys (with all that is not values), of values, of recurrent states, of an indexer's keys.

    scales: whether latents that are K and V at once have scales among them in fp8, too, as servers keep them.
    """

    k: DType
    v: DType
    state: DType
    indexer: DType
    scales: bool = False

    def of(self, line: Line, chosen: bool = False) -> DType:
        """The type in which a store line's left side is kept. What is kept before convolutions is kept like keys, by
        servers in 16 bits at least (vLLM's mamba_cache_dtype, SGLang's).

        chosen: an indexer chooses among the latents. In fp8 these then have scales, and the rotary key stays in 16
        bits, as DeepSeek-V3.2 published it (FlashMLA, "FP8 KV cache format"; vLLM's fp8_ds_mla).
        """
        scaled = self.k is FP8_DS_MLA or (chosen and self.k is FP8)
        match line.stored:
            case "state":
                return self.state
            case "values":
                return self.v
            case "index keys":
                return self.indexer
            case "latent" if scaled:
                return FP8_SCALED
            case "rotary key" if scaled:
                return BF16
            case "convolution" if self.scales and self.k.row_bytes(64) < BF16.row_bytes(64):
                return BF16
            case "open entry" if self.k is FP8_DS_MLA:
                return self.state  # fp32 in vLLM (deepseek_v4/compressor.py)
        return self.k

    def row_bytes(self, line: Line, elements: int, chosen: bool, turned: int | None) -> int:
        """Bytes of so many numbers of a store line's left side.

        turned: of latents that are K and V at once, and of what is compressed of them, the channels that are rotated.
        In DeepSeek's layout these stay in 16 bits, behind the others in fp8 and a scale of 8 bits for 64 of them, to a
        multiple of 8: 448 + 2 · 64 + 8 = 584 (vllm/models/deepseek_v4/attention.py). InputError where a model keeps
        keys for which there is no such layout.
        """
        scaled = self.k is FP8_DS_MLA or (self.scales and self.k is FP8 and turned is not None)
        if not scaled or line.stored not in ("keys", "values", "entries"):
            return self.of(line, chosen).row_bytes(elements)
        if turned is None:
            raise InputError(
                f"--kv-dtype {FP8_DS_MLA.name}: a layout of latents, which this model has none of", "use fp8", "usage"
            )
        plain = elements - turned
        return plain + turned * BF16.block_bytes + 8 * -(-plain // (64 * 8))


def types(kv_dtype: str, state_dtype: str = CacheRun().state_dtype, engine: Engine = "ideal") -> Types:
    """The types that one word (q8_0) or two (q8_0:q4_0, keys first) name, as an engine keeps them."""
    k, _, v = kv_dtype.partition(":")
    keys = dtype(k)
    scales = engine in ("vllm", "sglang")
    indexer = FP8_SCALED if scales or keys in (FP8, FP8_DS_MLA) else keys
    return Types(keys, dtype(v or k), dtype(state_dtype), indexer, scales)


def kept_in(architecture: Architecture, engine: str, asked: str = AUTO) -> str:
    """In what an engine keeps a cache; where nothing is asked for, as vLLM's and SGLang's --kv-cache-dtype auto."""
    if asked != AUTO:
        names = {dtype(word or asked, also=(AUTO,)).name for word in asked.split(":", 1)}
        latents = (LatentAttention, CompressedAttention)
        if engine == "vllm" and NVFP4.name in names and any(isinstance(m, latents) for m in architecture.mixers()):
            raise InputError(f"--kv-dtype {asked}: vllm keeps no latents in it", "use fp8 or bf16", "unsupported")
        return asked
    storage = architecture.storage
    if engine in storage.nvfp4_cache:
        return NVFP4.name
    return FP8.name if engine in storage.fp8_cache else BF16.name


WIDE = (FP32.name, BF16.name, FP16.name)
#: in what engines keep caches: vLLM's CacheDType (vllm/config/cache.py of 0.33; what has scales for each head is not
#: known here), llama.cpp's --cache-type-k (common/arg.cpp, kv_cache_types), SGLang's --kv-cache-dtype
#: (server_args.py; its fp4_e2m1 has a scale for 16 numbers, as nvfp4), transformers' without a quantised cache
IN: dict[Engine, tuple[str, ...]] = {
    "vllm": (*WIDE, FP8.name, FP8_DS_MLA.name, NVFP4.name),
    "sglang": (*WIDE, FP8.name, FP8_DS_MLA.name, NVFP4.name),
    "llama.cpp": (*WIDE, *(name for name, type_ in GGML.items() if type_.block == 32)),
    "transformers": WIDE,
}


def not_kept(engine: Engine, kv_dtype: str) -> str | None:
    """What is said where an engine keeps no cache in such a type."""
    words = [dtype(word).name for word in kv_dtype.split(":")]
    odd = [word for word in words if engine in IN and word not in IN[engine]]
    return f"{engine} keeps no cache in {odd[0]}; it does in {', '.join(IN[engine])}" if odd else None


def check_heads(architecture: Architecture, engine: str, kv_dtype: str) -> None:
    """InputError where llama.cpp doesn't start, as flash attention reads heads in whole blocks (llama-context.cpp,
    llama_init_from_model)."""
    if engine != "llama.cpp":
        return
    first, _, second = kv_dtype.partition(":")
    k, v = dtype(first), dtype(second or first)
    for mixer in architecture.mixers() if k.block > 1 or v.block > 1 else []:
        if isinstance(mixer, Attention) and not mixer.source:
            for type_, width in ((k, mixer.d_head), (v, mixer.d_v)):
                if width % type_.block:
                    problem = f"llama.cpp stops, as heads of {width} channels are no whole blocks of {type_.block}"
                    raise InputError(f"--kv-dtype {kv_dtype}: {problem}", "use fp16 or bf16", "unsupported")


#: the kind of cache by what is stored, where nothing limits it
KINDS: dict[Stored, Kind] = {
    "keys": "full", "values": "full", "latent": "latent", "rotary key": "latent", "index keys": "index",
    "entries": "compressed", "open entry": "open", "state": "state", "convolution": "conv", "last token": "shift",
}  # fmt: skip

UNDIVIDED = Layout()


def pools(
    model: Equations,
    kept: Types,
    parallel: Layout = UNDIVIDED,
    counts: Mapping[str, int] | None = None,
    source: int = 0,
    modules: bool = False,
) -> list[Pool]:
    """What the store lines keep on one device, per stage and kind. `counts`: how often each stage runs here.

    modules: those for multi-token prediction as well.
    """
    found: dict[tuple[str, Kind, int | None, int, int, int], Pool] = {}
    for stage in model.stages if modules else model.main:
        layers = stage.times if counts is None else counts.get(stage.name, 0)
        storing = [line for line in stage.lines if line.stored is not None]
        if not layers or not storing:
            continue
        chosen = "index keys" in [line.stored for line in storing]
        rotary = turned(stage)
        for line in storing:
            kind, limit = kind_of(line)
            times = layers * stage.runs_in_passes(line)
            indices = line.stored_indices()
            elements = prod(local(indices, parallel)) * (source if isinstance(line.kept, OfSource) else 1)
            size = kept.row_bytes(line, elements, chosen, rotary)
            every = line.kept.every if isinstance(line.kept, Entries) else 1
            taps = next((index.size for index in indices if index.role == "taps"), 0)
            key = (stage.name, kind, limit, every, taps, times)
            old = found.get(key)
            if old is not None:
                elements, size = old.elements + elements, old.bytes + size
            found[key] = Pool(stage.name, times, kind, limit, elements, size, every, taps)
    return list(found.values())


def turned(stage: Stage) -> int | None:
    """Of a layer's latents that are K and V at once, the channels that are rotated."""
    mixers = sublayers(stage.block) if isinstance(stage, Layer) else ()
    compressed = next((mixer for mixer in mixers if isinstance(mixer, CompressedAttention)), None)
    if compressed is None:
        return None
    return 0 if compressed.rope is None else rotated(compressed.rope, compressed.d_head)


def kind_of(line: Line) -> tuple[Kind, int | None]:
    """The kind of cache that a store line needs, and how many tokens it keeps at most."""
    match line.kept:
        case OfSource():
            return "cross", None
        case Pairs(window=int(window)):
            return KINDS["latent"] if line.stored in ("latent", "rotary key") else "window", window
        case Pairs(chunk=int(chunk)):
            return "chunk", chunk
        case Pairs() | Entries() | Constant() | None:
            return KINDS[line.stored or "keys"], None


def cached(architecture: Architecture, how: CacheRun) -> KVCache:
    """The cache of a batch at a context, on one device: what is needed (ideal) or what an engine sets aside.

    Of tensor parallel devices each holds its share of the heads; a head that several share, and latents, each of them.
    """
    length, batch, engine = how.length(architecture), how.batch, how.engine
    source = how.source_length(architecture)
    kv_dtype = kept_in(architecture, engine, how.kv_dtype)
    check_heads(architecture, engine, kv_dtype)
    kept = types(kv_dtype, how.state_dtype, engine)
    how.check_modules(architecture)
    check_runs(engine, architecture)
    form = form_of(engine, architecture, how.mla_cache)
    tp = how.tp if isinstance(how, RoomRun) else 1
    found = pools(equations(architecture, cache=form), kept, Layout(tp), source=source, modules=how.mtp)
    parts = held(engine, found, length, how.prefill_chunk, sequences=batch)
    odd = not_kept(engine, kv_dtype)
    unlimited = held(engine, _unlimited(found), length, how.prefill_chunk, sequences=batch)
    growing = [pool for pool in found if pool.grows]
    return KVCache(
        model=architecture.name,
        batch=batch,
        context=length,
        kv_dtype=kv_dtype,
        engine=engine,
        mla_cache=form,
        bytes=sum(part.total for part in parts),
        bytes_per_token=whole(Fraction(p.layers * p.bytes, p.every) for p in growing),
        elements_per_token=whole(Fraction(p.layers * p.elements, p.every) for p in growing),
        state_bytes=sum(part.total for part in parts if part.pool.kind in CONSTANT),
        full_bytes=sum(part.total for part in unlimited),
        formula=formula(found, batch) if engine == "ideal" else _engine_formula(engine, parts),
        groups=tuple(_group(part) for part in parts),
        next_token_bytes=whole(Fraction(p.layers * p.bytes, p.every) for p in growing if p.has_room(length)),
        room=_room(architecture, how, found, length),
        source=source or None,
        tp=tp,
        notes=(*([odd] if odd is not None else []), *(held_by_several(architecture, Layout(tp)) if tp > 1 else [])),
    )


def _room(architecture: Architecture, how: CacheRun, found: list[Pool], context: int) -> Room | None:
    """What --bytes hold."""
    if not isinstance(how, RoomRun) or how.bytes is None:
        return None

    def needed(length: int) -> int:
        return sum(part.bytes for part in held(how.engine, found, length, how.prefill_chunk))

    held_ = room(how.bytes, needed, context, blocks(how.engine, found))
    return replace(held_, longest=possible(held_.longest, architecture))


kv = keywords(RoomRun, cached)


def whole(shares: Iterable[Fraction]) -> int | Fraction:
    """A sum of shares: an integer where it is one."""
    total = sum(shares, Fraction(0))
    return total.numerator if total.denominator == 1 else total


def _unlimited(found: list[Pool]) -> list[Pool]:
    """The same layers, each keeping the whole past."""
    return [replace(p, kind="full" if p.grows and p.every == 1 else p.kind, limit=None) for p in found]


def _group(part: Held) -> CacheGroup:
    pool = part.pool
    elements = pool.layers * pool.elements
    per_token = whole([Fraction(elements, pool.every)]) if pool.grows else 0
    state = 0 if pool.grows else elements
    return CacheGroup(pool.name, pool.layers, pool.kind, part.tokens, per_token, part.total, state)


def formula(found: list[Pool], batch: int) -> str:
    """Bytes as pieces of a + b·S, one piece between any two window lengths; ⌊S/m⌋ entries of m tokens each."""
    state = sum(p.layers * p.bytes for p in found if not p.grows)
    growing = [p for p in found if p.grows and p.every == 1]
    entries: dict[int, int] = {}
    for p in found:
        if p.every > 1:
            entries[p.every] = entries.get(p.every, 0) + batch * p.layers * p.bytes
    limits = sorted({p.limit for p in growing if p.limit is not None})
    pieces = []
    for low, high in zip([0, *limits], [*limits, None], strict=True):
        slope = batch * sum(p.layers * p.bytes for p in growing if p.limit is None or p.limit > low)
        full = sum(p.layers * p.bytes * p.limit for p in growing if p.limit is not None and p.limit <= low)
        constant = batch * (state + full)
        terms = [f"{constant:,}"] if constant else []
        if slope:
            terms.append(f"{slope:,}·S")
        terms += [f"{size:,}·⌊S/{every:,}⌋" for every, size in entries.items()]
        pieces.append((" + ".join(terms) or "0") + (f" for S ≤ {high:,}" if high is not None else ""))
    return "; ".join(pieces) + (" beyond" if len(pieces) > 1 else "")


def _engine_formula(engine: Engine, parts: list[Held]) -> str:
    """Bytes as tokens set aside × bytes a token, pool by pool; the rule for the tokens is the engine's."""
    terms = []
    for part in parts:
        if part.tokens and part.bytes % part.tokens == 0:
            terms.append(f"{part.total // part.tokens:,}·{part.tokens:,} ({part.pool.kind})")
        elif part.bytes:
            terms.append(f"{part.total:,} ({part.pool.kind})")
    return (" + ".join(terms) or "0") + f", tokens as {engine} sets them aside"
