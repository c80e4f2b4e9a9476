"""Other mixers whose memory of the past does not grow: short convolutions, Griffin's recurrence, mLSTM.

Letters: ḣ heads, ȧ channels of a key, ẇ channels of a head, č those of them that are summed over.
"""

from __future__ import annotations

from gptcalc.architecture import GatedRecurrence, MatrixLSTM, ShortConvolution
from gptcalc.equations.chunked import OF_CHUNKS, at_its_begin, at_its_end
from gptcalc.equations.conditions import Within
from gptcalc.equations.convolution import OF_KEYS, convolution_scope, convolve
from gptcalc.equations.language import Index, Mark
from gptcalc.equations.lines import Lines, plus, root
from gptcalc.equations.norms import norm_line
from gptcalc.equations.symbols import Symbols


def short_scope(m: ShortConvolution, d: Index, symbols: Symbols) -> dict[str, Index]:
    """What the index letters of a short convolution run over; ċ are the channels inside."""
    inner = symbols.derived(d.symbol, d.size, "channels", "tp")
    return {"i": d, "ċ": inner, **convolution_scope(m.kernel, m.section, symbols, OF_KEYS)}


def short_convolution(lines: Lines, m: ShortConvolution) -> None:
    """n[t,i] → y[t,i]."""
    for name, key in (("B", "B"), ("C", "C"), ("x_R", "x")):
        of = name.replace("_", "")
        bias = plus(f"b_{of}[ċ]", m.bias)
        marks = {f"W_{of}": key, f"b_{of}": f"{key}.bias"}
        lines.sum(f"{name}[t,ċ] = Σ_i n[t,i]·W_{of}[i,ċ]{bias}", saved=2, **marks)  # type: ignore[arg-type]
    lines.pointwise("x_R[t,ċ] = B[t,ċ]·x_R[t,ċ]", saved=2)
    convolved = convolve(lines, "x_R", "ċ", "inner_conv", OF_KEYS, saved=2, bias=m.bias)
    lines.pointwise(f"x_R[t,ċ] = C[t,ċ]·{convolved}", saved=2)
    lines.sum(f"y[t,i] = Σ_ċ x_R[t,ċ]·W_O[ċ,i]{plus('b_O[i]', m.bias)}", W_O=Mark("out", "out"), b_O="out.bias")


