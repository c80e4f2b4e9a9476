"""Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434, §2.1; appendix C for the whole list of formulas).

Keys and values come from one latent c of rank kv_rank and one rotary key that all heads share. Two forms give the same
result: `expanded` makes keys and values of every head from the latent; `absorbed` moves those matrices to the query and
to the output, and attends over the latent itself. Both use the same weights.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from gptcalc.architecture import Indexer, LatentAttention
from gptcalc.equations.attention_heads import gated, growth
from gptcalc.equations.compressed import mixture
from gptcalc.equations.conditions import Entries, Near, Pairs
from gptcalc.equations.language import LOG_SUM_EXP, Index, Mark
from gptcalc.equations.lines import Lines, plus, root
from gptcalc.equations.norms import norm_line
from gptcalc.equations.rope import Rotation, pairs_scope
from gptcalc.equations.symbols import Symbols

if TYPE_CHECKING:
    from gptcalc.conventions import CacheForm, Form


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
        if a.raw_queries:
            letters["ẏ"] = symbols.derived(f"2·{letters['m'].symbol}", 2 * a.q_rank, "channels")
    if a.index is not None:
        letters["j"] = symbols.index("index_heads", a.index.n_heads, "heads", name)
        letters["ι"] = symbols.index("d_index", a.index.d, "channels", name)
        if a.index.block is not None:
            block = symbols.number("block", a.index.block, name)
            letters["χ"] = Index(f"⌊S/{block}⌋", 0, "entries", every=a.index.block)
            letters["ń"] = Index(f"⌊S/{block}⌋+1", 0, "entries", every=a.index.block)
            letters["κ"] = letters["ķ"] = symbols.index("block", a.index.block, "taps", name)
    return letters | pairs_scope(a.rope, rope, symbols, name)


def latent_attention(
    lines: Lines, a: LatentAttention, rotation: Rotation | None, form: Form, cache: CacheForm, dropout: bool
) -> None:
    """n[t,i] → y[t,i]."""
    rotation = rotation if a.d_rope else None
    if rotation is not None:
        rotation.frequencies(lines)
    _queries(lines, a, rotation)
    if a.kv is None:
        _latents(lines, a, rotation)
    else:
        _shared_latents(lines, a, a.kv.from_, cache)
    pairs = Pairs(a.window)
    if a.index is not None:
        if a.index.shared:
            lines.read("J(t) = J_before(t)")
        else:
            _indexer(lines, a.index, rotation, _last(lines) if a.index.rotates == "last" else "")
        pairs = seen(a.index)
    if cache == "latent" and a.kv is None:
        _store_latent(lines, a)
    if form == "expanded":
        _expand(lines, a, cache)
    if form == "expanded":
        _attend_expanded(lines, a, cache, pairs, dropout)
    else:
        _attend_absorbed(lines, a, pairs, dropout)
    if a.gate is not None:
        gated(lines, a.gate, "t", "h", "w", "c_B[t,ẏ]" if a.raw_queries else "n[t,i]")
    bias = plus("b_O[i]", "out" in a.bias)
    lines.sum(f"y[t,i] = Σ_{{h,w}} o[t,h,w]·W_O[h,w,i]{bias}", W_O=Mark("out", "out"), b_O="out.bias")


def seen(index: Indexer) -> Pairs:
    """What an indexer's choice lets a token see."""
    if index.block is None:
        return Pairs(top_k=index.top_k)
    return Pairs(top_k=index.top_k + 1, block=index.block, complete=True)  # and the tokens that fill none


