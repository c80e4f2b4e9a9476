"""Recurrent states in chunks, as kernels compute a prompt: products of matrices within a chunk of C tokens, and one
state passed from chunk to chunk. The result is the recurrence's, the FLOPs are others.

With the decay Γ of a chunk so far, M_B the state before the chunk and v_U what is written (Dao and Gu 2024, §6; Yang et
al. 2024, arXiv:2312.06635, §3):

    o_t = e^{Γ_t}·S_Bᵀq_t + Σ_{s ≤ t} e^{Γ_t − Γ_s}·(q_t·k_s)·u_s        M = e^{Γ_C}·M_B + Σ_s e^{Γ_C − Γ_s}·k_s ⊗ u_s

With the delta rule u_t is β_t·(v_t − e^{Γ_t}·S_Bᵀk_t − Σ_{s < t} e^{Γ_t − Γ_s}·(k_t·k_s)·u_s), a triangular system of
equations. Its inverse I_A = (1 + A)⁻¹ is made row by row (UT transform), and gives u = v_I − k_W·M_B (WY
representation): arXiv:2406.06484, §3; with decays arXiv:2412.06464, §3.3, and arXiv:2510.26692, §3.

RWKV-5 and 6 read the state before a token decays and writes it: there Γ_P, the decay up to the token before, stands for
Γ_t, and s < t (arXiv:2404.05892, §4). RWKV-7 (arXiv:2503.14456, §4) adds a_t ⊗ h_t, where h_t = Mᵀk̂_t is read in that
way, too: h = I_R·(A_K·v + k̂·e^{Γ_P}·M_B) with I_R = (1 − A_R)⁻¹, the products of k̂ with k being A_K, with a A_R.

Letters: ġ, ṙ, ȧ, ẇ as in linear attention; s and š tokens of the chunk of t.
"""

from __future__ import annotations

from msgspec import Struct

from gptcalc.equations.conditions import Within
from gptcalc.equations.language import Index
from gptcalc.equations.lines import Lines, ix

OF_CHUNKS = {"š": Index("S", 0, "past")}


def heads(shared: int, whole: int) -> tuple[str, str]:
    """How states are written, and what several of them share."""
    if shared == whole:
        return "ḣ", "ḣ"
    return ("ḣ", "") if shared == 1 else ("ġ,ṙ", "ġ")


class Letters(Struct, frozen=True):
    """The letters of states, of the keys that several share, and of the decay Ā, if there is one."""

    states: str
    few: str
    decay: str | None

    @property
    def by_channel(self) -> bool:
        return self.decay is not None and "ȧ" in self.decay


def in_chunks(
    lines: Lines,
    chunk: int,
    of: Letters,
    *,
    key: str = "k",
    query: str = "q",
    delta: bool = False,
    earlier: bool = False,
) -> None:
    """From queries, keys, v, Ā and β to o; `earlier`: a token reads the state that the one before it left."""
    few, value = ix(of.few, "ȧ"), ix(of.states, "ẇ")
    state, before = f"M[{ix(of.states, 'ȧ', 'ẇ')}]", f"M_B[{ix(of.states, 'ȧ', 'ẇ')}]"
    so_far = "Γ_P[t,{0}]" if earlier else "Γ[t,{0}]"
    if of.decay is not None:
        decays(lines, chunk, of.decay, earlier)
    _scores(lines, chunk, of, "z_S", query, key, strict=earlier, so_far=so_far)
    if delta:
        _solved(lines, chunk, of, key)
    written = f"v_U[t,{value}]" if delta else f"v[t,{value}]"
    at_its_begin(lines, chunk, state, before, None if of.decay is None else f"exp(Γ_C[t,{of.decay}])")
    if delta:
        lines.sum(f"{written} = v_I[t,{value}] − Σ_ȧ k_W[t,{ix(of.states, 'ȧ')}]·{before}")
    lines.sum(f"{state} += {_decayed(of, 'Γ_C[t,{0}] − Γ[t,{0}]')}{key}[t,{few}]·{written}")
    lines.sum(f"o[t,{value}] = Σ_ȧ {_decayed(of, so_far)}{query}[t,{few}]·{before}")
    lines.keep("M")
    read = written.replace("[t", "[s")
    lines.sum(f"o[t,{value}] += Σ_s z_S[t,s,{of.states}]·{read}", Within(chunk, earlier), saved=2)


