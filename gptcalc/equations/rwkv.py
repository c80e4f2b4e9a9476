"""RWKV-4 (Peng et al. 2023): time mixing and channel mixing.

Letters: ẇ channels inside time mixing, f those of channel mixing, ċ those that it reads, ķ the one token that stays.
"""

from __future__ import annotations

from gptcalc.architecture import ChannelMixing, ShareOf, TimeMixing
from gptcalc.equations.conditions import Constant
from gptcalc.equations.language import Index, Mark
from gptcalc.equations.lines import Lines
from gptcalc.equations.symbols import Symbols


def time_scope(m: TimeMixing, d: Index, symbols: Symbols) -> dict[str, Index]:
    """What the index letters of time mixing run over."""
    inner = symbols.index("d_inner", m.d_inner, "channels", m.section, "tp")
    return {"i": d, "ẇ": inner, "ķ": symbols.derived("1", 1, "taps")}


def time_mixing(lines: Lines) -> None:
    """n[t,i] → y[t,i]. S/N is the weighted mean, both in units of e^μ so that nothing overflows."""
    before(lines, "i")
    for name, key in (("r", "receptance"), ("k", "k"), ("v", "v")):
        mix(lines, name, key, "i")
        lines.sum(f"{name}[t,ẇ] = Σ_i {name}_M[t,i]·W_{name}[i,ẇ]", saved=2, **{f"W_{name}": key})  # type: ignore[arg-type]
    lines.pointwise("r[t,ẇ] = σ(r[t,ẇ])", saved=2)
    lines.pointwise("ξ[t,ẇ] = k[t,ẇ] + w_U[ẇ]", w_U="bonus")
    lines.pointwise("ψ[t,ẇ] = {ξ[t,ẇ] if t = 0; max(μ[ẇ], ξ[t,ẇ]) otherwise}")
    lines.pointwise("o[t,ẇ] = exp(μ[ẇ] − ψ[t,ẇ])·M[ẇ] + exp(ξ[t,ẇ] − ψ[t,ẇ])·v[t,ẇ]")
    lines.pointwise("o[t,ẇ] = o[t,ẇ]/(exp(μ[ẇ] − ψ[t,ẇ])·N[ẇ] + exp(ξ[t,ẇ] − ψ[t,ẇ]))", saved=2)
    lines.pointwise("μ[ẇ] = μ[ẇ] − exp(w_D[ẇ])", w_D="decay_rate")
    lines.pointwise("ψ[t,ẇ] = {k[t,ẇ] if t = 0; max(μ[ẇ], k[t,ẇ]) otherwise}")
    lines.pointwise("M[ẇ] = exp(μ[ẇ] − ψ[t,ẇ])·M[ẇ] + exp(k[t,ẇ] − ψ[t,ẇ])·v[t,ẇ]")
    lines.pointwise("N[ẇ] = exp(μ[ẇ] − ψ[t,ẇ])·N[ẇ] + exp(k[t,ẇ] − ψ[t,ẇ])")
    lines.pointwise("μ[ẇ] = ψ[t,ẇ]")
    for state in ("M", "N", "μ"):
        lines.keep(state)
    lines.pointwise("o[t,ẇ] = r[t,ẇ]·o[t,ẇ]", saved=2)
    lines.sum("y[t,i] = Σ_ẇ o[t,ẇ]·W_O[ẇ,i]", W_O=Mark("out", "out"))


def channel_scope(m: ChannelMixing, d: Index, symbols: Symbols) -> dict[str, Index]:
    """What the index letters of channel mixing run over."""
    inner = symbols.index("d_ff", m.d_ff, "channels", m.section, "tp")
    read = symbols.derived(d.symbol, d.size, "channels")
    return {"i": d, "f": inner, "ċ": read, "ķ": symbols.derived("1", 1, "taps")}


def channel_mixing(lines: Lines, m: ChannelMixing) -> None:
    """n[t,i] → y[t,i]."""
    before(lines, "ċ")
    for name, key, to in (("r", "receptance", "i"), ("U", "up", "f"))[not m.gated :]:
        mix(lines, name, key, "ċ", m.share)
        lines.sum(f"{name}[t,{to}] = Σ_ċ {name}_M[t,ċ]·W_{name}[ċ,{to}]", saved=2, **{f"W_{name}": key})  # type: ignore[arg-type]
    lines.pointwise("H[t,f] = relu(U[t,f])²", saved=2)
    lines.sum("y[t,i] = Σ_f H[t,f]·W_D[f,i]", saved=2, W_D="down")
    if m.gated:
        lines.pointwise("y[t,i] = σ(r[t,i])·y[t,i]", saved=2)


def before(lines: Lines, i: str) -> None:
    """n_P: what the token before read; zeros before the first."""
    lines.pointwise(f"n_P[t,{i}] = {{n[t − 1,{i}] if t > 0; 0 otherwise}}")
    lines.store(f"R_n[ķ,{i}] = n[S − 1 + ķ,{i}]", "last token", Constant())


def mix(lines: Lines, name: str, key: str, i: str, share: ShareOf = "input") -> None:
    """The input and the one before, in learned shares."""
    n, other = ("n_P", "n") if share == "input" else ("n", "n_P")
    text = f"{name}_M[t,{i}] = {n}[t,{i}] + m_{name}[{i}]·({other}[t,{i}] − {n}[t,{i}])"
    lines.pointwise(text, saved=2, **{f"m_{name}": f"{key}_mix"})  # type: ignore[arg-type]
