"""How a sublayer's input is taken from the residual stream, and its output added to it."""

from __future__ import annotations

from gptcalc.architecture import AdaptiveNorm, Attention, LowRankResidual, ResidualFactors, ResidualGate, Sublayer
from gptcalc.equations.convolution import OF_OUTPUT, convolve_beside
from gptcalc.equations.language import Mark
from gptcalc.equations.lines import Lines
from gptcalc.equations.norms import norm_line
from gptcalc.equations.residuals import set_aside

#: what a sublayer reads in place of the stream where the one before it sent its output past the stream
NEXT = "x_N[t,i]"


def enter(lines: Lines, sublayer: Sublayer, given: bool, source: str = "x[t,i]", *others: str) -> None:
    """n: what the sublayer reads, the residual stream x or another source, normed where the norm stands in front.

    `given`: a norm shared with parallel units has made n already; `others`: sources of keys and values.
    """
    if isinstance(sublayer, Attention) and sublayer.with_embedding:
        assert sublayer.norm is not None
        d, stream = lines.scope["i"].symbol, source.replace("i", "ϊ")
        if sublayer.with_embedding == "apart":
            norms = lines.under("norm")
            norm_line(norms, sublayer.norm, "n_E[t,i]", "x_0[t,i]", "i", "embedding_norm", name="_e")
            norm_line(norms, sublayer.norm, "n[t,i]", source, "i", "norm")
            lines.pointwise(f"n_C[t,ϊ] = {{n_E[t,ϊ] if ϊ < {d}; n[t,ϊ − {d}] otherwise}}", saved=2)
            return
        lines.pointwise(f"x_C[t,ϊ] = {{{stream} if ϊ < {d}; x_0[t,ϊ − {d}] otherwise}}", saved=2)
        norm_line(lines.under("norm"), sublayer.norm, "n_C[t,ϊ]", "x_C[t,ϊ]", "ϊ", "norm", saved=2)
    elif isinstance(sublayer, Attention) and sublayer.inputs > 1:
        assert sublayer.norm is not None
        sources = (source, *others) if others else [source.replace("ỵ", str(n)) for n in range(sublayer.inputs)]
        for own, name in zip(sources, ("", "_K", "_V"), strict=True):
            end = name if sublayer.own_inputs else ""
            key = f"{name[1:].lower()}_input_norm" if end else "norm"
            norm_line(lines.under("norm"), sublayer.norm, f"n{name}[t,i]", own, "i", key, name=end, saved=2)
    elif sublayer.norm is not None and sublayer.norms_input:
        norm_line(lines.under("norm"), sublayer.norm, "n[t,i]", source, "i", "norm", saved=2)
        if sublayer.adaptive_norm is not None:
            _adapt(lines.under("norm"), sublayer.adaptive_norm)
        if sublayer.norm_gate is not None:
            _gate(lines.under("norm"))
    elif not given:
        lines.pointwise(f"n[t,i] = {source}")


def _gate(lines: Lines) -> None:
    """What was normed, times its gate."""
    lines.sum("ℓ_N[t,ṅ] = Σ_i n[t,i]·A_N[i,ṅ]", saved=2, A_N="norm.gate_a")
    lines.pointwise("ℓ_N[t,ṅ] = silu(ℓ_N[t,ṅ])", saved=2)
    lines.sum("G_N[t,i] = Σ_ṅ ℓ_N[t,ṅ]·B_N[ṅ,i]", saved=2, B_N="norm.gate_b")
    lines.pointwise("n[t,i] = σ(G_N[t,i])·n[t,i]", saved=2)


#: of cosines and sines of a number, as of positions (arXiv:1706.03762, §3.5)
BASE = 10000.0


def _adapt(lines: Lines, adaptive: AdaptiveNorm) -> None:
    """What was normed, times a factor that one number for all tokens gives."""
    half, time, base = f"{lines.scope['i'].symbol}/2", lines.number("time", adaptive.time), lines.number("θ", BASE)
    first, second = (f"{time}/{base}^({i}/({half}))" for i in ("i", f"(i − {half})"))
    lines.pointwise(f"u_A[i] = {{cos({first}) if i < {half}; sin({second}) otherwise}}", saved=2)
    lines.sum("ℓ_A[ǹ] = Σ_i u_A[i]·A_A[i,ǹ]", saved=2, A_A="norm.adaptive_a")
    lines.pointwise("ℓ_A[ǹ] = gelu(ℓ_A[ǹ])", saved=2)
    lines.sum("f_A[i] = Σ_ǹ ℓ_A[ǹ]·B_A[ǹ,i]", saved=2, B_A="norm.adaptive_b")
    lines.pointwise("n[t,i] = (1 + f_A[i])·n[t,i]", saved=2)


