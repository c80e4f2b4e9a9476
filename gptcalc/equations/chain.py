"""What the tokens in front say of the next one in a block that is drafted at once: a low-rank table of the last one
(DSpark), or a recurrence over all of them (Domino).

Letters: t tokens that are drafted; ṛ columns of a table of the tokens in front; ẑ two vectors behind each other; ĝ the
gates of a recurrence: reset, update, candidate; ḏ channels of its state, ď the same where it is read; ĥ hidden units.
"""

from __future__ import annotations

from gptcalc.architecture import Embedding, Gru, Head, Markov
from gptcalc.equations.conditions import Later
from gptcalc.equations.embedding import table
from gptcalc.equations.language import Index
from gptcalc.equations.lines import Lines
from gptcalc.equations.symbols import Symbols


def scope(head: Head, d: Index, symbols: Symbols) -> dict[str, Index]:
    """What the index letters run over."""
    letters: dict[str, Index] = {}
    if head.markov is not None:
        letters["ṛ"] = rank = symbols.index("markov_rank", head.markov.rank, "channels")
        letters["ẑ"] = _both(d, rank, symbols) if head.markov.confidence == "both" else d
    if head.gru is not None:
        letters["ḏ"] = letters["ď"] = state = symbols.index("d_gru", head.gru.d_state, "channels")
        letters["ĝ"] = symbols.index("n_gates", 3, "channels")
        letters["ẑ"] = _both(d, state, symbols)
        letters["ĥ"] = symbols.index("d_correction", head.gru.d_hidden, "channels")
    return letters


def _both(d: Index, other: Index, symbols: Symbols) -> Index:
    """The stream's channels, the others behind them."""
    return symbols.derived(f"{d.symbol}+{other.symbol}", d.size + other.size, "channels")


def markov(lines: Lines, m: Markov) -> None:
    """What the token in front of each slot adds to its logits; how likely that is accepted."""
    lines.pointwise("e_M[t,ṛ] = E_M[u,ṛ], u = drafted(t)", saved=2, E_M="head.markov.table")
    lines.sum("logits[t,u] += Σ_ṛ e_M[t,ṛ]·W_M[ṛ,u]", saved=4, W_M="head.markov.out")
    if m.confidence == "none":
        return
    source = "n[t,ẑ]"
    if m.confidence == "both":
        source = "n_S[t,ẑ]"
        _behind(lines, source, "e_M[t,ẑ − {}]")
    lines.sum(f"c_A[t] = Σ_ẑ {source}·w_A[ẑ] + b_A[]", saved=2, w_A="head.confidence", b_A="head.confidence.bias")


def gru(lines: Lines, g: Gru, e: Embedding) -> None:
    """The same of all tokens in front. The gates as torch has them (torch.nn.GRU): reset, update, candidate."""
    lines.pointwise("e_M[t,i] = E[u,i], u = drafted(t)", saved=2, E=table(e, elsewhere=True))
    lines.sum("G_E[t,ĝ,ḏ] = Σ_i e_M[t,i]·W_E[i,ĝ,ḏ]", saved=2, W_E="head.gru.input")
    lines.sum("G_H[t,ĝ,ḏ] = Σ_ď S_G[ď]·W_S[ď,ĝ,ḏ]", saved=2, W_S="head.gru.state")
    lines.pointwise("r_G[t,ḏ] = σ(G_E[t,0,ḏ] + G_H[t,0,ḏ])", saved=2)
    lines.pointwise("z_G[t,ḏ] = σ(G_E[t,1,ḏ] + G_H[t,1,ḏ])", saved=2)
    lines.pointwise("h_G[t,ḏ] = tanh(G_E[t,2,ḏ] + r_G[t,ḏ]·G_H[t,2,ḏ])", saved=2)
    lines.pointwise("S_G[ḏ] = z_G[t,ḏ]·S_G[ḏ] + (1 − z_G[t,ḏ])·h_G[t,ḏ]")
    _behind(lines, "n_S[t,ẑ]", "S_G[ẑ − {}]")
    later = Later(g.first, lines.scope["t"].size) if g.first else None
    lines.sum("H_G[t,ĥ] = Σ_ẑ n_S[t,ẑ]·W_H[ẑ,ĥ]", later, 2, W_H="head.gru.hidden")
    lines.pointwise("H_G[t,ĥ] = silu(H_G[t,ĥ])", later, 2)
    if later is None:
        lines.sum("logits[t,u] += Σ_ĥ H_G[t,ĥ]·W_M[ĥ,u]", saved=4, W_M="head.gru.out")
        return
    lines.sum("y_G[t,u] = Σ_ĥ H_G[t,ĥ]·W_M[ĥ,u]", later, W_M="head.gru.out")
    text = f"logits[t,u] = {{logits[t,u] + y_G[t,u] if {later}; logits[t,u] otherwise}}"
    lines.pointwise(text, saved=4)


def _behind(lines: Lines, name: str, other: str) -> None:
    """The slot's state, and the other vector behind it."""
    d = lines.scope["i"].symbol
    lines.pointwise(f"{name} = {{n[t,ẑ] if ẑ < {d}; {other.format(d)} otherwise}}", saved=2)
