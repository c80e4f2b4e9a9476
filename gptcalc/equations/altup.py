"""Alternating updates (AltUp, arXiv:2301.13310): several streams X, of which the blocks compute one, x."""

from __future__ import annotations

from gptcalc.architecture import AltUp
from gptcalc.equations.conditions import Wanted
from gptcalc.equations.language import Index, Lines, Mark
from gptcalc.equations.norms import norm_line
from gptcalc.equations.symbols import Symbols


def scope(a: AltUp, d: Index, symbols: Symbols) -> dict[str, Index]:
    """What the index letters run over: j, k, m all streams, e those that are projected, b the channels once more."""
    streams = symbols.index("n_streams", a.n, "streams")
    projected = symbols.index("n_projected", a.n - 1, "projections")
    return {"j": streams, "k": streams, "m": streams, "e": projected, "b": d}


def spread(lines: Lines) -> None:
    """The embedding x and its projections, all of one size."""
    lines.pointwise("r[t] = rms_i(x[t,i])")
    lines.sum("Y[t,e,i] = Σ_b x[t,b]·W_A[e,b,i]", saved=2, W_A="projection")
    lines.pointwise("X[t,j,i] = x[t,i], then Y[t,e,i]·r[t]/rms_i(Y[t,e,i])", saved=2)


def predict(lines: Lines, a: AltUp) -> None:
    """X → X′, every stream by what all were; the block computes the active one."""
    lines.pointwise(f"x[t,i] = X[t,j,i], j = {a.active}")
    _router(lines, a)
    lines.sum("c[t,j,k] = Σ_m ρ[t,m]·W_P[m,j,k]", saved=2, W_P="prediction")
    lines.sum("X′[t,j,i] = Σ_k X[t,k,i]·c[t,j,k] + X[t,j,i]")
    lines.pointwise(f"x[t,i] = X′[t,j,i], j = {a.active}", saved=2)


def correct(lines: Lines, a: AltUp, read_again: bool) -> None:
    """X′ → X, every stream by its share of what the block changed. `read_again`: a per-layer embedding follows."""
    lines.pointwise(f"δ[t,i] = x[t,i] − X′[t,j,i], j = {a.active}", saved=2)
    _router(lines, a)
    lines.sum("c[t,j] = Σ_m ρ[t,m]·W_C[m,j] + 1", saved=2, W_C="correction")
    lines.pointwise("X[t,j,i] = X′[t,j,i] + c[t,j]·δ[t,i]", saved=0 if read_again else 2)
    if not read_again:
        return
    changed_later = a.active > 0  # the first stream is kept as it is with all that leave the block
    lines.pointwise(f"x[t,i] = X[t,j,i], j = {a.active}", saved=2 if changed_later else 0)
    if a.scale:
        lines.pointwise("x[t,i] = s_A[i]·x[t,i]", saved=2, s_A="output_scale")


def _router(lines: Lines, a: AltUp) -> None:
    """ρ: one number a stream, from the active one."""
    norm_line(lines, a.norm, "ν[t,i]", "x[t,i]", "i", "router_norm", name="_A", saved=2)
    lines.sum("ρ[t,m] = Σ_i ν[t,i]·W_R[i,m]", saved=2, W_R=Mark("router", "router"))
    lines.pointwise("ρ[t,m] = tanh(ρ[t,m]/d)", saved=2)


def merge(lines: Lines) -> None:
    """The mean of the first stream and of the others' projections, all of its size."""
    lines.pointwise("r[t] = rms_i(X[t,j,i]), j = 0", Wanted())
    lines.sum("Y[t,e,i] = Σ_b X[t,e,b]·W_B[e,b,i]", Wanted(), saved=2, W_B="out")
    mean = "x[t,i] = the mean of X[t,j,i], j = 0, and all Y[t,e,i]·r[t]/rms_i(Y[t,e,i])"
    lines.pointwise(mean, Wanted(), saved=2)
