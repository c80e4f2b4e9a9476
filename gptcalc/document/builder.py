"""What a document's keys and sections stand for, every default filled in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from msgspec.structs import replace

from gptcalc.architecture import (
    MTP,
    Architecture,
    Attention,
    Block,
    DeltaMixing,
    Dense,
    Dropout,
    Embedding,
    EmbeddingConvolution,
    Encoder,
    Engram,
    Head,
    LatentAttention,
    Mixer,
    Norm,
    Part,
    Pooler,
    Proportional,
    Repeat,
    TargetStates,
    pairs_turned,
    sublayers,
)
from gptcalc.document import expression
from gptcalc.document.around import Around
from gptcalc.document.constraints import (
    check_parallel,
    check_reuse,
    looping,
    mixing,
)
from gptcalc.document.decoding import typed
from gptcalc.document.fields import complete, inherited
from gptcalc.document.keys import (
    KINDS,
    DenseKeys,
    Document,
    EncoderKeys,
    KindName,
    MTPKeys,
    NormKeys,
    PoolerKeys,
)
from gptcalc.errors import InputError, did_you_mean, printable

#: keys that are there for sublayers alone; a number of heads is often said where nothing reads it
INHERITED = ("n_kv_heads", "d_head", "d_ff")
#: sections, each like the next
MAX_CHAIN = 64


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
        self.around = Around(self.doc, self.norm, sections)
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
        self.check_used()
        if encoder is not None and encoder.tokens == "shared" and encoder.v != doc.v:
            raise InputError(f"encoder.v: {encoder.v} rows, but the table of {doc.v} is shared", "set tokens: own")
        built = Architecture(
            name=doc.name,
            d=doc.d,
            v=doc.v,
            c=doc.c,
            embedding=self.embedding(),
            layers=layers,
            head=self.head(),
            encoder=encoder,
            encoded=doc.encoded,
            target=self.target(),
            mtp=mtp,
            per_layer_embedding=doc.per_layer_embedding,
            layer_scalar=doc.layer_scalar,
            canvas=doc.canvas,
            streams=doc.streams,
            attention_residuals=doc.attention_residuals,
            altup=doc.altup,
            learned_frequencies=self.frequencies() if doc.learned_frequencies else 0,
            averaged_residuals=doc.averaged_residuals,
            dropout=Dropout() if doc.dropout is True else doc.dropout or None,
            storage=doc.storage,
        )
        return mixing(looping(built, doc.loop, doc.speeds))

    def encoder(self) -> Encoder:
        """The stack that an encoder's keys describe."""
        doc = self.doc
        assert isinstance(doc, EncoderKeys)
        if doc.attention_residuals is not None:
            raise InputError("attention_residuals: not defined for an encoder beside a decoder")
        if doc.loop is not None or doc.speeds is not None:
            raise InputError("loop: not defined for an encoder beside a decoder")
        if doc.front is not None and doc.tokens == "own":
            raise InputError("tokens: there are no tokens behind a front")
        layers = self.stack()
        self.check_used()
        return Encoder(
            d=doc.d,
            v=doc.v,
            c=doc.c,
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
            borrowed=keys.borrowed,
            scale=doc.d**0.5 if isinstance(keys.scale, str) else keys.scale,
            position=doc.position if doc.position in ("learned", "sinusoidal") else "none",
            rows=rows,
            offset=keys.offset,
            sinusoids=keys.sinusoids,
            types=keys.types,
            type_of=keys.type_of,
            affine=keys.affine,
            norm=norm,
            normed=keys.normed,
            beside=keys.beside,
            projected=keys.projected,
            projection_bias=keys.projection_bias,
        )

    def head(self) -> Head:
        doc, keys = self.doc, self.doc.head
        width = doc.embedding.width or doc.d
        if not keys.vocabulary:
            unread = {"tying": doc.tying, "softcap": doc.softcap, "head.dense": keys.dense, "head.rows": keys.rows}
            for key, given in unread.items():
                if given:
                    raise InputError(f"{key}: there are no logits over the vocabulary (head.vocabulary)")
        return Head(
            tying=doc.tying,
            norm=self.chosen_norm(doc.final_norm),
            bias="head" in self.around.biases(),
            scale=doc.logit_scale,
            softcap=doc.softcap,
            vocabulary=keys.vocabulary,
            dense=self.dense(keys.dense, width),
            rows=keys.rows,
            factors=keys.factors,
            borrowed=keys.borrowed,
            markov=keys.markov,
            gru=keys.gru,
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

    def target(self) -> TargetStates | None:
        keys = self.doc.target
        if keys is None:
            return None
        return TargetStates(
            layers=keys.layers,
            d=keys.d or self.doc.d,
            norm=self.chosen_norm(keys.norm),
            out_norm=self.chosen_norm(keys.out_norm),
            block=keys.block,
            shifted=keys.shifted,
        )

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

    def unread(self) -> list[str]:
        """Keys for sublayers that none of the layers has."""
        read = {key for mixer in self.resolved.values() for key in inherited(type(mixer)).values()}
        return [key for key in INHERITED if getattr(self.doc, key) is not None and key not in read]

    def check_top_level(self) -> None:
        """Keys that would be ignored silently are refused."""
        doc = self.doc
        if doc.position != "rope" and doc.rope is not None:
            raise InputError(f"rope: position is {doc.position!r}, so rope would be ignored")
        tables = ("learned", "sinusoidal") if doc.embedding.offset else ("learned",)
        if doc.position not in tables and (doc.embedding.rows or doc.embedding.offset):
            raise InputError(f"embedding.rows: position is {doc.position!r}, so there is no table of positions")
        for key in self.unread():
            readers = [name for name, kind in KINDS.items() if key in inherited(kind).values()]
            raise InputError(f"{key}: the layers have no {' or '.join(readers)} that reads it")

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
            if isinstance(mixer, DeltaMixing) and mixer.value_rank is not None:
                self.check_values(name, mixer)
            self.resolved[name] = mixer
        self.seen.add(name)
        return self.resolved[name]

    def check_choice(self, name: str) -> None:
        """Keys that an earlier layer chose can be shared only where one did."""
        earlier = [mixer.index for mixer in self.resolved.values() if isinstance(mixer, LatentAttention)]
        if not any(index is not None and not index.shared for index in earlier):
            raise InputError(f"{name}.index.shared: no earlier layer has an indexer of its own")

    def check_values(self, name: str, mixer: DeltaMixing) -> None:
        """Values are mixed with those of an earlier layer, of the same width."""
        earlier = [m for m in self.resolved.values() if isinstance(m, DeltaMixing) and m.value_rank is None]
        if not any(m.n_heads * m.d_v == mixer.n_heads * mixer.d_v for m in earlier):
            raise InputError(f"{name}.value_rank: no earlier layer gives values of this width")

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
        if any(isinstance(mixer, Attention) and mixer.with_embedding for mixer in sublayers(block)):
            raise InputError(f"mtp: block {block.name!r} reads the embedding", "give mtp: {n: …, block: …}")
        return MTP(n=keys.n, block=block, norm=self.norm)

    # sections

    def resolve(self, name: str) -> Mixer:
        """The sublayer that a section stands for. What fills a kind's defaults in is loaded when a model has it."""
        of, (kind, keys) = self.around, self.keys_of(name, ())
        match kind:
            case "attn" | "cross":
                from gptcalc.document import attention

                crossed = {"causal": False, "source": True, "position": "none"} if kind == "cross" else {}
                return attention.attention(of, name, {**crossed, **keys})
            case "mla":
                from gptcalc.document import latent

                return latent.latent(of, name, keys)
            case "csa":
                from gptcalc.document import compressed

                return compressed.compressed(of, name, keys)
            case "mlp":
                from gptcalc.document import mlp

                return mlp.mlp(of, name, keys)
            case "moe":
                from gptcalc.document import experts

                return experts.experts(of, name, keys)
            case "embconv":
                return of.typed(of.common(name, keys, EmbeddingConvolution), EmbeddingConvolution, name)
            case "engram":
                return of.typed(of.common(name, keys, Engram), Engram, name)
            case _:
                from gptcalc.document import recurrent

                return recurrent.recurrent(of, name, kind, keys)

    def keys_of(self, name: str, chain: tuple[str, ...]) -> tuple[KindName, dict[str, Any]]:
        """A section's kind and its own keys laid over those of the section it is like."""
        if name in chain:
            raise InputError(f"{name}.like: sections refer to each other in a circle")
        if len(chain) >= MAX_CHAIN:
            raise InputError(f"{chain[0]}.like: more than {MAX_CHAIN} sections one behind the other")
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
    raise InputError(
        f"{unit.section}: norm_at {unit.norm_at!r} does not go with a shared parallel norm",
        "set parallel_norm: separate",
    )
