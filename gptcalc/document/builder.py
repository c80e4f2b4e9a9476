"""What a document's keys and sections stand for, every default filled in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar, cast

import msgspec
from msgspec.structs import replace

from gptcalc.architecture import (
    ACTIVATIONS,
    MTP,
    Architecture,
    Attention,
    Block,
    CompressedAttention,
    Dense,
    Dropout,
    Embedding,
    Encoder,
    Experts,
    Head,
    LatentAttention,
    Mixer,
    Mlp,
    Norm,
    Part,
    Pooler,
    Proportional,
    Recurrent,
    Repeat,
    Rope,
    Sublayer,
    pairs_turned,
    sublayers,
)
from gptcalc.document import expression
from gptcalc.document.constraints import check_altup, check_averaged, check_parallel, check_reuse, check_streams
from gptcalc.document.decoding import typed
from gptcalc.document.fields import complete
from gptcalc.document.keys import (
    ALL_BIASES,
    KINDS,
    DenseKeys,
    Document,
    EncoderKeys,
    KindName,
    MTPKeys,
    NormKeys,
    PoolerKeys,
    RecurrentName,
    recurrent_kind,
)
from gptcalc.errors import InputError, did_you_mean, printable

Kind = TypeVar("Kind", bound=Sublayer)


class Builder:
    """Resolves one document. Holds the top-level keys, the sections and the blocks made so far."""

    def __init__(
        self,
        keys: Mapping[str, Any],
        sections: Mapping[str, Mapping[str, Any]],
        kind: type[Document] = Document,
        others: Iterable[str] = (),
    ) -> None:
        """`others`: sections that may go unused, as another stack has them."""
        self.norm = _model_norm(keys)
        self.doc: Document = typed(complete(keys, kind, self.norm, ""), kind, "")
        self.others = set(others)
        self.sections = sections
        self.resolved: dict[str, Mixer] = {}
        self.blocks: dict[expression.BlockNames, Block] = {}
        self.seen: set[str] = set()
        self.used: set[str] = set()

    def stack(self) -> tuple[Repeat, ...]:
        return tuple(self.repeat(item) for item in expression.parse(self.doc.layers, self.doc.n_layers))

    def check_used(self) -> None:
        """Sections and keys that would be ignored silently are refused."""
        for name in self.sections:
            if name not in self.used | self.others:
                raise InputError(f"section {name!r} is not used in layers {self.doc.layers!r}", kind="unknown")
        self.check_top_level()

    def architecture(self, encoder: Encoder | None = None) -> Architecture:
        doc = self.doc
        layers = self.stack()
        mtp = self.mtp(layers)
        if doc.averaged_residuals:
            check_averaged(self.blocks.values())
        if doc.altup is not None:
            check_altup(doc.altup, doc.averaged_residuals, mtp, doc.per_layer_embedding)
        self.check_used()
        if encoder is not None and encoder.tokens == "shared" and encoder.v != doc.v:
            raise InputError(f"encoder.v: {encoder.v} rows, but the table of {doc.v} is shared", "set tokens: own")
        built = Architecture(
            name=doc.name,
            d=doc.d,
            v=doc.v,
            c=doc.c,
            n_layers=doc.n_layers,
            embedding=self.embedding(),
            layers=layers,
            head=self.head(),
            encoder=encoder,
            mtp=mtp,
            per_layer_embedding=doc.per_layer_embedding,
            layer_scalar=doc.layer_scalar,
            streams=doc.streams,
            altup=doc.altup,
            learned_frequencies=self.frequencies() if doc.learned_frequencies else 0,
            averaged_residuals=doc.averaged_residuals,
            dropout=Dropout() if doc.dropout is True else doc.dropout or None,
            storage=doc.storage,
        )
        check_streams(built)
        return built

    def encoder(self) -> Encoder:
        """The stack that an encoder's keys describe."""
        doc = self.doc
        assert isinstance(doc, EncoderKeys)
        if doc.front is not None and doc.tokens == "own":
            raise InputError("tokens: there are no tokens behind a front")
        layers = self.stack()
        self.check_used()
        return Encoder(
            d=doc.d,
            v=doc.v,
            c=doc.c,
            n_layers=doc.n_layers,
            embedding=self.embedding(),
            front=doc.front,
            tokens=doc.tokens,
            layers=layers,
            norm=self.chosen_norm(doc.final_norm),
        )

    def embedding(self) -> Embedding:
        doc, keys = self.doc, self.doc.embedding
        learned = doc.position == "learned"
        rows = (keys.rows or doc.c + keys.offset) if learned else 0
        if learned and rows < doc.c + keys.offset:
            raise InputError(f"embedding.rows: {rows} rows for {doc.c} positions from row {keys.offset}")
        norm = self.chosen_norm(keys.norm)
        if keys.projected == "normed" and norm is None:
            raise InputError("embedding.projected: there is no embedding.norm")
        return Embedding(
            width=keys.width or doc.d,
            scale=doc.d**0.5 if isinstance(keys.scale, str) else keys.scale,
            position=doc.position if doc.position in ("learned", "sinusoidal") else "none",
            rows=rows,
            offset=keys.offset,
            sinusoids=keys.sinusoids,
            types=keys.types,
            affine=keys.affine,
            norm=norm,
            projected=keys.projected,
            projection_bias=keys.projection_bias,
        )

    def head(self) -> Head:
        doc, keys = self.doc, self.doc.head
        width = doc.embedding.width or doc.d
        if not keys.vocabulary:
            unread = {"tying": doc.tying, "softcap": doc.softcap, "head.dense": keys.dense}
            for key, given in unread.items():
                if given:
                    raise InputError(f"{key}: there are no logits over the vocabulary (head.vocabulary)")
        if keys.dense is not None and keys.dense.d not in (None, width):
            raise InputError(f"head.dense.d: the output matrix reads {width} channels, not {keys.dense.d}")
        return Head(
            tying=doc.tying,
            norm=self.chosen_norm(doc.final_norm),
            bias="head" in self.biases(),
            scale=doc.logit_scale,
            softcap=doc.softcap,
            width=width,
            vocabulary=keys.vocabulary,
            dense=self.dense(keys.dense, width),
            fixed_bias=keys.fixed_bias,
            pooler=None if keys.pooler is None else self.pooler(keys.pooler),
        )

    def pooler(self, keys: PoolerKeys) -> Pooler:
        dense = self.dense(keys.dense, self.doc.d)
        return Pooler(token=keys.token, dense=dense, labels=keys.labels, bias=keys.bias)

    def dense(self, keys: DenseKeys | None, width: int) -> Dense | None:
        if keys is None:
            return None
        return Dense(d=keys.d or width, function=keys.function, bias=keys.bias, norm=self.chosen_norm(keys.norm))

    def frequencies(self) -> int:
        """How many frequencies the layers share that turn."""
        ropes = [getattr(mixer, "rope", None) for mixer in self.resolved.values()]
        if any(rope is not None and isinstance(rope.scaling, Proportional) for rope in ropes):
            raise InputError("learned_frequencies: with proportional scaling some would turn nothing")
        found = pairs_turned(self.blocks.values())
        if len(found) != 1:
            raise InputError("learned_frequencies: the layers' rotations must turn as many channels each")
        return found.pop()

    def chosen_norm(self, choice: bool | Norm) -> Norm | None:
        """A norm of its own, the model's, or none."""
        if isinstance(choice, Norm):
            return choice
        return self.norm if choice else None

    def check_top_level(self) -> None:
        """Keys that would be ignored silently are refused."""
        doc = self.doc
        if doc.position != "rope" and doc.rope is not None:
            raise InputError(f"rope: position is {doc.position!r}, so rope would be ignored")
        tables = ("learned", "sinusoidal") if doc.embedding.offset else ("learned",)
        if doc.position not in tables and (doc.embedding.rows or doc.embedding.offset):
            raise InputError(f"embedding.rows: position is {doc.position!r}, so there is no table of positions")
        kinds = {type(mixer) for mixer in self.resolved.values()}
        for key in ("n_kv_heads", "d_head"):
            if getattr(doc, key) is not None and Attention not in kinds:
                raise InputError(f"{key}: the layers have no attn sublayer that reads it")
        if doc.d_ff is not None and not kinds & {Mlp, Experts}:
            raise InputError("d_ff: the layers have no mlp or moe that reads it")

    def biases(self) -> tuple[str, ...]:
        chosen = self.doc.bias
        if isinstance(chosen, str):
            return {"none": (), "all": ALL_BIASES, "qkv": ("qkv",)}[chosen]
        return tuple(chosen)

    # layers

    def repeat(self, item: expression.Repeated) -> Repeat:
        body = tuple(self.repeat(b) if isinstance(b, expression.Repeated) else self.block(b) for b in item.body)
        return Repeat(count=item.count or 0, body=body)

    def block(self, names: expression.BlockNames) -> Block:
        if names not in self.blocks:
            parts = [part for written in names.parts for part in self.parts(written)]
            self.blocks[names] = Block(name=str(names), parts=tuple(parts))
        return self.blocks[names]

    def parts(self, names: tuple[str | expression.BlockNames, ...]) -> tuple[Part, ...]:
        """One part; several where brackets hold a whole block alone."""
        if len(names) == 1 and not isinstance(names[0], str):
            return self.block(names[0]).parts
        return (self.part(names),)

    def part(self, names: tuple[str | expression.BlockNames, ...]) -> Part:
        doc = self.doc
        units = tuple(self.unit(n) if isinstance(n, str) else self.block(n) for n in names)
        if len(units) == 1:
            return Part(units=units)
        for unit in units:
            if not isinstance(unit, Block):
                check_parallel(unit)
        out_norm = self.norm if doc.parallel_out_norm else None
        if doc.parallel_norm == "separate":
            return Part(units=units, out_norm=out_norm, scale=doc.parallel_scale)
        bare = tuple(_without_first_norm(u) for u in units)
        return Part(units=bare, norm=self.norm, out_norm=out_norm, scale=doc.parallel_scale)

    def unit(self, name: str) -> Mixer:
        if name not in self.resolved:
            mixer = self.resolve(name)
            if isinstance(mixer, (Attention, LatentAttention)) and mixer.kv is not None:
                check_reuse(name, mixer, self.owner(name, mixer.kv.from_))
            if isinstance(mixer, LatentAttention) and mixer.index is not None and mixer.index.shared:
                self.check_choice(name)
            self.resolved[name] = mixer
        self.seen.add(name)
        return self.resolved[name]

    def check_choice(self, name: str) -> None:
        """Keys that an earlier layer chose can be shared only where one did."""
        earlier = [mixer.index for mixer in self.resolved.values() if isinstance(mixer, LatentAttention)]
        if not any(index is not None and not index.shared for index in earlier):
            raise InputError(f"{name}.index.shared: no earlier layer has an indexer of its own")

    def owner(self, name: str, source: str) -> Mixer:
        """The sublayer that makes a section's keys and values, if need be by way of others that reuse them."""
        if source not in self.seen:
            raise InputError(f"{name}.kv.from: no earlier layer uses section {printable(source)!r}")
        mixer = self.resolved[source]
        kv = getattr(mixer, "kv", None)
        return mixer if kv is None else self.owner(name, kv.from_)

    def mtp(self, layers: tuple[Repeat, ...]) -> MTP | None:
        keys = self.doc.mtp if isinstance(self.doc.mtp, MTPKeys) else MTPKeys(n=self.doc.mtp)
        if keys.n == 0:
            return None
        last = layers[-1].body[-1]
        while isinstance(last, Repeat):
            last = last.body[-1]
        block = self.block(expression.parse_block(keys.block)) if keys.block else last
        if any(getattr(mixer, "kv", None) is not None for mixer in sublayers(block)):
            raise InputError(f"mtp: block {block.name!r} reuses another layer's keys", "give mtp: {n: …, block: …}")
        return MTP(n=keys.n, block=block, norm=self.norm)

    # sections

    def resolve(self, name: str) -> Mixer:
        kind, keys = self.keys_of(name, ())
        match kind:
            case "attn":
                return self.attention(name, {"causal": self.doc.causal, **keys})
            case "cross":
                return self.attention(name, {"causal": False, "source": True, "position": "none", **keys})
            case "mla":
                return self.latent(name, keys)
            case "csa":
                return self.compressed(name, keys)
            case "mlp":
                return self.feed_forward(name, keys)
            case "moe":
                return self.experts(name, keys)
            case _:
                return self.recurrent(name, kind, keys)

    def keys_of(self, name: str, chain: tuple[str, ...]) -> tuple[KindName, dict[str, Any]]:
        """A section's kind and its own keys laid over those of the section it is like."""
        if name in chain:
            raise InputError(f"{name}.like: sections refer to each other in a circle")
        own = self.sections.get(name)
        if own is None:
            if name in KINDS:
                return cast(KindName, name), {}
            known = [*KINDS, *self.sections]
            raise InputError(f"layers: unknown sublayer {name!r}", did_you_mean(name, known), "unknown")
        self.used.add(name)
        if name in KINDS:
            if "like" in own:
                raise InputError(f"{name}.like: {name} is a built-in kind")
            return cast(KindName, name), dict(own)
        base = own["like"]
        if not isinstance(base, str):
            raise InputError(f"{name}.like: expected a section's name, found {printable(repr(base))}")
        kind, keys = self.keys_of(base, (*chain, name))
        return kind, {**keys, **{key: value for key, value in own.items() if key != "like"}}

    def common(self, name: str, keys: dict[str, Any]) -> dict[str, Any]:
        """Every sublayer's defaults, and written-out forms of shorthands."""
        norm = keys.pop("norm", None)
        doc = self.doc
        out = {"section": name, "norm": self.norm, "norm_at": doc.norm_at, "residual_scale": doc.residual_scale}
        if norm is not None:
            out["norm"] = None if norm == "none" else typed(norm, Norm, f"{name}.norm")
        return out | keys

    def typed(self, keys: dict[str, Any], kind: type[Kind], name: str) -> Kind:
        mixer: Kind = typed(complete(keys, kind, self.norm, name), kind, name)
        return mixer

    def attention(self, name: str, keys: dict[str, Any]) -> Attention:
        doc, top = self.doc, self.biases()
        keys = self.common(name, keys)
        n_heads = keys.setdefault("n_heads", doc.n_heads)
        if n_heads is None:
            raise InputError(f"{name}: n_heads is missing")
        keys.setdefault("n_kv_heads", doc.n_kv_heads or n_heads)
        if keys.setdefault("d_head", doc.d_head) is None:
            keys["d_head"] = self.equal_share(name, n_heads)
        keys.setdefault("d_v", doc.d_v or keys["d_head"])
        sites = {"q": {"qkv", "attn"}, "k": {"qkv", "attn"}, "v": {"qkv", "attn"}, "out": {"attn"}}
        default = [site for site, also in sites.items() if site in top or also & set(top)]
        keys["bias"] = _sites(keys.get("bias", default), ("q", "k", "v", "out"), {"qkv": ("q", "k", "v")})
        self.positions(name, keys, ("rope", "alibi"))
        if isinstance(keys.get("qk_norm"), str):
            keys["qk_norm"] = {"over": keys["qk_norm"]}
        if isinstance(keys.get("qk_norm"), Mapping):
            keys["qk_norm"] = self.like_model_norm(keys["qk_norm"])
        return self.typed(keys, Attention, name)

    def positions(self, name: str, keys: dict[str, Any], known: tuple[str, ...]) -> None:
        """How a sublayer sees positions: as the model does, where it can; a rotation only where it is used."""
        default = self.doc.position if self.doc.position in known else "none"
        if keys.setdefault("position", default) == "rope":
            keys.setdefault("rope", self.doc.rope or Rope())
            return
        if self.sections.get(name, {}).get("rope") is not None:
            raise InputError(f"{name}.rope: position is {keys['position']!r}, so rope would be ignored")
        keys.pop("rope", None)  # that of the section it is like

    def like_model_norm(self, keys: Mapping[str, Any]) -> dict[str, Any]:
        """A norm of the model's kind takes what it doesn't say from the model's norm, another kind only eps."""
        norm = self.norm
        if keys.get("kind", norm.kind) != norm.kind or keys.get("weight", norm.weight) != norm.weight:
            return {"eps": norm.eps, "kind": norm.kind, **keys}
        return {**msgspec.to_builtins(norm), **keys}

    def equal_share(self, name: str, n_heads: Any) -> int:
        if not isinstance(n_heads, int) or n_heads < 1 or self.doc.d % n_heads:
            raise InputError(f"{name}: d = {self.doc.d} is not a multiple of n_heads = {n_heads}", "give d_head")
        return self.doc.d // n_heads

    def latent(self, name: str, keys: dict[str, Any]) -> LatentAttention:
        keys = self.common(name, keys)
        if keys.setdefault("n_heads", self.doc.n_heads) is None:
            raise InputError(f"{name}: n_heads is missing")
        if self.doc.d_v is not None:
            keys.setdefault("d_v", self.doc.d_v)
        self.positions(name, keys, ("rope",))
        sites = ("q_a", "q_b", "kv_a", "kv_b", "out")
        keys["bias"] = _sites(keys.get("bias", ()), sites, {})
        return self.typed(keys, LatentAttention, name)

    def compressed(self, name: str, keys: dict[str, Any]) -> CompressedAttention:
        keys = self.common(name, keys)
        if keys.setdefault("n_heads", self.doc.n_heads) is None:
            raise InputError(f"{name}: n_heads is missing")
        if self.doc.position == "rope":
            keys.setdefault("rope", self.doc.rope or Rope())
        if keys.get("compress") == "none":
            keys["compress"] = None
        mixer: CompressedAttention = typed(
            complete(keys, CompressedAttention, self.norm, name), CompressedAttention, name
        )
        return mixer

    def recurrent(self, name: str, kind: RecurrentName, keys: dict[str, Any]) -> Recurrent:
        keys = self.common(name, keys)
        if kind == "linear":
            keys.setdefault("n_k_heads", keys.get("n_heads"))
        for key, first in (("decay", "over"), ("gate", "function")):
            if isinstance(keys.get(key), str):
                keys[key] = {first: keys[key]}
        for key in ("out_norm", "inner_norm"):
            if isinstance(keys.get(key), Mapping):
                keys[key] = self.like_model_norm(keys[key])
        return self.typed(keys, recurrent_kind(kind), name)

    def feed_forward(self, name: str, keys: dict[str, Any]) -> Mlp:
        keys = self.common(name, keys)
        keys.setdefault("activation", self.doc.mlp or "swiglu")
        gated = _gated(name, keys["activation"])
        if keys.setdefault("d_ff", self.doc.d_ff) is None:
            if gated:
                raise InputError(f"{name}: d_ff is missing (no default where the activation has a gate)")
            keys["d_ff"] = 4 * self.doc.d
        default = ("gate", "up", "down") if "mlp" in self.biases() else ()
        keys["bias"] = _mlp_sites(keys.get("bias", default), gated, ())
        return self.typed(keys, Mlp, name)

    def experts(self, name: str, keys: dict[str, Any]) -> Experts:
        keys = self.common(name, keys)
        keys.setdefault("activation", self.doc.mlp or "swiglu")
        gated = _gated(name, keys["activation"])
        if keys.setdefault("d_ff", self.doc.d_ff) is None:
            raise InputError(f"{name}: d_ff is missing")
        top = self.biases()
        default = (("gate", "up", "down") if "experts" in top else ()) + (("router",) if "router" in top else ())
        keys["bias"] = _mlp_sites(keys.get("bias", default), gated, ("router", "shared"))
        n_shared, d_shared = keys.get("n_shared", 0), keys.get("d_shared", 0)
        if d_shared and not n_shared:
            keys["n_shared"] = 1
        elif n_shared and not d_shared and isinstance(n_shared, int) and isinstance(keys["d_ff"], int):
            keys["d_shared"] = n_shared * keys["d_ff"]
        return self.typed(keys, Experts, name)


