"""The switches of a model: which variants of it there are, each by the words of `--with` that make it.

A combination is named by one option of each group. What a rule refuses is left out, with the reason it gives.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

from msgspec import Struct

from gptcalc.analysis.explorer.sizes import DEPTH, Key
from gptcalc.architecture import Architecture, Attention, Experts, LatentAttention, Mixer, Recurrent
from gptcalc.document import build
from gptcalc.document.variant import Document, varied
from gptcalc.errors import InputError

#: the longest window that is switched on; less where the model's context is short
WINDOW = 1024
#: experts that a dense layer becomes, those of Mixtral
EXPERTS = "moe:8:2"
#: ways to see positions that no word of --with makes
OWN = {"distances": "by distance", "sinusoidal": "sinusoidal"}
#: of four layers three recurrent, as Qwen3-Next has them
RECURRENT = "gdn:3"


class Choice(Struct, frozen=True):
    """One option of a group: its name, and the word of --with that makes it; none where the model is so."""

    name: str
    label: str
    word: str = ""


class Group(Struct, frozen=True):
    """Options of which one holds; the first is the model's own."""

    name: str
    label: str
    choices: tuple[Choice, ...]


class Variant(Struct, frozen=True):
    """One combination: its options, the words that make it, its document, what that is, and the keys that may move."""

    names: tuple[str, ...]
    words: tuple[str, ...]
    document: Document
    architecture: Architecture
    keys: tuple[Key, ...]


def groups(architecture: Architecture) -> tuple[Group, ...]:
    """The switches of a model, its own option first in each."""
    mixers = architecture.mixers()
    return (
        Group("heads", "Attention", _heads(mixers)),
        Group("past", "Looks back on", _past(architecture, mixers)),
        Group("mlp", "Feed-forward", _feed_forward(mixers)),
        Group("position", "Position", _position(architecture, mixers)),
        Group("mtp", "Multi-token prediction", _modules(architecture)),
    )


def _attention(mixers: list[Mixer]) -> list[Attention | LatentAttention]:
    return [m for m in mixers if isinstance(m, LatentAttention) or (isinstance(m, Attention) and not m.source)]


def _heads(mixers: list[Mixer]) -> tuple[Choice, ...]:
    """KV heads: one for each query head, fewer, one, or latents."""
    found = _attention(mixers)
    if not found:
        return (Choice("own", "none"),)
    first = found[0]
    several = [n for n in range(2, first.n_heads) if first.n_heads % n == 0]
    known = {
        "mha": Choice("mha", "MHA", "mha"),
        "mqa": Choice("mqa", "MQA", "gqa:1"),
        "mla": Choice("mla", "MLA", "mla"),
    }
    if several:
        some = min(several, key=lambda n: abs(4 * n - first.n_heads))
        known["gqa"] = Choice("gqa", "GQA", f"gqa:{some}")
    if isinstance(first, LatentAttention):
        own = "mla"
    else:
        own = "mha" if first.n_kv_heads == first.n_heads else "mqa" if first.n_kv_heads == 1 else "gqa"
    return _with_own(own, known)


def _with_own(own: str, known: Mapping[str, Choice]) -> tuple[Choice, ...]:
    """The model's own option without a word in front, the others behind."""
    mine = known.get(own, Choice(own, own))
    return (Choice(mine.name, mine.label), *(choice for name, choice in known.items() if name != own))


