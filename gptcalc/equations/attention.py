"""Softmax attention: multi-head, grouped-query, multi-query (Vaswani et al. 2017; Ainslie et al. 2023).

The head index is split into (g, r): g over the KV heads, r over the heads that share one. So every line stays a plain
sum, and no head map is needed. Where each head has its own K and V there is only h; with one KV head K and V have none.
"""

from __future__ import annotations

import math
from typing import Any, Literal

from gptcalc.architecture import (
    Attention,
    BlockIndexer,
    Differential,
    DynamicMask,
    KeyValueConvolution,
    RelativeBias,
)
from gptcalc.equations import convolved, relative, strided
from gptcalc.equations.attention_heads import clip, gated, growth, head_indices, limited, of_mask, positioned, qk_normed
from gptcalc.equations.conditions import Chosen, Condition, Entries, OfSource, Once, Pairs
from gptcalc.equations.convolution import OF_KEYS, convolve_beside, convolve_by_token
from gptcalc.equations.language import LOG_SUM_EXP, Mark
from gptcalc.equations.lines import Lines, ix, plus, root
from gptcalc.equations.norms import narrowed, norm_line, widened
from gptcalc.equations.rope import Rotation


def attention(lines: Lines, a: Attention, rotation: Rotation | None, dropout: bool) -> None:
    """n[t,i] → y[t,i]."""
    pairs = None if a.source else Pairs(a.window, a.chunk, both=a.sees_ahead)
    if rotation is not None:
        rotation.frequencies(lines)
    if a.cca is not None:
        convolved.mixed_heads(lines, *head_indices(a))
    if a.filter is not None:
        convolved.filtered(lines, a.filter)
    _queries(lines, a, rotation)
    if a.with_target:
        from gptcalc.equations import drafted

        drafted.scored(lines, a, rotation)
        _output(lines, a)
        return
    if a.kv is None:
        _keys_and_values(lines, a, rotation, pairs)
    else:
        _, kv = head_indices(a)
        for name, letter in (("K", "a"), ("V", "w")):
            where = ix("s", kv, letter)
            lines.read(f"{name}[{where}] = {name}_{a.kv.from_}[{where}]")
    if a.qk_norm is not None and a.qk_norm.at_read:
        _, kv = head_indices(a)
        keys = f"K[{ix('s', kv, 'a')}]"
        qk_normed(lines, a.qk_norm, "k", keys, kv)
    if a.index is not None:
        _indexer(lines, a, a.index, rotation)
        alone = a.index.n_heads is not None
        pairs = Pairs(top_k=a.index.top_k, block=a.index.block, complete=alone, chosen=_choice(a, a.index))
    if a.scores.relative is not None:
        _relative(lines, a, a.scores.relative)
    if a.scores.buckets is not None and not a.scores.buckets.shared:
        relative.bucket_bias(lines, a, a.scores.buckets, head_indices(a)[0])
    if a.scores.disentangled is not None:
        relative.disentangled(lines, a, a.scores.disentangled)
    if a.dynamic_mask is not None:
        pairs = _dynamic(lines, a, a.dynamic_mask)
    seen = pairs if a.strided is None else strided.blocks(lines, a, a.strided, head_indices(a)[0])
    _scores(lines, a, seen, dropout)
    _output(lines, a)


def _looked_on(a: Attention) -> tuple[str, str, str]:
    """The letter of the tokens that are looked at, and what their keys and values are called: those of the cache, or
    those of this pass alone where all its tokens are seen at once."""
    if a.source:
        return "σ", "K", "V"
    return ("s", "K", "V") if a.causal else ("s", "k", "v")


def _input(a: Attention, name: Literal["q", "k", "v"] = "q") -> tuple[str, str]:
    """What queries, keys or values are made of, and the letter of its channels."""
    if a.inputs > 1 and name != "q":
        return "i", f"n_{name.upper()}[t,i]"
    if a.filter is not None and name != "v":
        return "i", "n_F[t,i]"
    return ("ϊ", "n_C[t,ϊ]") if a.with_embedding else ("i", "n[t,i]")


