"""Counts, caches and FLOPs of full-size models equal those measured on Hugging Face transformers."""

from __future__ import annotations

import re
from collections import Counter
from fractions import Fraction
from math import prod

import pytest

from gptcalc.analysis.flops import flops
from gptcalc.analysis.memory.cache import CacheGroup, kv
from gptcalc.analysis.params import params
from gptcalc.analysis.stored import expected_tensors
from gptcalc.architecture import Architecture, CompressedAttention, Experts, LatentAttention, sublayers
from gptcalc.conventions import Pairing
from gptcalc.sources.huggingface import read, tensor_names
from tests.oracle import ENTRIES, model

NAMES = sorted(ENTRIES)


@pytest.mark.parametrize("name", NAMES)
def test_total_and_active(name: str) -> None:
    found = params(model(name))
    assert (found.total, found.active) == (ENTRIES[name]["total"], ENTRIES[name]["active"])


@pytest.mark.parametrize("name", NAMES)
def test_every_group_of_tensors(name: str) -> None:
    """Summed over layers, every tensor that transformers has is one that the equations have, with as many numbers."""
    entry = ENTRIES[name]
    expected: Counter[str] = Counter()
    for tensor, shape, count in entry["tensors"]:
        expected[tensor] += prod(shape) * count
    found: Counter[str] = Counter()
    names = tensor_names(read(entry["config"]).model_type, model(name))
    for key, of in expected_tensors(model(name)):
        places = [starred(place.name) for place in names.places(key)]
        bare = [place.partition(".")[2] for place in places]
        known = next((p for p in (*places, *others(places), *bare) if p in expected), places[0])
        found[known] += of.tensor.params
    assert found == expected


#: where transformers caches something else than the mathematics needs: what, as a multiple of full length, and why
CACHED_OTHERWISE: dict[str, tuple[Fraction, str]] = {
    "falcon-180b": (Fraction(232, 8), "keys and values are broadcast to all 232 query heads before they are cached"),
    "gpt-neo-2.7b": (Fraction(1), "local layers cache everything and mask what is outside their window"),
}


def starred(tensor: str) -> str:
    return re.sub(r"\.\d+(?=\.)", ".*", tensor)


def others(places: list[str]) -> list[str]:
    """transformers 5 stacks the experts that checkpoints keep apart, fuses their gate with up, and has Nemotron-H's
    backbone as its model."""
    made = []
    for place in [*places, *(place.replace("backbone.", "model.", 1) for place in places)]:
        made.append(place)
        made.append(place.replace("{e}", "*"))
        stacked = place.replace(".{e}", "").removesuffix(".weight")
        made.append(stacked)
        for word in ("gate_proj", "up_proj", "w1", "w3"):
            made.append(stacked.replace(word, "gate_up_proj"))
        made.append(stacked.replace("w2", "down_proj"))
    return made


@pytest.mark.parametrize("name", [name for name in NAMES if (ENTRIES[name]["mtp"] or {}).get("config_value")])
def test_multi_token_prediction(name: str) -> None:
    truth = ENTRIES[name]["mtp"]
    assert params(model(name)).mtp == truth["params"] + truth["buffers"]


@pytest.mark.parametrize("name", [name for name in NAMES if ENTRIES[name]["cache"]])
def test_cache(name: str) -> None:
    """Our windows hold W tokens where transformers keeps W − 1 between steps, the newest being in flight."""
    for length, elements in ENTRIES[name]["cache"].items():
        here = int(length)
        source = source_of(name, here)
        now = kv(model(name), context=here, source=source)
        next_ = kv(model(name), context=min(here + 1, model(name).c), source=source)
        if name in CACHED_OTHERWISE:
            expected, _ = CACHED_OTHERWISE[name]
            assert now.full_bytes // 2 * expected == elements, length
            continue
        held: int | Fraction = 0
        for group, later in zip(now.groups, next_.groups, strict=True):
            full = group.cached_tokens == later.cached_tokens
            in_flight = full and group.kind in ("window", "chunk")
            held += group.elements_per_token * (group.cached_tokens - in_flight) + group.state_elements
            held += with_the_oldest(model(name), group)
        assert held - room_in_open_entries(model(name), int(length)) == elements, length


