"""Other mixers whose memory of the past does not grow: short convolutions, Griffin's recurrence, mLSTM.

Letters: ġ heads, ȧ channels of a key, ẇ channels of a head, ċ those of them that are summed over.
"""

from __future__ import annotations

from gptcalc.architecture import GatedRecurrence, MatrixLSTM, ShortConvolution
from gptcalc.equations.chunked import OF_CHUNKS, at_its_begin, at_its_end
from gptcalc.equations.conditions import Constant, Within
from gptcalc.equations.convolution import OF_KEYS, convolution_scope, convolve
from gptcalc.equations.language import Index, Lines, Mark, number, plus
from gptcalc.equations.norms import norm_line
from gptcalc.equations.symbols import Symbols


def short_scope(m: ShortConvolution, d: Index, symbols: Symbols) -> dict[str, Index]:
    """What the index letters of a short convolution run over; ċ are the channels inside."""
    inner = symbols.derived(d.symbol, d.size, "channels", "tp")
    return {"i": d, "ċ": inner, **convolution_scope(m.kernel, m.section, symbols, OF_KEYS)}


def short_convolution(lines: Lines, m: ShortConvolution) -> None:
    """n[t,i] → y[t,i]."""
    for name, key in (("B", "B"), ("C", "C"), ("u", "x")):
        bias = plus(f"b_{name}[ċ]", m.bias)
        marks = {f"W_{name}": key, f"b_{name}": f"{key}.bias"}
        lines.sum(f"{name}[t,ċ] = Σ_i n[t,i]·W_{name}[i,ċ]{bias}", saved=2, **marks)  # type: ignore[arg-type]
    lines.pointwise("u[t,ċ] = B[t,ċ]·u[t,ċ]", saved=2)
    convolve(lines, "u", "ċ", "inner_conv", m.kernel, OF_KEYS, saved=2, alone=True, bias=m.bias)
    lines.pointwise("u[t,ċ] = C[t,ċ]·u[t,ċ]", saved=2)
    lines.sum(f"y[t,i] = Σ_ċ u[t,ċ]·W_O[ċ,i]{plus('b_O[i]', m.bias)}", W_O=Mark("out", "out"), b_O="out.bias")