def _adapt(lines: Lines, a: Attention, name: Literal["q", "k", "v"], here: str) -> None:
    """The low-rank part of the projection to q, k or v."""
    if a.adapter is not None:
        big = name.upper()
        narrowed(lines, big, _input(a)[1], f"{name}_adapter")
        widened(lines, big, f"{name}[{here}]", here.partition(",")[2], f"{name}_adapter.right")


def _queries(lines: Lines, a: Attention, rotation: Rotation | None) -> None:
    q, _ = head_indices(a)
    here = ix("t", q, "a")
    if a.bottleneck is not None:
        lines.sum("c_Q[t,m] = Σ_i n[t,i]·W_DQ[i,m]", saved=2, W_DQ="q_a")
        norm_line(lines, a.bottleneck.norm, "c_Q[t,m]", "c_Q[t,m]", "m", "q_a_norm", name="_c", saved=2)
        bias = plus(f"b_Q[{ix(q, 'a')}]", "q" in a.bias)
        lines.sum(f"q[{here}] = Σ_m c_Q[t,m]·W_UQ[{ix('m', q, 'a')}]{bias}", saved=2, W_UQ="q_b", b_Q="q_b.bias")
    elif a.cca is not None:
        pass  # made with the keys
    elif a.experts is not None:
        chosen = Chosen(a.experts.top_k, a.experts.n_experts)
        lines.sum("ρ[t,η] = Σ_i n[t,i]·W_R[i,η]", saved=2, W_R=Mark("router", "router"))
        lines.pointwise(f"R(t) = top_η({lines.scope['j'].symbol}, ρ[t,η])")
        lines.pointwise("π[t,η] = softmax_{η | η ∈ R(t)}(ρ[t,η])")
        lines.sum(
            f"q_E[{ix('t', 'e', q, 'a')}] = Σ_i n[t,i]·W_Q[{ix('e', 'i', q, 'a')}]",
            chosen,
            saved=2,
            W_Q=Mark("q", "queries"),
        )
        lines.pointwise(f"q[{ix('t', 'j', q, 'a')}] = q_E[{ix('t', 'e', q, 'a')}], e = element(R(t), j)")
    else:
        bias = plus(f"b_Q[{ix(q, 'a')}]", "q" in a.bias)
        i, n = _input(a)
        lines.sum(f"q[{here}] = Σ_{i} {n}·W_Q[{ix(i, q, 'a')}]{bias}", saved=2, W_Q=Mark("q", "queries"), b_Q="q.bias")
        _adapt(lines, a, "q", here)
    slot = "j" if a.experts is not None else ""
    positioned(lines, a, rotation, "q", f"q[{ix('t', slot, q, 'a')}]", q, "(S + t)" if a.with_target else "t")
    if a.scores.temperature is not None:
        whole = ix("t", slot, q, "a")
        lines.pointwise(f"q[{whole}] = q[{whole}]·{growth(lines, a.scores.temperature)}")
    if a.scores.log_length is not None:
        whole = ix("t", slot, q, "a")
        length = lines.number("log_length", a.scores.log_length)
        lines.pointwise(f"q[{whole}] = q[{whole}]·ln(max(t, {length}))/ln({length})")


def _relative(lines: Lines, a: Attention, relative: RelativeBias) -> None:
    """What each query's bias is at each distance."""
    q, _ = head_indices(a)
    states = f"q_P[{ix('t', q, 'ŕ')}]"
    lines.sum(f"{states} = Σ_i n[t,i]·W_P[{ix('i', q, 'ŕ')}]", saved=2, W_P="relative.states")
    if relative.limit is not None:
        limited(lines, states, "ŕ", relative.limit, "relative.factor", q)
    if a.scores.temperature is not None:
        lines.pointwise(f"{states} = {states}·{growth(lines, a.scores.temperature)}")
    lines.sum(f"b_P[{ix('t', q, 'δ')}] = Σ_ŕ {states}·P[ŕ,δ]", component="other", P="relative.profiles")


