"""Gated slot attention (arXiv:2409.07146): two states a head, keys and values of slots.

Letters: ġ heads of keys and values, ṙ heads of queries that share one, ȧ channels of a key, ẇ channels of a value, ṁ
slots; where each head of queries has keys of its own there is only ġ, with one head of keys for all only ṙ.

In chunks (arXiv:2409.07146) both passes are gated linear attention, the first with the decay on what is written,
the second with the decay on what it is written by. With Γ the decay of a chunk so far, u what a slot takes in:

    ζ_t = e^{Γ_t} ⊙ K_Bᵀq_t + Σ_{s ≤ t} (q_t·k_s)·e^{Γ_t − Γ_s} ⊙ u_s
    o_t = V_Bᵀ(e^{Γ_t} ⊙ α_t) + Σ_{s ≤ t} (α_t·(e^{Γ_t − Γ_s} ⊙ u_s))·v_s        α_t = softmax(ζ_t)
"""

from __future__ import annotations

from typing import Any

from gptcalc.architecture import SlotAttention
from gptcalc.equations.chunked import OF_CHUNKS, at_its_begin, decays, heads
from gptcalc.equations.conditions import Within
from gptcalc.equations.convolution import OF_KEYS, convolution_scope, convolve
from gptcalc.equations.language import Index, Mark
from gptcalc.equations.linear import USES, heads_scope
from gptcalc.equations.lines import Lines, ix
from gptcalc.equations.norms import norm_line
from gptcalc.equations.symbols import Symbols


def scope(a: SlotAttention, d: Index, symbols: Symbols) -> dict[str, Index]:
    """What the index letters of slot attention run over."""
    name = a.section
    letters = {"i": d, **heads_scope(a.n_kv_heads, a.n_heads, ("n_kv_heads", "n_states"), name, symbols)}
    letters["ȧ"] = symbols.index("d_k", a.d_k, "channels", name)
    letters["ẇ"] = symbols.index("d_v", a.d_v, "channels", name)
    letters["ṁ"] = symbols.index("n_slots", a.n_slots, "channels", name)
    if a.kernel is not None:
        letters |= convolution_scope(a.kernel, name, symbols, OF_KEYS)
    return letters | OF_CHUNKS


def slot_attention(lines: Lines, a: SlotAttention, chunk: int | None = None) -> None:
    """n[t,i] → y[t,i]; the states token by token, or in chunks."""
    states, few = heads(a.n_kv_heads, a.n_heads)
    for name, where in (("q", ix(states, "ȧ")), ("k", ix(few, "ȧ")), ("v", ix(few, "ẇ"))):
        _project(lines, a, name, where)
    slot = ix(few, "ṁ")
    lines.sum(f"F[t,{slot}] = Σ_i n[t,i]·W_F[i,{slot}]", saved=2, W_F="decay")
    lines.pointwise(f"Ā[t,{slot}] = exp(−softplus(−F[t,{slot}])/{lines.number('divisor', a.divisor)})", saved=2)
    lines.pointwise(f"u_S[t,{slot}] = 1 − Ā[t,{slot}]", saved=2)
    for name, letter in (("k", "ȧ"), ("v", "ẇ")) if states != few else ():
        repeated, shared = ix(states, letter), ix(few, letter)
        lines.pointwise(f"{name}_H[t,{repeated}] = {name}[t,{shared}]", saved=2)
    of = Texts(states, few)
    if chunk is None:
        _by_token(lines, of)
    else:
        _in_chunks(lines, chunk, of)
    where = ix(states, "ẇ")
    out = f"o[t,{where}]"
    lines.pointwise(f"{out} = silu({out})", saved=2)
    if a.out_norm is not None:
        norm_line(lines, a.out_norm, out, out, where, "out_norm", name="_o", saved=2)
    lines.sum(f"y[t,i] = Σ_{{{where}}} {out}·W_O[{where},i]", W_O=Mark("out", "out"))