def rnn_scope(m: GatedRecurrence, d: Index, symbols: Symbols) -> dict[str, Index]:
    """What the index letters of Griffin's recurrence run over."""
    heads = symbols.index("n_states", m.n_heads, "heads", m.section, "tp")
    width = symbols.index("d_rnn", m.d_rnn, "channels", m.section)
    share = symbols.derived(f"{width.symbol}/{heads.symbol}", m.d_rnn // m.n_heads, "channels")
    return {"i": d, "ḣ": heads, "ẇ": share, "č": share, **convolution_scope(m.kernel, m.section, symbols, OF_KEYS)}


def gated_recurrence(lines: Lines, m: GatedRecurrence) -> None:
    """n[t,i] → y[t,i]."""
    lines.sum("G_O[t,ḣ,ẇ] = Σ_i n[t,i]·W_OG[i,ḣ,ẇ] + b_OG[ḣ,ẇ]", saved=2, W_OG="y", b_OG="y.bias")
    lines.pointwise(f"G_O[t,ḣ,ẇ] = {m.activation}(G_O[t,ḣ,ẇ])", saved=2)
    lines.sum("x_R[t,ḣ,ẇ] = Σ_i n[t,i]·W_xR[i,ḣ,ẇ] + b_xR[ḣ,ẇ]", saved=2, W_xR="x", b_xR="x.bias")
    convolved = convolve(lines, "x_R", "ḣ,ẇ", "inner_conv", OF_KEYS, saved=2, bias=True)
    seen = convolved.replace("ẇ", "č")
    for gate, key in (("I", "input_gate"), ("R", "forget_gate")):
        name, marks = f"G_{gate}", {f"W_G{gate}": key, f"b_G{gate}": f"{key}.bias"}
        text = f"{name}[t,ḣ,ẇ] = Σ_č {seen}·W_G{gate}[ḣ,č,ẇ] + b_G{gate}[ḣ,ẇ]"
        lines.sum(text, saved=2, **marks)  # type: ignore[arg-type]
        lines.pointwise(f"{name}[t,ḣ,ẇ] = σ({name}[t,ḣ,ẇ])", saved=2)
    lines.pointwise("Ā[t,ḣ,ẇ] = {0 if t = 0; exp(−8·G_R[t,ḣ,ẇ]·softplus(Λ[ḣ,ẇ])) otherwise}", saved=2, Λ="decay_rate")
    lines.pointwise(f"M[ḣ,ẇ] = Ā[t,ḣ,ẇ]·M[ḣ,ẇ] + √(1 − Ā[t,ḣ,ẇ]²)·G_I[t,ḣ,ẇ]·{convolved}")
    lines.pointwise("o[t,ḣ,ẇ] = M[ḣ,ẇ]", saved=2)
    lines.keep("M")
    lines.pointwise("o[t,ḣ,ẇ] = o[t,ḣ,ẇ]·G_O[t,ḣ,ẇ]", saved=2)
    lines.sum("y[t,i] = Σ_{ḣ,ẇ} o[t,ḣ,ẇ]·W_O[ḣ,ẇ,i] + b_O[i]", W_O=Mark("out", "out"), b_O="out.bias")


FLOOR = 1e-6  # added to mLSTM's denominator


def lstm_scope(m: MatrixLSTM, d: Index, symbols: Symbols) -> dict[str, Index]:
    """What the index letters of mLSTM run over."""
    name = m.section
    return {
        "i": d,
        "ḣ": symbols.index("n_states", m.n_heads, "heads", name, "tp"),
        "ȧ": symbols.index("d_k", m.d_k, "channels", name),
        "ẇ": symbols.index("d_v", m.d_v, "channels", name),
        **OF_CHUNKS,
    }


def matrix_lstm(lines: Lines, m: MatrixLSTM, chunk: int | None = None) -> None:
    """n[t,i] → y[t,i]; the states token by token, or in chunks."""
    for name, letter, key in (("q", "ȧ", "q"), ("k", "ȧ", "k"), ("v", "ẇ", "v"), ("G_O", "ẇ", "gate")):
        matrix = {"G_O": "W_OG"}.get(name, f"W_{name}")
        lines.sum(f"{name}[t,ḣ,{letter}] = Σ_i n[t,i]·{matrix}[i,ḣ,{letter}]", saved=2, **{matrix: key})  # type: ignore[arg-type]
    lines.pointwise(f"q[t,ḣ,ȧ] = q[t,ḣ,ȧ]/{root(lines.scope['ȧ'])}")
    for name, key in (("ι", "input_gate"), ("F", "forget_gate")):
        marks = {f"W_{name}": key, f"b_{name}": f"{key}.bias"}
        lines.sum(f"{name}[t,ḣ] = Σ_i n[t,i]·W_{name}[i,ḣ] + b_{name}[ḣ]", saved=2, **marks)  # type: ignore[arg-type]
        cap = lines.number("softcap", m.gate_softcap)
        lines.pointwise(f"{name}[t,ḣ] = {cap}·tanh({name}[t,ḣ]/{cap})", saved=2)
    if chunk is None:
        _cells(lines)
    else:
        _cells_in_chunks(lines, chunk)
    norm_line(lines, m.out_norm, "o[t,ḣ,ẇ]", "o[t,ḣ,ẇ]", "ẇ", "out_norm", "ḣ,ẇ", name="_o", saved=2)
    lines.pointwise("o[t,ḣ,ẇ] = σ(G_O[t,ḣ,ẇ])·o[t,ḣ,ẇ]", saved=2)
    lines.sum("y[t,i] = Σ_{ḣ,ẇ} o[t,ḣ,ẇ]·W_O[ḣ,ẇ,i]", W_O=Mark("out", "out"))


def _cells(lines: Lines) -> None:
    """Token by token, all in units of e^μ."""
    lines.pointwise("F[t,ḣ] = −softplus(−F[t,ḣ]) + μ[ḣ]")
    lines.pointwise("μ[ḣ] = max(F[t,ḣ], ι[t,ḣ])")
    lines.pointwise("k[t,ḣ,ȧ] = exp(ι[t,ḣ] − μ[ḣ])·k[t,ḣ,ȧ]", saved=2)
    lines.pointwise("M[ḣ,ȧ,ẇ] = exp(F[t,ḣ] − μ[ḣ])·M[ḣ,ȧ,ẇ]")
    lines.sum("M[ḣ,ȧ,ẇ] += k[t,ḣ,ȧ]·v[t,ḣ,ẇ]")
    lines.pointwise("N[ḣ,ȧ] = exp(F[t,ḣ] − μ[ḣ])·N[ḣ,ȧ] + k[t,ḣ,ȧ]")
    lines.sum("ν[t,ḣ] = Σ_ȧ q[t,ḣ,ȧ]·N[ḣ,ȧ]")
    lines.sum("o[t,ḣ,ẇ] = Σ_ȧ q[t,ḣ,ȧ]·M[ḣ,ȧ,ẇ]", saved=2)
    lines.pointwise("o[t,ḣ,ẇ] = o[t,ḣ,ẇ]/(max(abs(ν[t,ḣ]), exp(−μ[ḣ])) + ε)", saved=2, constants={"ε": FLOOR})
    for state in ("M", "N", "μ"):
        lines.keep(state)


def _cells_in_chunks(lines: Lines, chunk: int) -> None:
    """Chunk by chunk (arXiv:2503.14376, §3): what a chunk's tokens read of the state before it is in units of e^μ_B,
    what they read of each other and the chunk's own keys in units of the largest exponent of each, m."""
    pairs = Within(chunk)
    lines.pointwise("F[t,ḣ] = −softplus(−F[t,ḣ])")
    lines.pointwise("Γ[t,ḣ] = Σ_s F[s,ḣ]", pairs)
    at_its_end(lines, chunk, "Γ_C[t,ḣ]", "Γ[t,ḣ]")
    lines.pointwise("m[t,ḣ] = largest_s(Γ[t,ḣ] − Γ[s,ḣ] + ι[s,ḣ])", pairs)
    at_its_end(lines, chunk, "m_C[t,ḣ]", "m[t,ḣ]")
    lines.sum("z_S[t,s,ḣ] = Σ_ȧ q[t,ḣ,ȧ]·k[s,ḣ,ȧ]", pairs)
    c = lines.number("chunk", chunk)
    lines.pointwise(f"μ_B[ḣ] = {{μ[ḣ] if t = {c}·⌊t/{c}⌋; μ_B[ḣ] otherwise}}")
    lines.pointwise("μ[ḣ] = max(Γ_C[t,ḣ] + μ_B[ḣ], m_C[t,ḣ])")
    left = "exp(Γ_C[t,ḣ] + μ_B[ḣ] − μ[ḣ])"
    at_its_begin(lines, chunk, "M[ḣ,ȧ,ẇ]", "M_B[ḣ,ȧ,ẇ]", left)
    at_its_begin(lines, chunk, "N[ḣ,ȧ]", "N_B[ḣ,ȧ]", left)
    lines.pointwise("k_I[t,ḣ,ȧ] = exp(Γ_C[t,ḣ] − Γ[t,ḣ] + ι[t,ḣ] − μ[ḣ])·k[t,ḣ,ȧ]", saved=2)
    lines.sum("M[ḣ,ȧ,ẇ] += k_I[t,ḣ,ȧ]·v[t,ḣ,ẇ]")
    lines.pointwise("N[ḣ,ȧ] = N[ḣ,ȧ] + k_I[t,ḣ,ȧ]")
    lines.pointwise("m[t,ḣ] = max(m[t,ḣ], Γ[t,ḣ] + μ_B[ḣ])")
    lines.pointwise("q_B[t,ḣ,ȧ] = exp(Γ[t,ḣ] + μ_B[ḣ] − m[t,ḣ])·q[t,ḣ,ȧ]", saved=2)
    lines.sum("ν[t,ḣ] = Σ_ȧ q_B[t,ḣ,ȧ]·N_B[ḣ,ȧ]")
    lines.sum("o[t,ḣ,ẇ] = Σ_ȧ q_B[t,ḣ,ȧ]·M_B[ḣ,ȧ,ẇ]")
    for state in ("M", "N", "μ"):
        lines.keep(state)
    lines.pointwise("z_S[t,s,ḣ] = exp(Γ[t,ḣ] − Γ[s,ḣ] + ι[s,ḣ] − m[t,ḣ])·z_S[t,s,ḣ]", pairs, saved=2)
    lines.pointwise("ν[t,ḣ] = ν[t,ḣ] + Σ_s z_S[t,s,ḣ]", pairs)
    lines.sum("o[t,ḣ,ẇ] += Σ_s z_S[t,s,ḣ]·v[s,ḣ,ẇ]", pairs, saved=2)
    lines.pointwise("o[t,ḣ,ẇ] = o[t,ḣ,ẇ]/(max(abs(ν[t,ḣ]), exp(−m[t,ḣ])) + ε)", saved=2, constants={"ε": FLOOR})
