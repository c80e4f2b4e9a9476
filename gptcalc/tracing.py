"""The witness at work: shapes stage by stage, real runs, logits.

A trace of a whole model runs on arrays that have a shape and no data. With tokens, the numbers are real: true weights
from a folder with a checkpoint, else a small copy of the architecture with seeded random weights.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, NamedTuple

import numpy as np
from msgspec import Struct, structs

from gptcalc.answers import Outcome
from gptcalc.architecture import Architecture, InChunks, Scanned, sublayers
from gptcalc.document import build
from gptcalc.errors import InputError
from gptcalc.reference.model import Model, Result
from gptcalc.reference.scan import STEPS_OF_A_SCAN
from gptcalc.reference.shapes import shape_only
from gptcalc.reference.shrink import shrink
from gptcalc.reference.source import random_source, shapes_of_source
from gptcalc.reference.step import LONG
from gptcalc.reference.store import MappingStore, RandomStore, ShapeStore, Store
from gptcalc.reference.tally import Array, Event

#: what a trace without data walks, step by step; far beyond any model
MOST_TOKENS, MOST_STEPS, MOST_LAYERS = 2**40, 1_000, 20_000
#: steps of recurrences, which go one by one: of a trace at most, and of one whose length nobody says
MOST_STATES, USUAL_STATES = 2**20, 2**16

PLACE = re.compile(r"(encoder)?\.?(?:layers\.([0-9]{1,9})\.)?(.*)")


class StepRow(Struct, frozen=True):
    """One product or residual sum; in `layers` layers in a row, each the same."""

    stage: str
    step: str
    left: tuple[int, ...]
    sign: str
    right: tuple[int, ...]
    result: tuple[int, ...]
    flops: int  # in one layer
    bytes: int  # of the result, in one layer
    layers: int


class Pass(Struct, frozen=True):
    """A prefill, or one more token: what it took, and what the cache holds after it."""

    tokens: int  # how many it reads
    flops: int
    cache_elements: int


class Values(Struct, frozen=True):
    """What attention computed at one place: a matrix for each head, or one for all."""

    place: str
    name: str
    heads: tuple[Any, ...]


class Trace(Outcome, frozen=True, omit_defaults=True):
    """The keys of `gptcalc trace --json`."""

    model: str
    weights: Literal["none", "random", "checkpoint"]
    context: int
    decoded: int
    flops: int  # of all passes
    parameters: int
    cache_elements: int
    steps: tuple[StepRow, ...]  # of the prefill, or of the last token that was decoded
    tokens: tuple[int, ...] | None = None
    text: str | None = None  # whose bytes the tokens are
    source: int | None = None  # how many tokens an encoder read
    # the likeliest next tokens, of an encoder those of the last position itself, with their probabilities
    top: tuple[tuple[int, float], ...] | None = None
    sees_all: bool = False  # every token sees all others: an encoder, whose logits are of the positions themselves
    generated: tuple[int, ...] | None = None
    chunks: tuple[int, ...] = ()  # tokens of a chunk, where recurrent states were computed in chunks
    sizes: dict[str, int] | None = None  # of the small copy that was run in place of the model
    values: tuple[Values, ...] = ()  # what attention computed, step by step, where asked for
    passes: tuple[Pass, ...] = ()  # one by one, where tokens come through the cache


class Run(NamedTuple):
    """A trace, and the arrays that --save writes."""

    trace: Trace
    arrays: dict[str, Array]


def walked(architecture: Architecture, tokens: int) -> int:
    """How many steps the recurrences of all layers take: one a chunk, or those of a scan."""
    steps = 0
    for block, n in architecture.groups():
        for mixer in sublayers(block):
            if isinstance(mixer, InChunks):
                steps += n * -(-tokens // mixer.chunk)
            elif isinstance(mixer, Scanned):
                steps += n * -(-tokens * STEPS_OF_A_SCAN // LONG)
    return steps


def usual_length(architecture: Architecture) -> int:
    """The model's own context; of recurrences as much as takes a moment."""
    length = architecture.c
    while walked(architecture, length) > USUAL_STATES:
        length = 2 ** ((length - 1).bit_length() - 1)
    return length


