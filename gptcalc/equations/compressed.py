"""Attention over compressed entries (DeepSeek-V4): a window of tokens, and one entry for every so many of the past.

The head index is split into (g, r): g over the groups that the output leaves through, r over the heads of one. s runs
over tokens, χ over entries. An entry is a mixture of its tokens, channel by channel: b runs over the channels of the
projections (two halves where entries overlap), k over the tokens that an entry takes in.
"""

from __future__ import annotations

from gptcalc.architecture import CompressedAttention, Compression, EntryIndexer, rotated
from gptcalc.equations.conditions import Completed, Constant, Entries, Pairs
from gptcalc.equations.language import LOG_SUM_EXP, Index, Lines
from gptcalc.equations.norms import norm_line
from gptcalc.equations.symbols import Symbols


def scope(a: CompressedAttention, d: Index, symbols: Symbols) -> dict[str, Index]:
    """What the index letters of compressed attention run over."""
    name = a.section
    groups = symbols.index("n_groups", a.n_groups, "heads", name, "tp")
    n_heads = symbols.index("n_heads", a.n_heads, "heads", name)
    letters = {
        "i": d,
        "g": groups,
        "r": symbols.derived(f"{n_heads.symbol}/{groups.symbol}", a.n_heads // a.n_groups, "heads", "tp"),
        "a": symbols.index("d_head", a.d_head, "channels", name),
        "m": symbols.index("q_rank", a.q_rank, "channels", name),
        "o": symbols.index("out_rank", a.out_rank, "channels", name),
    }
    return letters if a.compress is None else letters | _entries_scope(a.compress, name, letters["a"], symbols)


def _entries_scope(c: Compression, name: str, latent: Index, symbols: Symbols) -> dict[str, Index]:
    every = symbols.index("every", c.every, "taps", name)
    letters = {
        "χ": Index(f"⌊S/{every.symbol}⌋", 0, "entries", every=c.every),
        "l": every,
        "k": _halves(every, c, symbols),
        "b": _halves(latent, c, symbols),
    }
    if c.index is not None:
        heads = symbols.index("index_heads", c.index.n_heads, "heads", name)
        width = symbols.index("d_index", c.index.d, "channels", name)
        letters |= {"j": heads, "x": width, "z": _halves(width, c, symbols)}
    return letters


def _halves(index: Index, c: Compression, symbols: Symbols) -> Index:
    """Twice the range where entries overlap."""
    return symbols.derived(f"2·{index.symbol}", 2 * index.size, index.role) if c.overlap else index


def compressed_attention(lines: Lines, a: CompressedAttention, dropout: bool) -> None:
    """n[t,i] → y[t,i]."""
    _queries(lines, a)
    window = Pairs(a.window)
    lines.sum("k[t,a] = Σ_i n[t,i]·W_KV[i,a]", saved=2, W_KV="kv")
    norm_line(lines, a.latent_norm, "k[t,a]", "k[t,a]", "a", "kv_norm", name="_k", saved=2)
    _rotate(lines, a, "k[t,a]", "t")
    lines.store("K[s,a] = k[s,a]", "keys", window)
    if a.compress is not None:
        _compress(lines, a, a.compress, "C", "a", "b", "compress")
        if a.compress.index is not None:
            _choose(lines, a, a.compress, a.compress.index)
    _attend(lines, a, window, dropout)
    _rotate(lines, a, "o[t,g,r,a]", "−t")
    lines.sum("υ[t,g,o] = Σ_{r,a} o[t,g,r,a]·W_OA[g,r,a,o]", saved=2, W_OA="out_a")
    lines.sum("y[t,i] = Σ_{g,o} υ[t,g,o]·W_OB[g,o,i]", W_OB="out_b")


def _queries(lines: Lines, a: CompressedAttention) -> None:
    lines.sum("c_Q[t,m] = Σ_i n[t,i]·W_DQ[i,m]", saved=2, W_DQ="q_a")
    norm_line(lines, a.latent_norm, "c_Q[t,m]", "c_Q[t,m]", "m", "q_a_norm", name="_c", saved=2)
    lines.sum("q[t,g,r,a] = Σ_m c_Q[t,m]·W_UQ[m,g,r,a]", saved=2, W_UQ="q_b")
    norm_line(lines, a.q_norm, "q[t,g,r,a]", "q[t,g,r,a]", "a", "q_norm", saved=2)
    _rotate(lines, a, "q[t,g,r,a]", "t")


def _rotate(lines: Lines, a: CompressedAttention, what: str, angle: str, condition: Completed | None = None) -> None:
    if a.rope is not None:
        lines.pointwise(f"{what} = rotate({what}, {angle}, the last {rotated(a.rope, a.d_head)} channels)", condition)


def _compress(lines: Lines, a: CompressedAttention, c: Compression, to: str, one: str, both: str, key: str) -> None:
    """Entries `to`[χ,one] from projections onto the channels `both`; what is needed of the open entry stays, too."""
    now = Completed(c.every)
    name = to.removeprefix("C")
    content, weight, share = f"κ{name}", f"ω{name}", f"β{name}"
    lines.sum(f"{content}[t,{both}] = Σ_i n[t,i]·W_CK[i,{both}]", saved=2, W_CK=f"{key}.kv")
    lines.sum(f"{weight}[t,{both}] = Σ_i n[t,i]·W_CG[i,{both}]", saved=2, W_CG=f"{key}.gate")
    for what, of in (("Κ", content), ("Ω", weight)):
        lines.store(f"{what}{name}[l,{both}] = {of} of the open entry's tokens", "open entry", Constant())
        if c.overlap:
            lines.store(f"{what}_P{name}[l,{one}] = first half of {of} of the entry before", "open entry", Constant())
    lines.pointwise(
        f"{share}[χ,k,{one}] = softmax_k({weight} of the entry's tokens + P_C[l,{both}])",
        now, saved=2, P_C=f"{key}.position",
    )  # fmt: skip
    lines.pointwise(f"{content}[χ,k,{one}] = {content} of the entry's tokens", now)
    lines.sum(f"{to}[χ,{one}] = Σ_k {share}[χ,k,{one}]·{content}[χ,k,{one}]", now, saved=2)
    whole = f"{to}[χ,{one}]"
    norm_line(lines, a.latent_norm, whole, whole, one, f"{key}.norm", name="_C", saved=2, condition=now)
    _rotate(lines, a, whole, f"χ·{c.every}", now)
    kept = Entries(c.every)
    lines.store(f"{to}[χ,{one}] = {to} of all complete entries", "index keys" if name else "entries", kept)


def _choose(lines: Lines, a: CompressedAttention, c: Compression, index: EntryIndexer) -> None:
    """The indexer: I[t,χ] = Σ_j θ[t,j]·relu(q_I[t,j]·C_I[χ]) over entries of its own, of width d_index."""
    seen = Entries(c.every)
    lines.sum("q_I[t,j,x] = Σ_m c_Q[t,m]·W_IQ[m,j,x]", saved=2, W_IQ="index.q")
    _rotate(lines, a, "q_I[t,j,x]", "t")
    _compress(lines, a, c, "C_I", "x", "z", "index.compress")
    lines.sum("θ[t,j] = Σ_i n[t,i]·W_IW[i,j]", saved=2, W_IW="index.weights")
    lines.sum("ζ[t,χ,j] = Σ_x q_I[t,j,x]·C_I[χ,x]", seen)
    lines.pointwise("ζ[t,χ,j] = relu(ζ[t,χ,j])", seen)
    lines.sum("I[t,χ] = Σ_j θ[t,j]·ζ[t,χ,j]", seen)
    lines.pointwise(f"top_{index.top_k}(t) = the {index.top_k} entries χ of the largest I[t,χ]", seen)


def _attend(lines: Lines, a: CompressedAttention, window: Pairs, dropout: bool) -> None:
    """One softmax over the window's tokens and the entries together."""
    scores: list[tuple[str, str, str, Pairs | Entries]] = [("z[t,s,g,r]", "α[t,s,g,r]", "K[s,a]", window)]
    c = a.compress
    if c is not None:
        seen = Entries(c.every, c.index.top_k if c.index is not None else None)
        scores.append(("z_C[t,χ,g,r]", "α_C[t,χ,g,r]", "C[χ,a]", seen))
    sink = "; sink[g,r]" if a.sinks else ""
    for z, _, keys, pairs in scores:
        lines.sum(f"{z} = Σ_a q[t,g,r,a]·{keys}", pairs)
    for number, (z, share, _, pairs) in enumerate(scores):
        over = "s" if c is None else "{s,χ}"
        if number == 0:
            text = f"{share} = softmax_{over}({z}/√{a.d_head}{sink})"
            lines.pointwise(text, pairs, 2, flash=LOG_SUM_EXP, sink="sinks")
        else:
            lines.pointwise(f"{share} = softmax_{over}({z}/√{a.d_head})", pairs, 2)
        if dropout:
            here = share[share.index("[") :]
            lines.pointwise(f"μ{here} = keep{here}", pairs, saved=1)
            lines.pointwise(f"{share} = dropout({share}, μ{here})", pairs, saved=2)
    for number, (_, share, values, pairs) in enumerate(scores):
        sign, over = ("=", "s") if number == 0 else ("+=", "χ")
        lines.sum(f"o[t,g,r,a] {sign} Σ_{over} {share}·{values}", pairs, saved=2 if pairs is scores[-1][3] else 0)
