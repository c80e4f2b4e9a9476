"""A small copy of an architecture: one layer of each distinct kind, every size small, all sizes pairwise different and
coprime where their constraints allow, so that no two can be mixed up unnoticed.

What was equal by need stays equal (the heads of a layer that reuses another's keys, d_v where K serves as V), what was
1 stays 1 (one KV head, one chosen expert), and grouping stays grouping. Everything else keeps its value.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import assert_never

from msgspec.structs import replace

from gptcalc.architecture import (
    Architecture,
    Attention,
    Best,
    Block,
    ChannelMixing,
    CompressedAttention,
    Disentangled,
    Embedding,
    Encoder,
    Experts,
    GatedRecurrence,
    Head,
    LatentAttention,
    LinearAttention,
    LongRope,
    Mamba,
    Mamba2,
    MatrixLSTM,
    Mixer,
    Mlp,
    Part,
    Proportional,
    Repeat,
    Rope,
    ShortConvolution,
    SparseMixer,
    TimeMixing,
    is_partial,
    pairs_turned,
)

CONTEXT = 48
ITERATIONS = 20
WINDOW = 3
CHUNK = 4
BUCKETS = 8
BLOCK, BLOCKS = 2, 3  # block-sparse attention: so many keys a block, so many blocks


def shrink(architecture: Architecture) -> Architecture:
    """The small copy. Equal architectures give equal copies."""
    return _Shrinking(architecture).architecture()


class _Sizes:
    """Hands out small sizes: the same one for the same purpose and original, else one coprime to all before.

    None is much larger than the least: where many sizes are given, one that is merely new does, or one given before.
    """

    def __init__(self) -> None:
        self.given: dict[Hashable, int] = {}
        self.used: set[int] = set()

    def __call__(self, purpose: str, original: int, *, multiple: int = 1, least: int = 2) -> int:
        key = (purpose, original, multiple)
        if key not in self.given:
            first = -(-least // multiple) * multiple
            near = [n for n in range(first, 4 * least + 8, multiple) if n not in self.used]
            coprime = (n for n in near if all(math.gcd(n // multiple, other) == 1 for other in self.used))
            n = next(coprime, next(iter(near), first))
            self.given[key] = n
            self.used.add(n)
        return self.given[key]


class _Shrinking:
    def __init__(self, original: Architecture) -> None:
        self.original = original
        self.size = _Sizes()
        self.mixers: dict[Mixer, Mixer] = {}

    def architecture(self) -> Architecture:
        o = self.original
        streams = o.streams and replace(
            o.streams, n=self.size("streams", o.streams.n), iterations=min(o.streams.iterations, ITERATIONS)
        )  # first: it counts squared
        blocks = [self.block(block) for block, _ in o.groups()]
        mtp = replace(o.mtp, n=1, block=self.block(o.mtp.block)) if o.mtp is not None else None
        ple = o.per_layer_embedding
        if ple is not None:
            ple = replace(ple, v=self.vocabulary(ple.v), d=self.size("ple.d", ple.d, least=4))
        altup = o.altup
        if altup is not None:
            altup = replace(altup, n=self.size("streams", altup.n, least=max(3, altup.active + 1)))
        return replace(
            o,
            d=self.d,
            v=self.vocabulary(o.v),
            c=CONTEXT,
            n_layers=len(blocks),
            embedding=self.embedding(o.embedding, o.d),
            layers=tuple(Repeat(count=1, body=(block,)) for block in blocks),
            head=self.head(o.head),
            encoder=self.encoder(o.encoder) if o.encoder is not None else None,
            mtp=mtp,
            per_layer_embedding=ple,
            streams=streams,
            altup=altup,
            learned_frequencies=max(pairs_turned(blocks)) if o.learned_frequencies else 0,
        )

    @property
    def d(self) -> int:
        return self.channels(self.original.d)

    def channels(self, d: int) -> int:
        """The width of a stream."""
        return self.size("d", d, least=11)

    def width(self, width: int, d: int) -> int:
        """The embedding's width: d, unless it is factorised."""
        return self.channels(d) if width == d else self.size("width", width, least=8)

    def embedding(self, e: Embedding, d: int) -> Embedding:
        return replace(
            e,
            width=self.width(e.width, d),
            scale=math.sqrt(self.channels(d)) if math.isclose(e.scale, math.sqrt(d)) else e.scale,
            rows=CONTEXT + e.offset if e.rows else 0,
        )

    def head(self, head: Head) -> Head:
        d, pooler = self.original.d, head.pooler
        if pooler is not None:
            dense = pooler.dense
            if dense is not None:
                own = self.d if dense.d == d else self.size("pooler.d", dense.d, least=5)
                dense = replace(dense, d=own)
            pooler = replace(pooler, dense=dense, labels=min(pooler.labels, 3))
        width = self.width(head.width, d)
        return replace(head, width=width, dense=head.dense and replace(head.dense, d=width), pooler=pooler)

    def encoder(self, e: Encoder) -> Encoder:
        blocks = [self.block(block) for block, _ in e.groups()]
        front = e.front
        if front is not None:
            front = replace(front, channels=self.size("n_mels", front.channels, least=4))
        return replace(
            e,
            d=self.channels(e.d),
            v=self.vocabulary(e.v),
            c=CONTEXT,
            n_layers=len(blocks),
            embedding=self.embedding(e.embedding, e.d),
            front=front,
            layers=tuple(Repeat(count=1, body=(block,)) for block in blocks),
        )

    def vocabulary(self, original: int) -> int:
        return self.size("v", original, least=61)

    def block(self, block: Block) -> Block:
        return replace(block, parts=tuple(self.part(part) for part in block.parts))

    def part(self, part: Part) -> Part:
        units = tuple(self.block(u) if isinstance(u, Block) else self.mixer(u) for u in part.units)
        return replace(part, units=units)

    def mixer(self, mixer: Mixer) -> Mixer:
        if mixer not in self.mixers:
            small = self.small(mixer)
            low_rank = small.residual.low_rank
            if low_rank is not None:
                low_rank = replace(low_rank, rank=self.size("laurel.rank", low_rank.rank, least=3))
                small = replace(small, residual=replace(small.residual, low_rank=low_rank))
            if small.norm_gate is not None:
                rank = self.size("norm_gate.rank", small.norm_gate.rank, least=3)
                small = replace(small, norm_gate=replace(small.norm_gate, rank=rank))
            if isinstance(small, (Attention, Mlp)) and small.adapter is not None:
                rank = self.size("adapter_rank", small.adapter.rank, least=3)
                small = replace(small, adapter=replace(small.adapter, rank=rank))
            self.mixers[mixer] = small
        return self.mixers[mixer]

    def small(self, mixer: Mixer) -> Mixer:
        match mixer:
            case Attention():
                return self.attention(mixer)
            case LatentAttention():
                return self.latent(mixer)
            case CompressedAttention():
                return self.compressed(mixer)
            case Mlp():
                return replace(mixer, d_ff=self.size("d_ff", mixer.d_ff, least=5))
            case Experts():
                return self.experts(mixer)
            case LinearAttention():
                return self.linear(mixer)
            case Mamba():
                return self.mamba(mixer)
            case Mamba2():
                return self.mamba2(mixer)
            case ShortConvolution():
                return mixer
            case GatedRecurrence():
                n_heads = self.heads("rglru.n_heads", mixer.n_heads)
                width = self.size("channels a block", mixer.d_rnn // mixer.n_heads, least=3)
                return replace(mixer, n_heads=n_heads, d_rnn=n_heads * width)
            case MatrixLSTM():
                return replace(
                    mixer,
                    n_heads=self.heads("mlstm.n_heads", mixer.n_heads),
                    d_k=self.size("d_k", mixer.d_k, least=3),
                    d_v=self.size("state d_v", mixer.d_v, least=3),
                    chunk=CHUNK,
                )
            case TimeMixing():
                return replace(mixer, d_inner=self.size("time mixing", mixer.d_inner, least=5))
            case ChannelMixing():
                return replace(mixer, d_ff=self.size("d_ff", mixer.d_ff, least=5))
            case _:
                assert_never(mixer)

    def heads(self, purpose: str, original: int) -> int:
        return 1 if original == 1 else self.size(purpose, original)

    def attention(self, a: Attention) -> Attention:
        d_head = self.size("d_head", a.d_head, multiple=2, least=8)
        n_kv_heads = self.heads("n_kv_heads", a.n_kv_heads)
        if a.differential is not None:
            n_kv_heads = 2 * self.heads("pairs of KV heads", a.n_kv_heads // 2)
        experts = a.experts
        if experts is not None:
            top_k = min(experts.top_k, 2)
            experts = replace(experts, n_experts=self.size("n_experts", experts.n_experts, least=3), top_k=top_k)
        index = a.index
        if index is not None:
            d_index = self.size("index.d", index.d, least=d_head + 1)
            local = min(index.local, BLOCKS - 1)
            index = replace(index, d=d_index, block=BLOCK, top_k=BLOCKS, local=local)
        scores, bottleneck = a.scores, a.bottleneck
        if bottleneck is not None:
            bottleneck = replace(bottleneck, rank=self.size("q_rank", bottleneck.rank, least=5))
        relative = scores.relative
        if relative is not None:
            extent = WINDOW if relative.extent == a.window else 2 * WINDOW - 1
            relative = replace(relative, d=self.size("relative.d", relative.d), extent=extent)
        return replace(
            a,
            n_heads=n_kv_heads * self.heads("query heads a KV head", a.n_heads // a.n_kv_heads),
            n_kv_heads=n_kv_heads,
            d_head=d_head,
            d_v=d_head if a.k_eq_v else self.size("d_v", a.d_v, multiple=1 if a.cca is None else 2, least=3),
            rope=None if a.rope is None else self.rope(a.rope, a.d_head, d_head),
            window=a.window and WINDOW,
            chunk=a.chunk and CHUNK,
            bottleneck=bottleneck,
            scores=replace(
                scores,
                temperature=scores.temperature and replace(scores.temperature, floor=3.0),
                log_length=scores.log_length and WINDOW,
                relative=relative,
                buckets=scores.buckets and replace(scores.buckets, n=BUCKETS, max_distance=BUCKETS),
                disentangled=scores.disentangled and self.disentangled(scores.disentangled),
            ),
            experts=experts,
            index=index,
            dynamic_mask=a.dynamic_mask and replace(a.dynamic_mask, top_k=WINDOW),
        )

    def disentangled(self, p: Disentangled) -> Disentangled:
        span = self.size("span", p.span, least=6)
        return replace(p, span=span, max_distance=p.max_distance and 2 * span)

    def rope(self, rope: Rope, original: int, width: int) -> Rope:
        """The same rotation of a narrower head; partial stays partial."""
        partial = is_partial(rope, original)
        if isinstance(rope.scaling, Proportional):
            return replace(rope, fraction=1.0, channels=width // 4 * 2) if partial else rope
        r = width - 2 if partial else width
        scaling = rope.scaling
        if isinstance(scaling, LongRope):
            scaling = replace(scaling, short=scaling.short[: r // 2], long=scaling.long[: r // 2])
        return replace(rope, channels=r if partial else None, fraction=1.0, scaling=scaling)

    def latent(self, a: LatentAttention) -> LatentAttention:
        d_rope = a.d_rope and self.size("d_rope", a.d_rope, multiple=2, least=4)
        index = a.index
        if index is not None:
            index = replace(
                index,
                n_heads=self.heads("index.n_heads", index.n_heads),
                d=self.size("index.d", index.d, least=d_rope + 1),
                top_k=WINDOW,
            )
        return replace(
            a,
            n_heads=self.heads("n_heads", a.n_heads),
            kv_rank=self.size("kv_rank", a.kv_rank, least=5),
            d_nope=self.size("d_nope", a.d_nope, least=3),
            d_rope=d_rope,
            d_v=self.size("latent d_v", a.d_v, least=3),
            q_rank=a.q_rank and self.size("latent q_rank", a.q_rank, least=5),
            rope=None if a.rope is None else self.rope(a.rope, a.d_rope, d_rope),
            temperature=a.temperature and replace(a.temperature, floor=3.0),
            index=index,
            window=a.window and WINDOW,
        )

    def compressed(self, a: CompressedAttention) -> CompressedAttention:
        d_head = self.size("d_head", a.d_head, multiple=2, least=8)
        rope = None if a.rope is None else self.rope(a.rope, a.d_head, d_head)
        compress = a.compress
        if compress is not None:
            index = compress.index
            if index is not None:
                index = replace(
                    index,
                    n_heads=self.heads("index.n_heads", index.n_heads),
                    d=self.size("index.d", index.d, least=d_head + 1),
                    top_k=2,
                )
            compress = replace(compress, every=2 if compress.overlap else 3, index=index)
        n_groups = self.heads("n_groups", a.n_groups)
        return replace(
            a,
            n_heads=n_groups * self.heads("heads of a group", a.n_heads // a.n_groups),
            d_head=d_head,
            q_rank=self.size("q_rank", a.q_rank, least=5),
            n_groups=n_groups,
            out_rank=self.size("out_rank", a.out_rank, least=3),
            window=min(a.window, WINDOW),
            rope=rope,
            compress=compress,
        )

    def linear(self, a: LinearAttention) -> LinearAttention:
        n_k_heads = self.heads("n_k_heads", a.n_k_heads)
        decay = a.decay
        if decay is not None and decay.rank is not None:
            decay = replace(decay, rank=self.size("decay.rank", decay.rank, least=3))
        gate = a.gate
        if gate is not None and gate.rank is not None:
            gate = replace(gate, rank=self.size("gate.rank", gate.rank, least=3))
        return replace(
            a,
            n_heads=n_k_heads * self.heads("states a key head", a.n_heads // a.n_k_heads),
            n_k_heads=n_k_heads,
            d_k=self.size("d_k", a.d_k, least=3),
            d_v=self.size("state d_v", a.d_v, least=3),
            decay=decay,
            gate=gate,
            chunk=CHUNK,
        )

    def mamba(self, m: Mamba) -> Mamba:
        n_heads = self.heads("mamba.n_heads", m.n_heads)
        return replace(
            m,
            n_heads=n_heads,
            d_inner=n_heads * self.size("channels a head", m.d_inner // m.n_heads, least=3),
            d_state=self.size("d_state", m.d_state, least=3),
            dt_rank=self.size("dt_rank", m.dt_rank, least=3),
        )

    def mamba2(self, m: Mamba2) -> Mamba2:
        n_groups = self.heads("n_groups", m.n_groups)
        return replace(
            m,
            n_groups=n_groups,
            n_heads=n_groups * self.heads("heads a group", m.n_heads // m.n_groups),
            d_head=self.size("mamba2.d_head", m.d_head, least=3),
            d_state=self.size("d_state", m.d_state, least=3),
            chunk=CHUNK,
        )

    def experts(self, m: Experts) -> Experts:
        top_k = min(m.top_k, 2)
        if m.identity == "nothing":
            top_k = 2  # so that hardly a token chooses nothing alone
        router, groups = m.router, m.groups
        if groups is not None:
            n = 1 if groups.n == 1 else 3
            groups = replace(groups, n=n, top_k=n if groups.top_k == groups.n else min(groups.top_k, n - 1))
        if not isinstance(router, SparseMixer) and isinstance(router.choice, Best):
            router = replace(router, choice=replace(router.choice, groups=groups))
        if router.layers is not None:
            layers = replace(router.layers, d=self.size("router.d", router.layers.d, least=3))
            router = replace(router, layers=layers)
        n_groups = groups.n if groups is not None else 1
        shared, latent = m.shared, m.latent
        if shared is not None:
            apart = shared.n if m.sink is not None else 1
            shared = replace(shared, d_ff=self.size("d_shared", shared.d_ff, multiple=apart, least=5))
        if latent is not None:
            latent = replace(latent, d=self.size("d_latent", latent.d, least=5))
        n_identity = n_groups if m.n_identity else 0
        return replace(
            m,
            n_experts=self.size("n_experts", m.n_experts, multiple=n_groups, least=max(4, 2 * n_groups)),
            top_k=top_k,
            d_ff=self.size("expert d_ff", m.d_ff, least=5),
            router=router,
            shared=shared,
            latent=latent,
            n_identity=n_identity,
        )
