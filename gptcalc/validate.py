"""Holds analysis and witness against each other: the only room that sees both.

The full-size model is traced without data: which weights the forward pass asks for, what it multiplies, what it caches.
A small copy with the same kinds of layers runs for real: decode against prefill, causality, and whether every weight
matters. Published totals, where a preset carries one, see what both engines might have missed together.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from math import prod
from typing import Any, get_args

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from gptcalc.analysis.flops import flops
from gptcalc.analysis.listed import listed
from gptcalc.analysis.memory.account import memory
from gptcalc.analysis.memory.cache import kv
from gptcalc.analysis.params import params
from gptcalc.analysis.stored import expected_tensors, held
from gptcalc.architecture import (
    Architecture,
    Attention,
    Block,
    Experts,
    HierarchicalRecurrence,
    InChunks,
    LatentAttention,
    LinearAttention,
    Prefixes,
    Repeat,
    is_looped,
    placed,
    stem,
    sublayers,
)
from gptcalc.conventions import CacheForm, Form
from gptcalc.errors import InputError
from gptcalc.reference.model import Model, Result
from gptcalc.reference.shapes import shape_only
from gptcalc.reference.shrink import shrink
from gptcalc.reference.source import random_source, shapes_of_source
from gptcalc.reference.step import LatentForm
from gptcalc.reference.store import MappingStore, ShapeStore
from gptcalc.reference.tally import Array
from gptcalc.sources import Model as SourceModel
from gptcalc.sources.checkpoint import hub_or_path, is_absent, kind_at

INDEX = ".index.json"  # how the name of an index of tensors ends
FULL_SIZE_TOKENS = 8
FULL_SIZE_SOURCE = 5
SMALL_TOKENS = 11
SMALL_SOURCE = 7
SMALL_STEPS = 5
CHUNK = 3  # tokens side by side where recurrent states are computed in chunks
MOST_NAMED = 4  # kinds of tensors that only an index has
MOST_SHOWN = 20  # tensors of a checkpoint that differ
NOISE = (0.5, 5.0, 50.0) * 5  # tried one after the other: a router's choice may survive a little noise, or by chance


class Check(Struct, frozen=True):
    """What analysis (or a publication) expects, and what the witness found."""

    name: str
    expected: Any
    found: Any
    ok: bool
    witness: str


class Validation(Struct, frozen=True):
    """The keys of one row of `gptcalc validate --json`."""

    model: str
    ok: bool
    checks: tuple[Check, ...]


def validate(architecture: Architecture, published: int | None = None) -> Validation:
    """Every check of one model."""
    with np.errstate(all="ignore"):  # odd scales give odd numbers, which the checks see
        checks = [*full_size(shortened(architecture)), *small_copy(architecture)]
    if published is not None:
        checks.append(_equal("published total", published, params(architecture).total, "publication"))
    return Validation(architecture.name, all(check.ok for check in checks), tuple(checks))


def with_checkpoint(result: Validation, model: SourceModel, path: str) -> Validation:
    """The same, with a checkpoint's tensors held against the equations', name by name."""
    return _and(result, checkpoint_checks(model, path))


def materialized(result: Validation, architecture: Architecture) -> Validation:
    """The same, with a real run of the full-size model where memory allows."""
    return _and(result, [real_forward(architecture)])


def _and(result: Validation, more: list[Check]) -> Validation:
    checks = (*result.checks, *more)
    return Validation(result.model, all(check.ok for check in checks), checks)


def _equal(name: str, expected: Any, found: Any, witness: str) -> Check:
    return Check(name, expected, found, expected == found, witness)


#: layers that are walked one by one; of a deeper model each kind stands less often
MOST_LAYERS = 512


def shortened(architecture: Architecture) -> Architecture:
    """The same model with fewer repetitions where it is very deep: what repeats costs the same each time."""
    if architecture.n_layers <= MOST_LAYERS:
        return architecture
    layers = tuple(_shorter(item) for item in architecture.layers)
    mtp = architecture.mtp and replace(architecture.mtp, n=min(architecture.mtp.n, 2))
    if architecture.attention_residuals is not None or is_looped(architecture):
        layers = placed(layers, architecture.attention_residuals)
    return replace(architecture, layers=layers, mtp=mtp)


def _shorter(item: Repeat) -> Repeat:
    body = tuple(_shorter(inner) if isinstance(inner, Repeat) else inner for inner in item.body)
    return replace(item, count=min(item.count, 2), body=body)


# --- the full-size model, without data ----------------------------------------------------------------------------


def full_size(architecture: Architecture, tokens: int = FULL_SIZE_TOKENS) -> Iterator[Check]:
    """Weights, cache and FLOPs of a prefill and one decode step, counted on arrays that have a shape and no data."""
    chunks = [m.chunk for m in architecture.mixers() if isinstance(m, Attention) and m.chunk is not None]
    tokens = min(tokens, max(1, architecture.c - 1), *chunks)  # a chunk's cache empties once the next chunk begins
    witness = "trace"
    model = Model(architecture, ShapeStore())
    other = architecture.encoder or architecture.encoded
    read = min(FULL_SIZE_SOURCE, other.c) if other is not None else None
    model.prefill(shape_only((1, tokens), np.int64), source=shapes_of_source(architecture, read or 0))
    form: Form | None = "absorbed" if tokens == 1 else None  # as the witness does with a token alone
    square = flops(architecture, context=tokens, source=read, pairs="full", mla=form).total
    yield _equal(f"FLOPs, prefill of {tokens}, all pairs", square, model.tally.total, witness)
    if _has_chunks(architecture):
        in_chunks = Model(architecture, ShapeStore(), scan=CHUNK)
        in_chunks.prefill(shape_only((1, tokens), np.int64), source=shapes_of_source(architecture, read or 0))
        expected = flops(architecture, context=tokens, source=read, pairs="full", mla=form, scan=f"chunked:{CHUNK}")
        yield _equal(f"FLOPs in chunks of {CHUNK}, all pairs", expected.total, in_chunks.tally.total, witness)
    asked = dict(model.weights.asked)
    yield from _same_tensors(architecture, asked)
    yield _equal("parameters", params(architecture).total, model.weights.count, witness)
    yield _equal("active parameters", params(architecture).active, model.weights.touched, witness)
    held = kv(architecture, context=tokens, source=read)
    yield _equal(f"cache elements at {tokens}", _elements(held.groups), model.cache.elements, witness)
    if architecture.continues:
        model.tally.clear()
        model.decode(shape_only((1,), np.int64))
        step = flops(architecture, context=tokens + 1, source=read, phase="decode").total
        yield _equal(f"FLOPs, decode of token {tokens + 1}", step, model.tally.total, witness)
    if architecture.mtp is not None:
        model.prefill(shape_only((1, architecture.mtp.n + 1), np.int64), predict=True)
        found = sum(prod(shape) for key, shape in model.weights.asked.items() if key.startswith("mtp."))
        yield _equal("MTP parameters", params(architecture).mtp, found, witness)


def _has_chunks(architecture: Architecture) -> bool:
    """Whether a recurrent mixer has a form in chunks."""
    return any(isinstance(mixer, get_args(InChunks)) for mixer in architecture.mixers())


def _elements(groups: Any) -> Any:
    return sum(group.elements_per_token * group.cached_tokens + group.state_elements for group in groups)


def _same_tensors(architecture: Architecture, asked: dict[str, tuple[int, ...]]) -> list[Check]:
    """One row where all tensors agree; else one for each of the first few that differ."""
    expected = {key: entry.tensor.params for key, entry in expected_tensors(architecture)}
    found = {key: prod(shape) for key, shape in asked.items()}
    if expected == found:
        return [_equal("tensors, one by one", len(expected), len(found), "trace")]
    differ = [key for key in {**expected, **found} if expected.get(key) != found.get(key)]
    return [_equal(f"tensor {key}", expected.get(key), found.get(key), "trace") for key in differ[:5]]


# --- a small copy, for real ----------------------------------------------------------------------------------------


def small_copy(architecture: Architecture) -> Iterator[Check]:
    """A real run of the architecture's small copy."""
    yield from real_run(shrink(architecture))