def source_of(name: str, length: int) -> int | None:
    """As long a source as target was measured, and of Whisper its 30 seconds."""
    encoder = model(name).encoder
    return length if encoder is not None and encoder.front is None else None


def with_the_oldest(architecture: Architecture, group: CacheGroup) -> int:
    """transformers keeps the last K tokens before a convolution over K; the next step needs K − 1 of them."""
    if group.kind != "conv":
        return 0
    mixers = (mixer for block, _ in architecture.groups() for mixer in sublayers(block))
    kernels = {kernel for mixer in mixers if (kernel := getattr(mixer, "kernel", None)) is not None}
    (kernel,) = kernels
    return group.state_elements // (kernel - 1)


def room_in_open_entries(architecture: Architecture, length: int) -> int:
    """buffer_kv and buffer_gate: transformers keeps the length mod m tokens of the entry that is open; we set aside
    room for all m of them. overlap_kv and overlap_gate (the entry before) are the same in both."""
    room = 0
    for block, count in architecture.groups():
        for mixer in sublayers(block):
            if not isinstance(mixer, CompressedAttention) or mixer.compress is None:
                continue
            c = mixer.compress
            widths = mixer.d_head + (c.index.d if c.index is not None else 0)
            room += count * 2 * (2 if c.overlap else 1) * widths * (c.every - length % c.every)
    return room


@pytest.mark.parametrize("name", [name for name in NAMES if ENTRIES[name]["flops"]])
def test_flops_of_a_prefill(name: str) -> None:
    for length, total in ENTRIES[name]["flops"].items():
        found = flops(model(name), context=int(length), pairs="full", source=source_of(name, int(length))).total
        assert found + every_expert(name, int(length)) - elementwise(name, int(length), int(length)) == total, length


def elementwise(name: str, tokens: int, context: int) -> int:
    """Weighted sums that transformers computes as a product elementwise and a sum, which its counter doesn't see:
    streams joined before each sublayer and at the end; the mixture of an entry's tokens, channel by channel; the
    indexer's heads weighted and summed."""
    architecture = model(name)
    if architecture.streams is None:
        return 0
    joined = 2 * tokens * architecture.streams.n * architecture.d
    total = joined
    for block, count in architecture.groups():
        for mixer in sublayers(block):
            total += count * joined
            if isinstance(mixer, CompressedAttention) and mixer.compress is not None:
                c = mixer.compress
                made = context // c.every - (context - tokens) // c.every
                channels = mixer.d_head + (c.index.d if c.index is not None else 0)
                total += count * 2 * made * channels * c.every * (2 if c.overlap else 1)
                if c.index is not None:
                    total += count * 2 * tokens * (context // c.every) * c.index.n_heads
    return total


def every_expert(name: str, tokens: int) -> int:
    """In eager mode Llama 4's class runs every expert on every token: 3 matrices of d × d_ff for each not chosen."""
    if not name.startswith("llama-4"):
        return 0
    return sum(
        count * 2 * tokens * (mixer.n_experts - mixer.top_k) * 3 * model(name).d * mixer.d_ff
        for block, count in model(name).groups()
        for mixer in sublayers(block)
        if isinstance(mixer, Experts)
    )


@pytest.mark.parametrize("name", [name for name in NAMES if ENTRIES[name]["decode"]])
def test_flops_of_a_decode_step(name: str) -> None:
    """One more token after `past`. transformers makes keys and values of all past latents anew at every step."""
    truth = ENTRIES[name]["decode"]
    # the class of openai-gpt has no cache: its "decode" is one token from nothing
    past = 0 if name == "openai-gpt" else truth["past"]
    # gpt-neo's local layers score the whole past before they mask it
    pairs: Pairing = "full" if name == "gpt-neo-2.7b" else "causal"
    found = flops(model(name), context=past + 1, phase="decode", pairs=pairs, mla="expanded").total
    found -= elementwise(name, 1, past + 1)
    assert found + again(model(name), truth["past"]) + every_expert(name, 1) == truth["flops"]


def again(architecture: Architecture, past: int) -> int:
    """2 FLOPs for every past token, latent channel, head and channel of K (without its rotary part) and V."""
    return sum(
        count * 2 * past * mixer.kv_rank * mixer.n_heads * (mixer.d_nope + mixer.d_v)
        for block, count in architecture.groups()
        for mixer in sublayers(block)
        if isinstance(mixer, LatentAttention)
    )