def generalised_in_chunks(lines: Lines, chunk: int, of: Letters) -> None:
    """From r, k, v, Ā, k̂ and a of RWKV-7 to o and h."""
    states, pairs, before = of.states, Within(chunk), Within(chunk, strict=True)
    here, value, key = f"M[{ix(states, 'ȧ', 'ẇ')}]", ix(states, "ẇ"), ix(states, "ȧ")
    begin = f"M_B[{ix(states, 'ȧ', 'ẇ')}]"
    decays(lines, chunk, of.decay or "", earlier=True)
    for name, left, right, strict in (("z_S", "r", "k", False), ("z_R", "r", "a", False),
                                      ("A_R", "k̂", "a", True), ("A_K", "k̂", "k", True)):  # fmt: skip
        so_far = "Γ_P[t,{0}]" if strict else "Γ[t,{0}]"
        _scores(lines, chunk, of, name, left, right, strict=strict, so_far=so_far)
    inverse = f"I_R[t,s,{states}]"
    one = "{1 if s = t; 0 otherwise}"
    lines.sum(f"{inverse} = {one} + Σ_š A_R[t,š,{states}]·I_R[š,s,{states}]", Within(chunk, through=True))
    text = f"I_K[t,s,{states}] = Σ_š I_R[t,š,{states}]·A_K[š,s,{states}]"
    lines.sum(text, Within(chunk, strict=True, through=True))
    lines.sum(f"h_I[t,{value}] = Σ_s I_K[t,s,{states}]·v[s,{value}]", before)
    lines.sum(f"k_I[t,{key}] = Σ_s {inverse}·{_decayed(of, 'Γ_P[s,{0}]')}k̂[s,{key}]", pairs)
    at_its_begin(lines, chunk, here, begin, f"exp(Γ_C[t,{of.decay}])")
    lines.sum(f"h[t,{value}] = h_I[t,{value}] + Σ_ȧ k_I[t,{key}]·{begin}", saved=2)
    left = _decayed(of, "Γ_C[t,{0}] − Γ[t,{0}]")
    lines.sum(f"{here} += {left}a[t,{key}]·h[t,{value}]")
    lines.sum(f"{here} += {left}k[t,{key}]·v[t,{value}]")
    lines.sum(f"o[t,{value}] = Σ_ȧ {_decayed(of, 'Γ[t,{0}]')}r[t,{key}]·{begin}")
    lines.keep("M")
    lines.sum(f"o[t,{value}] += Σ_s z_S[t,s,{states}]·v[s,{value}]", pairs)
    lines.sum(f"o[t,{value}] += Σ_s z_R[t,s,{states}]·h[s,{value}]", pairs, saved=2)


def decays(lines: Lines, chunk: int, where: str, earlier: bool = False) -> None:
    """Logarithms of decays since the chunk began: Γ with the token's own, Γ_P without it; Γ_C of the whole chunk."""
    lines.pointwise(f"Γ[t,{where}] = Σ_s ln(Ā[s,{where}])", Within(chunk))
    if earlier:
        lines.pointwise(f"Γ_P[t,{where}] = Σ_s ln(Ā[s,{where}])", Within(chunk, strict=True))
    at_its_end(lines, chunk, f"Γ_C[t,{where}]", f"Γ[t,{where}]")


def at_its_end(lines: Lines, chunk: int, name: str, value: str) -> None:
    """What a value is at the last token of the chunk of t."""
    c = lines.number("chunk", chunk)
    lines.pointwise(f"{name} = {value.replace('[t', f'[min({c}·⌊t/{c}⌋ + {c} − 1, S − 1)', 1)}")


def at_its_begin(lines: Lines, chunk: int, state: str, before: str, left: str | None) -> None:
    """The first token of a chunk sets the state aside, of which so much is left at the chunk's end."""
    c = lines.number("chunk", chunk)
    begins = f"t = {c}·⌊t/{c}⌋"
    lines.pointwise(f"{before} = {{{state} if {begins}; {before} otherwise}}")
    if left is not None:
        lines.pointwise(f"{state} = {{{left}·{state} if {begins}; {state} otherwise}}")


def _scores(
    lines: Lines,
    chunk: int,
    of: Letters,
    name: str,
    left: str,
    right: str,
    strict: bool = False,
    so_far: str = "Γ[t,{0}]",
) -> None:
    """Products of the chunk's tokens with each other, decayed."""
    allowed, few = Within(chunk, strict), ix(of.few, "ȧ")
    between = f"{so_far} − Γ[s,{{0}}]"
    if of.by_channel:
        text = f"{left}[t,{few}]·{_decayed(of, between)}{right}[s,{few}]"
        lines.sum(f"{name}[t,s,{of.states}] = Σ_ȧ {text}", allowed)
        return
    lines.sum(f"{name}[t,s{of.few and ','}{of.few}] = Σ_ȧ {left}[t,{few}]·{right}[s,{few}]", allowed)
    if of.decay is not None or of.few != of.states:
        text = f"{_decayed(of, between)}{name}[t,s{of.few and ','}{of.few}]"
        lines.pointwise(f"{name}[t,s,{of.states}] = {text}", allowed)


def _solved(lines: Lines, chunk: int, of: Letters, key: str) -> None:
    """v_I, k_W: values and decayed keys, times β and the inverse of 1 + A."""
    states, allowed = of.states, Within(chunk)
    _scores(lines, chunk, of, "A", key, key, strict=True)
    lines.pointwise(f"A[t,s,{states}] = β[t,{states}]·A[t,s,{states}]", Within(chunk, strict=True))
    inverse = f"I_A[t,s,{states}]"
    one = "{1 if s = t; 0 otherwise}"
    lines.sum(f"{inverse} = {one} − Σ_š A[t,š,{states}]·I_A[š,s,{states}]", Within(chunk, through=True))
    value, keys = ix(states, "ẇ"), ix(states, "ȧ")
    lines.sum(f"v_I[t,{value}] = Σ_s {inverse}·β[s,{states}]·v[s,{value}]", allowed)
    text = f"{_decayed(of, 'Γ[s,{0}]')}{key}[s,{ix(of.few, 'ȧ')}]"
    lines.sum(f"k_W[t,{keys}] = Σ_s {inverse}·β[s,{states}]·{text}", allowed)


def _decayed(of: Letters, exponent: str) -> str:
    """A decay as a factor, where there is one."""
    return "" if of.decay is None else f"exp({exponent.format(of.decay)})·"