def rnn_scope(m: GatedRecurrence, d: Index, symbols: Symbols) -> dict[str, Index]:
    """What the index letters of Griffin's recurrence run over."""
    heads = symbols.index("n_states", m.n_heads, "heads", m.section, "tp")
    width = symbols.index("d_rnn", m.d_rnn, "channels", m.section)
    share = symbols.derived(f"{width.symbol}/{heads.symbol}", m.d_rnn // m.n_heads, "channels")
    return {"i": d, "ġ": heads, "ẇ": share, "ċ": share, **convolution_scope(m.kernel, m.section, symbols, OF_KEYS)}


def gated_recurrence(lines: Lines, m: GatedRecurrence) -> None:
    """n[t,i] → y[t,i]."""
    lines.sum("z[t,ġ,ẇ] = Σ_i n[t,i]·W_z[i,ġ,ẇ] + b_z[ġ,ẇ]", saved=2, W_z="y", b_z="y.bias")
    lines.pointwise("z[t,ġ,ẇ] = gelu_tanh(z[t,ġ,ẇ])", saved=2)
    lines.sum("u[t,ġ,ẇ] = Σ_i n[t,i]·W_u[i,ġ,ẇ] + b_u[ġ,ẇ]", saved=2, W_u="x", b_u="x.bias")
    convolve(lines, "u", "ġ,ẇ", "inner_conv", m.kernel, OF_KEYS, saved=2, alone=True, bias=True)
    for name, key in (("i", "input_gate"), ("r", "forget_gate")):
        marks = {f"W_{name}": key, f"b_{name}": f"{key}.bias"}
        text = f"{name}[t,ġ,ẇ] = Σ_ċ u[t,ġ,ċ]·W_{name}[ġ,ċ,ẇ] + b_{name}[ġ,ẇ]"
        lines.sum(text, saved=2, **marks)  # type: ignore[arg-type]
        lines.pointwise(f"{name}[t,ġ,ẇ] = σ({name}[t,ġ,ẇ])", saved=2)
    lines.pointwise("γ[t,ġ,ẇ] = {0 if t = 0; exp(−8·r[t,ġ,ẇ]·softplus(Λ[ġ,ẇ])) otherwise}", saved=2, Λ="decay_rate")
    lines.pointwise("S[ġ,ẇ] = γ[t,ġ,ẇ]·S[ġ,ẇ] + √(1 − γ[t,ġ,ẇ]²)·i[t,ġ,ẇ]·u[t,ġ,ẇ]")
    lines.pointwise("o[t,ġ,ẇ] = S[ġ,ẇ]", saved=2)
    lines.store("S[ġ,ẇ] = S[ġ,ẇ]", "state", Constant())
    lines.pointwise("o[t,ġ,ẇ] = o[t,ġ,ẇ]·z[t,ġ,ẇ]", saved=2)
    lines.sum("y[t,i] = Σ_{ġ,ẇ} o[t,ġ,ẇ]·W_O[ġ,ẇ,i] + b_O[i]", W_O=Mark("out", "out"), b_O="out.bias")


FLOOR = 1e-6  # added to mLSTM's denominator


def lstm_scope(m: MatrixLSTM, d: Index, symbols: Symbols) -> dict[str, Index]:
    """What the index letters of mLSTM run over."""
    name = m.section
    return {
        "i": d,
        "ġ": symbols.index("n_states", m.n_heads, "heads", name, "tp"),
        "ȧ": symbols.index("d_k", m.d_k, "channels", name),
        "ẇ": symbols.index("d_v", m.d_v, "channels", name),
        **OF_CHUNKS,
    }


def matrix_lstm(lines: Lines, m: MatrixLSTM, chunk: int | None = None) -> None:
    """n[t,i] → y[t,i]; the states token by token, or in chunks."""
    for name, letter, key in (("q", "ȧ", "q"), ("k", "ȧ", "k"), ("v", "ẇ", "v"), ("z", "ẇ", "gate")):
        lines.sum(f"{name}[t,ġ,{letter}] = Σ_i n[t,i]·W_{name}[i,ġ,{letter}]", saved=2, **{f"W_{name}": key})  # type: ignore[arg-type]
    lines.pointwise(f"q[t,ġ,ȧ] = q[t,ġ,ȧ]/√{lines.scope['ȧ'].symbol}")
    for name, key in (("ι", "input_gate"), ("F", "forget_gate")):
        marks = {f"W_{name}": key, f"b_{name}": f"{key}.bias"}
        lines.sum(f"{name}[t,ġ] = Σ_i n[t,i]·W_{name}[i,ġ] + b_{name}[ġ]", saved=2, **marks)  # type: ignore[arg-type]
        cap = number(m.gate_softcap)
        lines.pointwise(f"{name}[t,ġ] = {cap}·tanh({name}[t,ġ]/{cap})", saved=2)
    if chunk is None:
        _cells(lines)
    else:
        _cells_in_chunks(lines, chunk)
    norm_line(lines, m.out_norm, "o[t,ġ,ẇ]", "o[t,ġ,ẇ]", "ẇ", "out_norm", "ġ,ẇ", name="_o", saved=2)
    lines.pointwise("o[t,ġ,ẇ] = σ(z[t,ġ,ẇ])·o[t,ġ,ẇ]", saved=2)
    lines.sum("y[t,i] = Σ_{ġ,ẇ} o[t,ġ,ẇ]·W_O[ġ,ẇ,i]", W_O=Mark("out", "out"))


def _cells(lines: Lines) -> None:
    """Token by token, all in units of e^μ."""
    lines.pointwise("F[t,ġ] = −softplus(−F[t,ġ]) + μ[ġ]")
    lines.pointwise("μ[ġ] = max(F[t,ġ], ι[t,ġ])")
    lines.pointwise("k[t,ġ,ȧ] = exp(ι[t,ġ] − μ[ġ])·k[t,ġ,ȧ]", saved=2)
    lines.pointwise("S[ġ,ȧ,ẇ] = exp(F[t,ġ] − μ[ġ])·S[ġ,ȧ,ẇ]")
    lines.sum("S[ġ,ȧ,ẇ] += k[t,ġ,ȧ]·v[t,ġ,ẇ]")
    lines.pointwise("N[ġ,ȧ] = exp(F[t,ġ] − μ[ġ])·N[ġ,ȧ] + k[t,ġ,ȧ]")
    lines.sum("ν[t,ġ] = Σ_ȧ q[t,ġ,ȧ]·N[ġ,ȧ]")
    lines.sum("o[t,ġ,ẇ] = Σ_ȧ q[t,ġ,ȧ]·S[ġ,ȧ,ẇ]", saved=2)
    lines.pointwise(f"o[t,ġ,ẇ] = o[t,ġ,ẇ]/(max(abs(ν[t,ġ]), exp(−μ[ġ])) + {number(FLOOR)})", saved=2)
    for state in ("S[ġ,ȧ,ẇ]", "N[ġ,ȧ]", "μ[ġ]"):
        lines.store(f"{state} = {state}", "state", Constant())


def _cells_in_chunks(lines: Lines, chunk: int) -> None:
    """Chunk by chunk (arXiv:2503.14376, §3): what a chunk's tokens read of the state before it is in units of e^μ_B,
    what they read of each other and the chunk's own keys in units of the largest exponent of each, m."""
    pairs = Within(chunk)
    lines.pointwise("F[t,ġ] = −softplus(−F[t,ġ])")
    lines.pointwise("Γ[t,ġ] = Σ_s F[s,ġ]", pairs)
    at_its_end(lines, chunk, "Γ_C[t,ġ]", "Γ[t,ġ]")
    lines.pointwise("m[t,ġ] = largest_s(Γ[t,ġ] − Γ[s,ġ] + ι[s,ġ])", pairs)
    at_its_end(lines, chunk, "m_C[t,ġ]", "m[t,ġ]")
    lines.sum("z_S[t,s,ġ] = Σ_ȧ q[t,ġ,ȧ]·k[s,ġ,ȧ]", pairs)
    lines.pointwise(f"μ_B[ġ] = {{μ[ġ] if t = {chunk}·⌊t/{chunk}⌋; μ_B[ġ] otherwise}}")
    lines.pointwise("μ[ġ] = max(Γ_C[t,ġ] + μ_B[ġ], m_C[t,ġ])")
    left = "exp(Γ_C[t,ġ] + μ_B[ġ] − μ[ġ])"
    at_its_begin(lines, chunk, "S[ġ,ȧ,ẇ]", "S_B[ġ,ȧ,ẇ]", left)
    at_its_begin(lines, chunk, "N[ġ,ȧ]", "N_B[ġ,ȧ]", left)
    lines.pointwise("k_I[t,ġ,ȧ] = exp(Γ_C[t,ġ] − Γ[t,ġ] + ι[t,ġ] − μ[ġ])·k[t,ġ,ȧ]", saved=2)
    lines.sum("S[ġ,ȧ,ẇ] += k_I[t,ġ,ȧ]·v[t,ġ,ẇ]")
    lines.pointwise("N[ġ,ȧ] = N[ġ,ȧ] + k_I[t,ġ,ȧ]")
    lines.pointwise("m[t,ġ] = max(m[t,ġ], Γ[t,ġ] + μ_B[ġ])")
    lines.pointwise("q_B[t,ġ,ȧ] = exp(Γ[t,ġ] + μ_B[ġ] − m[t,ġ])·q[t,ġ,ȧ]", saved=2)
    lines.sum("ν[t,ġ] = Σ_ȧ q_B[t,ġ,ȧ]·N_B[ġ,ȧ]")
    lines.sum("o[t,ġ,ẇ] = Σ_ȧ q_B[t,ġ,ȧ]·S_B[ġ,ȧ,ẇ]")
    for state in ("S[ġ,ȧ,ẇ]", "N[ġ,ȧ]", "μ[ġ]"):
        lines.store(f"{state} = {state}", "state", Constant())
    lines.pointwise("z_S[t,s,ġ] = exp(Γ[t,ġ] − Γ[s,ġ] + ι[s,ġ] − m[t,ġ])·z_S[t,s,ġ]", pairs, saved=2)
    lines.pointwise("ν[t,ġ] = ν[t,ġ] + Σ_s z_S[t,s,ġ]", pairs)
    lines.sum("o[t,ġ,ẇ] += Σ_s z_S[t,s,ġ]·v[s,ġ,ẇ]", pairs, saved=2)
    lines.pointwise(f"o[t,ġ,ẇ] = o[t,ġ,ẇ]/(max(abs(ν[t,ġ]), exp(−m[t,ġ])) + {number(FLOOR)})", saved=2)