def _model_norm(keys: Mapping[str, Any]) -> Norm:
    """The norm that all are like of which a document says nothing."""
    given: NormKeys = typed({key: keys[key] for key in keys if key == "norm"}, NormKeys, "")
    return Norm(kind=given.norm) if isinstance(given.norm, str) else given.norm


def _without_first_norm(unit: Mixer | Block) -> Mixer | Block:
    """A unit whose input comes already normed by the part's shared norm."""
    if isinstance(unit, Block):
        first, *rest = unit.parts
        units = first.units if first.norm is not None else tuple(_without_first_norm(u) for u in first.units)
        return replace(unit, parts=(replace(first, units=units, norm=None), *rest))
    if unit.norm_at == "pre":
        return replace(unit, norm=None)
    if unit.norm_at == "sandwich":
        return replace(unit, norm_at="output")
    raise InputError(f"{unit.section}: norm_at {unit.norm_at!r} does not go with a shared parallel norm",
                     "set parallel_norm: separate")  # fmt: skip


def _gated(name: str, activation: Any) -> bool:
    if not isinstance(activation, str) or activation not in ACTIVATIONS:
        hint = did_you_mean(str(activation), ACTIVATIONS)
        raise InputError(f"{name}.activation: unknown activation {printable(str(activation))!r}", hint, "unknown")
    return ACTIVATIONS[activation].gated


def _sites(chosen: Any, all_sites: tuple[str, ...], groups: Mapping[str, tuple[str, ...]]) -> Any:
    """Bias sites in a fixed order, shorthands (none, all, qkv) written out; anything else is left to the type check."""
    if chosen == "none":
        return ()
    if chosen == "all":
        return all_sites
    if isinstance(chosen, str):
        return groups.get(chosen, (chosen,))
    if not isinstance(chosen, (list, tuple)):
        return chosen
    flat = [site for word in chosen for site in (groups.get(word, (word,)) if isinstance(word, str) else (word,))]
    known = [site for site in all_sites if site in flat]
    return (*known, *(site for site in flat if site not in all_sites))


def _mlp_sites(chosen: Any, gated: bool, more: tuple[str, ...]) -> Any:
    sites = _sites(chosen, ("gate", "up", "down", *more), {"mlp": ("gate", "up", "down")})
    return tuple(s for s in sites if gated or s != "gate") if isinstance(sites, (list, tuple)) else sites
