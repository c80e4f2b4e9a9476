"""The lines are true: evaluated on the witness's weights, they give what the witness computes on the way."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from msgspec.structs import replace

from gptcalc.architecture import Architecture, InChunks, sublayers
from gptcalc.conventions import CacheForm, Chunks, Form
from gptcalc.document import build
from gptcalc.equations import Line, equations
from gptcalc.reference.model import Model, Result
from gptcalc.reference.shrink import shrink
from gptcalc.reference.source import random_source
from gptcalc.reference.step import LatentForm
from gptcalc.sources import load
from gptcalc.sources.preset import names
from tests.equations.evaluator import Product, Run
from tests.reference_cases import DOCUMENTS, ENCODERS, architecture, some
from tests.strategies import every_document

Array = np.ndarray[Any, Any]
TOKENS = 11


def held(
    small: Architecture,
    form: Form = "expanded",
    cache: CacheForm = "latent",
    latent: LatentForm = "auto",
    chunks: Chunks = None,
) -> None:
    """Runs both on the same tokens and weights, and compares all that both have."""
    tokens = np.random.default_rng(5).integers(0, small.v, TOKENS)
    model = Model(small, dtype=np.float64, latent=latent)
    model.tally.products = []
    source = random_source(small, TOKENS + 2, 7)
    result = model.prefill(tokens, source=source, attention=True, predict=True)

    lines = equations(small, form, cache, chunks)
    read = None if source is None else source[0]
    run = Run(small, lines, model.weights.arrays, tokens, choice_of(model), source=read, drafted=drafted_of(result))
    with np.errstate(all="ignore"):
        run.whole()
        logits = run.values.get("logits")
        pooled = run.values.get("labels", run.values.get("c_P"))
        run.modules()
    compare_products(run, model.tally.products, (*SCALED, *(ABSORBED if form == "absorbed" else ())))
    compare_attention(run, result)
    compare_caches(run, model)
    for number, (found, expected) in enumerate(zip(run.layer_ends, result.hidden, strict=True)):
        same(f"layer {number}", stream(small, found), expected)
    if result.encoded is not None:
        same("encoder", run.values["x_S"], result.encoded[0])
    if result.confidence is not None:
        same("confidence", run.values["c_A"], result.confidence[0])
    if result.pooled is not None:
        assert pooled is not None
        same("pooled", pooled, result.pooled[0])
    if small.head.vocabulary:
        assert logits is not None
        same("logits", logits, result.logits[0])


def held_in_a_step(
    small: Architecture, form: Form = "absorbed", cache: CacheForm = "latent", latent: LatentForm = "auto"
) -> None:
    """The same of one more token behind a prompt, of which there is only what store lines keep."""
    if not small.continues:
        return
    tokens = np.random.default_rng(5).integers(0, small.v, TOKENS)
    model = Model(small, dtype=np.float64, latent=latent)
    source = random_source(small, TOKENS + 2, 7)
    read = None if source is None else source[0]
    model.prefill(tokens[:-1], source=source)
    result = model.decode(int(tokens[-1]))

    lines = equations(small, form, cache)
    prompt = Run(
        small, lines, model.weights.arrays, tokens[:-1], choice_of(model), source=read, drafted=drafted_of(result)
    )
    step = Run(small, lines, model.weights.arrays, tokens, choice_of(model), prompt, read, drafted_of(result))
    with np.errstate(all="ignore"):
        prompt.whole()
        step.whole()
    compare_caches(step, model)
    for number, (found, expected) in enumerate(zip(step.layer_ends, result.hidden, strict=True)):
        new = found if small.block is not None else found.take([-1], axis=0)
        same(f"layer {number}, one token more", stream(small, new), expected)
    if small.head.vocabulary:
        new = step.values["logits"] if small.block is not None else step.values["logits"][-1:]
        same("logits, one token more", new, result.logits[0])


def drafted_of(result: Result) -> Array | None:
    return None if result.drafted is None else result.drafted[0]


def choice_of(model: Model) -> Callable[[str, Array, int, int], Array]:
    """What the witness's tables choose."""

    def listed(prefix: str, tokens: Array, k: int, n: int) -> Array:
        return model.weights.at(prefix.rstrip(".")).listed("table", tokens[None], k, n)[0]

    return listed


