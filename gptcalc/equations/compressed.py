"""Attention over compressed entries (DeepSeek-V4): a window of tokens, and one entry for every so many of the past.

The head index is split into (g, r): g over the groups that the output leaves through, r over the heads of one. s runs
over tokens, χ over entries. An entry is a mixture of its tokens, channel by channel: b runs over the channels of the
projections (two halves where entries overlap), k over the tokens that an entry takes in.
"""

from __future__ import annotations

from typing import Any

from gptcalc.architecture import CompressedAttention, Compression, EntryIndexer
from gptcalc.equations.conditions import Completed, Constant, Entries, Pairs
from gptcalc.equations.language import LOG_SUM_EXP, Index
from gptcalc.equations.lines import Lines, root
from gptcalc.equations.norms import norm_line
from gptcalc.equations.rope import Rotation, last, pairs_scope
from gptcalc.equations.symbols import Symbols


def scope(a: CompressedAttention, d: Index, symbols: Symbols) -> dict[str, Index]:
    """What the index letters of compressed attention run over."""
    name = a.section
    groups = symbols.index("n_groups", a.n_groups, "heads", name, "tp")
    n_heads = symbols.index("n_heads", a.n_heads, "heads", name)
    width = symbols.index("d_head", a.d_head, "channels", name)
    letters = {
        "i": d,
        "g": groups,
        "r": symbols.derived(f"{n_heads.symbol}/{groups.symbol}", a.n_heads // a.n_groups, "heads", "tp"),
        "a": width,
        "m": symbols.index("q_rank", a.q_rank, "channels", name),
        "w": symbols.index("out_rank", a.out_rank, "channels", name),
        **pairs_scope(a.rope, width, symbols, name),
    }
    return letters if a.compress is None else letters | _entries_scope(a.compress, name, letters["a"], symbols)


def _entries_scope(c: Compression, name: str, latent: Index, symbols: Symbols) -> dict[str, Index]:
    every = symbols.index("every", c.every, "taps", name)
    letters = {
        "χ": Index(f"⌊S/{every.symbol}⌋", 0, "entries", every=c.every),
        "κ": every,
        "ķ": _halves(every, c, symbols),
        "b": _halves(latent, c, symbols),
    }
    if c.index is not None:
        heads = symbols.index("index_heads", c.index.n_heads, "heads", name)
        width = symbols.index("d_index", c.index.d, "channels", name)
        letters |= {"j": heads, "ι": width, "l": _halves(width, c, symbols)}
    return letters


def _halves(index: Index, c: Compression, symbols: Symbols) -> Index:
    """Twice the range where entries overlap."""
    return symbols.derived(f"2·{index.symbol}", 2 * index.size, index.role) if c.overlap else index


def compressed_attention(lines: Lines, a: CompressedAttention, rotation: Rotation | None, dropout: bool) -> None:
    """n[t,i] → y[t,i]."""
    if rotation is not None:
        rotation.frequencies(lines)
    _queries(lines, a, rotation)
    window = Pairs(a.window)
    lines.sum("k[t,a] = Σ_i n[t,i]·W_KV[i,a]", saved=2, W_KV="kv")
    norm_line(lines, a.latent_norm, "k[t,a]", "k[t,a]", "a", "kv_norm", name="_k", saved=2)
    _rotate(lines, rotation, "k[t,a]", "t")
    lines.store("K[s,a] = k[s,a]", "keys", window)
    if a.compress is not None:
        _compress(lines, a, a.compress, rotation, "C", "a", "b", "compress")
        if a.compress.index is not None:
            _choose(lines, a, a.compress, a.compress.index, rotation)
    _attend(lines, a, window, dropout)
    _rotate(lines, rotation, "o[t,g,r,a]", "(−t)")
    lines.sum("o_A[t,g,w] = Σ_{r,a} o[t,g,r,a]·W_OA[g,r,a,w]", saved=2, W_OA="out_a")
    lines.sum("y[t,i] = Σ_{g,w} o_A[t,g,w]·W_OB[g,w,i]", W_OB="out_b")


def _queries(lines: Lines, a: CompressedAttention, rotation: Rotation | None) -> None:
    lines.sum("c_Q[t,m] = Σ_i n[t,i]·W_DQ[i,m]", saved=2, W_DQ="q_a")
    norm_line(lines, a.latent_norm, "c_Q[t,m]", "c_Q[t,m]", "m", "q_a_norm", name="_c", saved=2)
    lines.sum("q[t,g,r,a] = Σ_m c_Q[t,m]·W_UQ[m,g,r,a]", saved=2, W_UQ="q_b")
    norm_line(lines, a.q_norm, "q[t,g,r,a]", "q[t,g,r,a]", "a", "q_norm", saved=2)
    _rotate(lines, rotation, "q[t,g,r,a]", "t")


def _rotate(
    lines: Lines, rotation: Rotation | None, what: str, position: str, condition: Completed | None = None
) -> None:
    """The last channels turned."""
    if rotation is not None:
        channel = what[-2]
        rotation.turn(lines, what, channel, position, last(lines, channel, rotation), condition)


def _compress(
    lines: Lines,
    a: CompressedAttention,
    c: Compression,
    rotation: Rotation | None,
    to: str,
    one: str,
    both: str,
    key: str,
) -> None:
    """Entries `to`[χ,one] from projections onto the channels `both`, normed, and turned as their first tokens."""
    now = Completed(c.every)
    name = to.removeprefix("C")
    content = f"c_C{name}"
    lines.sum(f"{content}[t,{both}] = Σ_i n[t,i]·W_CK{name}[i,{both}]", saved=2, **_marked(f"W_CK{name}", f"{key}.kv"))
    mixture(lines, c.every, content, to, one, both, key, c.overlap)
    whole = f"{to}[χ,{one}]"
    norm_line(lines, a.latent_norm, whole, whole, one, f"{key}.norm", name=f"_C{name}", saved=2, condition=now)
    _rotate(lines, rotation, whole, f"{lines.scope['κ'].symbol}·χ", now)
    lines.store(f"{to}[χ,{one}] = {whole}", "index keys" if name else "entries", Entries(c.every))


def mixture(
    lines: Lines, every: int, content: str, to: str, one: str, both: str, key: str, overlap: bool = False
) -> None:
    """`content`[t,both] → entries `to`[χ,one], channel by channel, by weights that a projection makes; what is needed
    of the open entry stays, too.

    Where entries overlap, the first half of the channels is for the tokens of the entry before: token ķ of an entry
    is its own from `every` on, and then has the second half.
    """
    now = Completed(every)
    name = to.removeprefix("C")
    weight, share, table, kept = f"w_C{name}", f"β{name}", f"P{name}", f"c_C{name}_E"
    m = lines.scope["κ"].symbol
    lines.sum(f"{weight}[t,{both}] = Σ_i n[t,i]·W_CG{name}[i,{both}]", saved=2, **_marked(f"W_CG{name}", f"{key}.gate"))
    for what, of in (("O_c", content), ("O_w", weight)):
        lines.store(f"{what}{name}[κ,{both}] = {of}[{m}·⌊S/{m}⌋ + κ,{both}]", "open entry", Constant())
        if overlap:
            lines.store(f"{what}_P{name}[κ,{one}] = {of}[{m}·⌊S/{m}⌋ − {m} + κ,{one}]", "open entry", Constant())
    if overlap:
        width = lines.scope[one].symbol
        token, channel = f"{m}·(χ − 1) + ķ", f"{one} + {width}·⌊ķ/{m}⌋"
        place = f"κ = ķ − {m}·⌊ķ/{m}⌋, {both} = {channel}"
    else:
        token, channel = f"{m}·χ + ķ", one
        place = "κ = ķ" if both == one else f"κ = ķ, {both} = {one}"
    lines.pointwise(
        f"{share}[χ,ķ,{one}] = softmax_ķ({weight}[{token},{channel}] + {table}[κ,{both}]), {place}",
        now,
        saved=2,
        **_marked(table, f"{key}.position"),
    )
    lines.pointwise(f"{kept}[χ,ķ,{one}] = {content}[{token},{channel}]", now)
    lines.sum(f"{to}[χ,{one}] = Σ_ķ {share}[χ,ķ,{one}]·{kept}[χ,ķ,{one}]", now, saved=2)


def _marked(name: str, key: str) -> dict[str, Any]:
    return {name: key}


def _choose(
    lines: Lines, a: CompressedAttention, c: Compression, index: EntryIndexer, rotation: Rotation | None
) -> None:
    """The indexer: I[t,χ] = Σ_j ω_I[t,j]·relu(q_I[t,j]·C_I[χ]) over entries of its own, of width d_index."""
    seen = Entries(c.every)
    lines.sum("q_I[t,j,ι] = Σ_m c_Q[t,m]·W_IQ[m,j,ι]", saved=2, W_IQ="index.q")
    _rotate(lines, rotation, "q_I[t,j,ι]", "t")
    _compress(lines, a, c, rotation, "C_I", "ι", "l", "index.compress")
    lines.sum("ω_I[t,j] = Σ_i n[t,i]·W_IW[i,j]", saved=2, W_IW="index.weights")
    lines.sum("ζ[t,χ,j] = Σ_ι q_I[t,j,ι]·C_I[χ,ι]", seen)
    lines.pointwise("ζ[t,χ,j] = relu(ζ[t,χ,j])", seen)
    lines.sum("I[t,χ] = Σ_j ω_I[t,j]·ζ[t,χ,j]", seen)
    lines.pointwise(f"J(t) = top_χ({lines.number('index_top_k', index.top_k)}, I[t,χ])", seen)


def _attend(lines: Lines, a: CompressedAttention, window: Pairs, dropout: bool) -> None:
    """One softmax over the window's tokens and the entries together."""
    scores: list[tuple[str, str, str, Pairs | Entries]] = [("z[t,s,g,r]", "α[t,s,g,r]", "K[s,a]", window)]
    c = a.compress
    if c is not None:
        seen = Entries(c.every, c.index.top_k if c.index is not None else None)
        scores.append(("z_C[t,χ,g,r]", "α_C[t,χ,g,r]", "C[χ,a]", seen))
    for z, _, keys, pairs in scores:
        lines.sum(f"{z} = Σ_a q[t,g,r,a]·{keys}", pairs)
    width = root(lines.scope["a"])
    for number, (z, share, _, pairs) in enumerate(scores):
        beside = [f"{other}/{width}" for other, *_ in scores if other != z] + ["sink[g,r]"] * a.sinks
        text = f"{share} = softmax_{'χ' if number else 's'}({z}/{width}{'; ' * bool(beside)}{', '.join(beside)})"
        lines.pointwise(text, pairs, 2, flash=0 if number else LOG_SUM_EXP, sink="sinks")
        if dropout:
            here = share[share.index("[") :]
            lines.pointwise(f"μ{here} = keep({here[1:-1]})", pairs, saved=1)
            lines.pointwise(f"{share} = dropout({share}, μ{here})", pairs, saved=2)
    for number, (_, share, values, pairs) in enumerate(scores):
        sign, over = ("=", "s") if number == 0 else ("+=", "χ")
        lines.sum(f"o[t,g,r,a] {sign} Σ_{over} {share}·{values}", pairs, saved=2 if pairs is scores[-1][3] else 0)
