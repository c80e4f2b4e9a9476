"""The whole model: the stages of a forward pass, each a list of lines and how often it runs."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, TypeAlias, assert_never

from msgspec import Struct

from gptcalc.architecture import (
    MTP,
    AltUp,
    Architecture,
    Attention,
    Block,
    CompressedAttention,
    Experts,
    GatedRecurrence,
    LatentAttention,
    LinearAttention,
    Mamba,
    Mamba2,
    MatrixLSTM,
    Mixer,
    Mlp,
    Part,
    Prefix,
    Prefixes,
    Rope,
    ShortConvolution,
    Streams,
    Sublayer,
    stem,
    sublayers,
)
from gptcalc.conventions import CacheForm, Form
from gptcalc.equations import altup, attention, compressed, hyper, latent, linear, mamba, mlp, recurrent
from gptcalc.equations.conditions import Wanted, Workload
from gptcalc.equations.language import Index, Line, Lines, Mark, number, plus, signed
from gptcalc.equations.norms import (
    FIRST_SUM,
    NEXT_SUM,
    OF_OUTPUT,
    convolution_scope,
    drop,
    enter,
    leave,
    norm_line,
    summed,
)
from gptcalc.equations.rope import Rotation
from gptcalc.equations.symbols import Symbols


def component(mixer: Mixer) -> str:
    """Under which component a sublayer's own weights count."""
    match mixer:
        case Attention() | LatentAttention() | CompressedAttention():
            return "attention"
        case Mlp():
            return "mlp"
        case Experts():
            return "experts"
        case LinearAttention() | Mamba() | Mamba2() | ShortConvolution() | GatedRecurrence() | MatrixLSTM():
            return "recurrent"
        case _:
            assert_never(mixer)


#: when a stage runs: once a pass, in every layer of its kind, in every multi-token-prediction module, or once for the
#: source sequence
Runs: TypeAlias = Literal["once", "layer", "mtp", "encoder"]


class Stage(Struct, frozen=True, eq=False, kw_only=True):
    """Lines that run `times` times: the embedding, one kind of block, the output, the MTP modules."""

    name: str
    times: int = 1
    lines: tuple[Line, ...]
    runs: Runs = "once"

    def workload(self, work: Workload) -> Workload:
        """What the stage works on in a pass."""
        return work.encoder if self.runs == "encoder" else work


class Layer(Stage, frozen=True, eq=False, kw_only=True):
    """The lines of one kind of block."""

    block: Block


class Equations(Struct, frozen=True, eq=False, kw_only=True):
    """A model's forward pass, and the values of its symbols."""

    embedding: Stage
    layers: tuple[Layer, ...]  # one for each kind of block
    output: Stage
    mtp: Layer | None = None
    symbols: dict[str, int]

    @property
    def main(self) -> tuple[Stage, ...]:
        """What every pass runs."""
        return (self.embedding, *self.layers, self.output)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """All of it, multi-token prediction included."""
        return self.main if self.mtp is None else (*self.main, self.mtp)


def equations(architecture: Architecture, form: Form = "expanded", cache: CacheForm = "latent") -> Equations:
    """The forward pass of an architecture, latent attention in the given form and with the given cache."""
    mixers = (mixer for block, _ in architecture.groups() for mixer in sublayers(block))
    if not any(isinstance(mixer, LatentAttention) for mixer in mixers):
        form, cache = "expanded", "latent"  # no difference: one entry in the memory below
    return remembered(architecture, form, cache)


@lru_cache(maxsize=32)
def remembered(architecture: Architecture, form: Form, cache: CacheForm) -> Equations:
    return _Model(architecture, form, cache).equations()