def same(name: str, found: Array, expected: Array) -> None:
    found = np.asarray(found).reshape(np.asarray(expected).shape)
    worst = np.abs(found - expected).max(initial=0.0)
    assert worst <= 1e-9 * max(1.0, np.abs(expected).max(initial=0.0)), f"{name}: {worst:.1e} apart"


def stream(small: Architecture, found: Array) -> Array:
    """As the witness lays out several streams: AltUp's in front."""
    return found.swapaxes(0, 1) if small.altup is not None else found


def compare_products(run: Run, products: list[tuple[str, Array]], scaled: tuple[str, ...]) -> None:
    """Every product with a weight, in the order of its making."""
    made: dict[str, list[Product]] = {}
    for product in run.products:
        made.setdefault(product.key, []).append(product)
    compared = 0
    products = whole([each for each in products if not each[0].endswith(".state")], made)
    for place, expected in products:
        if not made.get(place) or place.endswith(scaled):
            continue
        product = made[place].pop(0)
        value, there = laid_out(product)
        if "t" in product.value.letters and product.line.scope["t"].role == "slots":
            value, there = value[-expected.shape[-2] :], there[-expected.shape[-2] :]  # the first may have none
        if value.size == expected.size and not sums_experts(product.line):
            same(place, value[there], expected.reshape(value.shape)[there])
            compared += 1
    assert compared > len(products) // 2


def whole(products: list[tuple[str, Array]], made: dict[str, list[Product]]) -> list[tuple[str, Array]]:
    """What the witness makes of a drafted block's slots one by one, together."""
    found: dict[object, tuple[str, list[Array]]] = {}
    for number, (place, product) in enumerate(products):
        one_by_one = len(made.get(place, ())) == 1 and made[place][0].line.scope["t"].role == "slots"
        found.setdefault(place if one_by_one else number, (place, []))[1].append(product)
    return [(place, np.concatenate(parts, axis=-2)) for place, parts in found.values()]


#: products that the witness makes of an input divided by d, the line of one that it divides afterwards
SCALED = (".altup.router",)
#: the same of the scores' factor in the absorbed form, and heads in front
ABSORBED = (".k_b", ".v_b")


def sums_experts(line: Line) -> bool:
    """Where the witness has the experts apart and sums them later."""
    return any(line.scope[letter].role == "experts" for letter in line.statement.summed)


def laid_out(product: Product) -> tuple[Array, Array]:
    """Stacks of matrices as the witness has them: streams in front, of experts the chosen ones in their order. And
    what of it there is: of experts without weights the witness has other numbers."""
    value, chosen = product.value, product.chosen
    for letter in value.letters:
        rest = [other for other in value.letters if other not in ("t", letter)]
        match product.line.scope[letter].role:
            case "projections":
                array = value.over((letter, "t", *rest))
                return array, np.ones(array.shape, bool)
            case "experts":
                assert chosen is not None
                array = value.over(("t", letter, *rest))
                places = chosen.members.reshape(*chosen.members.shape, *[1] * len(rest))
                picked = np.take_along_axis(array, np.minimum(places, array.shape[1] - 1), axis=1)
                return picked, np.broadcast_to(places < array.shape[1], picked.shape)
    return value.array, np.ones(value.array.shape, bool)


def compare_attention(run: Run, result: Result) -> None:
    assert result.attention is not None
    softmaxes = run.softmaxes[: len(result.attention)]
    for number, (values, expected) in enumerate(zip(softmaxes, result.attention, strict=True)):
        parts = []
        for value in values:
            t, past, *heads = value.letters
            if "j" in heads:
                continue
            parts.append(np.nan_to_num(value.over((*heads, t, past))))
        if parts:
            same(f"attention {number}", np.concatenate(parts, axis=-1), expected[0])


#: what the witness's cache calls what store lines keep, in the sublayer and under it
STATES = {"M": "state", "M_K": "slots", "M_V": "state", "N": "norm", "μ": "top"}
NAMES = {"keys": ("k", "kv"), "values": ("v",), "latent": ("latent",), "rotary key": ("k_rope",)}
INDEXED = {"index keys": (("index", "k"), ("index.compress", "entries")), "entries": (("compress", "entries"),)}

