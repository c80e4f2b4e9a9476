"""Heads of queries, keys and values: how they are written, what their letters run over, and what is done to each vector
before it is looked at: norms, limits, rotation, gates.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from gptcalc.architecture import LENGTH_EPS, Attention, OutputGate, QKNorm, Temperature
from gptcalc.equations import convolved, relative
from gptcalc.equations.convolution import OF_KEYS, convolution_scope
from gptcalc.equations.language import Index
from gptcalc.equations.lines import Lines, ix, plus, root
from gptcalc.equations.norms import factor, norm_line
from gptcalc.equations.rope import Rotation, pairs_scope
from gptcalc.equations.symbols import Symbols


def head_indices(a: Attention) -> tuple[str, str]:
    """How the heads of queries and those of keys are written; halves of them (ξ) where two make a difference."""
    if a.differential is not None:
        return ("ξ,h", "ξ,h") if a.n_kv_heads == a.n_heads else ("ξ,g,r", "ξ,g")
    if a.n_kv_heads == a.n_heads:
        return "h", "h"
    return ("h", "") if a.n_kv_heads == 1 else ("g,r", "g")


def of_mask(kv: str) -> str:
    """The letter of the heads of keys whose steps a dynamic mask makes, as it sums over all of them."""
    return "ǧ" if kv.endswith("g") else "ν"


def scope(a: Attention, d: Index, symbols: Symbols, d_source: int | None = None) -> dict[str, Index]:
    """What the index letters of attention run over; d_source: the encoder's width."""
    name = a.section
    n_heads = symbols.index("n_heads", a.n_heads, "heads", name, "tp")
    d_head = symbols.index("d_head", a.d_head, "channels", name)
    if a.d_head * a.n_heads == d.size:
        d_head = symbols.derived(f"{d.symbol}/{n_heads.symbol}", a.d_head, "channels")
    letters = {"i": d, "h": n_heads, "a": d_head, "w": d_head}
    if a.with_embedding:
        letters["ϊ"] = symbols.derived(f"2·{d.symbol}", 2 * d.size, "channels")
    if a.adapter is not None:
        letters["ẏ"] = symbols.index("adapter_rank", a.adapter.rank, "channels", name)
    if a.d_v != a.d_head:
        letters["w"] = symbols.index("d_v", a.d_v, "channels", name)
    if a.n_kv_heads not in (1, a.n_heads):
        g = symbols.index("n_kv_heads", a.n_kv_heads, "heads", name, "kv")
        letters["g"] = g
        letters["r"] = symbols.derived(f"{n_heads.symbol}/{g.symbol}", a.n_heads // a.n_kv_heads, "heads", "tp")
    if a.differential is not None:
        letters |= halves(letters)
    if a.cca is not None:
        letters |= convolved.scope(a, a.cca, letters, symbols)
    if a.filter is not None:
        letters |= convolved.filter_scope(a.filter, name, symbols)
    if a.dynamic_mask is not None:
        _, kv = head_indices(a)
        one = symbols.derived("1", 1, "heads")
        letters[of_mask(kv)] = letters[kv[-1]] if kv else one
    if a.bottleneck is not None:
        letters["m"] = symbols.index("q_rank", a.bottleneck.rank, "channels", name)
    if a.experts is not None:
        letters["e"] = symbols.index("n_experts", a.experts.n_experts, "experts", name, "ep")
        letters["η"] = replace(letters["e"], role="choices", shard=None)  # the router is everywhere
        letters["j"] = symbols.index("top_k", a.experts.top_k, "chosen", name)
    if a.index is not None:
        letters["ι"] = symbols.index("d_index", a.index.d, "channels", name)
        block = symbols.number("block", a.index.block, name)
        letters["b"] = Index(f"⌈S/{block}⌉", 0, "entries", every=a.index.block)
    if a.index is not None and a.index.n_heads is not None:
        letters["j"] = symbols.index("index_heads", a.index.n_heads, "heads", name)
        letters["χ"] = Index(f"⌊S/{block}⌋", 0, "entries", every=a.index.block)
        letters["b"] = Index(f"⌊S/{block}⌋+1", 0, "entries", every=a.index.block)
    letters |= pairs_scope(a.rope, d_head, symbols, name)
    if a.scores.relative is not None:
        letters["ŕ"] = symbols.index("d_relative", a.scores.relative.d, "channels", name)
        letters["δ"] = symbols.index("extent", a.scores.relative.extent, "distances", name)
    if a.kv_conv is not None:
        letters |= convolution_scope(a.kv_conv.kernel, name, symbols, OF_KEYS)
    if a.source and d_source is not None:
        letters["σ"] = Index("N", 0, "source")
        letters["υ"] = d if d_source == d.size else symbols.index("d_source", d_source, "channels")
    return letters | relative.scope(a, symbols)


def halves(letters: dict[str, Index]) -> dict[str, Index]:
    """Heads in two halves: ξ says which."""
    found = {"ξ": Symbols.derived("2", 2, "heads")}
    for letter in ("h", "g"):
        if letter in letters:
            whole = letters[letter]
            found[letter] = replace(whole, symbol=f"{whole.symbol}/2", size=whole.size // 2)
    return found


def growth(lines: Lines, t: Temperature) -> str:
    """The factor of the query at position t."""
    floor, scale = lines.number("floor", t.floor), lines.number("growth", t.scale)
    steps = f"(t + {t.shift})/{floor}" if t.shift else f"t/{floor}"
    if t.form == "beyond":
        return f"(1 + {scale}·ln(max(1, {steps})))"
    return f"(1 + {steps})^{scale}" if t.form == "power" else f"(1 + {scale}·ln(1 + ⌊{steps}⌋))"


def clip(lines: Lines, what: str, limit: float) -> None:
    most = lines.number("limit", limit)
    lines.pointwise(f"{what} = clip({what}, −{most}, {most})", saved=2)


def positioned(
    lines: Lines, a: Attention, rotation: Rotation | None, name: str, whole: str, heads: str, position: str = "t"
) -> None:
    """Norm, clip and rotate queries or keys (`name`), the norm before both or after the rotation."""
    norm = a.qk_norm if name == "q" or not (a.qk_norm and a.qk_norm.at_read) else None
    if norm is not None and not norm.after_rope:
        qk_normed(lines, norm, name, whole, heads)
    if a.qk_limit is not None:
        limited(lines, whole, "a", a.qk_limit, "q_factor" if name == "q" else None, heads)
    if name == "k" and a.cca is not None:
        lines.pointwise(f"{whole} = f_K[{heads}]·{whole}", saved=2, f_K="k_factor")
    if a.clip is not None:
        clip(lines, whole, a.clip)
    if rotation is not None:
        rotation.turn(lines, whole, "a", position)
    if norm is not None and norm.after_rope:
        qk_normed(lines, norm, name, whole, heads)
    if name == "q" and a.q_factors is not None:
        lines.pointwise(
            f"{whole} = {factor(lines, a.q_factors, 's_q', ix(heads, 'a'))}·{whole}", saved=2, s_q="q_scale"
        )


def limited(lines: Lines, whole: str, channel: str, limit: float, key: str | None, heads: str) -> None:
    """A vector of so many channels made no longer than the limit; with a key, times learned factors before."""
    name = whole[: whole.index("[")]
    if key is not None:
        factor: dict[str, Any] = {f"f_{name}": key}
        lines.pointwise(f"{whole} = f_{name}[{ix(heads, channel)}]·{whole}", saved=2, **factor)
    length = f"{root(lines.scope[channel])}·rms_{channel}({whole})"
    shorter = f"{whole} = min(1, {lines.number('longest', limit)}/({length} + ε))·{whole}"
    lines.pointwise(shorter, saved=2, constants={"ε": LENGTH_EPS})


def qk_normed(lines: Lines, norm: QKNorm, name: str, whole: str, heads: str) -> None:
    weight = "a" if norm.over == "head" else ix(heads, "a")
    over = ix(heads, "a") if norm.over == "full" else "a"
    norm_line(lines, norm, whole, whole, over, f"{name}_norm", weight, name=f"_{name}", saved=2)


def gated(lines: Lines, gate: OutputGate, here: str, heads: str, channel: str, source: str = "n[t,i]") -> None:
    """The heads' outputs times their gates, which are made of the source."""
    i = source[source.rindex(",") + 1 : -1]
    each = ix(heads, channel) if gate.over == "full" else heads
    value = f"G_O[{ix(here, each)}]"
    bias = plus(f"b_OG[{each if gate.bias == 'full' else heads}]", bool(gate.bias))
    lines.sum(f"{value} = Σ_{i} {source}·W_OG[{ix(i, each)}]{bias}", saved=2, W_OG="gate", b_OG="gate.bias")
    if gate.factors is not None:
        lines.pointwise(f"{value} = {factor(lines, gate.factors, 's_OG', each)}·{value}", saved=2, s_OG="gate_scale")
    function, out = "σ" if gate.function == "sigmoid" else gate.function, f"o[{ix(here, heads, channel)}]"
    lines.pointwise(f"{out} = {function}({value})·{out}", saved=2)