def _keys_and_values(lines: Lines, a: Attention, rotation: Rotation | None, pairs: Pairs | None) -> None:
    """Of the new tokens, or once of the encoder's output x_S."""
    _, kv = head_indices(a)
    at, i, n, once = ("σ", "υ", "x_S[σ,υ]", Once()) if a.source else ("t", *_input(a, "k"), None)
    n_v = n if a.source else _input(a, "v")[1]
    k, v = ix(at, kv, "a"), ix(at, kv, "w")
    if a.cca is not None:
        positioned(lines, a, rotation, "k", f"k[{k}]", kv)
        _store(lines, a, pairs)
        return
    bias = plus(f"b_K[{ix(kv, 'a')}]", "k" in a.bias)
    text = f"k[{k}] = Σ_{i} {n}·W_K[{ix(i, kv, 'a')}]{bias}"
    lines.sum(text, once, saved=2, W_K=Mark("k", "keys"), b_K="k.bias")
    _adapt(lines, a, "k", k)
    if a.k_eq_v:
        turned = a.rope is not None and a.qk_norm is None  # then the backward pass needs v beside the rotated k
        lines.pointwise(f"v[{v}] = k[{v}]", saved=2 if turned else 0)
    else:
        bias = plus(f"b_V[{ix(kv, 'w')}]", "v" in a.bias)
        text = f"v[{v}] = Σ_{i} {n_v}·W_V[{ix(i, kv, 'w')}]{bias}"
        lines.sum(text, once, saved=2, W_V=Mark("v", "values"), b_V="v.bias")
        _adapt(lines, a, "v", v)
    if a.kv_conv is not None:
        _convolve_keys_and_values(lines, a, a.kv_conv)
    if a.v_norm is not None:
        norm_line(lines, a.v_norm, f"v[{v}]", f"v[{v}]", "w", "v_norm", name="_v", saved=2)
    if a.clip is not None:
        clip(lines, f"v[{v}]", a.clip)
    if a.value_scale != 1.0:
        lines.pointwise(f"v[{v}] = {lines.factor('scale_v', a.value_scale)}v[{v}]")
    positioned(lines, a, rotation, "k", f"k[{k}]", kv)
    _store(lines, a, pairs)


def _convolve_keys_and_values(lines: Lines, a: Attention, c: KeyValueConvolution) -> None:
    _, kv = head_indices(a)
    terms = c.terms if c.scaled else 0
    for name, channel, source in (("k", "a", _input(a, "k")[1]), ("v", "w", _input(a, "v")[1])):
        if c.token_taps:
            convolve_by_token(lines, name, source, kv, channel, f"{name}_conv", terms)
        else:
            convolve_beside(lines, name, ix(kv, channel), f"{name}_conv", OF_KEYS, saved=2, terms=terms)


def _store(lines: Lines, a: Attention, pairs: Pairs | None) -> None:
    """What the cache keeps of keys and values."""
    _, kv = head_indices(a)
    if a.causal or a.source:
        s, kept = _looked_on(a)[0], pairs if pairs is not None else OfSource()
        lines.store(f"K[{ix(s, kv, 'a')}] = k[{ix(s, kv, 'a')}]", "keys", kept)
        lines.store(f"V[{ix(s, kv, 'w')}] = v[{ix(s, kv, 'w')}]", "values", kept)


def _choice(a: Attention, index: BlockIndexer) -> str:
    """The blocks that the queries of a KV head attend to, or those of all, as a set."""
    _, kv = head_indices(a)
    return f"J({ix('t', kv if index.n_heads is None else '')})"


