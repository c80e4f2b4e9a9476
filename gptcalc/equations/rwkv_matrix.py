"""RWKV-5, 6 (Peng et al. 2024) and 7 (Peng et al. 2025): time mixing whose past is a matrix for each head.

Letters: ḣ heads, ȧ channels of a key, ẇ channels of a value, ķ the one token that stays; ṗ what is read of both tokens,
bottlenecks: ṡ of shares, ř of decays, ṁ of rates, ż of gates, ṿ of values.
"""

from __future__ import annotations

from gptcalc.architecture import DeltaMixing, MatrixMixing
from gptcalc.equations.chunked import OF_CHUNKS, Letters, generalised_in_chunks, in_chunks
from gptcalc.equations.language import Index, Mark
from gptcalc.equations.lines import Lines
from gptcalc.equations.norms import norm_line
from gptcalc.equations.rwkv import before, mix
from gptcalc.equations.symbols import Symbols

RANKS = {"shift_rank": "ṡ", "decay_rank": "ř", "rate_rank": "ṁ", "gate_rank": "ż", "value_rank": "ṿ"}


def scope(m: MatrixMixing | DeltaMixing, d: Index, symbols: Symbols) -> dict[str, Index]:
    """What the index letters run over."""
    name = m.section
    letters = {
        "i": d,
        "ḣ": symbols.index("n_states", m.n_heads, "heads", name, "tp"),
        "ȧ": symbols.index("d_k", m.d_k, "channels", name),
        "ẇ": symbols.index("d_v", m.d_v, "channels", name),
        "ķ": symbols.derived("1", 1, "taps"),
    }
    if isinstance(m, MatrixMixing) and m.shift_rank is not None:
        letters["ṗ"] = symbols.index("n_shares", len(_read(m)), "projections", name)
    for key, letter in RANKS.items():
        rank = getattr(m, key, None)
        if rank is not None:
            letters[letter] = symbols.index(key, rank, "channels", name)
    return letters | OF_CHUNKS


#: each head has its state, and its own receptances and keys, whose channels decay
OF_HEADS = Letters("ḣ", "ḣ", "ḣ,ȧ")


def _read(m: MatrixMixing) -> list[tuple[str, str]]:
    """What reads both tokens: its symbol and its key."""
    decay = [("w", "decay")] if m.decay_rank is not None else []
    return [("r", "receptance"), *decay, ("k", "k"), ("v", "v"), ("G", "gate")]


def matrix_mixing(lines: Lines, m: MatrixMixing, chunk: int | None = None) -> None:
    """n[t,i] → y[t,i]; the states token by token, or in chunks."""
    before(lines, "i")
    if m.shift_rank is not None:
        lines.pointwise("x_M[t,i] = n[t,i] + m_x[i]·(n_P[t,i] − n[t,i])", saved=2, m_x="shift_mix")
        lines.sum("l_M[t,ṗ,ṡ] = Σ_i x_M[t,i]·A_M[ṗ,i,ṡ]", saved=2, A_M="shift_a")
        lines.pointwise("l_M[t,ṗ,ṡ] = tanh(l_M[t,ṗ,ṡ])", saved=2)
        text = "m_M[t,ṗ,i] = Σ_ṡ l_M[t,ṗ,ṡ]·B_M[ṗ,ṡ,i] + b_M[ṗ,i]"
        lines.sum(text, saved=2, B_M="shift_b", b_M="shift_b.bias")
    for place, (name, key) in enumerate(_read(m)):
        if m.shift_rank is None:
            mix(lines, name, key, "i")
        else:
            text = f"{name}_M[t,i] = n[t,i] + m_M[t,{place},i]·(n_P[t,i] − n[t,i])"
            lines.pointwise(text, saved=2)
        if name != "w":
            _project(lines, name, key)
    if m.decay_rank is None:
        lines.pointwise("Ā[t,ḣ,ȧ] = exp(−exp(w_D[ḣ,ȧ]))", w_D="decay_rate")
    else:
        _through(lines, "w", "decay", "ř", "ḣ,ȧ", "tanh", bias=True)
        lines.pointwise("Ā[t,ḣ,ȧ] = exp(−exp(w[t,ḣ,ȧ]))", saved=2)
    if chunk is None:
        lines.sum("o[t,ḣ,ẇ] = Σ_ȧ r[t,ḣ,ȧ]·M[ḣ,ȧ,ẇ]")
        lines.pointwise("M[ḣ,ȧ,ẇ] = Ā[t,ḣ,ȧ]·M[ḣ,ȧ,ẇ]")
        lines.sum("M[ḣ,ȧ,ẇ] += k[t,ḣ,ȧ]·v[t,ḣ,ẇ]")
        lines.keep("M")
    else:
        in_chunks(lines, chunk, OF_HEADS, query="r", earlier=True)
    _own(lines)
    norm_line(lines, m.out_norm, "o[t,ḣ,ẇ]", "o[t,ḣ,ẇ]", "ẇ", "out_norm", "ḣ,ẇ", name="_o", saved=2)
    lines.pointwise("o[t,ḣ,ẇ] = silu(G_O[t,ḣ,ẇ])·o[t,ḣ,ẇ]", saved=2)
    lines.sum("y[t,i] = Σ_{ḣ,ẇ} o[t,ḣ,ẇ]·W_O[ḣ,ẇ,i]", W_O=Mark("out", "out"))


