"""Learned positions as distances: a bias for each bucket of them (T5), vectors that queries and keys meet (DeBERTa)."""

from __future__ import annotations

from gptcalc.architecture import Attention, Buckets, Disentangled, TypeOf
from gptcalc.equations.conditions import Pairs
from gptcalc.equations.language import Index, Mark
from gptcalc.equations.lines import Lines, plus
from gptcalc.equations.norms import norm_line
from gptcalc.equations.symbols import Symbols


def scope(a: Attention, symbols: Symbols) -> dict[str, Index]:
    """δ: buckets of distances, or distances."""
    if a.scores.buckets is not None:
        buckets = symbols.index("n_buckets", a.scores.buckets.n, "distances", a.section)
        if a.scores.buckets.segments is None:
            return {"δ": buckets}
        types, rows = symbols.index("n_types", a.scores.buckets.segments, "positions"), a.scores.buckets.rows
        return {"δ": symbols.derived(f"{buckets.symbol}+{types.symbol}·{types.symbol}", rows, "distances")}
    if a.scores.disentangled is not None:
        span = symbols.index("span", a.scores.disentangled.span, "distances", a.section)
        return {"δ": symbols.derived(f"2·{span.symbol}", 2 * span.size, "distances")}
    return {}


def bucket_bias(lines: Lines, a: Attention, buckets: Buckets, heads: str, types: TypeOf | None = None) -> None:
    """b_Z: what is added to the score of every query and key (arXiv:1910.10683, §2.1). `heads`: the query heads'
    indices; `types`: which type a token has."""
    bucket = _bucket(lines, buckets, a.sees_ahead)
    pairs = Pairs(a.window, a.chunk, both=a.sees_ahead)
    if buckets.segments is not None and types is not None:
        for at in "ts":
            lines.pointwise(f"τ_{at.upper()}[{at}] = {type_of(lines, types, at)}")
        n, kinds = lines.number("n_buckets", buckets.n), lines.number("n_types", buckets.segments)
        pair = f"{n} + {kinds}·τ_T[t] + τ_S[s]"
        bucket = f"{{{bucket} if τ_T[t] = τ_S[s]; {pair} otherwise}}"
    lines.pointwise(f"b_Z[t,s,{heads}] = B_D[δ,{heads}], δ = {bucket}", pairs, B_D="relative.buckets")


def type_of(lines: Lines, types: TypeOf, at: str) -> str:
    """The type of the token at a position."""
    return f"{{0 if token({at}) ≥ {lines.number('first_special', types.special)}; {types.other} otherwise}}"


def _bucket(lines: Lines, buckets: Buckets, both: bool) -> str:
    """The bucket of t − s. Where keys behind the query are seen, the second half of the buckets is theirs."""
    each = buckets.n // 2 if both else buckets.n
    far, n = ("abs(t − s)" if both else "(t − s)"), lines.number("n_side", each)
    exact, most = lines.number("n_exact", each // 2), lines.number("max_distance", buckets.max_distance)
    grown = f"{exact} + ⌊ln({far}/{exact})/ln({most}/{exact})·({n} − {exact})⌋"
    own = f"{{{far} if {far} < {exact}; min({n} − 1, {grown}) otherwise}}"
    return f"{own} + {{{n} if s > t; 0 otherwise}}" if both else own


def table(lines: Lines, p: Disentangled) -> None:
    """r_D: a vector for each distance, the same for all layers."""
    if p.norm is None:
        lines.pointwise("r_D[δ,i] = R_D[δ,i]", saved=2, R_D="relative.table")
        return
    lines.pointwise("r_D[δ,i] = R_D[δ,i]", R_D="relative.table")
    norm_line(lines.under("norm"), p.norm, "r_D[δ,i]", "r_D[δ,i]", "i", "relative.norm", name="_D", saved=2)


def disentangled(lines: Lines, a: Attention, p: Disentangled) -> None:
    """b_Z: scores of queries with keys of their distances, and of keys with queries (arXiv:2006.03654, §3.1)."""
    pairs = Pairs(a.window, a.chunk, both=not a.causal)
    met = []
    if p.c2p:
        key, bias = ("position_k", p.own_key_bias) if p.own else ("k", "k" in a.bias)
        lines.sum(
            f"K_D[δ,h,a] = Σ_i r_D[δ,i]·W_KD[i,h,a]{plus('b_KD[h,a]', bias)}",
            saved=2,
            W_KD=Mark(key, "keys"),
            b_KD=f"{key}.bias",
        )
        lines.sum("z_D[t,δ,h] = Σ_a q[t,h,a]·K_D[δ,h,a]")
        met.append("z_D[t,δ,h]")
    if p.p2c:
        key, bias = ("position_q", True) if p.own else ("q", "q" in a.bias)
        lines.sum(
            f"Q_D[δ,h,a] = Σ_i r_D[δ,i]·W_QD[i,h,a]{plus('b_QD[h,a]', bias)}",
            saved=2,
            W_QD=key,
            b_QD=f"{key}.bias",
        )
        keys = "K" if a.causal else "k"  # of all that is looked back on
        lines.sum(f"y_D[s,δ,h] = Σ_a {keys}[s,h,a]·Q_D[δ,h,a]")
        met.append("y_D[s,δ,h]")
    lines.pointwise(f"b_Z[t,s,h] = {' + '.join(met)}, δ = {_place(lines, p)}", pairs)


def _place(lines: Lines, p: Disentangled) -> str:
    """The row of t − s: span for the token itself, the last for all that lie so far before it or farther."""
    distance, span = "t − s", lines.number("span", p.span)
    if p.max_distance is not None:
        mid, most = lines.number("n_exact", p.span // 2), lines.number("max_distance", p.max_distance)
        ratio = f"ln(abs(t − s)/{mid})/ln(({most} − 1)/{mid})·({mid} − 1)"
        grown = f"({mid} − ⌊−{ratio}⌋)"  # rounded up
        far = f"abs(t − s) ≤ {mid}"
        distance = f"{{t − s if {far}; {grown} if t > s; −{grown} otherwise}}"
    return f"clip({distance} + {span}, 0, 2·{span} − 1)"
