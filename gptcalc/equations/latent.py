"""Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434, §2.1; appendix C for the whole list of formulas).

Keys and values come from one latent c of rank kv_rank and one rotary key that all heads share. Two forms give the same
result: `expanded` makes keys and values of every head from the latent; `absorbed` moves those matrices to the query and
to the output, and attends over the latent itself. Both use the same weights.
"""

from __future__ import annotations

from gptcalc.architecture import Indexer, LatentAttention
from gptcalc.conventions import CacheForm, Form
from gptcalc.equations.attention import growth
from gptcalc.equations.conditions import Pairs
from gptcalc.equations.language import LOG_SUM_EXP, Index, Lines, Mark, plus
from gptcalc.equations.norms import norm_line
from gptcalc.equations.symbols import Symbols


def scope(a: LatentAttention, d: Index, symbols: Symbols) -> dict[str, Index]:
    """What the index letters of latent attention run over."""
    name = a.section
    nope = symbols.index("d_nope", a.d_nope, "channels", name)
    rope = symbols.index("d_rope", a.d_rope, "channels", name)
    both = symbols.derived(f"{nope.symbol}+{rope.symbol}", a.d_nope + a.d_rope, "channels")
    letters = {
        "i": d,
        "h": symbols.index("n_heads", a.n_heads, "heads", name, "tp"),
        "l": symbols.index("kv_rank", a.kv_rank, "channels", name),
        "a": nope,
        "p": rope,
        "b": both if a.d_rope else nope,
        "w": symbols.index("d_v", a.d_v, "channels", name),
    }
    if a.q_rank is not None:
        letters["m"] = symbols.index("q_rank", a.q_rank, "channels", name)
    if a.index is not None:
        letters["j"] = symbols.index("index_heads", a.index.n_heads, "heads", name)
        letters["x"] = symbols.index("d_index", a.index.d, "channels", name)
    return letters


def latent_attention(lines: Lines, a: LatentAttention, form: Form, cache: CacheForm, dropout: bool) -> None:
    """n[t,i] → y[t,i]."""
    _queries(lines, a)
    if a.kv is None:
        _latents(lines, a)
    else:
        lines.read(f"C[s,l] = C of the last {a.kv.from_}")
        if a.d_rope:
            lines.read(f"K_R[s,p] = K_R of the last {a.kv.from_}")
    pairs = Pairs()
    if a.index is not None:
        if not a.index.shared:
            _indexer(lines, a, a.index)
        pairs = Pairs(top_k=a.index.top_k)
    if form == "expanded" or cache == "expanded":
        _expand(lines, a, cache)
    elif a.kv is None:
        _store_latent(lines, a)
    if form == "expanded":
        _attend_expanded(lines, a, pairs, dropout)
    else:
        _attend_absorbed(lines, a, pairs, dropout)
    if a.gate is not None:
        gate, weight = ("t,h,w", "i,h,w") if a.gate == "full" else ("t,h", "i,h")
        lines.sum(f"γ_o[{gate}] = Σ_i n[t,i]·W_G[{weight}]", saved=2, W_G="gate")
        lines.pointwise(f"o[t,h,w] = σ(γ_o[{gate}])·o[t,h,w]", saved=2)
    bias = plus("b_O[i]", "out" in a.bias)
    lines.sum(f"y[t,i] = Σ_{{h,w}} o[t,h,w]·W_O[h,w,i]{bias}", W_O=Mark("out", "out"), b_O="out.bias")