class _Model:
    def __init__(self, architecture: Architecture, form: Form, cache: CacheForm) -> None:
        self.model = architecture
        self.form = form
        self.cache = cache
        self.symbols = Symbols()
        self.d = self.symbols.index("d", architecture.d, "channels")
        self.v = self.symbols.index("v", architecture.v, "vocabulary", shard="vocab")
        self.symbols.index("n_layers", architecture.n_layers, "layers")
        self.base = {"t": Index("T", 0, "new"), "s": Index("S", 0, "past"), "i": self.d, "u": self.v}

    def equations(self) -> Equations:
        embedding = Stage(name="embedding", lines=tuple(self.embedding()))
        layers = []
        names: dict[str, int] = {}
        for block, count in self.model.groups():
            names[block.name] = names.get(block.name, 0) + 1
            name = block.name if names[block.name] == 1 else f"{block.name} ({names[block.name]})"
            lines = tuple(self.block(block))
            layers.append(Layer(name=name, times=count, lines=lines, runs="layer", block=block))
        output = Stage(name="output", lines=tuple(self.output()))
        mtp, module = None, self.model.mtp
        if module is not None:
            lines = tuple(self.mtp(module))
            mtp = Layer(name="mtp", times=module.n, lines=lines, runs="mtp", block=module.block)
        return Equations(
            embedding=embedding, layers=tuple(layers), output=output, mtp=mtp, symbols=self.symbols.values
        )  # fmt: skip

    def lines(self, prefix: Prefix | str, component: str, scope: dict[str, Index] | None = None) -> Lines:
        return Lines(prefix, component, {**self.base, **(scope or {})})

    # embedding and output

    def widths(self) -> tuple[str, Index]:
        """The index letter of the token table's columns, and what it runs over."""
        width = self.model.embedding.width
        return ("i", self.d) if width == self.d.size else ("ϱ", self.symbols.index("d_embed", width, "channels"))

    def embedding(self) -> list[Line]:
        e = self.model.embedding
        letter, width = self.widths()
        scope = {letter: width}
        if e.position == "learned":
            rows = self.symbols.index("c", self.model.c, "positions")
            extra = e.rows - self.model.c
            scope["τ"] = rows if extra == 0 else self.symbols.derived(f"c+{extra}", e.rows, "positions")
        lines = self.lines("embedding", "embedding", scope)
        scale = "" if e.scale == 1.0 else f"{signed(e.scale)}·"
        whole = 2 if self.model.altup is None and self.model.streams is None else 0  # else kept as one of the streams
        first = 0 if e.position == "learned" else whole  # with a position added, only the sum is needed again
        if letter == "i":
            lines.pointwise(f"x[t,i] = {scale}E[u,i], u = token(t)", saved=first, E=Mark("token", "tokens"))
        else:
            lines.pointwise("x_E[t,ϱ] = E[u,ϱ], u = token(t)", saved=2, E=Mark("token", "tokens"))
            lines.sum("x[t,i] = Σ_ϱ x_E[t,ϱ]·W_E[ϱ,i]", None, 0 if scale else first, "other", W_E="projection")
            if scale:
                lines.pointwise(f"x[t,i] = {scale}x[t,i]", saved=first)
        if e.position == "learned":
            row = f"t + {e.offset}" if e.offset else "t"
            lines.pointwise(f"x[t,i] = x[t,i] + P[τ,i], τ = {row}", saved=whole, P=Mark("position", "positions"))
        elif e.position == "sinusoidal":
            position = f"t + {e.offset}" if e.offset else "t"
            angle = f"({position})/10000^(2·⌊i/2⌋/d)"
            lines.pointwise(f"x[t,i] = x[t,i] + {{sin({angle}) if i = 2·⌊i/2⌋; cos({angle}) otherwise}}")
        if e.norm is not None:
            norm_line(lines.under("norm"), e.norm, "x[t,i]", "x[t,i]", "i", "norm", saved=whole)
        if self.model.dropout is not None and self.model.dropout.residual:
            drop(lines, "x[t,i]")
        if self.model.per_layer_embedding is not None:
            self.per_layer_table(lines)
        if self.model.learned_frequencies:
            lines.scope["ϕ"] = self.symbols.index("n_frequencies", self.model.learned_frequencies, "frequencies")
            rotation = lines.under("other", "rope")
            rotation.pointwise("f_ω[ϕ] = exp(α_F[ϕ])", α_F="alpha")
        if self.model.averaged_residuals:
            lines.pointwise(FIRST_SUM)
        if self.model.mtp is not None:
            lines.pointwise("x_0[t,i] = x[t,i]")
        if self.model.altup is not None:
            streams = self.streams(self.model.altup)
            altup.spread(streams)
            lines.lines += streams.lines
        if self.model.streams is not None:
            lines.scope |= self.streams_scope()
            hyper.begin(lines)
        return lines.lines

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
            "ς": self.symbols.index("n_layers", self.model.n_layers, "layers"),
        }
        other = lines.under("other", "ple")
        row = f"{{token(t) if token(t) < {ple.v}; 0 otherwise}}" if ple.v < self.model.v else "token(t)"
        other.pointwise(f"x_L[t,ς,p] = √{ple.d}·E_L[b,ς,p], b = {row}", E_L=Mark("token", "tokens"))
        other.sum("r_L[t,ς,p] = Σ_i x[t,i]·W_LP[i,ς,p]", saved=2, W_LP=Mark("projection", "slices"))
        norm_line(other, ple.norm, "r_L[t,ς,p]", "r_L[t,ς,p]/√d", "p", "norm", name="_P")
        other.pointwise("x_L[t,ς,p] = (x_L[t,ς,p] + r_L[t,ς,p])/√2", saved=2)

    def output(self) -> list[Line]:
        head = self.model.head
        letter, width = self.widths()
        lines = self.lines("", "output", {letter: width})
        if self.model.altup is not None:
            streams = self.streams(self.model.altup)
            altup.merge(streams)
            lines.lines += streams.lines
        if head.norm is not None:
            norm_line(lines.under("norm"), head.norm, "n[t,i]", "x[t,i]", "i", "final_norm", saved=2)
        else:
            lines.pointwise("n[t,i] = x[t,i]")
        source = "n[t,i]"
        if letter != "i":
            lines.sum(f"n_E[t,{letter}] = Σ_i n[t,i]·W_H[i,{letter}]", Wanted(), 2, "other", W_H="head.projection")
            source = f"n_E[t,{letter}]"
        bias = plus("b_voc[u]", head.bias)
        if head.tying:
            table = Mark("embedding.token", "tokens", "embedding", tied=True)  # the same weight on a second line
            text = f"logits[t,u] = Σ_{letter} {source}·E[u,{letter}]{bias}"
            lines.sum(text, Wanted(), saved=4, E=table, b_voc="head.bias")
        else:
            text = f"logits[t,u] = Σ_{letter} {source}·W_voc[{letter},u]{bias}"
            lines.sum(text, Wanted(), saved=4, W_voc=Mark("head.weight", "logits"), b_voc="head.bias")
        if head.scale != 1.0:
            lines.pointwise(f"logits[t,u] = {signed(head.scale)}·logits[t,u]", Wanted())
        if head.softcap is not None:
            cap = number(head.softcap)
            lines.pointwise(f"logits[t,u] = {cap}·tanh(logits[t,u]/{cap})", Wanted())
        lines.pointwise("prob[t,u] = softmax_u(logits[t,u])", Wanted())
        return [*self.streams_end(), *lines.lines]

    # layers

    def block(self, block: Block) -> list[Line]:
        out: list[Line] = []
        spec = self.model.altup
        if spec is None:
            _Parts(self, out).parts(block)
        else:
            before, after = self.streams(spec), self.streams(spec)
            altup.predict(before, spec)
            out.extend(before.lines)
            _Parts(self, out).parts(block)
            altup.correct(after, spec, self.model.per_layer_embedding is not None)
            out.extend(after.lines)
        out.extend(self.block_end())
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
        return lines

    def mixer(self, lines: Lines, mixer: Mixer) -> None:
        dropout = self.model.dropout is not None and self.model.dropout.attention
        match mixer:
            case Attention():
                attention.attention(lines, mixer, self.rotation(mixer.rope, mixer.d_head), dropout)
            case LatentAttention():
                rotation = self.rotation(mixer.rope, mixer.d_rope)
                latent.latent_attention(lines, mixer, rotation, self.form, self.cache, dropout)
            case CompressedAttention():
                compressed.compressed_attention(lines, mixer, self.rotation(mixer.rope, mixer.d_head), dropout)
            case Mlp():
                mlp.mlp(lines, mixer)
            case Experts():
                mlp.experts(lines, mixer)
            case LinearAttention():
                linear.linear_attention(lines, mixer)
            case Mamba():
                mamba.mamba(lines, mixer)
            case Mamba2():
                mamba.mamba2(lines, mixer)
            case ShortConvolution():
                recurrent.short_convolution(lines, mixer)
            case GatedRecurrence():
                recurrent.gated_recurrence(lines, mixer)
            case MatrixLSTM():
                recurrent.matrix_lstm(lines, mixer)
            case _ as never:
                assert_never(never)

    def rotation(self, rope: Rope | None, width: int) -> Rotation | None:
        return Rotation(rope, width, self.model.c, bool(self.model.learned_frequencies)) if rope is not None else None

    def scope(self, mixer: Mixer) -> dict[str, Index]:
        match mixer:
            case Attention():
                return attention.scope(mixer, self.d, self.symbols)
            case LatentAttention():
                return latent.scope(mixer, self.d, self.symbols)
            case CompressedAttention():
                return compressed.scope(mixer, self.d, self.symbols)
            case Mlp():
                return mlp.mlp_scope(mixer, self.d, self.symbols)
            case Experts():
                return mlp.experts_scope(mixer, self.d, self.symbols)
            case LinearAttention():
                return linear.scope(mixer, self.d, self.symbols)
            case Mamba():
                return mamba.mamba_scope(mixer, self.d, self.symbols)
            case Mamba2():
                return mamba.mamba2_scope(mixer, self.d, self.symbols)
            case ShortConvolution():
                return recurrent.short_scope(mixer, self.d, self.symbols)
            case GatedRecurrence():
                return recurrent.rnn_scope(mixer, self.d, self.symbols)
            case MatrixLSTM():
                return recurrent.lstm_scope(mixer, self.d, self.symbols)
            case _ as never:
                assert_never(never)

    # multi-token prediction

    def mtp(self, mtp: MTP) -> list[Line]:
        """DeepSeek-V3 (arXiv:2412.19437, §2.2): the last hidden state and the next token's embedding, joined."""
        d, streams = self.d.size, self.model.streams is not None
        scope = {"κ": self.symbols.derived("2·d", 2 * d, "channels"), **self.streams_scope()}
        lines = self.lines("", "mtp", scope)
        norm = mtp.norm
        x, h, here = ("X[t,λ,i]", "n_H[t,λ,i]", "t,λ") if streams else ("x[t,i]", "n_H[t,i]", "t")
        norm_line(lines, norm, "n_E[t,i]", "x_0[t + module + 1,i]", "i", "embedding_norm", name="_e", saved=2)
        norm_line(lines, norm, h, x, "i", "hidden_norm", name="_h")
        lines.pointwise(f"x_M[{here},κ] = {{n_E[t,κ] if κ < {d}; n_H[{here},κ − {d}] otherwise}}", saved=2)
        lines.sum(f"{x} = Σ_κ x_M[{here},κ]·W_M[κ,i]", saved=2, W_M="projection")
        out = list(lines.lines)
        _Parts(self, out).parts(mtp.block)
        out.extend(self.streams_end())
        last = self.lines("", "mtp")
        norm_line(last, norm, "n[t,i]", "x[t,i]", "i", "norm", name="_m", saved=2)
        if not streams:
            last.pointwise("x[t,i] = n[t,i]")
        return out + last.lines