def delta_mixing(lines: Lines, m: DeltaMixing, chunk: int | None = None) -> None:
    """n[t,i] → y[t,i]; the states token by token, or in chunks."""
    before(lines, "i")
    read = (("r", "receptance"), ("w", "decay"), ("k", "k"), ("v", "v"), ("a", "rate"), ("G", "gate"))
    for name, key in read:
        mix(lines, name, key, "i", "before")
        if name in ("r", "k", "v"):
            _project(lines, name, key)
    _through(lines, "w", "decay", "ř", "ḣ,ȧ", "tanh", bias=True)
    lines.pointwise("Ā[t,ḣ,ȧ] = exp(−exp(−0.5)·σ(w[t,ḣ,ȧ]))", saved=2)
    _through(lines, "a", "rate", "ṁ", "ḣ,ȧ", bias=True)
    lines.pointwise("a[t,ḣ,ȧ] = σ(a[t,ḣ,ȧ])", saved=2)
    _through(lines, "G_O", "gate", "ż", "ḣ,ẇ", "σ", read="G")
    if m.value_rank is None:
        lines.pointwise("v_0[t,ḣ,ẇ] = v[t,ḣ,ẇ]", saved=2)
    else:
        _through(lines, "b", "value", "ṿ", "ḣ,ẇ", bias=True, read="v")
        lines.pointwise("v[t,ḣ,ẇ] = v[t,ḣ,ẇ] + σ(b[t,ḣ,ẇ])·(v_0[t,ḣ,ẇ] − v[t,ḣ,ẇ])", saved=2)
    lines.pointwise("k̂[t,ḣ,ȧ] = d_κ[ḣ,ȧ]·k[t,ḣ,ȧ]", saved=2, d_κ="key_direction")
    lines.pointwise("k̂[t,ḣ,ȧ] = k̂[t,ḣ,ȧ]/√(Σ_ȧ k̂[t,ḣ,ȧ]² + ε)", saved=2, constants={"ε": EPS})
    lines.pointwise("k[t,ḣ,ȧ] = (1 + r_κ[ḣ,ȧ]·(a[t,ḣ,ȧ] − 1))·k[t,ḣ,ȧ]", saved=2, r_κ="key_rate")
    lines.pointwise("a[t,ḣ,ȧ] = −a[t,ḣ,ȧ]·k̂[t,ḣ,ȧ]", saved=2)
    if chunk is None:
        lines.sum("h[t,ḣ,ẇ] = Σ_ȧ k̂[t,ḣ,ȧ]·M[ḣ,ȧ,ẇ]", saved=2)
        lines.pointwise("M[ḣ,ȧ,ẇ] = Ā[t,ḣ,ȧ]·M[ḣ,ȧ,ẇ]")
        lines.sum("M[ḣ,ȧ,ẇ] += a[t,ḣ,ȧ]·h[t,ḣ,ẇ]")
        lines.sum("M[ḣ,ȧ,ẇ] += k[t,ḣ,ȧ]·v[t,ḣ,ẇ]")
        lines.sum("o[t,ḣ,ẇ] = Σ_ȧ r[t,ḣ,ȧ]·M[ḣ,ȧ,ẇ]", saved=2)
        lines.keep("M")
    else:
        generalised_in_chunks(lines, chunk, OF_HEADS)
    norm_line(lines, m.out_norm, "o[t,ḣ,ẇ]", "o[t,ḣ,ẇ]", "ẇ", "out_norm", "ḣ,ẇ", name="_o", saved=2)
    _own(lines)
    lines.pointwise("o[t,ḣ,ẇ] = G_O[t,ḣ,ẇ]·o[t,ḣ,ẇ]", saved=2)
    lines.sum("y[t,i] = Σ_{ḣ,ẇ} o[t,ḣ,ẇ]·W_O[ḣ,ẇ,i]", W_O=Mark("out", "out"))


EPS = 1e-6  # in the length of a key


def _project(lines: Lines, name: str, key: str) -> None:
    """Receptances, keys, values or gates of what is read of both tokens."""
    where = "ḣ,ȧ" if name in ("r", "k") else "ḣ,ẇ"
    value, matrix = ("G_O", "W_OG") if name == "G" else (name, f"W_{name}")
    text = f"{value}[t,{where}] = Σ_i {name}_M[t,i]·{matrix}[i,{where}]"
    lines.sum(text, saved=2, **{matrix: key})  # type: ignore[arg-type]


def _through(
    lines: Lines, name: str, key: str, low: str, where: str, function: str = "", *, bias: bool = False, read: str = ""
) -> None:
    """A projection by way of a bottleneck, with an activation inside."""
    inner, of = f"{name}_L[t,{low}]", name.replace("_", "")
    marks = {f"A_{of}": f"{key}_a", f"B_{of}": f"{key}_b", f"b_{of}": f"{key}_b.bias"}
    lines.sum(f"{inner} = Σ_i {read or name}_M[t,i]·A_{of}[i,{low}]", saved=2, **marks)  # type: ignore[arg-type]
    if function:
        lines.pointwise(f"{inner} = {function}({inner})", saved=2)
    offset = f" + b_{of}[{where}]" if bias else ""
    text = f"{name}[t,{where}] = Σ_{low} {inner}·B_{of}[{low},{where}]{offset}"
    lines.sum(text, saved=2, **marks)  # type: ignore[arg-type]


def _own(lines: Lines) -> None:
    """What a token reads of itself: its value, once more."""
    lines.pointwise("r_U[t,ḣ,ȧ] = w_U[ḣ,ȧ]·r[t,ḣ,ȧ]", saved=2, w_U="bonus")
    lines.sum("u_U[t,ḣ] = Σ_ȧ r_U[t,ḣ,ȧ]·k[t,ḣ,ȧ]", saved=2)
    lines.pointwise("o[t,ḣ,ẇ] = o[t,ḣ,ẇ] + u_U[t,ḣ]·v[t,ḣ,ẇ]", saved=2)
