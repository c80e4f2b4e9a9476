"""Hyper-connections (arXiv:2409.19606): n residual streams X, joined before each sublayer, spread and mixed behind it.

What joins, spreads and mixes them is read off the streams of the same token: ξ, one product of all their channels.
"""

from __future__ import annotations

from gptcalc.architecture import Streams
from gptcalc.equations.conditions import Condition, Wanted
from gptcalc.equations.language import Index, Lines
from gptcalc.equations.norms import norm_line
from gptcalc.equations.symbols import Symbols


def scope(s: Streams, symbols: Symbols) -> dict[str, Index]:
    """What the index letters of the streams run over: q all the coefficients, j their scales."""
    n = symbols.index("n_streams", s.n, "streams")
    q = symbols.derived(f"2·{n.symbol}+{n.symbol}·{n.symbol}", (2 + s.n) * s.n, "coefficients")
    return {"n": n, "l": n, "q": q, "j": symbols.derived("3", 3, "coefficients")}


def begin(lines: Lines) -> None:
    """All streams begin as the embedding."""
    lines.pointwise("X[t,n,i] = x[t,i]", saved=2)


def join(lines: Lines, s: Streams) -> None:
    """X[t,n,i] → x[t,i], what the sublayer reads; and the coefficients for what comes behind it."""
    _coefficients(lines, s, "q")
    here = "s_X[j]·ξ[t,q] + b_X[q]"
    lines.pointwise(f"ψ[t,n] = σ({here}) + {s.eps:g}, the first of q", saved=2, s_X="scale", b_X="base")
    lines.pointwise("φ[t,n] = 2·σ(ξ[t,q]), the second of q", saved=2)
    lines.pointwise(f"Ψ[t,l,n] = softmax_n(ξ[t,q]), the rest of q, {s.iterations} times Σ_l = Σ_n = 1", saved=2)
    lines.sum("x[t,i] = Σ_n ψ[t,n]·X[t,n,i]", saved=2)


def spread(lines: Lines) -> None:
    """Δ[t,i], the sublayer's output, → X[t,n,i]."""
    lines.sum("X[t,n,i] = Σ_l Ψ[t,l,n]·X[t,l,i]")
    lines.pointwise("X[t,n,i] = X[t,n,i] + φ[t,n]·Δ[t,i]", saved=2)


def end(lines: Lines, s: Streams) -> None:
    """X[t,n,i] → x[t,i], for the final norm."""
    _coefficients(lines, s, "l", Wanted())
    lines.pointwise(f"ψ[t,l] = σ(s_X[]·ξ[t,l] + b_X[l]) + {s.eps:g}", Wanted(), 2, s_X="scale", b_X="base")
    lines.sum("x[t,i] = Σ_l ψ[t,l]·X[t,l,i]", Wanted(), saved=2)


def _coefficients(lines: Lines, s: Streams, q: str, condition: Condition | None = None) -> None:
    norm_line(lines, s.norm, "ν_X[t,n,i]", "X[t,n,i]", "n,i", "norm", saved=2, condition=condition)
    lines.sum(f"ξ[t,{q}] = Σ_{{n,i}} ν_X[t,n,i]·W_X[n,i,{q}]", condition, 2, W_X="mix")
