"""The lines of one block: sublayers one behind the other and side by side, each with its way back to the stream."""

from __future__ import annotations

from msgspec.structs import replace

from gptcalc.architecture import (
    Attention,
    AttentionResiduals,
    Block,
    Engram,
    Looped,
    Mixer,
    Part,
    Prefix,
    Prefixes,
    Streams,
    Sublayer,
    stem,
)
from gptcalc.equations import hyper, kinds, loops, residuals
from gptcalc.equations.convolution import OF_OUTPUT, convolution_scope
from gptcalc.equations.kinds import Around
from gptcalc.equations.language import Index, Line
from gptcalc.equations.lines import Lines
from gptcalc.equations.norms import norm_line
from gptcalc.equations.sublayer import NEXT, NEXT_SUM, enter, leave, summed


class Parts:
    """Walks one block's parts; the second sublayer of a kind is attn2, mlp2, …"""

    def __init__(self, of: Around, base: dict[str, Index], out: list[Line], token: str) -> None:
        """`base`: what the letters of every line run over; `token`: which one is read at position t."""
        self.of = of
        self.model = of.model
        self.base = base
        self.out = out
        self.token = token
        self.prefixes = Prefixes()
        self.source = "x[t,i]"  # what the next sublayer reads
        self.looped: Looped | None = None
        residual = of.model.dropout
        self.dropout = residual is not None and residual.residual

    def lines(
        self, prefix: Prefix | str, component: str, scope: dict[str, Index] | None = None, section: str = ""
    ) -> Lines:
        return Lines(prefix, component, {**self.base, **(scope or {})}, self.of.symbols, section)

    def streams_scope(self) -> dict[str, Index]:
        return hyper.scope(self.model.streams, self.of.symbols) if self.model.streams is not None else {}

    def parts(self, block: Block, given: bool = False) -> None:
        """`given`: what the first part reads is normed already."""
        self.looped = block.looped or self.looped
        for part in block.parts:
            if self.model.streams is not None:
                self.streamed(part, self.model.streams)
            else:
                self.part(part, given)
            given = False

    def streamed(self, part: Part, s: Streams) -> None:
        """A part whose input is joined from several streams, and whose output is spread over them."""
        (mixer,) = part.units
        assert isinstance(mixer, Sublayer)
        if isinstance(mixer, Engram):
            self.beside(mixer)
            return
        lines = self.lines(self.prefixes.next("streams"), "other", self.streams_scope())
        hyper.join(lines, s)
        self.out.extend(lines.lines)
        self.sublayer(mixer, "Δ", False)
        behind = self.lines(lines.prefix, "other", lines.scope)
        hyper.spread(behind, s)
        self.out.extend(behind.lines)

    def beside(self, mixer: Engram) -> None:
        """A sublayer that reads all streams as they are, normed, and joins each."""
        assert mixer.norm is not None
        lines = self.lines(
            self.prefixes.next(stem(mixer)), kinds.component(mixer), kinds.scope(mixer, self.of), mixer.section
        )
        norm_line(lines.under("norm"), mixer.norm, "n[t,λ,i]", "X[t,λ,i]", "i", "norm", "λ,i", saved=2)
        kinds.write(lines, mixer, self.of, self.token)
        lines.pointwise("X[t,λ,i] = X[t,λ,i] + y[t,λ,i]", saved=2)
        self.out.extend(lines.lines)

    def part(self, part: Part, given: bool) -> None:
        given = given or part.norm is not None
        if len(part.units) == 1 and isinstance(part.units[0], Sublayer):
            self.sublayer(part.units[0], "x", given, part)
            return
        shared = self.lines(self.prefixes.next("parallel"), "norm")
        if part.norm is not None:
            norm_line(shared, part.norm, "n[t,i]", "x[t,i]", "i", "norm", saved=2)
        self.out.extend(shared.lines)
        shares = [f"Δ{'′' * number}" for number in range(len(part.units))]
        for unit, share in zip(part.units, shares, strict=True):
            if isinstance(unit, Block):
                self.nested(unit, given, share)
            else:
                self.sublayer(unit, share, given)
        end = self.lines(shared.prefix, "norm")
        whole = " + ".join(f"{share}[t,i]" for share in shares)
        if part.out_norm is not None:
            end.pointwise(f"Δ[t,i] = {whole}")
            if part.scale != 1.0:
                end.pointwise(f"Δ[t,i] = {end.factor('scale_y', part.scale)}Δ[t,i]")
            norm_line(end, part.out_norm, "Δ[t,i]", "Δ[t,i]", "i", "out_norm", name="_Δ", saved=2)
            whole = "Δ[t,i]"
        elif part.scale != 1.0:
            whole = f"{end.factor('scale_y', part.scale)}({whole})"
        averaged = self.model.averaged_residuals
        if averaged:
            end.pointwise(NEXT_SUM)
            whole = f"({whole})" if len(shares) > 1 else whole
        end.pointwise(summed(whole, averaged), saved=2)
        self.out.extend(end.lines)

    def nested(self, block: Block, given: bool, share: str) -> None:
        """What a block in parallel with others adds: the stream behind it less the one before it, which goes on."""
        kept = ("x", "n") if given else ("x",)
        before, behind = self.lines("", "norm"), self.lines("", "norm")
        for name in kept:
            before.pointwise(f"{name}_V[t,i] = {name}[t,i]")
        self.out.extend(before.lines)
        self.parts(block, given)
        behind.pointwise(f"{share}[t,i] = x[t,i] − x_V[t,i]")
        for name in kept:
            behind.pointwise(f"{name}[t,i] = {name}_V[t,i]")
        self.out.extend(behind.lines)

    def sublayer(self, mixer: Mixer, target: str, given: bool, part: Part | None = None) -> None:
        """`part`: the one that has this sublayer alone."""
        scope = kinds.scope(mixer, self.of)
        residual = mixer.residual
        if residual.low_rank is not None:
            scope["ľ"] = self.of.symbols.index("laurel_rank", residual.low_rank.rank, "channels", mixer.section)
        if mixer.norm_gate is not None:
            scope["ṅ"] = self.of.symbols.index("norm_rank", mixer.norm_gate.rank, "channels", mixer.section)
        if mixer.adaptive_norm is not None:
            rank = mixer.adaptive_norm.rank
            scope["ǹ"] = self.of.symbols.index("adaptive_rank", rank, "channels", mixer.section)
        if residual.conv is not None:
            scope |= convolution_scope(residual.conv, mixer.section, self.of.symbols, OF_OUTPUT)
        if mixer.projected:
            scope["ϋ"] = self.of.d
        prefix = replace(self.prefixes.next(stem(mixer)), shared=mixer.section if mixer.tied else "")
        lines = self.lines(prefix, kinds.component(mixer), scope, mixer.section)
        begins = None
        spec = self.model.attention_residuals
        if spec is not None and part is not None:
            if part.sums:
                self.mix(lines, mixer, part, spec)
            begins = max(part.sums - 1, 0) if part.begins else None
        inputs = [self.source]
        if mixer.messages is not None and self.looped is not None and spec is not None:
            loop, symbols = self.looped, self.of.symbols
            inputs = loops.hear(lines, mixer, mixer.messages, loop, spec, self.source, symbols)
        enter(lines, mixer, given, *inputs)
        self.source = NEXT if mixer.goal != "stream" else "x[t,i]"
        kinds.write(lines, mixer, self.of, self.token)
        if self.looped is not None and self.looped.caches == "last":
            loops.kept_by_the_last(lines)
        leave(lines, mixer, self.dropout, target, self.model.averaged_residuals, begins)
        self.out.extend(lines.lines)

    def mix(self, lines: Lines, mixer: Mixer, part: Part, spec: AttentionResiduals) -> None:
        """What a sublayer reads of all sums of the stream."""
        several = isinstance(mixer, Attention) and mixer.own_inputs
        lines.scope |= residuals.scope(part.sums, 3 if several else 1)
        residuals.mixture(lines.under("other"), spec)
        self.source = "x_Z[t,ỵ,i]" if several else "x_Z[t,i]"
