"""Queries, keys and values that are made of several tokens, by convolutions.

Compressed convolutional attention (arXiv:2510.04476): queries and keys through convolutions, values with a delay. ȟ
counts the heads of queries and keys together, κ and ǩ the tokens that the two convolutions read, ṽ the channels of one
half of all values.

Localized filtering (arXiv:2311.15786): queries and keys of an input that two convolutions were added to. ǐ counts the
channels between them.
"""

from __future__ import annotations

from typing import Any

from gptcalc.architecture import Attention, ConvolvedHeads, LocalFilter
from gptcalc.equations.conditions import Constant
from gptcalc.equations.language import Index, Mark
from gptcalc.equations.lines import Lines
from gptcalc.equations.norms import norm_line
from gptcalc.equations.symbols import Symbols


def scope(a: Attention, cca: ConvolvedHeads, letters: dict[str, Index], symbols: Symbols) -> dict[str, Index]:
    """What the further letters run over."""
    heads, name = letters["h"].symbol, a.section
    few = letters["g"].symbol if "g" in letters else heads if a.n_kv_heads == a.n_heads else str(a.n_kv_heads)
    both = symbols.derived(f"{heads}+{few}", a.n_heads + a.n_kv_heads, "heads", "tp")
    half = a.n_kv_heads * a.d_v // 2
    kernel = symbols.index("kernel", cca.kernel, "taps", name)
    second = symbols.index("head_kernel", cca.head_kernel, "taps", name)
    return {
        "ȟ": both,
        "ǎ": letters["a"],
        "κ": kernel,
        "ǩ": second,
        "ķ": symbols.derived(f"{kernel.symbol}−1", cca.kernel - 1, "taps"),
        "ṫ": symbols.derived(f"{second.symbol}−1", cca.head_kernel - 1, "taps"),
        "ŝ": symbols.derived("1", 1, "taps"),
        "ṽ": symbols.derived(f"{few}·{letters['w'].symbol}/2", half, "channels", "tp"),
    }


def mixed_heads(lines: Lines, q: str, kv: str) -> None:
    """n[t,i] → q, k and v, before they are normed."""
    query, key = f"[t,{q},a]", f"[t,{kv},a]" if kv else "[t,a]"
    lines.sum(f"q{query} = Σ_i n[t,i]·W_Q[i,{q},a]", saved=2, W_Q="q")
    lines.sum(f"k{key} = Σ_i n[t,i]·W_K[i,{key[3:-1]}]", saved=2, W_K=Mark("k", "keys"))
    _convolve(lines, q, kv)
    lines.pointwise(f"q_M{query} = (q{query} + k{key})/2")
    shared = {"h": "h", "g": "r", "": "h"}[kv]  # the queries of one key
    mean = f"q_M{query}" if shared == kv else f"mean_{shared}(q_M{query})"
    heads = lines.scope["h"].symbol
    place = {"h": "h", "g": f"{lines.scope['r'].symbol if kv == 'g' else ''}·g + r", "": "h"}[kv]
    at = {"h": f"{heads} + h", "g": f"{heads} + g", "": heads}[kv]
    lines.pointwise(f"k{key} = Q_H[t,{at},a] + {mean}", saved=2)
    lines.pointwise(f"q{query} = Q_H[t,{place},a] + q_M{query}", saved=2)
    _values(lines, kv)