def shapes(architecture: Architecture, context: int, decode: int = 0, source: int = 0) -> Trace:
    """The whole model without data: a prefill, then `decode` tokens one by one, `context` tokens in all; an encoder
    reads `source` tokens.

    The steps shown are those of the prefill, or of the last token where it is decoded.
    """
    _check_decode(architecture, decode)
    if not 0 <= decode < context:
        raise InputError(f"--decode {decode}: must be less than the {context} tokens of the context", kind="usage")
    for what, n, most in (("--context", context, MOST_TOKENS), ("--decode", decode, MOST_STEPS)):
        if n > most:
            raise InputError(f"{what} {n}: a trace goes up to {most:,}", kind="usage")
    if (steps := walked(architecture, context)) > MOST_STATES:
        problem = f"the recurrences of {architecture.name} would take {steps:,} steps one by one"
        raise InputError(
            f"--context {context}: {problem}; a trace goes up to {MOST_STATES:,}",
            f"such as --context {usual_length(architecture)}",
            "usage",
        )
    if architecture.n_layers > MOST_LAYERS:
        problem = f"{architecture.name} has {architecture.n_layers:,} layers, a trace walks {MOST_LAYERS:,} at most"
        raise InputError(problem, f"such as --set n_layers={MOST_LAYERS}", "unsupported")
    model = Model(architecture, ShapeStore())
    model.tally.events = []
    model.prefill(shape_only((1, context - decode), np.int64), source=shapes_of_source(architecture, source))
    passes = [_passed(model, context - decode)]
    for _ in range(decode):
        model.tally.events = []
        model.decode(shape_only((1,), np.int64))
        passes.append(_passed(model, 1))
    return _trace(architecture, model, "none", context, decode, passes, source=source or None)


def _passed(model: Model, tokens: int) -> Pass:
    """The pass that has just ended; the tally begins anew."""
    done = Pass(tokens, model.tally.total, model.cache.elements)
    model.tally.clear()
    return done


def _check_decode(architecture: Architecture, steps: int) -> None:
    if steps and architecture.sees_all:
        problem = f"{architecture.name} sees all tokens at once, so none comes later"
        raise InputError(f"a decode step: {problem}", "leave --decode and --generate out", "usage")


def run(
    architecture: Architecture,
    store: Store | None,
    tokens: list[int],
    *,
    decode: int = 0,
    generate: int = 0,
    float64: bool = False,
    attention: bool = False,
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
    source: list[int] | None = None,
    values: bool = False,
) -> Run:
    """Real numbers. `store` has the true weights; without one a small copy runs on seeded random weights, or the model
    itself where it is small. `values`: the trace has what attention computes of the whole sequence. `source`:
    tokens for an encoder; one that reads frames of sound gets seeded noise.

    Arrays: logits (T, v), hidden (layers, T, d; of n parallel streams (layers, n, T, d)), attention (a list padded to
    (layers, n_heads, T, S)) where asked for; with `decode`, decode_logits (decode, v) of the last tokens, which went
    one by one through the cache; encoder_output (N, d) of an encoder; pooled where something is read off one token.
    """
    _check_decode(architecture, decode or generate)
    if not len(tokens):
        raise InputError("tokens: there are none", "one or more, such as 5,23,7", "usage")
    if not 0 <= decode < len(tokens):
        raise InputError(f"--decode {decode}: must be less than the {len(tokens)} tokens", kind="usage")
    if seed < 0:
        raise InputError(f"--seed {seed}: expected a whole number from 0", kind="usage")
    with np.errstate(all="ignore"):  # odd weights give odd numbers, which are shown as they are
        return _run(
            architecture, store, tokens, source, progress,
            decode=decode, generate=generate, float64=float64, attention=attention, seed=seed, values=values,
        )  # fmt: skip


