"""Norms and residuals: how a sublayer's input is taken from the residual stream, and its output added to it."""

from __future__ import annotations

from typing import Any, TypeAlias

from gptcalc.architecture import LowRankResidual, Norm, ResidualFactors, ResidualGate, Sublayer
from gptcalc.equations.conditions import Condition, Constant
from gptcalc.equations.language import Index, Lines, Mark, number, signed
from gptcalc.equations.symbols import Symbols


def norm_line(
    lines: Lines,
    norm: Norm,
    target: str,
    source: str,
    over: str,
    key: str,
    weight: str = "",
    name: str = "",
    saved: int = 0,
    condition: Condition | None = None,
) -> None:
    """target = norm(source)·γ + β, the mean taken over the index `over`; γ has the indices `weight` (default: over)."""
    weight = weight or over
    gamma, beta = f"γ{name}", f"β{name}"
    keys: dict[str, Any] = {}
    factor = ""
    if norm.weight:
        factor = f"·(1 + {gamma}[{weight}])" if norm.offset else f"·{gamma}[{weight}]"
        keys[gamma] = f"{key}.weight"
    inside, outside = (factor, "") if norm.weight_at == "input" else ("", factor)
    letters = f"{{{over}}}" if "," in over else over
    text = f"{target} = {norm.kind}_{letters}({source}{inside}){outside}"
    if norm.bias:
        text += f" + {beta}[{weight}]"
        keys[beta] = f"{key}.bias"
    lines.pointwise(text, condition, saved=saved, constants={"ε": norm.eps}, **keys)


def enter(lines: Lines, sublayer: Sublayer, given: bool) -> None:
    """n: what the sublayer reads, the residual stream x, normed where the norm stands in front.

    `given`: a norm shared with parallel units has made n already.
    """
    if sublayer.norm is not None and sublayer.norm_at in ("pre", "sandwich", "stream"):
        norm_line(lines.under("norm"), sublayer.norm, "n[t,i]", "x[t,i]", "i", "norm", saved=2)
        if sublayer.norm_gate is not None:
            _gate(lines.under("norm"))
    elif not given:
        lines.pointwise("n[t,i] = x[t,i]")


def _gate(lines: Lines) -> None:
    """What was normed, times its gate."""
    lines.sum("ℓ_N[t,ṅ] = Σ_i n[t,i]·A_N[i,ṅ]", saved=2, A_N="norm.gate_a")
    lines.pointwise("ℓ_N[t,ṅ] = silu(ℓ_N[t,ṅ])", saved=2)
    lines.sum("G_N[t,i] = Σ_ṅ ℓ_N[t,ṅ]·B_N[ṅ,i]", saved=2, B_N="norm.gate_b")
    lines.pointwise("n[t,i] = σ(G_N[t,i])·n[t,i]", saved=2)


def leave(lines: Lines, sublayer: Sublayer, dropout: bool, target: str = "x", averaged: bool = False) -> None:
    """x: the residual stream after the sublayer's output y, normed where the norm stands behind.

    In a parallel part the target is that unit's share of the sum, not x. averaged: the stream is a mean of all sums.
    """
    norm, at = sublayer.norm_behind, sublayer.norm_at
    if sublayer.residual.conv is not None:
        lines.pointwise("y′[t,i] = y[t,i]", saved=2)
        convolve(lines, "y", "i", "conv", sublayer.residual.conv, OF_OUTPUT)
    if dropout:
        drop(lines, "y[t,i]")
    if norm is not None and at in ("output", "sandwich"):
        norm_line(lines.under("norm"), norm, "y[t,i]", "y[t,i]", "i", "post_norm", name="′", saved=2)
    residual = sublayer.residual
    scale = "" if residual.scale == 1.0 else f"{signed(residual.scale)}·"
    if residual.gate is not None:
        _mix(lines.under("other"), residual.gate, scale)
        return
    if residual.factors is not None:
        _multiplied(lines.under("other"), residual.factors, at, sublayer.stream_scale, scale)
        return
    y = f"{scale}y[t,i]"
    if target == "x" and averaged and residual.low_rank is None:
        lines.pointwise(NEXT_SUM)
    text = summed(y, averaged) if target == "x" else f"{target}[t,i] = {y}"
    if at == "stream":
        stream = "" if sublayer.stream_scale == 1.0 else f"{signed(sublayer.stream_scale)}·"
        text = f"x[t,i] = {stream}n[t,i] + {y}"
    if residual.low_rank is not None:
        _low_rank(lines.under("other"), residual.low_rank)
        text = f"x[t,i] = (x[t,i] + {y} + n[t,i] + y_L[t,i])/√2"
    lines.pointwise(text, saved=2 if target == "x" else 0)
    if norm is not None and at == "post":
        norm_line(lines.under("norm"), norm, "x[t,i]", "x[t,i]", "i", "post_norm", name="′", saved=2)