def _indexer(lines: Lines, a: Attention, index: BlockIndexer, rotation: Rotation | None) -> None:
    """Which blocks of keys the query heads of each KV head attend to."""
    if index.n_heads is not None:
        _pooled_indexer(lines, a, index, rotation)
        return
    _, kv = head_indices(a)
    query, score = ix("t", kv, "ι"), ix("t", "s", kv)
    lines.sum(f"q_I[{query}] = Σ_i n[t,i]·W_IQ[{ix('i', kv, 'ι')}]", saved=2, W_IQ=Mark("index.q", "block index"))
    norm_line(lines, index.norm, f"q_I[{query}]", f"q_I[{query}]", "ι", "index.q_norm", name="_J", saved=2)
    lines.sum("k_I[t,ι] = Σ_i n[t,i]·W_IK[i,ι]", saved=2, W_IK=Mark("index.k", "block index"))
    norm_line(lines, index.norm, "k_I[t,ι]", "k_I[t,ι]", "ι", "index.k_norm", name="_I", saved=2)
    if rotation is not None:
        rotation.turn(lines, f"q_I[{query}]", "ι")
        rotation.turn(lines, "k_I[t,ι]", "ι")
    lines.store("K_I[s,ι] = k_I[s,ι]", "index keys", Pairs())
    lines.sum(f"ζ[{score}] = Σ_ι q_I[{query}]·K_I[s,ι]", Pairs())
    block, local = lines.number("block", index.block), lines.number("local", index.local)
    best = f"largest_{{s | ⌊s/{block}⌋ = b, s ≤ t}}(ζ[{score}])"
    newest = f"⌊t/{block}⌋ − {local} < b ≤ ⌊t/{block}⌋"
    lines.pointwise(f"I[{ix('t', 'b', kv)}] = {{∞ if {newest}; {best} otherwise}}")
    lines.pointwise(f"{_choice(a, index)} = top_b({lines.number('index_top_k', index.top_k)}, I[{ix('t', 'b', kv)}])")


def _pooled_indexer(lines: Lines, a: Attention, index: BlockIndexer, rotation: Rotation | None) -> None:
    """Which complete blocks of keys all query heads attend to, by the mean of their keys."""
    block = lines.number("block", index.block)
    lines.sum("q_I[t,j,ι] = Σ_i n[t,i]·W_IQ[i,j,ι]", saved=2, W_IQ=Mark("index.q", "block index"))
    norm_line(lines, index.norm, "q_I[t,j,ι]", "q_I[t,j,ι]", "ι", "index.q_norm", name="_J", saved=2)
    lines.sum("k_I[t,ι] = Σ_i n[t,i]·W_IK[i,ι]", saved=2, W_IK=Mark("index.k", "block index"))
    lines.store("K_I[s,ι] = k_I[s,ι]", "index keys", Pairs())
    lines.pointwise(f"p_I[χ,ι] = mean_{{s | ⌊s/{block}⌋ = χ}}(K_I[s,ι])", saved=2)
    norm_line(lines, index.norm, "p_I[χ,ι]", "p_I[χ,ι]", "ι", "index.k_norm", name="_I", saved=2)
    if rotation is not None:
        rotation.turn(lines, "q_I[t,j,ι]", "ι")
        rotation.turn(lines, "p_I[χ,ι]", "ι", f"({block}·χ)")
    seen = Entries(index.block)
    lines.sum("ζ[t,χ,j] = Σ_ι q_I[t,j,ι]·p_I[χ,ι]", seen)
    lines.pointwise("I[t,χ] = Σ_j relu(ζ[t,χ,j])", seen)
    lines.pointwise(f"I_B[t,b] = {{∞ if b = ⌊(t + 1)/{block}⌋; I[t,b] otherwise}}")
    lines.pointwise(f"{_choice(a, index)} = top_b({lines.number('index_top_k', index.top_k)}, I_B[t,b])")


