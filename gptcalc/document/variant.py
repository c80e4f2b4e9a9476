"""A document's variants: what becomes of it with another way to see positions, attention or feed-forward layer.

Each switch is a rule on the document, so that a variant is read, counted and run as any model is. What a rule has no
counterpart for is refused by name. Of a variant nothing is published: what is known about the model stays behind.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, get_args

from gptcalc.architecture import (
    Architecture,
    Attention,
    Experts,
    LatentAttention,
    Mixer,
    Mlp,
    Recurrent,
    sublayers,
)
from gptcalc.document import ABOUT, KINDS, build, expression
from gptcalc.document.fields import declared, keys_of
from gptcalc.document.keys import DEFAULT_LAYERS, NOT_THE_ENCODERS
from gptcalc.errors import InputError, did_you_mean, is_count, printable

Document = dict[str, Any]

#: keys of attention by which it sees positions
SEEN_BY = ("rope", "position", "alibi_scale", "relative", "buckets", "disentangled")
#: keys of attention that say how its own heads are made, which latents make in their way, and the other way round
OF_HEADS = frozenset({"n_kv_heads", "d_head", "d_v", "qk_norm", "bias", "scale"})
OF_LATENTS = frozenset(
    {"q_rank", "kv_rank", "d_nope", "d_rope", "d_v", "latent_norm", "k_rope_norm", "q_scale", "kv_scale"}
    | {"raw_queries", "bias", "scale"}
)
#: what a word of `layers` is; a count has a * behind it
SUBLAYER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?!\w*\s*\*)")


def varied(document: Mapping[str, Any], switches: Iterable[str]) -> Document:
    """The document with each switch applied, one after the other. InputError where one has no rule for it."""
    found: Document = {key: value for key, value in document.items() if key not in ABOUT or key == "name"}
    for switch in switches:
        word, *numbers = switch.split(":")
        rule = RULES.get(word)
        try:
            if rule is None:
                raise InputError("no such switch", did_you_mean(word, RULES) or f"one of {', '.join(SPELLED)}", "usage")
            if len(numbers) != rule.numbers or not all(is_count(n) and int(n) for n in numbers):
                raise InputError(f"expected {rule.spelled}", kind="usage")
            if "encoder" in found and not rule.beside:
                there = [spelled for spelled in SPELLED if spelled in BESIDE]
                problem = f"no rule for an encoder beside a decoder; there are {', '.join(there)}"
                raise InputError(problem, kind="unsupported")
            change = two_stacks if "encoder" in found and rule.beside != "together" else one_stack
            found = change(rule, found, *map(int, numbers))
            build(found)
        except InputError as error:
            raise error.within(f"--with {printable(switch) or repr(switch)}") from None
        found["name"] = f"{found.get('name', 'model')} with {switch}"
    return found


def one_stack(rule: Rule, document: Document, *numbers: int) -> Document:
    """The document changed by a rule."""
    return rule.apply(Variant(document), *numbers)


def two_stacks(rule: Rule, document: Document, *numbers: int) -> Document:
    """The same of a decoder and, by a rule for both, of its encoder, each by itself. What the encoder takes over from
    the decoder stays as it was."""
    own: Document = document["encoder"]
    alone = {key: own[key] for key in ENCODER_ALONE if key in own}
    encoder = {key: value for key, value in document.items() if key not in NOT_THE_ENCODERS}
    for key, value in own.items():
        if key not in ENCODER_ALONE:
            merged = isinstance(value, Mapping) and isinstance(encoder.get(key), Mapping)
            encoder[key] = {**encoder[key], **value} if merged else value
    encoder = {key: value for key, value in encoder.items() if key not in unused(encoder)}
    if rule.beside == "each":
        try:
            encoder = one_stack(rule, encoder, *numbers)
        except InputError as error:
            raise error.within("encoder") from None
    found = one_stack(rule, document, *numbers)
    said = {key: value for key, value in encoder.items() if key != "name" and (key not in found or found[key] != value)}
    layers = {"layers": encoder["layers"]} if "layers" in encoder else {}
    return {**found, "encoder": {**said, **layers, **alone}}


def unused(document: Mapping[str, Any]) -> list[str]:
    """Sections that no layer has."""
    sections = {name: own for name, own in document.items() if isinstance(own, Mapping)}
    text = f"{document.get('layers', DEFAULT_LAYERS)} {sections.get('mtp', {}).get('block', '')}"
    wanted, new = set(), set(SUBLAYER.findall(text))
    while new:
        wanted |= new
        new = {sections[name]["like"] for name in new if "like" in sections.get(name, {})} - wanted
    return [name for name, own in sections.items() if (name in KINDS or "like" in own) and name not in wanted]


class Variant:
    """A document that is being changed, and the sublayers that it stands for."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.document: Document = {**document}
        self.architecture: Architecture = build(document)
        blocks = [block for block, _ in self.architecture.groups()]
        if self.architecture.mtp is not None:
            blocks.append(self.architecture.mtp.block)
        self.used: dict[str, Mixer] = {mixer.section: mixer for block in blocks for mixer in sublayers(block)}

    @property
    def attention(self) -> dict[str, Attention]:
        """What attends to the same sequence, by section."""
        return {name: m for name, m in self.used.items() if isinstance(m, Attention) and not m.source}

    @property
    def latent(self) -> dict[str, LatentAttention]:
        return {name: m for name, m in self.used.items() if isinstance(m, LatentAttention)}

    @property
    def dense(self) -> dict[str, Mlp]:
        return {name: m for name, m in self.used.items() if isinstance(m, Mlp)}

    @property
    def experts(self) -> dict[str, Experts]:
        return {name: m for name, m in self.used.items() if isinstance(m, Experts)}

    def section(self, name: str) -> Mapping[str, Any]:
        """A section as it is written; `mlp` may be an activation's name instead."""
        found = self.document.get(name, {})
        return found if isinstance(found, Mapping) else {}

    def keys(self, name: str) -> Document:
        """A section's keys, over those of the section that it is like."""
        own = self.section(name)
        base = self.keys(own["like"]) if "like" in own else {}
        return {**base, **{key: value for key, value in own.items() if key != "like"}}

    def change(self, name: str, but: Iterable[str] = (), **keys: Any) -> None:
        """A section's keys without some, and with others."""
        own = self.section(name)
        gone = {key: value for key, value in self.keys(name).items() if key not in but}
        base = {"like": self.kind(name)} if "like" in own else {}
        self.document[name] = {**base, **gone, **keys}

    def kind(self, name: str) -> str:
        """The built-in kind that a section is of."""
        return name if name in KINDS else self.kind(self.document[name]["like"])

    def without(self, names: Iterable[str], keys: Iterable[str]) -> None:
        """Keys leave these sections, and of an encoder beside the decoder itself and all of its own sections."""
        gone = set(keys)
        for name in names:
            if self.section(name):
                self.change(name, gone)
        encoder = self.document.get("encoder")
        if isinstance(encoder, Mapping):
            kept = {key: value for key, value in encoder.items() if key not in gone}
            self.document["encoder"] = {
                key: {k: v for k, v in value.items() if k not in gone} if isinstance(value, Mapping) else value
                for key, value in kept.items()
            }

    def become(self, name: str, kind: str, left: frozenset[str], **keys: Any) -> None:
        """A section is of another kind, with these keys, and those of its own that the kind has too; `left` fall away,
        any other has no counterpart."""
        known = set(keys_of(KINDS[kind])) - self.otherwise(name, kind)
        own = {key: value for key, value in self.keys(name).items() if key not in left}
        for key in own:
            if key not in known:
                raise InputError(f"{name}.{key} has no counterpart in {kind}", kind="unsupported")
        free = kind not in self.used and isinstance(self.document.get(kind, {}), Mapping)
        new = name if name not in KINDS else kind if free else f"{kind}_for_{name}"
        if self.section(name):
            del self.document[name]
        self.document[new] = {**({} if new in KINDS else {"like": kind}), **own, **keys}
        if new != name:
            self.rename(name, new)

    def otherwise(self, name: str, kind: str) -> set[str]:
        """Keys that both a section and another kind have, and mean different things by."""
        ours, theirs = (
            {field.key: field.structs for field in declared(k)} for k in (type(self.used[name]), KINDS[kind])
        )
        return {key for key in ours.keys() & theirs.keys() if ours[key] != theirs[key]}

    def rename(self, name: str, new: str) -> None:
        """Where the layers have a sublayer they have another one."""
        self.document["layers"] = SUBLAYER.sub(lambda word: new if word[0] == name else word[0], self.layers)
        mtp = self.document.get("mtp")
        if isinstance(mtp, Mapping) and "block" in mtp:
            block = SUBLAYER.sub(lambda word: new if word[0] == name else word[0], mtp["block"])
            self.document["mtp"] = {**mtp, "block": block}

    def clean(self) -> None:
        """Sections that no layer has any more go."""
        self.drop(*unused(self.document))

    @property
    def layers(self) -> str:
        return str(self.document.get("layers", DEFAULT_LAYERS))

    def drop(self, *keys: str) -> None:
        for key in keys:
            self.document.pop(key, None)

    def some(self, found: Mapping[str, object], what: str) -> None:
        if not found:
            raise InputError(f"there is no {what}", kind="unsupported")