def _run(
    architecture: Architecture,
    store: Store | None,
    tokens: list[int],
    source: list[int] | None,
    progress: Callable[[int], None] | None,
    *,
    decode: int,
    generate: int,
    float64: bool,
    attention: bool,
    seed: int,
    values: bool,
) -> Run:
    if architecture.target is not None and store is not None:
        problem = (
            f"{architecture.name} is a draft: its true weights read hidden states of its target, which are not there"
        )
        raise InputError(problem, "--set name=… shows a small copy, Python's Model takes states=…", "unsupported")
    own = store is not None or is_small(architecture)
    small = architecture if own else shrink(architecture)
    weights = store or RandomStore(seed)
    dtype = np.float64 if float64 else np.float32
    model = Model(small, weights, dtype=dtype)
    model.tally.events = []
    model.tally.values = [] if values else None
    read = _read(small, source, seed)
    whole = model.prefill(np.array(tokens), attention=attention, source=read)
    arrays, noted = _arrays(whole), tuple(_valued(model.tally.values or ()))
    model.tally.values = None
    last, passes = whole.logits[0, -1], [_passed(model, len(tokens))]
    if decode:
        stepwise = list(_decoded(model, tokens, decode, read))
        passes = [one for _, one in stepwise]
        arrays["decode_logits"] = np.stack([logits for logits, _ in stepwise[1:]])
        last = stepwise[-1][0]
    made = _traced(small, model, "random" if store is None else "checkpoint", tokens, decode, passes, last)
    model.tally.events = None
    sizes = {"d": small.d, "v": small.v, "n_layers": small.n_layers}
    made = structs.replace(made, values=noted, sizes=None if own else sizes)
    if whole.encoded is not None:
        made = structs.replace(made, source=whole.encoded.shape[1])
    if generate:
        generated = tuple(_generated(model, last, generate, passes, progress))
        made = _with(made, generated, passes, model)
        arrays["generated"] = np.array(generated)
    return Run(made, arrays)


#: parameters up to which a model runs as itself
SMALL = 2**20


def is_small(architecture: Architecture) -> bool:
    """Whether a model is small enough to be run whole: counted by a run without data."""
    if architecture.encoder is not None or architecture.encoded is not None or architecture.n_layers > MOST_LAYERS:
        return False
    if architecture.d * architecture.v > SMALL or architecture.target is not None:
        return False
    model = Model(architecture, ShapeStore())
    model.prefill(shape_only((1, 1), np.int64))
    return model.weights.count <= SMALL


def example() -> Trace:
    """Attention by hand: two tokens, Q = K = I, V = [[2, 1], [1, 3]], one head, no mask."""
    plain = {"norm": "none", "position": "none"}
    document = {
        "name": "Q = K = I, V = [[2, 1], [1, 3]]", "d": 2, "v": 2, "c": 2, "n_heads": 1, "n_layers": 1, "tying": True,
        "layers": "attn", "position": "none", "final_norm": False, "causal": False, "attn": plain,
    }  # fmt: skip
    one = np.eye(2)
    weights = {"embedding.token": one, "layers.0.attn.q": one, "layers.0.attn.k": one, "layers.0.attn.out": one}
    store = MappingStore({**weights, "layers.0.attn.v": np.array([[2.0, 1.0], [1.0, 3.0]])})
    return run(build(document), store, [0, 1], float64=True, values=True).trace


def _valued(noted: Iterable[tuple[str, Array]]) -> Iterator[Values]:
    """Arrays (1, …, T, n) as a matrix a head; x has none."""
    for place, array in noted:
        where, _, name = place.rpartition(".")
        matrices = array[0].reshape(-1, *array.shape[-2:])
        yield Values(where, name, tuple(matrix.astype(float).tolist() for matrix in matrices))


def _arrays(whole: Result) -> dict[str, Array]:
    arrays = {"logits": whole.logits[0], "hidden": np.stack([x[..., 0, :, :] for x in whole.hidden])}
    for name, array in (("pooled", whole.pooled), ("encoder_output", whole.encoded)):
        if array is not None:
            arrays[name] = array[0]
    for number, weights in enumerate(whole.attention or ()):
        arrays[f"attention.{number}"] = weights[0]
    return arrays


def _read(architecture: Architecture, source: list[int] | None, seed: int) -> Array | None:
    """What an encoder reads."""
    encoder = architecture.encoder
    if encoder is not None and encoder.front is not None:
        return random_source(architecture, encoder.c, seed)
    if architecture.encoded is not None:
        return random_source(architecture, architecture.encoded.c, seed)
    return None if source is None else np.array([source])


def _decoded(model: Model, tokens: list[int], decode: int, source: Array | None) -> Iterator[tuple[Array, Pass]]:
    """The logits of the newest token after the prefill and after each token that comes later. `model` tells the
    events of the last one."""
    first = model.prefill(np.array(tokens[:-decode]), source=source)
    yield first.logits[0, -1], _passed(model, len(tokens) - decode)
    for token in tokens[-decode:]:
        model.tally.events = []
        yield model.decode(token).logits[0, 0], _passed(model, 1)