def _scores(lines: Lines, a: Attention, pairs: Condition | None, dropout: bool) -> None:
    q, kv = head_indices(a)
    s, keys, values = _looked_on(a)
    slot = "j" if a.experts is not None else ""
    here = ix("t", s, slot, q)
    query, out = ix("t", slot, q, "a"), ix("t", slot, q, "w")
    lines.sum(f"z[{here}] = Σ_a q[{query}]·{keys}[{ix(s, kv, 'a')}]", pairs)
    if a.scores.disentangled is not None:
        lines.pointwise(f"z[{here}] = z[{here}] + b_Z[{here}]", pairs)
    scale, width = a.scores.scale, root(lines.scope["a"], a.scores.kinds)
    z = (
        f"z[{here}]/{width}"
        if scale is None
        else f"z[{here}]"
        if scale == 1.0
        else f"{lines.number('scale_z', scale)}·z[{here}]"
    )
    if a.scores.softcap is not None:
        cap = lines.number("softcap", a.scores.softcap)
        lines.pointwise(f"z[{here}] = {cap}·tanh({z}/{cap})", pairs, saved=2)
        z = f"z[{here}]"
    if a.position == "alibi":
        lines.pointwise(f"slope[{q}] = {_slope(lines, a)}")
        factor = lines.factor("scale_slope", a.scores.alibi_scale)
        z = f"{z} − {factor}slope[{q}]·(t − s)"
    if a.scores.relative is not None:
        near = f"t − s < {lines.scope['δ'].symbol}"
        lines.pointwise(f"b[{here}] = {{b_P[{ix('t', q, 't − s')}] if {near}; 0 otherwise}}", pairs)
        z = f"{z} + b[{here}]"
    if a.scores.buckets is not None:
        z = f"{z} + b_Z[{ix('t', s, q)}]"
    if a.dynamic_mask is not None:
        z = f"{z} + b_Δ[{ix('s', kv)}]"
    if a.scores.token_sinks:
        lines.sum(f"sink_T[{ix('t', q)}] = Σ_i n[t,i]·W_T[{ix('i', q)}]", saved=2, W_T="token_sinks")
        lines.pointwise(f"α[{here}] = softmax_{s}({z}; sink_T[{ix('t', q)}])", pairs, 2, flash=LOG_SUM_EXP)
    elif a.scores.sinks:
        lines.pointwise(f"α[{here}] = softmax_{s}({z}; sink[{q}])", pairs, 2, flash=LOG_SUM_EXP, sink="sinks")
    else:
        lines.pointwise(f"α[{here}] = softmax_{s}({z})", pairs, 2, flash=LOG_SUM_EXP)
    if dropout:
        lines.pointwise(f"μ[{here}] = keep({here})", pairs, saved=1)
        lines.pointwise(f"α[{here}] = dropout(α[{here}], μ[{here}])", pairs, saved=2)
    if a.differential is not None:
        _difference(lines, a, a.differential, pairs)
        return
    lines.sum(f"o[{out}] = Σ_{s} α[{here}]·{values}[{ix(s, kv, 'w')}]", pairs, saved=2)
    if a.gate is not None and a.gate.first:
        gated(lines, a.gate, ix("t", slot), q, "w")
    if a.out_norm is not None:
        over = "w" if a.out_norm.over == "head" else ix(q, "w")
        norm_line(lines, a.out_norm, f"o[{out}]", f"o[{out}]", over, "out_norm", name="_o", saved=2)
    if a.gate is not None and not a.gate.first:
        gated(lines, a.gate, ix("t", slot), q, "w")