def _convolve(lines: Lines, q: str, kv: str) -> None:
    """Q_H[t,ȟ,a]: queries and keys, convolved channel by channel and then within each head."""
    r, n_heads = f"({lines.scope['r'].symbol})" if q == "g,r" else "", lines.scope["h"].symbol
    heads = f"⌊ȟ/{r}⌋,ȟ − {r}·⌊ȟ/{r}⌋" if q == "g,r" else "ȟ"
    keys = f"k[t,ȟ − {n_heads},a]" if kv else "k[t,a]"
    lines.pointwise(f"Q[t,ȟ,a] = {{q[t,{heads},a] if ȟ < {n_heads}; {keys} otherwise}}")
    first, second = (f"{lines.scope[taps].symbol} + 1" for taps in "κǩ")
    lines.pointwise(f"Q_C[t,κ,ȟ,a] = Q[t − {first} + κ,ȟ,a]", saved=2)
    lines.sum("Q̂[t,ȟ,a] = Σ_κ Q_C[t,κ,ȟ,a]·W_CQ[κ,ȟ,a]", saved=2, W_CQ="u_conv")
    before = f"t − {second} + ǩ"
    inner = f"{{Q̂[{before},ȟ,ǎ] if {before} ≥ 0; 0 otherwise}} + b_CQ[ȟ,ǎ]"
    lines.pointwise(f"Q_B[t,ǩ,ȟ,ǎ] = {inner}", saved=2, b_CQ="u_conv.bias")
    text = "Q_H[t,ȟ,a] = Σ_{ǎ,ǩ} Q_B[t,ǩ,ȟ,ǎ]·W_HQ[ȟ,ǎ,ǩ,a] + b_HQ[ȟ,a]"
    lines.sum(text, W_HQ="head_conv", b_HQ="head_conv.bias")
    lines.store(f"R_Q[ķ,ȟ,a] = Q[S − {first} + ķ,ȟ,a]", "convolution", Constant())
    lines.store(f"R_head[ṫ,ȟ,a] = Q̂[S − {second} + ṫ,ȟ,a]", "convolution", Constant())


def _values(lines: Lines, kv: str) -> None:
    """v: the first half of all channels of this token, the second of the one before."""
    half, width = lines.scope["ṽ"].symbol, lines.scope["w"].symbol
    value, channel = (f"[t,{kv},w]", f"{width}·{kv} + w") if kv else ("[t,w]", "w")
    lines.sum("v_N[t,ṽ] = Σ_i n[t,i]·W_VN[i,ṽ]", saved=2, W_VN=Mark("v", "values"))
    lines.sum("v_B[t,ṽ] = Σ_i n[t,i]·W_VB[i,ṽ]", saved=2, W_VB=Mark("v_before", "values"))
    lines.store("R_v[ŝ,ṽ] = v_B[S − 1 + ŝ,ṽ]", "convolution", Constant())
    delayed = f"v_B[t − 1,{channel} − {half}]"
    lines.pointwise(f"v{value} = {{v_N[t,{channel}] if {channel} < {half}; {delayed} if t > 0; 0 otherwise}}", saved=2)


def filter_scope(f: LocalFilter, section: str, symbols: Symbols) -> dict[str, Index]:
    """What the letters of localized filtering run over."""
    kernel = symbols.index("kernel", f.kernel, "taps", section)
    return {
        "ǐ": symbols.index("d_filter", f.d, "channels", section),
        "κ": kernel,
        "ķ": symbols.derived(f"{kernel.symbol}−1", f.kernel - 1, "taps"),
    }


def filtered(lines: Lines, f: LocalFilter) -> None:
    """n[t,i] → n_F[t,i], of which queries and keys are made."""
    _over_all(lines, ("n", "i"), ("u_F", "ǐ"), ("n_F_C", "F"), "filter.inner_conv")
    _over_all(lines, ("u_F", "ǐ"), ("û_F", "i"), ("u_F_C", "FF"), "filter.outer_conv")
    lines.pointwise("n_F[t,i] = n[t,i] + û_F[t,i]", saved=2)
    norm_line(lines, f.norm, "n_F[t,i]", "n_F[t,i]", "i", "filter.norm", name="_F", saved=2)


def _over_all(lines: Lines, of: tuple[str, str], to: tuple[str, str], names: tuple[str, str], key: str) -> None:
    """All channels of each token and of those just before it, zeros before the first. `names`: what is read, and how
    weights and cache end."""
    (x, i), (y, o), (near, end) = of, to, names
    taps = lines.scope["κ"].symbol
    before = f"t − {taps} + 1 + κ"
    lines.pointwise(f"{near}[t,κ,{i}] = {{{x}[{before},{i}] if {before} ≥ 0; 0 otherwise}}", saved=2)
    weights: dict[str, Any] = {f"W_{end}": key, f"b_{end}": f"{key}.bias"}
    lines.sum(f"{y}[t,{o}] = Σ_{{{i},κ}} {near}[t,κ,{i}]·W_{end}[{i},κ,{o}] + b_{end}[{o}]", **weights)
    lines.store(f"R_{end}[ķ,{i}] = {x}[S − {taps} + 1 + ķ,{i}]", "convolution", Constant())