def _queries(lines: Lines, a: LatentAttention) -> None:
    up = plus("b_Q[h,b]", "q_b" in a.bias)
    if a.q_rank is None:
        lines.sum(f"q[t,h,b] = Σ_i n[t,i]·W_Q[i,h,b]{up}", saved=2, W_Q="q", b_Q="q.bias")
    else:
        down = plus("b_DQ[m]", "q_a" in a.bias)
        lines.sum(f"c_Q[t,m] = Σ_i n[t,i]·W_DQ[i,m]{down}", saved=2, W_DQ="q_a", b_DQ="q_a.bias")
        norm_line(lines, a.latent_norm, "c_Q[t,m]", "c_Q[t,m]", "m", "q_a_norm", name="_c", saved=2)
        if a.q_scale != 1.0:
            lines.pointwise(f"c_Q[t,m] = {a.q_scale:g}·c_Q[t,m]")
        lines.sum(f"q[t,h,b] = Σ_m c_Q[t,m]·W_UQ[m,h,b]{up}", saved=2, W_UQ="q_b", b_Q="q_b.bias")
    if a.temperature is not None:
        lines.pointwise(f"q[t,h,b] = q[t,h,b]·{growth(a.temperature)}")
    if a.ssmax:
        growth_by_head = "(s_Q[h]·ln(t + 1) + b_S[h])"
        lines.pointwise(f"q[t,h,b] = q[t,h,b]·{growth_by_head}", saved=2, s_Q="ssmax.scale", b_S="ssmax.bias")
    if not a.d_rope:
        lines.pointwise("q_N[t,h,a] = q[t,h,b]")
        return
    lines.pointwise("q_N[t,h,a] = the first channels of q[t,h,b]")
    rotate = "rotate({}, t)" if a.position == "rope" else "{}"
    lines.pointwise(f"q_R[t,h,p] = {rotate.format('the last channels of q[t,h,b]')}")


def _latents(lines: Lines, a: LatentAttention) -> None:
    bias = "kv_a" in a.bias
    lines.sum(f"c[t,l] = Σ_i n[t,i]·W_DKV[i,l]{plus('b_DKV[l]', bias)}", saved=2, W_DKV="kv_a", b_DKV="kv_a.bias")
    norm_line(lines, a.latent_norm, "c[t,l]", "c[t,l]", "l", "kv_a_norm", name="_k", saved=2)
    if a.kv_scale != 1.0:
        lines.pointwise(f"c[t,l] = {a.kv_scale:g}·c[t,l]")
    if not a.d_rope:
        return
    lines.sum(f"k_R[t,p] = Σ_i n[t,i]·W_KR[i,p]{plus('b_KR[p]', bias)}", saved=2, W_KR="k_rope", b_KR="k_rope.bias")
    if a.position == "rope":
        lines.pointwise("k_R[t,p] = rotate(k_R[t,p], t)")


def _store_latent(lines: Lines, a: LatentAttention) -> None:
    lines.store("C[s,l] = c[s,l]", "latent", Pairs())
    if a.d_rope:
        lines.store("K_R[s,p] = k_R[s,p]", "rotary key", Pairs())


def _expand(lines: Lines, a: LatentAttention, cache: CacheForm) -> None:
    """Keys and values of every head, from the latents of the new tokens."""
    bias = "kv_b" in a.bias
    text = f"k_N[t,h,a] = Σ_l c[t,l]·W_UK[l,h,a]{plus('b_UK[h,a]', bias)}"
    lines.sum(text, saved=2, W_UK="k_b", b_UK="k_b.bias")
    text = f"v[t,h,w] = Σ_l c[t,l]·W_UV[l,h,w]{plus('b_UV[h,w]', bias)}"
    lines.sum(text, saved=2, W_UV="v_b", b_UV="v_b.bias")
    if cache == "expanded":  # of a layer that reuses latents too: it unfolds them by projections of its own
        joined = "k_N[t,h,a] and k_R[t,p], one behind the other" if a.d_rope else "k_N[t,h,a]"
        lines.pointwise(f"k[t,h,b] = {joined}")
        lines.store("K[s,h,b] = k[s,h,b]", "keys", Pairs())
        lines.store("V[s,h,w] = v[s,h,w]", "values", Pairs())
    elif a.kv is None:
        _store_latent(lines, a)


