"""Embeddings of n-grams (Engram, arXiv:2601.07372): rows that hashes of the last tokens find, joined as far as the
stream asks for them.

ṛ runs over rows of the table, ḫ over heads, ḍ over a row's channels; with several residual streams λ over those. κ runs
over the taps of the convolution, ķ over the tokens that stay in the cache.
"""

from __future__ import annotations

from gptcalc.architecture import Engram, Streams
from gptcalc.equations.conditions import Constant
from gptcalc.equations.convolution import OF_KEYS
from gptcalc.equations.language import Index, Mark
from gptcalc.equations.lines import Lines, ix, root
from gptcalc.equations.norms import norm_line
from gptcalc.equations.symbols import Symbols

LEAST = 1e-06  # of what the root is taken of


def scope(m: Engram, d: Index, streams: Streams | None, symbols: Symbols) -> dict[str, Index]:
    """What the index letters run over."""
    name = m.section
    letters = {
        "i": d,
        "ṛ": symbols.index("v_ngram", m.table, "vocabulary", name, "vocab"),
        "ḫ": symbols.index("n_hashes", len(m.hashing.rows), "heads", name),
        "ḍ": symbols.index("d_row", m.d_row, "channels", name),
        OF_KEYS[0]: symbols.index("kernel", m.kernel, "taps", name),
        OF_KEYS[1]: symbols.index("reach", m.reach, "taps", name),
    }
    return letters if streams is None else {**letters, "λ": symbols.index("n_streams", streams.n, "streams")}


def engram(lines: Lines, m: Engram, several: bool) -> None:
    """n[t,i] → y[t,i], for each of several streams n[t,λ,i] → y[t,λ,i]."""
    stream = "λ" if several else ""
    each, own = ix("t", stream), ix(stream, "i")
    here = ix("t", own)
    hashing = {"rows": m.hashing.rows, "multipliers": m.hashing.multipliers}
    end = {} if m.hashing.end is None else {"end": m.hashing.end}
    found = "e_N[t,ḫ,ḍ] = E_N[ṛ,ḍ], ṛ = hashed(t, ḫ)"
    lines.pointwise(found, saved=2, constants={**hashing, **end}, E_N="table")
    lines.sum(f"k_N[{here}] = Σ_{{ḫ,ḍ}} e_N[t,ḫ,ḍ]·W_NK[ḫ,ḍ,{own}]", saved=2, W_NK=Mark("k", "looked-up keys"))
    norm_line(lines, m.key_norm, f"k_N[{here}]", f"k_N[{here}]", "i", "key_norm", own, "_N", 2)
    lines.sum("v_N[t,i] = Σ_{ḫ,ḍ} e_N[t,ḫ,ḍ]·W_NV[ḫ,ḍ,i]", saved=2, W_NV=Mark("v", "looked-up values"))
    lines.sum(f"g_N[{each}] = Σ_i k_N[{here}]·n[{here}]", saved=2)
    lines.pointwise(f"g_N[{each}] = g_N[{each}]/{root(lines.scope['i'])}")
    size = f"√max(abs(g_N[{each}]), ε)"
    lines.pointwise(f"g_N[{each}] = {{{size} if g_N[{each}] > 0; −{size} otherwise}}", saved=2, constants={"ε": LEAST})
    lines.pointwise(f"u_N[{here}] = σ(g_N[{each}])·v_N[t,i]", saved=2)
    norm_line(lines, m.conv_norm, f"c_N[{here}]", f"u_N[{here}]", "i", "conv_norm", own, "_C", 2)
    far, apart = lines.scope[OF_KEYS[1]].symbol, lines.number("longest_gram", m.hashing.longest)
    lines.pointwise(f"c_N_C[t,κ,{own}] = c_N[t − {far} + {apart}·κ,{own}]")
    lines.sum(f"ĉ_N[{here}] = Σ_κ c_N_C[t,κ,{own}]·W_NC[κ,{own}]", saved=2, W_NC="conv")
    lines.store(f"R_N[ķ,{own}] = c_N[S − {far} + ķ,{own}]", "convolution", Constant())
    lines.pointwise(f"y[{here}] = u_N[{here}] + silu(ĉ_N[{here}])", saved=2)