def _queries(lines: Lines, a: LatentAttention, rotation: Rotation | None) -> None:
    if a.q_rank is None:
        up = plus("b_Q[h,b]", "q_b" in a.bias)
        lines.sum(f"q[t,h,b] = Σ_i n[t,i]·W_Q[i,h,b]{up}", saved=2, W_Q=Mark("q", "queries"), b_Q="q.bias")
    else:
        down = plus("b_DQ[m]", "q_a" in a.bias)
        lines.sum(f"c_Q[t,m] = Σ_i n[t,i]·W_DQ[i,m]{down}", saved=2, W_DQ="q_a", b_DQ="q_a.bias")
        if a.raw_queries:
            lines.pointwise("c_R[t,m] = c_Q[t,m]")
        norm_line(lines, a.latent_norm, "c_Q[t,m]", "c_Q[t,m]", "m", "q_a_norm", name="_c", saved=2)
        source, over, up = "c_Q[t,m]", "m", plus("b_UQ[h,b]", "q_b" in a.bias)
        if a.raw_queries:
            source, over, rank = "c_B[t,ẏ]", "ẏ", lines.scope["m"].symbol
            lines.pointwise(f"{source} = {{c_Q[t,ẏ] if ẏ < {rank}; c_R[t,ẏ − {rank}] otherwise}}")
        lines.sum(f"q[t,h,b] = Σ_{over} {source}·W_UQ[{over},h,b]{up}", saved=2, W_UQ="q_b", b_UQ="q_b.bias")
    if a.q_scale != 1.0:
        lines.pointwise(f"q[t,h,b] = {lines.factor('scale_q', a.q_scale)}q[t,h,b]")
    if a.temperature is not None:
        lines.pointwise(f"q[t,h,b] = q[t,h,b]·{growth(lines, a.temperature)}")
    if a.ssmax:
        growth_by_head = "(s_Q[h]·ln(t + 1) + b_QS[h])"
        lines.pointwise(f"q[t,h,b] = q[t,h,b]·{growth_by_head}", saved=2, s_Q="ssmax.scale", b_QS="ssmax.bias")
    lines.pointwise("q_N[t,h,a] = q[t,h,a]")
    if not a.d_rope:
        return
    lines.pointwise(f"q_R[t,h,p] = q[t,h,{lines.scope['a'].symbol} + p]")
    if rotation is not None:
        rotation.turn(lines, "q_R[t,h,p]", "p")


def _latents(lines: Lines, a: LatentAttention, rotation: Rotation | None) -> None:
    bias = "kv_a" in a.bias
    lines.sum(f"c_KV[t,l] = Σ_i n[t,i]·W_DKV[i,l]{plus('b_DKV[l]', bias)}", saved=2, W_DKV="kv_a", b_DKV="kv_a.bias")
    norm_line(lines, a.latent_norm, "c_KV[t,l]", "c_KV[t,l]", "l", "kv_a_norm", name="_k", saved=2)
    if a.kv_scale != 1.0:
        lines.pointwise(f"c_KV[t,l] = {lines.factor('scale_KV', a.kv_scale)}c_KV[t,l]")
    if not a.d_rope:
        return
    lines.sum(f"k_R[t,p] = Σ_i n[t,i]·W_KR[i,p]{plus('b_KR[p]', bias)}", saved=2, W_KR="k_rope", b_KR="k_rope.bias")
    if a.k_rope_norm is not None:
        norm_line(lines, a.k_rope_norm, "k_R[t,p]", "k_R[t,p]", "p", "k_rope_norm", name="_r", saved=2)
    if rotation is not None:
        rotation.turn(lines, "k_R[t,p]", "p")


def _shared_latents(lines: Lines, a: LatentAttention, source: str, cache: CacheForm) -> None:
    """The latents of an earlier sublayer: what it cached, or, where it caches keys and values, what it made of them."""
    parts = [("C", "c_KV", "l"), *([("K_R", "k_R", "p")] if a.d_rope else [])]
    for held, made, letter in parts:
        if cache == "latent":
            lines.read(f"{held}[s,{letter}] = {held}_{source}[s,{letter}]")
        else:
            lines.pointwise(f"{made}[t,{letter}] = {made}_{source}[t,{letter}]")


def _store_latent(lines: Lines, a: LatentAttention) -> None:
    lines.store("C[s,l] = c_KV[s,l]", "latent", Pairs(a.window))
    if a.d_rope:
        lines.store("K_R[s,p] = k_R[s,p]", "rotary key", Pairs(a.window))