def _project(lines: Lines, a: SlotAttention, name: str, where: str) -> None:
    """Queries, keys or values: projected, convolved, through their activations."""
    here, upper = f"{name}[t,{where}]", name.upper()
    marks: dict[str, Any] = {f"W_{upper}": Mark(name, USES[name])}
    lines.sum(f"{here} = Σ_i n[t,i]·W_{upper}[i,{where}]", None, 2, "", **marks)
    if a.kernel is not None:
        convolved = convolve(lines, name, where, f"{name}_conv", OF_KEYS, saved=2)
        lines.pointwise(f"{here} = silu({convolved})", saved=2)
    lines.pointwise(f"{here} = silu({here})", saved=2)


class Texts:
    """How both forms write keys and values of each state, by the letters of states and of the heads they share."""

    def __init__(self, states: str, few: str) -> None:
        own = "" if states == few else "_H"
        self.states, self.slot, self.score = states, ix(few, "ṁ"), ix(states, "ṁ")
        self.query, self.out = f"q[t,{ix(states, 'ȧ')}]", f"o[t,{ix(states, 'ẇ')}]"
        self.key, self.value = f"k{own}[t,{ix(states, 'ȧ')}]", f"v{own}[t,{ix(states, 'ẇ')}]"
        self.keys, self.values = ix(states, "ȧ", "ṁ"), ix(states, "ṁ", "ẇ")


def at_s(text: str) -> str:
    """The same of the token s."""
    return text.replace("[t", "[s")


def _by_token(lines: Lines, of: Texts) -> None:
    """Both states decay, are written to, and read, the second by the softmax of what the first gives."""
    slot, score, keys, values = of.slot, of.score, f"M_K[{of.keys}]", f"M_V[{of.values}]"
    lines.pointwise(f"{keys} = Ā[t,{slot}]·{keys}")
    lines.sum(f"{keys} += {of.key}·u_S[t,{slot}]")
    lines.sum(f"ζ_S[t,{score}] = Σ_ȧ {of.query}·{keys}", saved=2)
    lines.pointwise(f"α_S[t,{score}] = softmax_ṁ(ζ_S[t,{score}])", saved=2)
    lines.pointwise(f"{values} = Ā[t,{slot}]·{values}")
    lines.sum(f"{values} += u_S[t,{slot}]·{of.value}")
    lines.sum(f"{of.out} = Σ_ṁ α_S[t,{score}]·{values}", saved=2)
    lines.keep("M_K")
    lines.keep("M_V")


def _in_chunks(lines: Lines, chunk: int, of: Texts) -> None:
    """The same, chunk by chunk."""
    pairs, states, slot, score, keys, values = Within(chunk), of.states, of.slot, of.score, of.keys, of.values
    since, between, to_end = f"exp(Γ[t,{slot}])", f"exp(Γ[t,{slot}] − Γ[s,{slot}])", f"exp(Γ_C[t,{slot}] − Γ[t,{slot}])"
    decays(lines, chunk, slot)
    lines.sum(f"z_K[t,s,{states}] = Σ_ȧ {of.query}·{at_s(of.key)}", pairs)
    at_its_begin(lines, chunk, f"M_K[{keys}]", f"K_B[{keys}]", f"exp(Γ_C[t,{slot}])")
    lines.sum(f"M_K[{keys}] += {to_end}·{of.key}·u_S[t,{slot}]")
    lines.sum(f"ζ_S[t,{score}] = Σ_ȧ {since}·{of.query}·K_B[{keys}]")
    lines.keep("M_K")
    lines.sum(f"ζ_S[t,{score}] += Σ_s {between}·z_K[t,s,{states}]·u_S[s,{slot}]", pairs, saved=2)
    lines.pointwise(f"α_S[t,{score}] = softmax_ṁ(ζ_S[t,{score}])", saved=2)
    lines.sum(f"z_V[t,s,{states}] = Σ_ṁ α_S[t,{score}]·{between}·u_S[s,{slot}]", pairs)
    at_its_begin(lines, chunk, f"M_V[{values}]", f"V_B[{values}]", f"exp(Γ_C[t,{slot}])")
    lines.sum(f"M_V[{values}] += {to_end}·u_S[t,{slot}]·{of.value}")
    lines.sum(f"{of.out} = Σ_ṁ {since}·α_S[t,{score}]·V_B[{values}]")
    lines.keep("M_V")
    lines.sum(f"{of.out} += Σ_s z_V[t,s,{states}]·{at_s(of.value)}", pairs, saved=2)