def leave(
    lines: Lines,
    sublayer: Sublayer,
    dropout: bool,
    target: str = "x",
    averaged: bool = False,
    begins: int | None = None,
) -> None:
    """x: the residual stream after the sublayer's output y, normed where the norm stands behind.

    In a parallel part the target is that unit's share of the sum, not x. averaged: the stream is a mean of all sums.
    begins: the stream is set aside, behind so many sums, and begins anew.
    """
    norm, at = sublayer.norm_behind, sublayer.norm_at
    if sublayer.projected:
        lines.pointwise("y_J[t,ϋ] = y[t,ϋ]", saved=2)
        lines.sum("y[t,i] = Σ_ϋ y_J[t,ϋ]·W_J[ϋ,i]", component="other", W_J=Mark("projection", own=True))
    if sublayer.residual.conv is not None:
        lines.pointwise("y′[t,i] = y[t,i]", saved=2)
        kernel = sublayer.residual.conv
        terms = kernel + 1 if sublayer.residual.conv_scaled else 0
        convolve_beside(lines, "y", "i", "conv", OF_OUTPUT, terms=terms)
    if dropout:
        drop(lines, "y[t,i]")
    if norm is not None and at != "post":
        norm_line(lines.under("norm"), norm, "y[t,i]", "y[t,i]", "i", "post_norm", name="′", saved=2)
    if sublayer.goal != "stream":
        lines.pointwise(f"{NEXT} = x[t,i] + y[t,i]" if sublayer.goal == "next_sum" else f"{NEXT} = y[t,i]", saved=2)
        return
    residual = sublayer.residual
    scale = lines.factor("scale_y", residual.scale)
    if residual.gate is not None:
        _mix(lines.under("other"), residual.gate, scale)
        return
    if residual.factors is not None:
        _multiplied(lines.under("other"), residual.factors, _stream(lines, sublayer), scale)
        return
    if residual.rate is not None:
        stream = _stream(lines, sublayer)
        share = f"abs({lines.factor('scale_λ', residual.rate.scale)}λ_x[i])"
        moved = f"x[t,i] = {stream} + {share}·({scale}y[t,i] − {stream})"
        lines.under("other").pointwise(moved, saved=2, λ_x="residual_rate")
        return
    y = f"{scale}y[t,i]"
    if begins is not None:
        set_aside(lines.under("other"), begins)
        lines.pointwise(f"x[t,i] = {y}", saved=2)
        return
    if target == "x" and averaged and residual.low_rank is None:
        lines.pointwise(NEXT_SUM)
    text = summed(y, averaged) if target == "x" else f"{target}[t,i] = {y}"
    if sublayer.keeps_normed:
        text = f"x[t,i] = {_stream(lines, sublayer)} + {y}"
    if residual.low_rank is not None:
        _low_rank(lines.under("other"), residual.low_rank)
        text = f"x[t,i] = (x[t,i] + {y} + n[t,i] + y_L[t,i])/√2"
    lines.pointwise(text, saved=2 if target == "x" else 0)
    if norm is not None and at == "post":
        norm_line(lines.under("norm"), norm, "x[t,i]", "x[t,i]", "i", "post_norm", name="′", saved=2)


def _stream(lines: Lines, sublayer: Sublayer) -> str:
    """What a sublayer's output joins: the stream, or what was normed of it."""
    if not sublayer.keeps_normed:
        return "x[t,i]"
    return f"{lines.factor('scale_n', sublayer.stream_scale)}n[t,i]"


#: N_x counts the summands of the stream where all of them weigh the same
FIRST_SUM, NEXT_SUM = "N_x[] = 1", "N_x[] = N_x[] + 1"


def summed(y: str, averaged: bool) -> str:
    """The stream with one more summand."""
    return f"x[t,i] = √(1 − 1/N_x[])·x[t,i] + √(1/N_x[])·{y}" if averaged else f"x[t,i] = x[t,i] + {y}"


def drop(lines: Lines, what: str) -> None:
    """Dropout: the mask is kept, one byte an element."""
    lines.pointwise("μ_x[t,i] = keep(t,i)", saved=1)
    lines.pointwise(f"{what} = dropout({what}, μ_x[t,i])")


def _mix(lines: Lines, gate: ResidualGate, scale: str) -> None:
    """The stream and the output, mixed with weights whose squares sum to 1."""
    lines.pointwise(f"β_x[i] = σ(w_x[i]/{lines.number('temperature', gate.temperature)})", w_x="residual_gate")
    lines.pointwise("α_x[i] = √max((1 − β_x[i])·(1 + β_x[i]), ε)", constants={"ε": gate.eps})
    lines.pointwise(f"x[t,i] = α_x[i]·x[t,i] + β_x[i]·{scale}y[t,i]", saved=2)


def _multiplied(lines: Lines, f: ResidualFactors, stream: str, scale: str) -> None:
    """The stream and the output, moved and multiplied channel by channel."""
    x, y = (f"({stream} + b_x[i])", f"({scale}y[t,i] + b_y[i])") if f.bias else (stream, f"{scale}y[t,i]")
    x = f"f_x[i]·{x}" if f.stream else x
    y = {"none": y, "channel": f"f_y[i]·{y}", "tanh": f"tanh(f_y[])·{y}"}[f.output]
    keys = {
        "f_x": "residual.stream",
        "f_y": "residual.output",
        "b_x": "residual.stream.bias",
        "b_y": "residual.output.bias",
    }
    lines.pointwise(f"x[t,i] = {x} + {y}", saved=2, **keys)  # type: ignore[arg-type]


def _low_rank(lines: Lines, residual: LowRankResidual) -> None:
    """l: what the sublayer read, through a bottleneck and normed."""
    lines.sum("ℓ[t,ľ] = Σ_i n[t,i]·A_L[i,ľ]", saved=2, A_L=Mark("laurel.left", "low rank"))
    lines.sum("y_L[t,i] = Σ_ľ ℓ[t,ľ]·B_L[ľ,i]", saved=2, B_L=Mark("laurel.right", "low rank"))
    norm_line(lines, residual.norm, "y_L[t,i]", "y_L[t,i]", "i", "laurel.norm", name="_L")