def _expand(lines: Lines, a: LatentAttention, cache: CacheForm) -> None:
    """Keys and values of every head: of the new tokens, if they are kept, else of all whose latents are."""
    bias = "kv_b" in a.bias
    at, latent = ("t", "c_KV[t,l]") if cache == "expanded" else ("s", "C[s,l]")
    near = Near(a.window) if a.window is not None and cache == "latent" else None
    text = f"k_N[{at},h,a] = Σ_l {latent}·W_UK[l,h,a]{plus('b_UK[h,a]', bias)}"
    lines.sum(text, near, 2, W_UK=Mark("k_b", "latent keys"), b_UK="k_b.bias")
    text = f"v[{at},h,w] = Σ_l {latent}·W_UV[l,h,w]{plus('b_UV[h,w]', bias)}"
    lines.sum(text, near, 2, W_UV=Mark("v_b", "latent values"), b_UV="v_b.bias")
    if cache == "expanded":  # of a layer that reuses latents too: it unfolds them by projections of its own
        nope = lines.scope["a"].symbol
        joined = f"{{k_N[t,h,b] if b < {nope}; k_R[t,b − {nope}] otherwise}}" if a.d_rope else "k_N[t,h,b]"
        lines.pointwise(f"k[t,h,b] = {joined}")
        lines.store("K[s,h,b] = k[s,h,b]", "keys", Pairs(a.window))
        lines.store("V[s,h,w] = v[s,h,w]", "values", Pairs(a.window))


def _last(lines: Lines) -> str:
    """The first of the indexer's last d_rope channels; "" where these are all."""
    width, turned = lines.scope["ι"], lines.scope["p"]
    return "" if width.size == turned.size else f"{width.symbol} − {turned.symbol}"


def _indexer(lines: Lines, index: Indexer, rotation: Rotation | None, first: str) -> None:
    """DeepSeek-V3.2's lightning indexer: I[t,s] = Σ_j w[t,j]·relu(q_I[t,j]·k_I[s]); the top_k keys are attended to.
    Its channels turn from the `first` on."""
    if index.q_norm is None:
        lines.sum("q_I[t,j,ι] = Σ_m c_Q[t,m]·W_IQ[m,j,ι]", saved=2, W_IQ="index.q")
    else:
        norm_line(lines, index.q_norm, "n_I[t,i]", "n[t,i]", "i", "index.q_norm", name="_Q", saved=2)
        lines.sum("q_I[t,j,ι] = Σ_i n_I[t,i]·W_IQ[i,j,ι]", saved=2, W_IQ="index.q")
    if index.ssmax:
        text = "q_I[t,j,ι] = q_I[t,j,ι]·(s_I[j]·ln(t + 1) + b_I[j])"
        lines.pointwise(text, saved=2, s_I="index.ssmax.scale", b_I="index.ssmax.bias")
    lines.sum("k_I[t,ι] = Σ_i n[t,i]·W_IK[i,ι]", saved=2, W_IK=Mark("index.k", "index keys"))
    name = "_I" if index.block is None else "_J"  # β_I are shares of tokens there
    norm_line(lines, index.k_norm, "k_I[t,ι]", "k_I[t,ι]", "ι", "index.k_norm", name=name, saved=2)
    if rotation is not None:
        rotation.turn(lines, "q_I[t,j,ι]", "ι", first=first, pairing=index.pairing)
        rotation.turn(lines, "k_I[t,ι]", "ι", first=first, pairing=index.pairing)
    if index.block is not None:
        _pooled(lines, index, index.block)
        return
    lines.store("K_I[s,ι] = k_I[s,ι]", "index keys", Pairs())
    lines.sum("ω_I[t,j] = Σ_i n[t,i]·W_IW[i,j]", saved=2, W_IW="index.weights")
    lines.sum("ζ[t,s,j] = Σ_ι q_I[t,j,ι]·K_I[s,ι]", Pairs())
    lines.pointwise("ζ[t,s,j] = relu(ζ[t,s,j])", Pairs())
    lines.sum("I[t,s] = Σ_j ω_I[t,j]·ζ[t,s,j]", Pairs())
    lines.pointwise(f"J(t) = top_{{s | s ≤ t}}({lines.number('index_top_k', index.top_k)}, I[t,s])")