def _indexer(lines: Lines, a: LatentAttention, index: Indexer) -> None:
    """DeepSeek-V3.2's lightning indexer: I[t,s] = Σ_j w[t,j]·relu(q_I[t,j]·k_I[s]); the top_k keys are attended to."""
    if index.q_norm is None:
        lines.sum("q_I[t,j,x] = Σ_m c_Q[t,m]·W_IQ[m,j,x]", saved=2, W_IQ="index.q")
    else:
        norm_line(lines, index.q_norm, "ν_I[t,i]", "n[t,i]", "i", "index.q_norm", name="_Q", saved=2)
        lines.sum("q_I[t,j,x] = Σ_i ν_I[t,i]·W_IQ[i,j,x]", saved=2, W_IQ="index.q")
    if index.ssmax:
        text = "q_I[t,j,x] = q_I[t,j,x]·(s_I[j]·ln(t + 1) + b_I[j])"
        lines.pointwise(text, saved=2, s_I="index.ssmax.scale", b_I="index.ssmax.bias")
    lines.sum("k_I[t,x] = Σ_i n[t,i]·W_IK[i,x]", saved=2, W_IK="index.k")
    norm_line(lines, index.k_norm, "k_I[t,x]", "k_I[t,x]", "x", "index.k_norm", name="_I", saved=2)
    if a.position == "rope":
        lines.pointwise("q_I[t,j,x] = rotate(q_I[t,j,x], t)")
        lines.pointwise("k_I[t,x] = rotate(k_I[t,x], t)")
    lines.store("K_I[s,x] = k_I[s,x]", "index keys", Pairs())
    lines.sum("ω[t,j] = Σ_i n[t,i]·W_IW[i,j]", saved=2, W_IW="index.weights")
    lines.sum("ζ[t,s,j] = Σ_x q_I[t,j,x]·K_I[s,x]", Pairs())
    lines.pointwise("ζ[t,s,j] = relu(ζ[t,s,j])", Pairs())
    lines.sum("I[t,s] = Σ_j ω[t,j]·ζ[t,s,j]", Pairs())


def _softmax(lines: Lines, a: LatentAttention, pairs: Pairs, dropout: bool) -> None:
    z = f"z[t,s,h]/√{a.d_nope + a.d_rope}" if a.scale is None else f"{a.scale:g}·z[t,s,h]"
    lines.pointwise(f"α[t,s,h] = softmax_s({z})", pairs, 2, flash=LOG_SUM_EXP)
    if dropout:
        lines.pointwise("μ[t,s,h] = keep(t,s)", pairs, saved=1)
        lines.pointwise("α[t,s,h] = dropout(α[t,s,h], μ[t,s,h])", pairs, saved=2)


def _attend_expanded(lines: Lines, a: LatentAttention, pairs: Pairs, dropout: bool) -> None:
    lines.sum("z[t,s,h] = Σ_a q_N[t,h,a]·k_N[s,h,a]", pairs)
    if a.d_rope:
        lines.sum("z[t,s,h] += Σ_p q_R[t,h,p]·K_R[s,p]", pairs)
    _softmax(lines, a, pairs, dropout)
    lines.sum("o[t,h,w] = Σ_s α[t,s,h]·v[s,h,w]", pairs, saved=2)


def _attend_absorbed(lines: Lines, a: LatentAttention, pairs: Pairs, dropout: bool) -> None:
    lines.sum("q_C[t,h,l] = Σ_a q_N[t,h,a]·W_UK[l,h,a]", saved=2, W_UK="k_b")
    lines.sum("z[t,s,h] = Σ_l q_C[t,h,l]·C[s,l]", pairs)
    if a.d_rope:
        lines.sum("z[t,s,h] += Σ_p q_R[t,h,p]·K_R[s,p]", pairs)
    _softmax(lines, a, pairs, dropout)
    lines.sum("o_C[t,h,l] = Σ_s α[t,s,h]·C[s,l]", pairs, saved=2)
    bias = "kv_b" in a.bias
    lines.sum(f"o[t,h,w] = Σ_l o_C[t,h,l]·W_UV[l,h,w]{plus('b_UV[h,w]', bias)}", saved=2, W_UV="v_b", b_UV="v_b.bias")