def real_run(small: Architecture, noisy: int | None = None) -> Iterator[Check]:
    """Numbers and counts of a run with random weights: prefill, then token by token; then with noise on each weight.

    noisy: on how many of them, evenly chosen; by default on all.
    """
    tokens = np.random.default_rng(7).integers(0, small.v, SMALL_TOKENS)
    first = SMALL_TOKENS - SMALL_STEPS
    source = random_source(small, SMALL_SOURCE, 5)
    whole = Model(small, dtype=np.float64)
    result = whole.prefill(tokens, source=source)
    logits = result.logits[0]
    forms: list[LatentForm] = ["auto", "expanded"] if _is_latent(small) else ["auto"]
    for form in forms if small.continues else []:
        yield from _decoding(small, form, tokens, first, logits, source)
    if _has_chunks(small):
        in_chunks = Model(small, MappingStore(whole.weights.arrays), dtype=np.float64, scan=CHUNK)
        yield _close("recurrent states in chunks", logits, in_chunks.prefill(tokens, source=source).logits[0])
    changed = tokens.copy()
    changed[-1] = (changed[-1] + 1) % small.v
    other = Model(small, MappingStore(whole.weights.arrays), dtype=np.float64)
    earlier = other.prefill(changed, source=source).logits[0, :-1]
    if not (small.sees_all or small.whole_prompt or small.block is not None or _length_dependent(small)):
        yield _close("a later token changes no earlier logit", logits[:-1], earlier[: len(logits) - 1])
    if small.sees_all:
        moved = bool(np.abs(result.hidden[-1][0, :-1] - other.prefill(changed).hidden[-1][0, :-1]).max() > 0)
        yield Check("a later token changes earlier states", True, moved, moved, "small copy")
    shifted = np.exp(logits - logits.max(-1, keepdims=True))
    sums = (shifted / shifted.sum(-1, keepdims=True)).sum(-1)
    yield _close("probabilities sum to 1", np.ones_like(sums), sums)
    if noisy != 0:
        arrays = whole.weights.arrays
        step = 1 if noisy is None else -(-len(arrays) // noisy)
        yield _liveness(small, arrays, list(arrays)[int(tokens[0]) % step :: step], tokens, source)


def _is_latent(small: Architecture) -> bool:
    return any(isinstance(mixer, LatentAttention) for mixer in small.mixers())


def _length_dependent(small: Architecture) -> bool:
    """RoPE scalings whose angles change with the whole length: prefill and decode differ on purpose."""
    ropes = [rope for m in small.mixers() if (rope := getattr(m, "rope", None)) is not None]
    return any(type(rope.scaling).__name__ in ("Dynamic", "LongRope") for rope in ropes)


def _decodes_otherwise(small: Architecture) -> bool:
    """Passes of a loop that look back on the past of the last one, which a prompt at once has not, and prompts that
    see themselves whole: decode differs from prefill on purpose, as it does with angles that change with the length."""
    loops = [block.looped for block, _ in small.groups() if block.looped is not None]
    return _length_dependent(small) or small.whole_prompt or any(loop.caches == "last" for loop in loops)


def _close(name: str, expected: Array, found: Array) -> Check:
    worst = float(np.abs(expected - found).max()) if expected.size else 0.0
    scale = max(1.0, float(np.abs(expected).max())) if expected.size else 1.0
    return Check(name, "difference ≤ 1e-8", f"{worst:.1e}", bool(worst <= 1e-8 * scale), "small copy")


def _decoding(
    small: Architecture, form: LatentForm, tokens: Array, first: int, logits: Array, source: Array | None
) -> Iterator[Check]:
    """Token by token through the cache: the same logits, the cache and the FLOPs that the analysis says."""
    cache: CacheForm = "expanded" if form == "expanded" else "latent"
    mla: Form = "expanded" if form == "expanded" else "absorbed"
    label = f", {mla} form" if _is_latent(small) else ""
    model = Model(small, dtype=np.float64, latent=form)
    read = SMALL_SOURCE if source is not None else None
    stepped = [model.prefill(tokens[:first], source=source).logits[0]]
    most: dict[str, int] = dict(model.cache.by_sublayer())
    expected, found = [], []
    for position in range(first, len(tokens)):
        model.tally.clear()
        stepped.append(model.decode(int(tokens[position])).logits[0])
        found.append(model.tally.total)
        expected.append(flops(small, context=position + 1, source=read, phase="decode", mla=mla).total)
        for key, n in model.cache.by_sublayer().items():
            most[key] = max(n, most.get(key, 0))
    if small.block is not None:  # what is drafted behind all tokens
        yield _close("decode equals prefill", logits, stepped[-1])
    elif not _decodes_otherwise(small):
        yield _close(f"decode equals prefill{label}", logits[first - 1 :], np.array([each[-1] for each in stepped]))
    yield _equal(f"FLOPs of {len(found)} decode steps{label}", sum(expected), sum(found), "small copy")
    held = kv(small, context=len(tokens), source=read, mla_cache=cache)
    yield _equal(f"cache elements at {len(tokens)}{label}", _elements(held.groups), sum(most.values()), "small copy")


def _passed(
    small: Architecture, arrays: dict[str, Array], tokens: Array, source: Array | None, images: Array | None
) -> Array:
    """What a pass over tokens gives, some of them images'; and a block's second step, where blocks are denoised."""
    model = Model(small, MappingStore(arrays), dtype=np.float64)
    out = _out(model.prefill(tokens, source=source, images=images))
    if small.canvas is None:
        return out
    block = tokens[: small.canvas.length]
    return np.concatenate([out, _out(model.denoise(block, model.denoise(block).logits))])


def _liveness(
    small: Architecture, arrays: dict[str, Array], chosen: list[str], tokens: Array, source: Array | None
) -> Check:
    """Noise on any single weight moves what comes out: no parameter is counted that nothing depends on."""
    random = np.random.default_rng(11)
    images = None
    if any(isinstance(mixer, Experts) and mixer.tokens == "images" for mixer in small.mixers()):
        images = np.arange(len(tokens)) % 2 == 1
    silent, out = softmax_invariant(small), _passed(small, arrays, tokens, source, images)
    audible = [key for key in chosen if key not in silent]
    dead = []
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for key in audible:
            array = arrays[key]
            for strength in NOISE:
                noisy = {**arrays, key: array + strength * random.standard_normal(array.shape)}
                other = _passed(small, noisy, tokens, source, images)
                if not np.allclose(other, out, rtol=0, atol=1e-9):
                    break
            else:
                dead.append(key)
    found = f"{len(audible) - len(dead)} of {len(audible)} weights move the logits"
    if dead:
        found += f"; not {', '.join(dead[:3])}"
    return Check("every weight matters", "all move the logits", found, not dead, "small copy")


def _out(result: Result) -> Array:
    """All that a pass gives, in one row."""
    parts = [part for part in (result.logits, result.pooled, result.confidence) if part is not None]
    return np.concatenate([part.ravel() for part in parts])


def softmax_invariant(small: Architecture) -> set[str]:
    """Biases that add the same to every score of a query, which the softmax takes out again: those of keys that are
    neither rotated nor normed afterwards, nor compared with a sink, nor capped; and what weighs one thing alone."""
    encoder = small.encoder.blocks() if small.encoder is not None else ()
    silent = _silent(small.blocks(), "") | _silent(encoder, "encoder.") | set(_silent_sums(small))
    later = [m for block in list(small.blocks())[1:] for m in sublayers(block)]
    if not any(m.bound_channels for m in later if isinstance(m, (LinearAttention, HierarchicalRecurrence))):
        silent.add("decay.bounds")  # the first layer's bound is 0
    return silent


def _silent_sums(small: Architecture) -> Iterator[str]:
    """What weighs the one sum that the first sublayer reads."""
    spec, first = small.attention_residuals, next(iter(small.blocks()))
    if spec is None or not spec.first:
        return
    mixer = next(sublayers(first))
    prefix = f"shared.{mixer.section}" if mixer.tied else f"layers.0.{Prefixes().next(stem(mixer))}"
    yield f"{prefix}.sums.query"
    if spec.values == "raw":
        yield from (f"{prefix}.sums.norm.{part}" for part in ("weight", "bias"))


def _silent(blocks: Iterable[Block], start: str) -> set[str]:
    silent = set()
    for number, block in enumerate(blocks):
        prefixes = Prefixes()
        for mixer in sublayers(block):
            own = prefixes.next(stem(mixer))
            if mixer.messages is not None and block.looped is not None and block.looped.sums == 1:
                inputs = ("q.", "k.", "v.") if isinstance(mixer, Attention) else ("",)  # there is one sum alone
                silent |= {f"{start}layers.{number}.{own}.messages.{name}query" for name in inputs}
            if not isinstance(mixer, (Attention, LatentAttention)):
                continue
            prefix = f"{start}shared.{mixer.section}" if mixer.tied else f"{start}layers.{number}.{own}"
            if isinstance(mixer, LatentAttention):
                if "kv_b" in mixer.bias:
                    silent.add(f"{prefix}.k_b.bias")
                if "kv_a" in mixer.bias and mixer.rope is None and mixer.d_rope and mixer.k_rope_norm is None:
                    silent.add(f"{prefix}.k_rope.bias")
                continue
            silent |= {f"{prefix}.{key}" for key in _silent_keys(mixer)}
    return silent


def _silent_keys(a: Attention) -> Iterator[str]:
    """Of one sublayer."""
    if a.index is not None and a.index.n_heads is None and a.rope is None and a.index.norm.bias:
        yield "index.k_norm.bias"  # the same for every block of a query
    if a.scores.sinks or a.scores.token_sinks or a.scores.softcap is not None:
        return
    unchanged = a.rope is None and a.clip is None and a.qk_limit is None  # what is added to a key arrives at its score
    convolved = a.kv_conv is not None  # less of it for the first tokens
    apart = a.scores.disentangled
    if apart is not None and apart.own and apart.c2p and apart.own_key_bias:
        yield "position_k.bias"
    met = apart is not None and apart.p2c  # keys meet queries of distances, which differ
    if unchanged and a.qk_norm is None and not a.k_eq_v and not convolved and not met:
        yield "k.bias"
    if a.qk_norm is not None and (unchanged or a.qk_norm.after_rope) and not met:
        yield "k_norm.bias"


# --- a checkpoint -------------------------------------------------------------------------------------------------


def checkpoint_checks(model: SourceModel, path: str) -> list[Check]:
    """Every learned tensor of a checkpoint is one that the equations have, of the same size, and none is missing.

    Headers alone are read, packed weights count as what they stand for.
    """
    path = hub_or_path(path)
    if model.model_type is None and kind_at(path) is None:
        raise InputError("--checkpoint needs a config.json as MODEL: a preset has no names of tensors", kind="usage")
    if path.endswith(INDEX) and is_absent(path):
        return index_checks(model, path)
    found = held(model, path)
    total = params(model.architecture).total
    checks = [_equal("parameters in the checkpoint", total, found.main, "checkpoint")]
    checks += [_equal(f"tensor {d.tensor}", d.config, d.file, "checkpoint") for d in found.differ[:MOST_SHOWN]]
    more = len(found.differ) - MOST_SHOWN
    return [*checks, _equal("further tensors that differ", 0, more, "checkpoint")] if more > 0 else checks


def index_checks(model: SourceModel, path: str) -> list[Check]:
    """Of an index without its files: every name that the equations need, and the bytes of all."""
    found = listed(model, path)
    missing = ", ".join((str(len(found.missing)), *found.missing[:3]))
    checks = [Check("names that the index lacks", 0, missing, not found.missing, "index")]
    weights = memory(model.architecture, context=1).per_device.weights
    if found.size is not None:
        is_larger = found.size > weights and bool(found.further)
        checks.append(Check("bytes", weights, found.size, found.size == weights or is_larger, "index"))
    if found.further:
        more = len(found.further) - MOST_NAMED
        said = ", ".join((*found.further[:MOST_NAMED], *([f"{more} more"] if more > 0 else ())))
        checks.append(Check("what else is in the index", "", said, True, "index"))
    return checks


# --- the real thing -----------------------------------------------------------------------------------------------

REAL_TOKENS = 64
SPARE = 2 * 2**30  # left for the system and for activations


def real_forward(architecture: Architecture) -> Check:
    """A forward pass of the full-size model with random float32 weights; where memory is short, what it would need."""
    need = params(architecture).total * 4
    name = f"real forward of {min(REAL_TOKENS, architecture.c)} tokens"
    free = _free_memory()
    if free is not None and need + SPARE > free:
        short = f"needs {need + SPARE:,} bytes of memory, {free:,} are free: not run"
        return Check(name, "finite logits", short, True, "full size")
    tokens = np.random.default_rng(7).integers(0, architecture.v, min(REAL_TOKENS, architecture.c))
    try:
        logits = Model(architecture).prefill(tokens, source=random_source(architecture, SMALL_SOURCE, 5)).logits
    except MemoryError:  # a limit on the process, which the system's free memory knows nothing of
        return Check(name, "finite logits", f"needs {need:,} bytes of memory, more than it may have", True, "full size")
    finite = bool(np.isfinite(logits).all())
    return Check(name, "finite logits", "finite logits" if finite else "not finite", finite, "full size")


def _free_memory() -> int | None:
    """Bytes of memory that can be had, where the system says so."""
    try:
        with open("/proc/meminfo") as lines:
            fields = dict(line.split(":") for line in lines)
        return int(fields["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return None