def _pooled(lines: Lines, index: Indexer, block: int) -> None:
    """The same with one key for each complete block, a mixture of its tokens' keys: the top_k blocks are attended to,
    and the tokens that fill none."""
    mixture(lines, block, "k_I", "C_I", "ι", "ι", "index.compress")
    lines.store("C_I[χ,ι] = C_I[χ,ι]", "index keys", Entries(block))
    lines.sum("ω_I[t,j] = Σ_i n[t,i]·W_IW[i,j]", saved=2, W_IW="index.weights")
    lines.sum("ζ[t,χ,j] = Σ_ι q_I[t,j,ι]·C_I[χ,ι]", Entries(block))
    lines.pointwise("ζ[t,χ,j] = relu(ζ[t,χ,j])", Entries(block))
    lines.sum("I[t,χ] = Σ_j ω_I[t,j]·ζ[t,χ,j]", Entries(block))
    lines.pointwise(f"I_B[t,ń] = {{∞ if ń = ⌊(t + 1)/{lines.number('block', block)}⌋; I[t,ń] otherwise}}")
    lines.pointwise(f"J(t) = top_ń({lines.number('index_top_k', index.top_k + 1)}, I_B[t,ń])")


def _softmax(lines: Lines, a: LatentAttention, pairs: Pairs, dropout: bool) -> None:
    width = a.d_nope + a.d_rope
    plain = a.score_scale == 1 / math.sqrt(width)
    z = f"z[t,s,h]/{root(lines.scope['b'])}" if plain else f"{lines.number('scale_z', a.score_scale)}·z[t,s,h]"
    sinks = "; sink[h]" if a.sinks else ""
    lines.pointwise(f"α[t,s,h] = softmax_s({z}{sinks})", pairs, 2, flash=LOG_SUM_EXP, sink="sinks")
    if dropout:
        lines.pointwise("μ[t,s,h] = keep(t,s,h)", pairs, saved=1)
        lines.pointwise("α[t,s,h] = dropout(α[t,s,h], μ[t,s,h])", pairs, saved=2)


def _attend_expanded(lines: Lines, a: LatentAttention, cache: CacheForm, pairs: Pairs, dropout: bool) -> None:
    keys, rotary, values = "k_N[s,h,a]", "K_R[s,p]", "v[s,h,w]"
    if cache == "expanded":
        keys, rotary, values = "K[s,h,a]", f"K[s,h,{lines.scope['a'].symbol} + p]", "V[s,h,w]"
    lines.sum(f"z[t,s,h] = Σ_a q_N[t,h,a]·{keys}", pairs)
    if a.d_rope:
        lines.sum(f"z[t,s,h] += Σ_p q_R[t,h,p]·{rotary}", pairs)
    _softmax(lines, a, pairs, dropout)
    lines.sum(f"o[t,h,w] = Σ_s α[t,s,h]·{values}", pairs, saved=2)


def _attend_absorbed(lines: Lines, a: LatentAttention, pairs: Pairs, dropout: bool) -> None:
    lines.sum("q_L[t,h,l] = Σ_a q_N[t,h,a]·W_UK[l,h,a]", saved=2, W_UK=Mark("k_b", "latent keys"))
    lines.sum("z[t,s,h] = Σ_l q_L[t,h,l]·C[s,l]", pairs)
    if a.d_rope:
        lines.sum("z[t,s,h] += Σ_p q_R[t,h,p]·K_R[s,p]", pairs)
    _softmax(lines, a, pairs, dropout)
    lines.sum("o_L[t,h,l] = Σ_s α[t,s,h]·C[s,l]", pairs, saved=2)
    bias = "kv_b" in a.bias
    text = f"o[t,h,w] = Σ_l o_L[t,h,l]·W_UV[l,h,w]{plus('b_UV[h,w]', bias)}"
    lines.sum(text, saved=2, W_UV=Mark("v_b", "latent values"), b_UV="v_b.bias")