# --- the rules --------------------------------------------------------------------------------------------------------


def positions(kind: str) -> Callable[[Variant], Document]:
    """Every attention sees positions in one way."""

    def rule(v: Variant) -> Document:
        v.some({**v.attention, **v.latent}, "attention that would see positions")
        if kind == "alibi" and v.latent:
            raise InputError("latent attention has no biases by distance", kind="unsupported")
        v.without((*v.attention, *v.latent), SEEN_BY if kind != "rope" else set(SEEN_BY) - {"rope"})
        if kind != "rope":
            v.drop("rope", "learned_frequencies")
        if kind != "learned" and "embedding" in v.document:
            kept = {key: value for key, value in v.document["embedding"].items() if key not in ("rows", "offset")}
            v.document["embedding"] = kept
        v.document["position"] = kind
        return v.document

    return rule


def grouped(v: Variant, n_kv_heads: int | None = None) -> Document:
    """n_kv_heads KV heads, or one for each query head. Latent attention becomes attention whose heads are as wide as
    its values."""
    v.some({**v.attention, **v.latent}, "attention with heads")
    for name, mixer in v.latent.items():
        v.become(name, "attn", OF_LATENTS, d_head=mixer.d_v)
    v.drop("n_kv_heads")
    across = [name for name, mixer in v.used.items() if isinstance(mixer, Attention) and mixer.source]
    v.without((*v.attention, *across), ("n_kv_heads",))
    if n_kv_heads is not None:
        v.document["n_kv_heads"] = n_kv_heads
    return v.document


