"""The whole model: the stages of a forward pass, each a list of lines and how often it runs."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, get_args

from gptcalc.architecture import (
    MTP,
    AltUp,
    Architecture,
    Attention,
    Block,
    Encoder,
    InChunks,
    LatentAttention,
    Prefix,
)
from gptcalc.equations import (
    altup,
    attention_heads,
    canvas,
    embedding,
    head,
    hyper,
    kinds,
    linear,
    loops,
    mlp,
    relative,
    residuals,
)
from gptcalc.equations.language import Index, Line, Mark
from gptcalc.equations.lines import Lines, root
from gptcalc.equations.norms import norm_line
from gptcalc.equations.parts import Parts
from gptcalc.equations.stages import Equations, Layer, Stage
from gptcalc.equations.sublayer import FIRST_SUM, drop
from gptcalc.equations.symbols import Symbols

if TYPE_CHECKING:
    from gptcalc.conventions import CacheForm, Chunks, Form


def equations(
    architecture: Architecture, form: Form = "expanded", cache: CacheForm = "latent", chunks: Chunks = None
) -> Equations:
    """The forward pass of an architecture: latent attention in the given form and with the given cache, recurrent
    states token by token or in chunks."""
    mixers = architecture.mixers()
    if not any(isinstance(mixer, LatentAttention) for mixer in mixers):
        form, cache = "expanded", "latent"  # no difference: one entry in the memory below
    if not any(isinstance(mixer, get_args(InChunks)) for mixer in mixers):
        chunks = None
    return remembered(architecture, form, cache, chunks)


@lru_cache(maxsize=32)
def remembered(architecture: Architecture, form: Form, cache: CacheForm, chunks: Chunks) -> Equations:
    return _Model(architecture, form, cache, chunks).equations()


class _Model:
    """One stack's lines; an encoder beside it is another one, with the same symbols."""

    def __init__(
        self,
        architecture: Architecture,
        form: Form,
        cache: CacheForm,
        chunks: Chunks = None,
        symbols: Symbols | None = None,
        beside: Encoder | None = None,
    ) -> None:
        """`beside`: the encoder that this is the stack of, beside a decoder whose symbols are given."""
        self.model = architecture
        self.form = form
        self.cache = cache
        self.chunks: Chunks = chunks
        self.symbols = symbols or Symbols()
        self.beside = beside
        end = "" if beside is None else "enc"
        self.d = self.symbols.index("d", architecture.d, "channels", end)
        self.v = self.symbols.index("v", architecture.v, "vocabulary", end, shard="vocab")
        self.c = self.symbols.index("c", architecture.c, "positions", end)
        self.n_layers = self.symbols.index("n_layers", architecture.n_layers, "layers", end)
        self.of = kinds.Around(architecture, form, cache, self.d, self.symbols, chunks)
        new, past = ("T", "S") if beside is None else ("N", "N")
        self.token = "token(t)"
        self.base = {"t": Index(new, 0, "new"), "s": Index(past, 0, "past"), "i": self.d, "u": self.v}

        if architecture.block is not None:
            slots = self.symbols.index("block", architecture.block, "slots")
            self.token = "slot(t)"
            self.base |= {"t": slots, "ţ": slots, "ť": Index(new, 0, "new")}

    def encoder(self) -> tuple[Stage, ...]:
        """The stages of the encoder beside this stack."""
        encoder = self.model.encoder
        if encoder is None:
            return ()
        stack = _Model(encoder.alone(self.model.name), self.form, self.cache, self.chunks, self.symbols, encoder)
        layers = [
            Layer(name=f"encoder {stage.name}", times=stage.times, lines=stage.lines, runs="encoder", block=stage.block)
            for stage in stack.layers()
        ]
        first = Stage(name="encoder embedding", lines=tuple(stack.embedding()), runs="encoder")
        last = Stage(name="encoder output", lines=tuple(stack.output()), runs="encoder")
        return (first, *layers, last)

    def layers(self) -> list[Layer]:
        layers = []
        names: dict[str, int] = {}
        for block, count in self.model.groups():
            names[block.name] = names.get(block.name, 0) + 1
            name = block.name if names[block.name] == 1 else f"{block.name} ({names[block.name]})"
            lines = tuple(self.block(block))
            passes = block.looped.passes if block.looped is not None else 1
            layers.append(Layer(name=name, passes=passes, times=count, lines=lines, runs="layer", block=block))
        return layers

    def equations(self) -> Equations:
        first = Stage(name="embedding", lines=tuple(self.embedding()))
        encoder = self.encoder()
        layers = self.layers()
        output = Stage(name="output", lines=tuple(self.output()))
        mtp, module = None, self.model.mtp
        if module is not None:
            lines = tuple(self.mtp(module))
            mtp = Layer(name="mtp", times=module.n, lines=lines, runs="mtp", block=module.block)
        return Equations(
            encoder=encoder,
            embedding=first,
            layers=tuple(layers),
            output=output,
            mtp=mtp,
            symbols=self.symbols.values,
        )

    def lines(self, prefix: Prefix | str, component: str, scope: dict[str, Index] | None = None) -> Lines:
        return Lines(prefix, component, {**self.base, **(scope or {})}, self.symbols)

    def parts(self, out: list[Line], token: str = "token(t)") -> Parts:
        return Parts(self.of, self.base, out, token)

    # embedding and output

    def width(self) -> Index:
        """What the token table's columns run over."""
        width = self.model.embedding.width
        return self.d if width == self.d.size else self.symbols.index("d_embed", width, "channels")

    def embedding(self) -> list[Line]:
        e, beside = self.model.embedding, self.beside
        lines = self.lines("embedding", "embedding", embedding.scope(e, self.c, self.width(), self.symbols))
        whole = 2 if self.model.altup is None and self.model.streams is None else 0  # else kept as one of the streams
        if beside is not None and beside.front is not None:
            lines.scope |= embedding.front_scope(beside.front, self.d, self.symbols)
            embedding.frames(lines.under("other"), beside.front, 0 if e.position == "learned" else whole)
            embedding.positions(lines, e, "x[t,i]", whole)
        else:
            narrow, tied = e.width != self.d.size, beside is not None and beside.tokens == "shared"
            embedding.embed(lines, e, narrow, whole, tied, self.token)
        self.distances(lines)
        if self.model.canvas is not None:
            own = self.lines("canvas", "other", canvas.scope(self.model.canvas, self.symbols))
            canvas.enter(own, self.model.canvas, e)
            lines.lines += own.lines
        if self.model.dropout is not None and self.model.dropout.residual:
            drop(lines, "x[t,i]")
        if self.model.per_layer_embedding is not None:
            self.per_layer_table(lines)
        if self.model.learned_frequencies:
            lines.scope["ϕ"] = self.symbols.index("n_frequencies", self.model.learned_frequencies, "frequencies")
            rotation = lines.under("other", "rope")
            rotation.pointwise("f_ω[ϕ] = exp(α_F[ϕ])", α_F="alpha")
        if self.model.bounded is not None:
            lines.scope |= linear.bounds_scope(self.model.bounded, self.n_layers, self.symbols)
            linear.bounds(lines.under("recurrent", ""), self.model.bounded)
        if self.model.averaged_residuals:
            lines.pointwise(FIRST_SUM)
        if self.model.mtp is not None or self.model.keeps_embedding:
            lines.pointwise("x_0[t,i] = x[t,i]")
        if self.model.target is not None:
            lines.scope |= embedding.states_scope(self.model.target, self.d, self.symbols)
            embedding.states(lines.under("other", "states"), self.model.target, whole)
        if self.model.altup is not None:
            streams = self.streams(self.model.altup)
            altup.spread(streams)
            lines.lines += streams.lines
        if self.model.streams is not None:
            lines.scope |= self.streams_scope()
            hyper.begin(lines)
        return lines.lines

    def distances(self, lines: Lines) -> None:
        """What all layers share of learned distances."""
        mixers = [m for m in self.model.mixers() if isinstance(m, Attention)]
        for a in mixers:
            if (a.scores.buckets is not None and a.scores.buckets.shared) or a.scores.disentangled is not None:
                lines.scope |= attention_heads.scope(a, self.d, self.symbols)
                shared = lines.under("attention", "")
                if a.scores.buckets is not None:
                    heads, types = attention_heads.head_indices(a)[0], self.model.embedding.type_of
                    relative.bucket_bias(shared, a, a.scores.buckets, heads, types)
                if a.scores.disentangled is not None:
                    relative.table(shared, a.scores.disentangled)
                return

    def streams_scope(self) -> dict[str, Index]:
        return hyper.scope(self.model.streams, self.symbols) if self.model.streams is not None else {}

    def streams_end(self) -> list[Line]:
        """The streams joined for the final norm, where there are several."""
        if self.model.streams is None:
            return []
        lines = self.lines("head.streams", "other", self.streams_scope())
        hyper.end(lines, self.model.streams)
        return lines.lines

    def streams(self, spec: AltUp) -> Lines:
        """Lines about the streams of alternating updates."""
        return self.lines("altup", "other", altup.scope(spec, self.d, self.symbols))

    def per_layer_table(self, lines: Lines) -> None:
        """Gemma 3n: one slice of width d_ple a layer, from a table of its own and from the embedding."""
        ple = self.model.per_layer_embedding
        assert ple is not None
        width = self.symbols.index("d_ple", ple.d, "channels")
        lines.scope |= {
            "b": self.symbols.index("v_ple", ple.v, "vocabulary", shard="vocab"),
            "p": width,
            "ĺ": self.symbols.index("n_layers", self.model.n_layers, "layers"),
        }
        other = lines.under("other", "ple")
        row = (
            f"{{token(t) if token(t) < {lines.scope['b'].symbol}; 0 otherwise}}" if ple.v < self.model.v else "token(t)"
        )
        other.pointwise(f"x_L[t,ĺ,p] = {root(width)}·E_L[b,ĺ,p], b = {row}", E_L=Mark("token", "tokens"))
        other.sum("r_L[t,ĺ,p] = Σ_i x[t,i]·W_LP[i,ĺ,p]", saved=2, W_LP=Mark("projection", "slices"))
        norm_line(other, ple.norm, "r_L[t,ĺ,p]", "r_L[t,ĺ,p]/√d", "p", "norm", name="_P")
        other.pointwise("x_L[t,ĺ,p] = (x_L[t,ĺ,p] + r_L[t,ĺ,p])/√2", saved=2)

    def output(self) -> list[Line]:
        own = self.model.head
        lines = self.lines("", "output", head.scope(own, self.d, self.width(), self.symbols))
        source = "x[t,i]"
        if self.model.attention_residuals is not None:
            mixed = self.lines("sums", "other", residuals.scope(self.model.sums))
            residuals.mixture(mixed, self.model.attention_residuals, "", wanted=True)
            lines.lines += mixed.lines
            source = "x_Z[t,i]"
        if self.model.altup is not None:
            streams = self.streams(self.model.altup)
            altup.merge(streams)
            lines.lines += streams.lines
        target = self.model.target
        if target is not None and target.block is not None and not target.shifted:  # the first slot's token is known
            lines.scope["t"] = self.symbols.derived("block−1", target.block - 1, "slots")
            source = "x[t + 1,i]"
        if own.norm is not None:
            norm_line(lines.under("norm"), own.norm, "n[t,i]", source, "i", "final_norm", saved=2)
        else:
            lines.pointwise(f"n[t,i] = {source}")
        if own.pooler is not None:
            head.pooled(lines, own.pooler)
        if self.beside is not None:
            lines.pointwise("x_S[t,i] = n[t,i]")
        if own.vocabulary:
            head.logits(lines, own, self.model.embedding, self.width() != self.d, self.model.canvas is not None)
        return [*self.streams_end(), *lines.lines]

    # layers

    def block(self, block: Block) -> list[Line]:
        out: list[Line] = []
        if block.looped is not None and block.looped.begins:
            first = self.lines("loop", "other")
            loops.begin(first, block.looped)
            out.extend(first.lines)
        spec = self.model.altup
        if spec is None:
            self.parts(out).parts(block)
        else:
            before, after = self.streams(spec), self.streams(spec)
            altup.predict(before, spec)
            out.extend(before.lines)
            self.parts(out).parts(block)
            altup.correct(after, spec, self.model.per_layer_embedding is not None)
            out.extend(after.lines)
        out.extend(self.block_end())
        if block.looped is not None and block.looped.ends:
            last = self.lines("loop", "other")
            loops.end(last, block.looped)
            out.extend(last.lines)
        return out

    def block_end(self) -> list[Line]:
        """What every layer ends with in models that have it."""
        lines: list[Line] = []
        ple = self.model.per_layer_embedding
        several = self.model.altup is not None
        streams = altup.scope(self.model.altup, self.d, self.symbols) if self.model.altup is not None else {}
        if ple is not None:
            scope = {"p": self.symbols.index("d_ple", ple.d, "channels"), **streams}
            part = self.lines("ple", "other", scope)
            part.sum("G_L[t,p] = Σ_i x[t,i]·W_LG[i,p]", saved=2, W_LG="gate")
            active = mlp.Activation(ple.activation).text("G_L[t,p]", "G_L[t,p]")
            part.pointwise(f"G_L[t,p] = {active}·x_L[t,layer,p]", saved=2)
            part.sum("y[t,i] = Σ_p G_L[t,p]·W_LY[p,i]", saved=2, W_LY="out")
            norm_line(part, ple.norm, "y[t,i]", "y[t,i]", "i", "post_norm", name="_Y")
            if several:
                part.pointwise("X[t,λ,i] = X[t,λ,i] + {0 if λ = 0; y[t,i] otherwise}", saved=2)
            else:
                part.pointwise("x[t,i] = x[t,i] + y[t,i]", saved=2)
            lines += part.lines
        if self.model.layer_scalar:
            scalar = self.lines("", "other", {**streams, **self.streams_scope()})
            stream = "X[t,λ,i]" if several or self.model.streams is not None else "x[t,i]"
            scalar.pointwise(f"{stream} = s_x[]·{stream}", saved=2, s_x="layer_scalar")
            lines += scalar.lines
            if self.model.canvas is not None:
                own = self.lines("canvas", "other", canvas.tokens(self.symbols))
                own.pointwise("x_cvs[ç,i] = s_cvs[]·x_cvs[ç,i]", s_cvs="layer_scalar")
                lines += own.lines
        return lines

    # multi-token prediction

    def mtp(self, mtp: MTP) -> list[Line]:
        """DeepSeek-V3 (arXiv:2412.19437, §2.2): the last hidden state and the next token's embedding, joined."""
        d, streams = self.d.size, self.model.streams is not None
        scope = {"ϊ": self.symbols.derived("2·d", 2 * d, "channels"), **self.streams_scope()}
        lines = self.lines("", "mtp", scope)
        norm = mtp.norm
        x, h, here = ("X[t,λ,i]", "n_H[t,λ,i]", "t,λ") if streams else ("x[t,i]", "n_H[t,i]", "t")
        norm_line(lines, norm, "n_E[t,i]", "x_0[t + module + 1,i]", "i", "embedding_norm", name="_e", saved=2)
        norm_line(lines, norm, h, x, "i", "hidden_norm", name="_h")
        lines.pointwise(f"x_M[{here},ϊ] = {{n_E[t,ϊ] if ϊ < d; n_H[{here},ϊ − d] otherwise}}", saved=2)
        lines.sum(f"{x} = Σ_ϊ x_M[{here},ϊ]·W_M[ϊ,i]", saved=2, W_M="projection")
        out = list(lines.lines)
        self.parts(out, "token(t + module + 1)").parts(mtp.block)
        out.extend(self.streams_end())
        last = self.lines("", "mtp")
        norm_line(last, norm, "n[t,i]", "x[t,i]", "i", "norm", name="_m", saved=2)
        if not streams:
            last.pointwise("x[t,i] = n[t,i]")
        return out + last.lines
