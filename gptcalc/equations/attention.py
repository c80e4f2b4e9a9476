"""Softmax attention: multi-head, grouped-query, multi-query (Vaswani et al. 2017; Ainslie et al. 2023).

The head index is split into (g, r): g over the KV heads, r over the heads that share one. So every line stays a plain
sum, and no head map is needed. Where each head has its own K and V there is only h; with one KV head K and V have none.
"""

from __future__ import annotations

from gptcalc.architecture import Attention, BlockIndexer, Norm, QKNorm, Temperature, rotated
from gptcalc.equations.conditions import Chosen, Pairs
from gptcalc.equations.language import LOG_SUM_EXP, Index, Lines, Mark, plus
from gptcalc.equations.norms import OF_KEYS, convolution_scope, convolve, norm_line
from gptcalc.equations.symbols import Symbols


def head_indices(a: Attention) -> tuple[str, str]:
    """How the heads of queries and those of keys are written."""
    if a.n_kv_heads == a.n_heads:
        return "h", "h"
    return ("h", "") if a.n_kv_heads == 1 else ("g,r", "g")


def scope(a: Attention, d: Index, symbols: Symbols) -> dict[str, Index]:
    """What the index letters of attention run over."""
    name = a.section
    n_heads = symbols.index("n_heads", a.n_heads, "heads", name, "tp")
    d_head = symbols.index("d_head", a.d_head, "channels", name)
    if a.d_head * a.n_heads == d.size:
        d_head = symbols.derived(f"{d.symbol}/{n_heads.symbol}", a.d_head, "channels")
    letters = {"i": d, "h": n_heads, "a": d_head, "w": d_head}
    if a.d_v != a.d_head:
        letters["w"] = symbols.index("d_v", a.d_v, "channels", name)
    if a.n_kv_heads not in (1, a.n_heads):
        g = symbols.index("n_kv_heads", a.n_kv_heads, "heads", name, "kv")
        letters["g"] = g
        letters["r"] = symbols.derived(f"{n_heads.symbol}/{g.symbol}", a.n_heads // a.n_kv_heads, "heads", "tp")
    if a.q_rank is not None:
        letters["m"] = symbols.index("q_rank", a.q_rank, "channels", name)
    if a.experts is not None:
        letters["e"] = symbols.index("n_experts", a.experts.n_experts, "experts", name, "ep")
        letters["q"] = letters["e"]._replace(role="choices", shard=None)  # the router is everywhere
        letters["j"] = symbols.index("top_k", a.experts.top_k, "chosen", name)
    if a.index is not None:
        letters["x"] = symbols.index("d_index", a.index.d, "channels", name)
    if a.relative is not None:
        letters["β"] = symbols.index("d_relative", a.relative.d, "channels", name)
        letters["δ"] = symbols.index("extent", a.relative.extent, "distances", name)
    if a.kv_conv is not None:
        letters |= convolution_scope(a.kv_conv, name, symbols, OF_KEYS)
    return letters


def attention(lines: Lines, a: Attention, dropout: bool) -> None:
    """n[t,i] → y[t,i]."""
    pairs = Pairs(a.window, a.chunk)
    _queries(lines, a)
    if a.kv is None:
        _keys_and_values(lines, a, pairs)
    else:
        _, kv = head_indices(a)
        lines.read(f"K[{_ix('s', kv, 'a')}] = K of the last {a.kv.from_}")
        lines.read(f"V[{_ix('s', kv, 'w')}] = V of the last {a.kv.from_}")
    if a.qk_norm is not None and a.qk_norm.at_read:
        _, kv = head_indices(a)
        keys = f"K[{_ix('s', kv, 'a')}]"
        _qk_norm(lines, a.qk_norm, "k", keys, kv)
    if a.index is not None:
        _indexer(lines, a, a.index)
        pairs = Pairs(top_k=a.index.top_k, block=a.index.block)
    if a.relative is not None:
        _relative(lines, a)
    _scores(lines, a, pairs, dropout)
    _output(lines, a)


def _ix(*letters: str) -> str:
    return ",".join(letter for letter in letters if letter)


def _queries(lines: Lines, a: Attention) -> None:
    q, _ = head_indices(a)
    here = _ix("t", q, "a")
    if a.q_rank is not None:
        lines.sum("c_Q[t,m] = Σ_i n[t,i]·W_DQ[i,m]", saved=2, W_DQ="q_a")
        norm_line(lines, a.norm or Norm(), "c_Q[t,m]", "c_Q[t,m]", "m", "q_a_norm", name="_c", saved=2)
        bias = plus(f"b_Q[{_ix(q, 'a')}]", "q" in a.bias)
        lines.sum(f"q[{here}] = Σ_m c_Q[t,m]·W_UQ[{_ix('m', q, 'a')}]{bias}", saved=2, W_UQ="q_b", b_Q="q_b.bias")
    elif a.experts is not None:
        chosen = Chosen(a.experts.top_k, a.experts.n_experts)
        lines.sum("ρ[t,q] = Σ_i n[t,i]·W_R[i,q]", saved=2, W_R=Mark("router", "router"))
        lines.pointwise("π[t,q] = softmax_q(ρ[t,q]), the top_k kept")
        lines.sum(f"p[{_ix('t', 'e', q, 'a')}] = Σ_i n[t,i]·W_Q[{_ix('e', 'i', q, 'a')}]", chosen, saved=2, W_Q="q")
        lines.pointwise(f"q[{_ix('t', 'j', q, 'a')}] = p[{_ix('t', 'e', q, 'a')}], e the j-th of E(t)")
    else:
        bias = plus(f"b_Q[{_ix(q, 'a')}]", "q" in a.bias)
        lines.sum(f"q[{here}] = Σ_i n[t,i]·W_Q[{_ix('i', q, 'a')}]{bias}", saved=2, W_Q="q", b_Q="q.bias")
    slot = "j" if a.experts is not None else ""
    _position_and_norm(lines, a, "q", _ix("t", slot, q, "a"), q)
    if a.temperature is not None:
        whole = _ix("t", slot, q, "a")
        lines.pointwise(f"q[{whole}] = q[{whole}]·{growth(a.temperature)}")
    if a.log_length is not None:
        whole = _ix("t", slot, q, "a")
        lines.pointwise(f"q[{whole}] = q[{whole}]·max(1, ln(t)/ln({a.log_length}))")


def _relative(lines: Lines, a: Attention) -> None:
    """What each query's bias is at each distance."""
    q, _ = head_indices(a)
    states = f"r[{_ix('t', q, 'β')}]"
    lines.sum(f"{states} = Σ_i n[t,i]·W_r[{_ix('i', q, 'β')}]", saved=2, W_r="relative.states")
    if a.temperature is not None:
        lines.pointwise(f"{states} = {states}·{growth(a.temperature)}")
    lines.sum(f"r̂[{_ix('t', q, 'δ')}] = Σ_β {states}·P[β,δ]", component="other", P="relative.profiles")


def growth(t: Temperature) -> str:
    """The factor of the query at position t."""
    steps = f"(t + {t.shift})/{t.floor:g}"
    if t.form == "beyond":
        return f"(1 + {t.scale:g}·ln(max(1, {steps})))"
    return f"(1 + {steps})^{t.scale:g}" if t.form == "power" else f"(1 + {t.scale:g}·ln(1 + ⌊{steps}⌋))"


def _keys_and_values(lines: Lines, a: Attention, pairs: Pairs) -> None:
    _, kv = head_indices(a)
    k, v = _ix("t", kv, "a"), _ix("t", kv, "w")
    bias = plus(f"b_K[{_ix(kv, 'a')}]", "k" in a.bias)
    lines.sum(f"k[{k}] = Σ_i n[t,i]·W_K[{_ix('i', kv, 'a')}]{bias}", saved=2, W_K=Mark("k", "keys"), b_K="k.bias")
    if a.k_eq_v:
        turned = a.rope is not None and a.qk_norm is None  # then the backward pass needs v beside the rotated k
        lines.pointwise(f"v[{v}] = k[{v}]", saved=2 if turned else 0)
    else:
        bias = plus(f"b_V[{_ix(kv, 'w')}]", "v" in a.bias)
        lines.sum(f"v[{v}] = Σ_i n[t,i]·W_V[{_ix('i', kv, 'w')}]{bias}", saved=2, W_V=Mark("v", "values"), b_V="v.bias")
    if a.kv_conv is not None:
        convolve(lines, "k", _ix(kv, "a"), "k_conv", a.kv_conv, OF_KEYS, saved=2)
        convolve(lines, "v", _ix(kv, "w"), "v_conv", a.kv_conv, OF_KEYS, saved=2)
    if a.clip is not None:
        for name, where in (("k", k), ("v", v)):
            lines.pointwise(f"{name}[{where}] = clip({name}[{where}], ±{a.clip:g})", saved=2)
    if a.v_norm is not None:
        norm_line(lines, a.v_norm, f"v[{v}]", f"v[{v}]", "w", "v_norm", name="_v", saved=2)
    if a.value_scale != 1.0:
        lines.pointwise(f"v[{v}] = {a.value_scale:g}·v[{v}]")
    _position_and_norm(lines, a, "k", k, kv)
    lines.store(f"K[{_ix('s', kv, 'a')}] = k[{_ix('s', kv, 'a')}]", "keys", pairs)
    lines.store(f"V[{_ix('s', kv, 'w')}] = v[{_ix('s', kv, 'w')}]", "values", pairs)


def _indexer(lines: Lines, a: Attention, index: BlockIndexer) -> None:
    """Which blocks of keys the query heads of each KV head attend to."""
    _, kv = head_indices(a)
    query, score = _ix("t", kv, "x"), _ix("t", "s", kv)
    lines.sum(f"q_I[{query}] = Σ_i n[t,i]·W_IQ[{_ix('i', kv, 'x')}]", saved=2, W_IQ="index.q")
    norm_line(lines, index.norm, f"q_I[{query}]", f"q_I[{query}]", "x", "index.q_norm", name="_J", saved=2)
    lines.sum("k_I[t,x] = Σ_i n[t,i]·W_IK[i,x]", saved=2, W_IK="index.k")
    norm_line(lines, index.norm, "k_I[t,x]", "k_I[t,x]", "x", "index.k_norm", name="_I", saved=2)
    if a.rope is not None:
        channels = rotated(a.rope, a.d_head)
        part = "" if channels == index.d else f", {channels} of {index.d} channels"
        lines.pointwise(f"q_I[{query}] = rotate(q_I[{query}], t{part})")
        lines.pointwise(f"k_I[t,x] = rotate(k_I[t,x], t{part})")
    lines.store("K_I[s,x] = k_I[s,x]", "index keys", Pairs())
    lines.sum(f"ζ[{score}] = Σ_x q_I[{query}]·K_I[s,x]", Pairs())
    newest = "its own block" if index.local == 1 else f"the {index.local} newest blocks"
    blocks = f"the {index.top_k} blocks of {index.block} keys where ζ[{score}] is largest, {newest} among them"
    lines.pointwise(f"top_{index.top_k}(t) = {blocks}", Pairs())


def _position_and_norm(lines: Lines, a: Attention, name: str, where: str, heads: str) -> None:
    """Clip, norm and rotate queries or keys, the norm before the rotation or after it."""
    whole = f"{name}[{where}]"
    if a.clip is not None and name == "q":
        lines.pointwise(f"{whole} = clip({whole}, ±{a.clip:g})", saved=2)
    norm = a.qk_norm if name == "q" or not (a.qk_norm and a.qk_norm.at_read) else None
    if norm is not None and not norm.after_rope:
        _qk_norm(lines, norm, name, whole, heads)
    if a.rope is not None:
        channels = rotated(a.rope, a.d_head)
        part = "" if channels == a.d_head else f", {channels} of {a.d_head} channels"
        lines.pointwise(f"{whole} = rotate({whole}, t{part})")
    if norm is not None and norm.after_rope:
        _qk_norm(lines, norm, name, whole, heads)


def _qk_norm(lines: Lines, norm: QKNorm, name: str, whole: str, heads: str) -> None:
    weight = "a" if norm.over == "head" else _ix(heads, "a")
    over = _ix(heads, "a") if norm.over == "full" else "a"
    norm_line(lines, norm, whole, whole, over, f"{name}_norm", weight, name=f"_{name}", saved=2)


def _scores(lines: Lines, a: Attention, pairs: Pairs, dropout: bool) -> None:
    q, kv = head_indices(a)
    slot = "j" if a.experts is not None else ""
    here = _ix("t", "s", slot, q)
    query, out = _ix("t", slot, q, "a"), _ix("t", slot, q, "w")
    lines.sum(f"z[{here}] = Σ_a q[{query}]·K[{_ix('s', kv, 'a')}]", pairs)
    z = f"z[{here}]/√{a.d_head}" if a.scale is None else f"{a.scale:g}·z[{here}]"
    if a.softcap is not None:
        lines.pointwise(f"z[{here}] = {a.softcap:g}·tanh({z}/{a.softcap:g})", pairs, saved=2)
        z = f"z[{here}]"
    if a.position == "alibi":
        factor = "" if a.alibi_scale == 1.0 else f"{a.alibi_scale:g}·"
        z = f"{z} − {factor}slope_h·(t − s)"
    if a.relative is not None:
        extent = a.relative.extent
        lines.pointwise(f"b[{here}] = r̂[{_ix('t', q, 'δ')}], δ = t − s; 0 where t − s ≥ {extent}", pairs)
        z = f"{z} + b[{here}]"
    if a.sinks:
        lines.pointwise(f"α[{here}] = softmax_s({z}; sink[{q}])", pairs, 2, flash=LOG_SUM_EXP, sink="sinks")
    else:
        lines.pointwise(f"α[{here}] = softmax_s({z})", pairs, 2, flash=LOG_SUM_EXP)
    if dropout:
        lines.pointwise(f"μ[{here}] = keep(t,s)", pairs, saved=1)
        lines.pointwise(f"α[{here}] = dropout(α[{here}], μ[{here}])", pairs, saved=2)
    lines.sum(f"o[{out}] = Σ_s α[{here}]·V[{_ix('s', kv, 'w')}]", pairs, saved=2)
    if a.out_norm is not None:
        over = "w" if a.out_norm.over == "head" else _ix(q, "w")
        norm_line(lines, a.out_norm, f"o[{out}]", f"o[{out}]", over, "out_norm", name="_o", saved=2)
    if a.gate is not None:
        gate = out if a.gate == "full" else _ix("t", slot, q)
        weight = _ix("i", q, "w") if a.gate == "full" else _ix("i", q)
        bias = plus(f"b_G[{q}]", a.gate_bias)
        lines.sum(f"γ_o[{gate}] = Σ_i n[t,i]·W_G[{weight}]{bias}", saved=2, W_G="gate", b_G="gate.bias")
        function = "σ" if a.gate_function == "sigmoid" else a.gate_function
        lines.pointwise(f"o[{out}] = {function}(γ_o[{gate}])·o[{out}]", saved=2)


def _output(lines: Lines, a: Attention) -> None:
    q, _ = head_indices(a)
    bias = plus("b_O[i]", "out" in a.bias)
    if a.experts is not None:
        chosen = Chosen(a.experts.top_k, a.experts.n_experts)
        u = f"u[{_ix('t', 'e', q, 'w')}]"
        lines.pointwise(f"{u} = π[t,e]·o[{_ix('t', 'j', q, 'w')}], j the place of e in E(t)", chosen, saved=2)
        lines.sum(
            f"y[t,i] = Σ_{{e,{_ix(q, 'w')}}} {u}·W_O[{_ix('e', q, 'w', 'i')}]{bias}",
            chosen, W_O=Mark("out", "out"), b_O="out.bias",
        )  # fmt: skip
        return
    out = _ix("t", q, "w")
    lines.sum(
        f"y[t,i] = Σ_{{{_ix(q, 'w')}}} o[{out}]·W_O[{_ix(q, 'w', 'i')}]{bias}",
        W_O=Mark("out", "out"),
        b_O="out.bias",
    )