#: what it calls convolutions, by what is convolved
CONVOLUTIONS = {
    "y": ("conv",),
    "N": ("conv",),
    "Q": ("u_conv",),
    "x_R": ("x_conv", "inner_conv"),
    "F": ("decay_conv", "filter.inner_conv"),
    "FF": ("filter.outer_conv",),
}


def compare_caches(run: Run, model: Model) -> None:
    compared = set()
    for part, line, array in run.stored:
        assert line.stored is not None
        places = [(part, name) for name in NAMES.get(line.stored, ())]
        places += [(f"{part}.{under}", name) for under, name in INDEXED.get(line.stored, ())]
        if line.stored in ("convolution", "last token"):
            of = line.statement.left.name.removeprefix("R_")
            names = CONVOLUTIONS.get(of, (f"{of}_conv",))
            places += [(f"{part}.{name}", "recent") for name in names]
        if line.stored == "open entry":
            place = open_entry(part, line.statement.left.name)
            there = ~np.isnan(array).any(-1)
            if place not in model.cache.arrays:  # of a module that predicts, which has no cache
                continue
            expected = model.cache.arrays[place][0]
            if place[1] == "gate before":  # the witness has added the table's rows
                expected = expected - model.weights.arrays[f"{unpassed(place[0])}.position"][:, : expected.shape[-1]]
            same(f"{place} in the cache", array[there], expected[len(expected) - there.sum() :])
            compared.add(place)
        if line.stored == "state" and (part, STATES[line.statement.left.name]) in model.cache.arrays:
            same(f"{part} {line.text}", array, model.cache.arrays[part, STATES[line.statement.left.name]][0])
            compared.add((part, STATES[line.statement.left.name]))
        for place in places:
            if place in model.cache.arrays:
                expected = model.cache.arrays[place][0]
                rows = (
                    np.moveaxis(array, 0, -2)
                    if array.ndim > 2 and line.stored not in ("convolution", "last token")
                    else array
                )
                rows = rows.reshape(*rows.shape[:1], -1) if line.stored in ("convolution", "last token") else rows
                same(f"{place} in the cache", rows[..., rows.shape[-2] - expected.shape[-2] :, :], expected)
                compared.add(place)
    missed = {place for place, array in model.cache.arrays.items() if array.size} - compared
    assert not missed, f"{sorted(missed)} are in the cache, and in no line"


def unpassed(place: str) -> str:
    """A place without the pass of a loop, which weights don't know."""
    return place.split(" ")[-1]


def open_entry(part: str, name: str) -> tuple[str, str]:
    """O_c, O_w: contents and weights of the open entry's tokens; O_c_P, O_w_P: of those before; …_I of the indexer."""
    _, what, *more = name.split("_")
    under = "index.compress" if "I" in more else "compress"
    return f"{part}.{under}", {"c": "kv", "w": "gate"}[what] + " before" * ("P" in more)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_kind_of_block(name: str) -> None:
    held(architecture(name))
    held_in_a_step(architecture(name))


@pytest.mark.parametrize("name", ENCODERS)
def test_every_kind_of_encoder(name: str) -> None:
    held(build({"name": name, **ENCODERS[name]}))
    held_in_a_step(build({"name": name, **ENCODERS[name]}))


@pytest.mark.parametrize("name", [name for name, document in DOCUMENTS.items() if "mla" in document])
def test_every_form_of_latent_attention(name: str) -> None:
    held(architecture(name), "absorbed", "latent", "absorbed")
    held(architecture(name), "expanded", "expanded", "expanded")
    held_in_a_step(architecture(name), "expanded", "latent")
    held_in_a_step(architecture(name), "expanded", "expanded", "expanded")


@cache
def small_copies() -> list[tuple[Architecture, str]]:
    """Of all presets, each with a preset's name; those that are alike stand once."""
    return list({replace(shrink(load(name).architecture), name="small"): name for name in names()}.items())


@pytest.mark.parametrize("share", some(range(8)))
def test_every_preset(share: int) -> None:
    for small, name in small_copies()[share::8]:
        try:
            held(small)
            held_in_a_step(small)
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from error


@pytest.mark.heavy
@given(every_document())
@settings(max_examples=60, deadline=None)
def test_any_document(document: dict[str, Any]) -> None:
    model = build(document)
    held(model)
    held_in_a_step(model)
    if any(isinstance(mixer, get_args(InChunks)) for block, _ in model.groups() for mixer in sublayers(block)):
        held(model, chunks=3)
