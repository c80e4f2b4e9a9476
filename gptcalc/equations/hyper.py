"""Hyper-connections (arXiv:2409.19606): n residual streams X, joined before each sublayer, spread and mixed behind it.

What joins, spreads and mixes them is read off the streams of the same token: ξ, one product of all their channels.
"""

from __future__ import annotations

from typing import Any

from gptcalc.architecture import Streams
from gptcalc.equations.conditions import Condition, Wanted
from gptcalc.equations.language import Index
from gptcalc.equations.lines import Lines
from gptcalc.equations.norms import norm_line
from gptcalc.equations.symbols import Symbols


def scope(s: Streams, symbols: Symbols) -> dict[str, Index]:
    """What the index letters of the streams run over: λ and ñ the streams, ψ all the coefficients, δ their scales."""
    n = symbols.index("n_streams", s.n, "streams")
    each = f"2·{n.symbol}+{n.symbol}·{n.symbol}" if s.mixed else f"2·{n.symbol}"
    coefficients = symbols.derived(each, s.coefficients, "coefficients")
    if s.rank is not None:
        return {"λ": n, "ñ": n, "ẓ": symbols.index("stream_rank", s.rank, "channels")}
    return {"λ": n, "ñ": n, "ψ": coefficients, "δ": symbols.derived(str(s.factors), s.factors, "coefficients")}


def begin(lines: Lines) -> None:
    """All streams begin as the embedding."""
    lines.pointwise("X[t,λ,i] = x[t,i]", saved=2)


def join(lines: Lines, s: Streams) -> None:
    """X[t,λ,i] → x[t,i], what the sublayer reads; and the coefficients for what comes behind it."""
    if s.rank is not None:
        _join_channels(lines, s)
        count = lines.scope["λ"].symbol
        lines.sum("S_X[t,ñ] = Σ_{λ,i} n_X[t,λ,i]·W_X[λ,i,ñ]", saved=2, W_X="spread")
        lines.pointwise(f"S_X[t,ñ] = {lines.number('magnitude', s.magnitude)}·σ(S_X[t,ñ]/{count})", saved=2)
        return
    _coefficients(lines, s, "ψ")
    here, n = "s_X[δ]·ξ[t,ψ] + b_X[ψ]", lines.scope["λ"].symbol
    marks: dict[str, Any] = {"s_X": "scale", "b_X": "base"}
    eps = {"ε": s.eps}
    lines.pointwise(f"J_X[t,λ] = σ({here}) + ε, δ = 0, ψ = λ", saved=2, constants=eps, **marks)
    floor = "" if s.mixed else " + ε"
    lines.pointwise(
        f"S_X[t,λ] = {lines.number('magnitude', s.magnitude)}·σ({here}){floor}, δ = 1, ψ = {n} + λ",
        saved=2,
        constants=eps,
        **marks,
    )
    if s.mixed:
        _mix(lines, s, here, marks)
    lines.sum("x[t,i] = Σ_λ J_X[t,λ]·X[t,λ,i]", saved=2)


def _mix(lines: Lines, s: Streams, here: str, marks: dict[str, Any]) -> None:
    """What mixes the streams with each other."""
    n = lines.scope["λ"].symbol
    lines.pointwise(
        f"M_X[t,ñ,λ] = softmax_λ({here}) + ε, δ = 2, ψ = 2·{n} + {n}·ñ + λ", constants={"ε": s.eps}, **marks
    )
    mixed = f"M_X[t,ñ,λ] = sinkhorn_{{ñ,λ}}(M_X[t,ñ,λ], {lines.number('iterations', s.iterations)})"
    lines.pointwise(mixed, saved=2, constants={"ε": s.eps})


def spread(lines: Lines, s: Streams) -> None:
    """Δ[t,i], the sublayer's output, → X[t,λ,i]."""
    if s.mixed:
        lines.sum("X[t,λ,i] = Σ_ñ M_X[t,ñ,λ]·X[t,ñ,i]")
    lines.pointwise("X[t,λ,i] = X[t,λ,i] + S_X[t,λ]·Δ[t,i]", saved=2)


def end(lines: Lines, s: Streams) -> None:
    """X[t,λ,i] → x[t,i], for the final norm."""
    if s.end == "mean":
        lines.pointwise("x[t,i] = mean_λ(X[t,λ,i])", Wanted(), 2)
        return
    if s.rank is not None:
        _join_channels(lines, s, Wanted())
        return
    _coefficients(lines, s, "ñ", Wanted())
    text = "J_X[t,ñ] = σ(s_X[]·ξ[t,ñ] + b_X[ñ]) + ε"
    lines.pointwise(text, Wanted(), 2, constants={"ε": s.eps}, s_X="scale", b_X="base")
    lines.sum("x[t,i] = Σ_ñ J_X[t,ñ]·X[t,ñ,i]", Wanted(), saved=2)


def _join_channels(lines: Lines, s: Streams, condition: Condition | None = None) -> None:
    """The mean of the streams, normed, each channel of each as far as all of them say, by way of a bottleneck."""
    n = lines.scope["λ"].symbol
    norm_line(lines, s.norm, "n_X[t,λ,i]", "X[t,λ,i]", "i", "norm", "λ,i", saved=2, condition=condition)
    lines.sum("ℓ_X[t,ẓ] = Σ_{λ,i} n_X[t,λ,i]·D_X[λ,i,ẓ]", condition, 2, D_X="down")
    lines.pointwise(f"ℓ_X[t,ẓ] = silu(ℓ_X[t,ẓ]/{n})", condition, 2)
    lines.sum("J_X[t,λ,i] = Σ_ẓ ℓ_X[t,ẓ]·U_X[ẓ,λ,i]", condition, 2, U_X="up")
    lines.pointwise("J_X[t,λ,i] = σ(J_X[t,λ,i])", condition, 2)
    lines.sum("x[t,i] = Σ_λ J_X[t,λ,i]·n_X[t,λ,i]", condition)
    lines.pointwise(f"x[t,i] = x[t,i]/{n}", condition, 2)


def _coefficients(lines: Lines, s: Streams, which: str, condition: Condition | None = None) -> None:
    norm_line(lines, s.norm, "n_X[t,λ,i]", "X[t,λ,i]", "λ,i", "norm", saved=2, condition=condition)
    lines.sum(f"ξ[t,{which}] = Σ_{{λ,i}} n_X[t,λ,i]·W_X[λ,i,{which}]", condition, 2, W_X="mix")
