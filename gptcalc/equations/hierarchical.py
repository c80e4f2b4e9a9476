"""HGRN's recurrence (arXiv:2311.04823), channel by channel. Letter: ẇ channels of the recurrence."""

from __future__ import annotations

from typing import Any

from gptcalc.architecture import HierarchicalRecurrence
from gptcalc.equations.convolution import OF_KEYS, convolution_scope, convolve
from gptcalc.equations.language import Index, Mark
from gptcalc.equations.linear import OF_LAYERS, at_least
from gptcalc.equations.lines import Lines
from gptcalc.equations.norms import norm_line
from gptcalc.equations.symbols import Symbols


def scope(m: HierarchicalRecurrence, d: Index, symbols: Symbols, n_layers: int) -> dict[str, Index]:
    """What the index letters of HGRN's recurrence run over."""
    letters = {"i": d, "ẇ": symbols.index("d_rnn", m.d_rnn, "channels", m.section, "tp")}
    if m.bounds:
        letters[OF_LAYERS] = symbols.index("n_layers", n_layers, "layers")
    if m.kernel is not None:
        letters |= convolution_scope(m.kernel, m.section, symbols, OF_KEYS)
    return letters


def hierarchical_recurrence(lines: Lines, m: HierarchicalRecurrence) -> None:
    """n[t,i] → y[t,i]."""
    v, decay = _projected(lines, m, "v", "v"), _projected(lines, m, "F", "decay")
    lines.pointwise(f"Ā[t,ẇ] = σ({decay})", saved=2)
    if m.bounds:
        at_least(lines, "Ā[t,ẇ]", "ẇ")
    lines.pointwise(f"v[t,ẇ] = (1 − Ā[t,ẇ])·silu({v})", saved=2)
    lines.pointwise("M[ẇ] = Ā[t,ẇ]·M[ẇ] + v[t,ẇ]")
    lines.pointwise("o[t,ẇ] = M[ẇ]", saved=2)
    lines.keep("M")
    if m.out_norm is not None:
        norm_line(lines, m.out_norm, "o[t,ẇ]", "o[t,ẇ]", "ẇ", "out_norm", name="_o", saved=2)
    lines.sum("G_O[t,ẇ] = Σ_i n[t,i]·W_OG[i,ẇ]", saved=2, W_OG="gate")
    lines.pointwise("o[t,ẇ] = silu(G_O[t,ẇ])·o[t,ẇ]", saved=2)
    lines.sum("y[t,i] = Σ_ẇ o[t,ẇ]·W_O[ẇ,i]", W_O=Mark("out", "out"))


def _projected(lines: Lines, m: HierarchicalRecurrence, name: str, key: str) -> str:
    """What is made of n, convolved where the mixer does so: what lines then call it."""
    marks: dict[str, Any] = {f"W_{name.upper()}": key}
    here = f"{name}[t,ẇ]"
    lines.sum(f"{here} = Σ_i n[t,i]·W_{name.upper()}[i,ẇ]", None, 2, **marks)
    return here if m.kernel is None else convolve(lines, name, "ẇ", f"{key}_conv", OF_KEYS, saved=2)