def latent(v: Variant) -> Document:
    """kv_rank = 4·d_head, d_rope = d_head/2, d_nope = d_v = d_head: DeepSeek-V2's choice (arXiv:2405.04434, §2.1.4)."""
    v.some(v.attention, "attention that is not latent yet")
    for name, mixer in v.attention.items():
        d = mixer.d_head
        if d % 4:
            raise InputError(f"{name}: d_head = {d}, and half of it must be a number of pairs", kind="unsupported")
        if mixer.position == "alibi":
            raise InputError("latent attention has no biases by distance (ALiBi)", "--with rope first", "unsupported")
        v.become(name, "mla", OF_HEADS, kv_rank=4 * d, d_rope=d // 2, d_nope=d, d_v=d)
    if not any(isinstance(mixer, Attention) and mixer.source for mixer in v.used.values()):
        v.drop("n_kv_heads", "d_head")
    v.drop("d_v")
    return v.document


def expert(v: Variant, n_experts: int, top_k: int) -> Document:
    """Each dense layer becomes n_experts of d_ff/top_k, so that a token passes as many hidden units; experts that are
    there already become as many, and dense layers beside them stay."""
    for name, mixer in (v.experts or v.dense).items():
        width = mixer.d_ff * (mixer.top_k if isinstance(mixer, Experts) else 1)
        if width % top_k:
            raise InputError(f"{name}: {width} hidden units are not divisible by {top_k}", kind="unsupported")
        own: Document = {"n_experts": n_experts, "top_k": top_k, "d_ff": width // top_k}
        if isinstance(mixer, Experts):
            v.change(name, **own)
        else:
            v.become(name, "moe", frozenset({"bias", "d_ff"}), **own)
    v.some({**v.experts, **v.dense}, "feed-forward layer")
    return v.document


def dense(v: Variant) -> Document:
    """Experts become one layer with the hidden units that a token passes, shared ones among them."""
    v.some(v.experts, "layer of experts")
    for name, mixer in v.experts.items():
        if mixer.latent is not None:
            raise InputError(f"{name}.d_latent has no counterpart in mlp", kind="unsupported")
        width = mixer.top_k * mixer.d_ff + (0 if mixer.shared is None else mixer.shared.d_ff)
        v.become(name, "mlp", frozenset(set(keys_of(Experts)) - set(keys_of(Mlp)) | {"d_ff", "bias"}), d_ff=width)
    return v.document


def windows(v: Variant, length: int) -> Document:
    """Every attention sees so many tokens, itself among them."""
    v.some({**v.attention, **v.latent}, "attention that a window would be of")
    for name in (*v.attention, *v.latent):
        v.change(name, ("chunk",), window=length)
    return v.document


def recurrent(v: Variant, between: int) -> Document:
    """Of between + 1 layers the first ones have a gated delta net (arXiv:2412.06464) in place of attention, with as
    many heads of the same width and convolutions over four tokens, as Qwen3-Next has them."""
    if any(isinstance(mixer, get_args(Recurrent)) for mixer in v.used.values()):
        raise InputError("there are recurrent layers already", kind="unsupported")
    heads: dict[str, Attention | LatentAttention] = {**v.attention, **v.latent}
    v.some(heads, "attention to replace")
    first = next(iter(heads.values()))
    width = first.d_head if isinstance(first, Attention) else first.d_v
    v.document["gdn"] = {
        "like": "linear",
        "n_heads": first.n_heads,
        "n_k_heads": first.n_heads,
        "d_k": width,
        "d_v": width,
        "delta": True,
        "decay": "head",
        "kernel": 4,
        "gate": "silu",
        "out_norm": {"over": "head", "kind": "rmsnorm", "offset": 0},
    }
    blocks = list(written(expression.parse(v.layers, v.architecture.n_layers)))
    for place, block in enumerate(blocks):
        if place % (between + 1) != between:
            blocks[place] = SUBLAYER.sub(lambda word: "gdn" if word[0] in heads else word[0], block)
    v.document["layers"] = shortened(blocks)
    v.clean()
    return v.document


def written(items: Iterable[expression.Repeated | expression.BlockNames]) -> Iterable[str]:
    """Every block of an expression, in order."""
    for item in items:
        if isinstance(item, expression.BlockNames):
            yield str(item)
            continue
        for _ in range(item.count or 0):
            yield from written(item.body)


def shortened(blocks: list[str]) -> str:
    """An expression for these blocks: what repeats in brackets, as often as there are layers, the last time maybe cut;
    else equal ones that follow each other together."""
    n = len(blocks)
    period = next(p for p in range(1, n + 1) if all(block == blocks[at % p] for at, block in enumerate(blocks)))
    runs: list[tuple[str, int]] = []
    for block in blocks[:period]:
        if runs and runs[-1][0] == block:
            runs[-1] = (block, runs[-1][1] + 1)
        else:
            runs.append((block, 1))
    inner = " ".join(block if count == 1 else f"{count}*{block}" for block, count in runs)
    return inner if period == n else f"n*[{inner}]"


def predicting(v: Variant) -> Document:
    """One module that predicts a further token (arXiv:2412.19437, §2.2)."""
    v.document["mtp"] = 1
    return v.document


class Rule:
    """How a switch is spelled, and what it does."""

    def __init__(self, spelled: str, apply: Callable[..., Document]) -> None:
        self.spelled = spelled
        self.apply = apply
        self.numbers = spelled.count(":")
        self.beside = BESIDE.get(spelled)  # what becomes of an encoder beside the decoder


SPELLED: dict[str, Callable[..., Document]] = {
    "rope": positions("rope"),
    "learned": positions("learned"),
    "alibi": positions("alibi"),
    "none": positions("none"),
    "gqa:N": grouped,
    "mha": grouped,
    "mla": latent,
    "moe:E:K": expert,
    "dense": dense,
    "mtp": predicting,
    "window:W": windows,
    "gdn:K": recurrent,
}
#: of an encoder and a decoder side by side: both together, with what they look at each other by; each by itself; or
#: the decoder alone
BESIDE: dict[str, Literal["together", "each", "decoder"]] = {
    "rope": "together",
    "learned": "together",
    "none": "together",
    "gqa:N": "together",
    "mha": "together",
    "mla": "decoder",
    "moe:E:K": "each",
    "dense": "each",
    "window:W": "each",
}
#: keys of an encoder that no decoder has
ENCODER_ALONE = ("front", "tokens", "causal")
RULES = {spelled.partition(":")[0]: Rule(spelled, apply) for spelled, apply in SPELLED.items()}