#: N counts the summands of the stream where all of them weigh the same
FIRST_SUM, NEXT_SUM = "N[] = 1", "N[] = N[] + 1"


def summed(y: str, averaged: bool) -> str:
    """The stream with one more summand."""
    return f"x[t,i] = √(1 − 1/N[])·x[t,i] + √(1/N[])·{y}" if averaged else f"x[t,i] = x[t,i] + {y}"


#: the letters of a convolution: the tokens that it reads, those of them that stay in the cache
ConvolutionLetters: TypeAlias = tuple[str, str]
OF_KEYS: ConvolutionLetters = ("κ", "ϰ")
OF_OUTPUT: ConvolutionLetters = ("ϑ", "ς")


def convolve(
    lines: Lines, name: str, rest: str, key: str, kernel: int, letters: ConvolutionLetters, saved: int = 0,
    alone: bool = False, bias: bool = False,
) -> None:  # fmt: skip
    """A symbol plus its causal convolution over the last `kernel` tokens, channel by channel (the indices `rest`);
    alone: the convolution in the symbol's place."""
    token, before = letters
    y, near = f"{name}[t,{rest}]", f"{name}_C[t,{token},{rest}]"
    weight, offset = f"W_C{name}", f"b_C{name}"
    lines.pointwise(f"{near} = {name}[t − {kernel - 1} + {token},{rest}]")
    added = f" + {offset}[{rest}]" if bias else ""
    text = f"{name}̂[t,{rest}] = Σ_{token} {near}·{weight}[{token},{rest}]{added}"
    lines.sum(text, component="" if alone else "other", **{weight: key, offset: f"{key}.bias"})  # type: ignore[arg-type]
    lines.store(f"R_{name}[{before},{rest}] = {name}[S − {kernel - 1} + {before},{rest}]", "convolution", Constant())
    lines.pointwise(f"{y} = {name}̂[t,{rest}]" if alone else f"{y} = {y} + {name}̂[t,{rest}]", saved=saved)


def convolution_scope(kernel: int, section: str, symbols: Symbols, letters: ConvolutionLetters) -> dict[str, Index]:
    """What the letters of a convolution run over."""
    token, before = letters
    tokens = symbols.index("kernel", kernel, "taps", section)
    return {token: tokens, before: symbols.derived(str(kernel - 1), kernel - 1, "taps")}


def drop(lines: Lines, what: str) -> None:
    """Dropout: the mask is kept, one byte an element."""
    lines.pointwise("μ_x[t,i] = keep(t,i)", saved=1)
    lines.pointwise(f"{what} = dropout({what}, μ_x[t,i])")


def _mix(lines: Lines, gate: ResidualGate, scale: str) -> None:
    """The stream and the output, mixed with weights whose squares sum to 1."""
    lines.pointwise(f"β_x[i] = σ(w_x[i]/{number(gate.temperature)})", w_x="residual_gate")
    lines.pointwise(f"α_x[i] = √max((1 − β_x[i])·(1 + β_x[i]), {number(gate.eps)})")
    lines.pointwise(f"x[t,i] = α_x[i]·x[t,i] + β_x[i]·{scale}y[t,i]", saved=2)


def _multiplied(lines: Lines, f: ResidualFactors, at: str, stream_scale: float, scale: str) -> None:
    """The stream and the output, moved and multiplied channel by channel."""
    stream = "x[t,i]" if at != "stream" else f"{signed(stream_scale)}·n[t,i]"
    x, y = (f"({stream} + b_x[i])", f"({scale}y[t,i] + b_y[i])") if f.bias else (stream, f"{scale}y[t,i]")
    x = f"f_x[i]·{x}" if f.stream else x
    y = {"none": y, "channel": f"f_y[i]·{y}", "tanh": f"tanh(f_y[])·{y}"}[f.output]
    keys = {"f_x": "residual.stream", "f_y": "residual.output", "b_x": "residual.stream.bias",
            "b_y": "residual.output.bias"}  # fmt: skip
    lines.pointwise(f"x[t,i] = {x} + {y}", saved=2, **keys)  # type: ignore[arg-type]


def _low_rank(lines: Lines, residual: LowRankResidual) -> None:
    """l: what the sublayer read, through a bottleneck and normed."""
    lines.sum("ℓ[t,ϖ] = Σ_i n[t,i]·A_L[i,ϖ]", saved=2, A_L=Mark("laurel.left", "low rank"))
    lines.sum("y_L[t,i] = Σ_ϖ ℓ[t,ϖ]·B_L[ϖ,i]", saved=2, B_L=Mark("laurel.right", "low rank"))
    norm_line(lines, residual.norm, "y_L[t,i]", "y_L[t,i]", "i", "laurel.norm", name="_L")