def _past(architecture: Architecture, mixers: list[Mixer]) -> tuple[Choice, ...]:
    found = _attention(mixers)
    windowed = [m for m in found if m.window is not None or getattr(m, "chunk", None) is not None]
    recurrent = any(isinstance(m, Recurrent) for m in mixers)
    label = " and ".join(
        word
        for word, there in (
            ("all tokens", len(windowed) < len(found)),
            ("a window", bool(windowed)),
            ("a state", recurrent),
        )
        if there
    )
    own = (Choice("own", label or "the sequence"),)
    if not found:
        return own
    length = min(WINDOW, max(1, architecture.c // 4))
    others = [Choice("window", f"a window of {length:,}", f"window:{length}")]
    if not recurrent:
        others.append(Choice("recurrent", "states, every fourth layer all", RECURRENT))
    return (*own, *others)


def _feed_forward(mixers: list[Mixer]) -> tuple[Choice, ...]:
    if any(isinstance(m, Experts) for m in mixers):
        return Choice("experts", "experts"), Choice("dense", "dense", "dense")
    return Choice("dense", "dense"), Choice("experts", "experts", EXPERTS)


def _position(architecture: Architecture, mixers: list[Mixer]) -> tuple[Choice, ...]:
    """How positions are seen; models that see them in several ways have that as their own."""
    seen = {_seen(m) for m in _attention(mixers)}
    known = {
        "rope": Choice("rope", "RoPE", "rope"),
        "learned": Choice("learned", "learned", "learned"),
        "alibi": Choice("alibi", "ALiBi", "alibi"),
        "none": Choice("none", "none", "none"),
    }
    if architecture.embedding.position != "none":
        seen = seen - {"none"} | {architecture.embedding.position}
    own = next(iter(seen)) if len(seen) == 1 else "own"
    return _with_own(own, {**known, **({} if own in known else {own: Choice(own, OWN.get(own, "its own"))})})


def _seen(mixer: Attention | LatentAttention) -> str:
    if isinstance(mixer, LatentAttention):
        return "none" if mixer.rope is None else "rope"
    scores = mixer.scores
    by_distance = scores.relative is not None or scores.buckets is not None or scores.disentangled is not None
    return "distances" if by_distance and mixer.position == "none" else mixer.position


def _modules(architecture: Architecture) -> tuple[Choice, ...]:
    """Of a model that has such modules they are shown or not, of any other they are made."""
    return Choice("off", "off"), Choice("on", "on", "" if architecture.mtp is not None else "mtp")


def variants(document: Mapping[str, Any], architecture: Architecture) -> tuple[dict[str, Variant], dict[str, str]]:
    """Every combination that is a model, by its options' names joined, and of the others why they are none."""
    found: dict[str, Variant] = {}
    refused: dict[str, str] = {}
    documents: dict[tuple[str, ...], Document | InputError] = {(): dict(document)}
    known: dict[tuple[str, ...], tuple[Document, Architecture, tuple[Key, ...]]] = {}
    for choices in product(*(group.choices for group in groups(architecture))):
        names, words = tuple(c.name for c in choices), tuple(c.word for c in choices if c.word)
        try:
            made = known.get(words)
            if made is None:
                own = _varied(documents, words)
                built = build(own)
                made = known[words] = own, built, tuple(_keys(own, built, "gqa" in names))
            found["|".join(names)] = Variant(names, words, *made)
        except InputError as error:
            refused["|".join(names)] = error.message
    return found, refused


def _varied(known: dict[tuple[str, ...], Document | InputError], words: tuple[str, ...]) -> Document:
    """The document that the words make, one after the other; what the first of them make is known. InputError."""
    if words not in known:
        try:
            known[words] = varied(_varied(known, words[:-1]), words[-1:])
        except InputError as error:
            known[words] = error
    found = known[words]
    if isinstance(found, InputError):
        raise found
    return found


def _keys(document: Document, architecture: Architecture, grouped: bool) -> Iterator[Key]:
    """The keys of a document that are sizes of the whole model; whether they may move is tried (`written`).

    ALiBi's slopes are other lines where the number of heads is no power of two, so that stays.
    """
    mixers = architecture.mixers()
    yield Key("d", "d", architecture.d)
    if "n_heads" in document and not any(_seen(m) == "alibi" for m in _attention(mixers)):
        yield Key("n_heads", "n_heads", document["n_heads"])
    if grouped and "n_kv_heads" in document:
        yield Key("n_kv_heads", "n_kv_heads", document["n_kv_heads"])
    yield Key(DEPTH, DEPTH, architecture.n_layers)
    experts = {m.section: m.n_experts for m in mixers if isinstance(m, Experts)}
    if len(experts) == 1:
        ((section, number),) = experts.items()
        yield Key("n_experts", f"{section}.n_experts", number)