def _dynamic(lines: Lines, a: Attention, mask: DynamicMask) -> Pairs:
    """By how much the scores of a key grow, made of its values again in every pass, and which keys are seen."""
    _, kv = head_indices(a)
    where, own = ix("s", kv), of_mask(kv)
    over = "w" if not kv else f"{{{kv},w}}"
    made = f"Δ[s,{own}] = Σ_{over} V[{ix('s', kv, 'w')}]·W_Δ[{ix(kv, 'w')},{own}]{plus(f'b_δ[{own}]', mask.bias)}"
    lines.sum(made, saved=2, W_Δ="mask.dt", b_δ="mask.dt.bias")
    at = f"{own} = {kv or 0}"
    lines.pointwise(f"b_Δ[{where}] = exp(A[{own}]·softplus(Δ[s,{own}])), {at}", saved=2, A="mask.A")
    chosen = f"J({ix('t', kv)})"
    lines.pointwise(f"ζ[{ix('t', where)}] = b_Δ[{where}]", Pairs())
    lines.pointwise(f"{chosen} = top_s({lines.number('mask_top_k', mask.top_k)}, ζ[{ix('t', where)}])")
    return Pairs(top_k=mask.top_k, chosen=chosen)


def _difference(lines: Lines, a: Attention, d: Differential, pairs: Condition | None) -> None:
    """One half of the softmaxes less the other; both halves of the values for each."""
    q, kv = (letters.removeprefix("ξ,") for letters in head_indices(a))
    for n in "12":
        keys: dict[str, Any] = {f"λ_q{n}": f"lambda_q{n}", f"λ_k{n}": f"lambda_k{n}"}
        lines.pointwise(f"λ_{n}[] = exp(Σ_a λ_q{n}[a]·λ_k{n}[a])", **keys)
    lines.pointwise("λ_0[] = 0.8 − 0.6·exp(−0.3·layer)")
    lines.pointwise("λ[] = λ_1[] − λ_2[] + λ_0[]")
    less = f"β[{ix('t', 's', q)}]"
    lines.pointwise(f"{less} = α[{ix('t', 's', '0', q)}] − λ[]·α[{ix('t', 's', '1', q)}]", pairs, saved=2)
    out = f"o[{ix('t', q, 'ξ,w')}]"
    lines.sum(f"{out} = Σ_s {less}·V[{ix('s', 'ξ', kv, 'w')}]", pairs, saved=2)
    norm_line(lines, d.norm, out, out, "ξ,w", "difference_norm", name="_o", saved=2)
    lines.pointwise(f"{out} = (1 − λ_0[])·{out}")


def _slope(lines: Lines, a: Attention) -> str:
    """ALiBi's slope of a head: 2^(−8/n), 2^(−16/n), …; where n is no power of two, the rest are every other slope of
    twice as many heads (arXiv:2108.12409)."""
    q, _ = head_indices(a)
    head = q if q == "h" else f"({lines.scope['r'].symbol}·g + r)"
    power = 2 ** int(math.log2(a.n_heads))
    n = lines.scope["h"].symbol if power == a.n_heads else lines.number("n_regular", power)
    first = f"2^(−8·({head} + 1)/{n})"
    return first if power == a.n_heads else f"{{{first} if {head} < {n}; 2^(−4·(2·({head} − {n}) + 1)/{n}) otherwise}}"


def _output(lines: Lines, a: Attention) -> None:
    q, _ = head_indices(a)
    bias = plus("b_O[i]", "out" in a.bias)
    if a.experts is not None:
        chosen = Chosen(a.experts.top_k, a.experts.n_experts)
        u = f"o_E[{ix('t', 'e', q, 'w')}]"
        lines.pointwise(f"{u} = π[t,e]·o[{ix('t', 'j', q, 'w')}], j = place(e, R(t))", chosen, saved=2)
        lines.sum(
            f"y[t,i] = Σ_{{e,{ix(q, 'w')}}} {u}·W_O[{ix('e', q, 'w', 'i')}]{bias}",
            chosen,
            W_O=Mark("out", "out"),
            b_O="out.bias",
        )
        return
    if a.differential is not None:
        q = f"{q.removeprefix('ξ,')},ξ"
    out = ix("t", q, "w")
    lines.sum(
        f"y[t,i] = Σ_{{{ix(q, 'w')}}} o[{out}]·W_O[{ix(q, 'w', 'i')}]{bias}", W_O=Mark("out", "out"), b_O="out.bias"
    )