def _generated(
    model: Model, last: Array, n: int, passes: list[Pass], progress: Callable[[int], None] | None
) -> Iterator[int]:
    """Greedily, the cache growing."""
    for done in range(n):
        token = int(last.argmax())
        yield token
        if progress is not None:
            progress(token)
        if done + 1 < n:
            last = model.decode(token).logits[0, 0]
            passes.append(_passed(model, 1))


def _traced(
    architecture: Architecture,
    model: Model,
    weights: Literal["random", "checkpoint"],
    tokens: list[int],
    decode: int,
    passes: list[Pass],
    last: Array,
) -> Trace:
    found = {**_fields(_trace(architecture, model, weights, len(tokens), decode, passes)), "tokens": tuple(tokens)}
    if architecture.head.vocabulary:
        odds = np.exp(last - last.max())
        odds = odds / odds.sum()
        found["top"] = tuple((int(k), float(odds[k])) for k in np.argsort(-odds)[:5])
    return Trace(**{**found, "sees_all": architecture.sees_all})


def _with(found: Trace, generated: tuple[int, ...], passes: list[Pass], model: Model) -> Trace:
    more = {"generated": generated, "cache_elements": model.cache.elements, "flops": _total(passes)}
    return Trace(**{**_fields(found), **more, "passes": _several(passes)})


def _total(passes: list[Pass]) -> int:
    return sum(one.flops for one in passes)


def _several(passes: list[Pass]) -> tuple[Pass, ...]:
    """A single one is the trace itself."""
    return tuple(passes) if len(passes) > 1 else ()


def _fields(found: Trace) -> dict[str, Any]:
    return {name: getattr(found, name) for name in found.__struct_fields__}


def _trace(
    architecture: Architecture,
    model: Model,
    weights: Literal["none", "random", "checkpoint"],
    context: int,
    decode: int,
    passes: list[Pass],
    source: int | None = None,
) -> Trace:
    return Trace(
        model=architecture.name,
        weights=weights,
        context=context,
        decoded=decode,
        flops=_total(passes),
        parameters=model.weights.count,
        cache_elements=model.cache.elements,
        steps=tuple(_rows(model.tally.events or [])),
        source=source,
        passes=_several(passes),
        chunks=tuple(sorted(model.tally.chunks)),
    )


def _rows(events: list[Event]) -> Iterator[StepRow]:
    """The steps in order; layers in a row that do the same are one stage."""
    stages: list[tuple[_Place, int, list[tuple[str, Event]]]] = []  # where the first is, how many, their steps
    for place, steps in _by_layer(events):
        if stages and place.layer is not None and stages[-1][0].stack == place.stack and stages[-1][2] == steps:
            first, layers, _ = stages[-1]
            stages[-1] = (first, layers + 1, steps)
        else:
            stages.append((place, 1, steps))
    inside: set[str] = set()
    for first, layers, steps in stages:
        if first.layer is None:
            stage = "output" if first.stack in inside else "embedding"
        else:
            inside.add(first.stack)
            stage = _layers(first.layer, layers)
        stage = f"{first.stack} {stage}".strip()
        for step, event in steps:
            yield StepRow(
                stage, step, event.left, event.sign, event.right, event.result, event.flops, event.bytes, layers
            )


def _layers(first: int, layers: int) -> str:
    return f"layer {first}" if layers == 1 else f"layers {first}–{first + layers - 1}"


class _Place(NamedTuple):
    stack: str  # "encoder", or nothing
    layer: int | None


def _by_layer(events: list[Event]) -> Iterator[tuple[_Place, list[tuple[str, Event]]]]:
    """(place, its steps), each step's own place without the stack and the layer's number."""
    current = _Place("", None)
    steps: list[tuple[str, Event]] = []
    for event in events:
        match = PLACE.match(event.place)
        assert match is not None
        place = _Place(match[1] or "", int(match[2]) if match[2] else None)
        if place != current and steps:
            yield current, steps
            steps = []
        current = place
        steps.append((match[3], event._replace(place=match[3])))
    if steps:
        yield current, steps