class _Parts:
    """Walks one block's parts; the second sublayer of a kind is attn2, mlp2, …"""

    def __init__(self, model: _Model, out: list[Line]) -> None:
        self.model = model
        self.out = out
        self.prefixes = Prefixes()
        residual = model.model.dropout
        self.dropout = residual is not None and residual.residual

    def parts(self, block: Block, given: bool = False) -> None:
        """`given`: what the first part reads is normed already."""
        for part in block.parts:
            if self.model.model.streams is not None:
                self.streamed(part, self.model.model.streams)
            else:
                self.part(part, given)
            given = False

    def streamed(self, part: Part, s: Streams) -> None:
        """A part whose input is joined from several streams, and whose output is spread over them."""
        (mixer,) = part.units
        assert isinstance(mixer, Sublayer)
        lines = self.model.lines(self.prefixes.next("streams"), "other", self.model.streams_scope())
        hyper.join(lines, s)
        self.out.extend(lines.lines)
        self.sublayer(mixer, "Δ", False)
        behind = self.model.lines(lines.prefix, "other", lines.scope)
        hyper.spread(behind)
        self.out.extend(behind.lines)

    def part(self, part: Part, given: bool) -> None:
        given = given or part.norm is not None
        if len(part.units) == 1 and isinstance(part.units[0], Sublayer):
            self.sublayer(part.units[0], "x", given)
            return
        shared = self.model.lines(self.prefixes.next("parallel"), "norm")
        if part.norm is not None:
            norm_line(shared, part.norm, "n[t,i]", "x[t,i]", "i", "norm", saved=2)
        self.out.extend(shared.lines)
        shares = [f"Δ{'′' * number}" for number in range(len(part.units))]
        for unit, share in zip(part.units, shares, strict=True):
            if isinstance(unit, Block):
                self.nested(unit, given, share)
            else:
                self.sublayer(unit, share, given)
        end = self.model.lines(shared.prefix, "norm")
        whole = " + ".join(f"{share}[t,i]" for share in shares)
        if part.out_norm is not None:
            end.pointwise(f"Δ[t,i] = {whole}")
            if part.scale != 1.0:
                end.pointwise(f"Δ[t,i] = {signed(part.scale)}·Δ[t,i]")
            norm_line(end, part.out_norm, "Δ[t,i]", "Δ[t,i]", "i", "out_norm", name="_Δ", saved=2)
            whole = "Δ[t,i]"
        elif part.scale != 1.0:
            whole = f"{signed(part.scale)}·({whole})"
        averaged = self.model.model.averaged_residuals
        if averaged:
            end.pointwise(NEXT_SUM)
            whole = f"({whole})" if len(shares) > 1 else whole
        end.pointwise(summed(whole, averaged), saved=2)
        self.out.extend(end.lines)

    def nested(self, block: Block, given: bool, share: str) -> None:
        """What a block in parallel with others adds: the stream behind it less the one before it, which goes on."""
        kept = ("x", "n") if given else ("x",)
        before, behind = self.model.lines("", "norm"), self.model.lines("", "norm")
        for name in kept:
            before.pointwise(f"{name}_P[t,i] = {name}[t,i]")
        self.out.extend(before.lines)
        self.parts(block, given)
        behind.pointwise(f"{share}[t,i] = x[t,i] − x_P[t,i]")
        for name in kept:
            behind.pointwise(f"{name}[t,i] = {name}_P[t,i]")
        self.out.extend(behind.lines)

    def sublayer(self, mixer: Mixer, target: str, given: bool) -> None:
        scope = self.model.scope(mixer)
        residual = mixer.residual
        if residual.low_rank is not None:
            scope["ϖ"] = self.model.symbols.index("laurel_rank", residual.low_rank.rank, "channels", mixer.section)
        if residual.conv is not None:
            scope |= convolution_scope(residual.conv, mixer.section, self.model.symbols, OF_OUTPUT)
        lines = self.model.lines(self.prefixes.next(stem(mixer)), component(mixer), scope)
        enter(lines, mixer, given)
        self.model.mixer(lines, mixer)
        leave(lines, mixer, self.dropout, target, self.model.model.averaged_residuals)
        self.out.extend(lines.lines)
