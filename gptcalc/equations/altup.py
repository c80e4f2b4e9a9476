"""Alternating updates (AltUp, arXiv:2301.13310): several streams X, of which the blocks compute one, x."""

from __future__ import annotations

from gptcalc.architecture import AltUp
from gptcalc.equations.conditions import Wanted
from gptcalc.equations.language import Index, Mark
from gptcalc.equations.lines import Lines
from gptcalc.equations.norms import norm_line
from gptcalc.equations.symbols import Symbols


def scope(a: AltUp, d: Index, symbols: Symbols) -> dict[str, Index]:
    """What the index letters run over: λ, ñ, δ all streams, e those that are projected, υ the channels once more."""
    streams = symbols.index("n_streams", a.n, "streams")
    projected = symbols.index("n_projected", a.n - 1, "projections")
    return {"λ": streams, "ñ": streams, "δ": streams, "e": projected, "υ": d}


#: the least mean of squares of what is scaled to another's size
LEAST = 1e-05


def spread(lines: Lines) -> None:
    """The embedding x and its projections, all of one size."""
    lines.pointwise("r_X[t] = rms_i(x[t,i])")
    lines.sum("Y[t,e,i] = Σ_υ x[t,υ]·W_A[e,υ,i]", saved=2, W_A=Mark("projection", "streams"))
    scaled = _as_large("Y[t,λ − 1,i]")
    lines.pointwise(f"X[t,λ,i] = {{x[t,i] if λ = 0; {scaled} otherwise}}", saved=2, constants={"ε": LEAST})


def _as_large(y: str) -> str:
    return f"{y}·r_X[t]/√max(mean_i({y}²), ε)"


def predict(lines: Lines, a: AltUp) -> None:
    """X → X′, every stream by what all were; the block computes the active one."""
    lines.pointwise(f"x[t,i] = X[t,λ,i], λ = {a.active}")
    _router(lines, a)
    lines.sum("c_X[t,λ,ñ] = Σ_δ ρ_X[t,δ]·W_P[δ,λ,ñ]", saved=2, W_P=Mark("prediction", "coefficients"))
    lines.sum("X′[t,λ,i] = Σ_ñ X[t,ñ,i]·c_X[t,λ,ñ] + X[t,λ,i]")
    lines.pointwise(f"x[t,i] = X′[t,λ,i], λ = {a.active}", saved=2)


def correct(lines: Lines, a: AltUp, read_again: bool) -> None:
    """X′ → X, every stream by its share of what the block changed. `read_again`: a per-layer embedding follows."""
    lines.pointwise(f"Δ_X[t,i] = x[t,i] − X′[t,λ,i], λ = {a.active}", saved=2)
    _router(lines, a)
    lines.sum("e_X[t,λ] = Σ_δ ρ_X[t,δ]·W_XC[δ,λ] + 1", saved=2, W_XC=Mark("correction", "coefficients"))
    lines.pointwise("X[t,λ,i] = X′[t,λ,i] + e_X[t,λ]·Δ_X[t,i]", saved=0 if read_again else 2)
    if not read_again:
        return
    changed_later = a.active > 0  # the first stream is kept as it is with all that leave the block
    lines.pointwise(f"x[t,i] = X[t,λ,i], λ = {a.active}", saved=2 if changed_later else 0)
    if a.scale:
        lines.pointwise("x[t,i] = s_A[i]·x[t,i]", saved=2, s_A="output_scale")


def _router(lines: Lines, a: AltUp) -> None:
    """ρ: one number a stream, from the active one."""
    norm_line(lines, a.norm, "n_A[t,i]", "x[t,i]", "i", "router_norm", name="_A", saved=2)
    lines.sum("ρ_X[t,δ] = Σ_i n_A[t,i]·W_XR[i,δ]", saved=2, W_XR=Mark("router", "streams"))
    lines.pointwise("ρ_X[t,δ] = tanh(ρ_X[t,δ]/d)", saved=2)


def merge(lines: Lines) -> None:
    """The mean of the first stream and of the others' projections, all of its size."""
    lines.pointwise("r_X[t] = rms_i(X[t,λ,i]), λ = 0", Wanted())
    lines.sum("Y[t,e,i] = Σ_υ X[t,e + 1,υ]·W_B[e,υ,i]", Wanted(), saved=2, W_B=Mark("out", "streams"))
    mean = f"x[t,i] = mean_λ({{X[t,λ,i] if λ = 0; {_as_large('Y[t,λ − 1,i]')} otherwise}})"
    lines.pointwise(mean, Wanted(), saved=2, constants={"ε": LEAST})
